package fault_test

import (
	"fmt"
	"sync"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
)

// book keeps what was promised to clients and runners, and what jobs did to the world. It
// is written when an answer arrives, never when it is sent.
type book struct {
	mu       sync.Mutex
	tokens   []domain.Token
	runs     map[string]domain.RunID            // by the client's key, or the push's
	results  map[domain.AttemptID]domain.Digest // acknowledged reports
	chunks   map[domain.AttemptID]uint64        // acknowledged chunks, through
	printed  map[domain.AttemptID][][]byte      // every chunk, by sequence from 1
	began    map[string]int                     // executions by job and round
	seen     map[domain.StreamID]remembered     // states that observers were shown last
	findings []string
}

// remembered is a state in memory, in its stored form.
type remembered struct {
	version uint64
	state   string
}

func newBook() *book {
	return &book{runs: map[string]domain.RunID{}, results: map[domain.AttemptID]domain.Digest{},
		chunks: map[domain.AttemptID]uint64{}, printed: map[domain.AttemptID][][]byte{}, began: map[string]int{},
		seen: map[domain.StreamID]remembered{}}
}

// find notes a broken promise.
func (b *book) find(form string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := fmt.Sprintf(form, args...)
	for _, known := range b.findings {
		if known == text {
			return
		}
	}
	b.findings = append(b.findings, text)
}

func (b *book) token(text string) {
	token, ok := domain.ParseToken(text)
	if !ok {
		b.find("an answer has a token that is none: %q", text)
		return
	}
	if token == (domain.Token{}) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = append(b.tokens, token)
}

// accepted notes that a key has a run; a key never gets another.
func (b *book) accepted(key string, run domain.RunID) {
	b.mu.Lock()
	before, known := b.runs[key]
	b.runs[key] = run
	b.mu.Unlock()
	if known && before != run {
		b.find("key %s led to run %s and later to run %s", key, before, run)
	}
}

// exchanged notes what an answer acknowledged to the runner.
func (b *book) exchanged(req *runnerv1.ExchangeRequest, res *runnerv1.ExchangeResponse) {
	b.token(res.GetToken())
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ack := range res.GetAcks() {
		id := domain.AttemptID(ack.GetAttempt())
		b.chunks[id] = max(b.chunks[id], ack.GetChunks())
		if !ack.GetResult() || ack.GetRefused() != "" {
			continue
		}
		for _, r := range req.GetResults() {
			if r.GetAttempt() == ack.GetAttempt() && r.GetEpoch() == ack.GetEpoch() {
				b.results[id] = domain.Digest(r.GetDigest())
			}
		}
	}
}

// witness shows the book what the owner holds in memory.
type witness struct {
	book  *book
	kinds map[string]*engine.Kind
}

func (w *witness) saw(id domain.StreamID, version uint64, state any) {
	if state == nil {
		return
	}
	data, err := w.kinds[id.Kind()].EncodeState(state)
	if err != nil {
		w.book.find("state of %s can't be encoded: %v", id, err)
		return
	}
	w.book.mu.Lock()
	defer w.book.mu.Unlock()
	w.book.seen[id] = remembered{version, string(data)}
}

// Loaded implements engine.Observer.
func (w *witness) Loaded(live engine.Live) { w.saw(live.Stream, live.Version, live.State) }

// Committed implements engine.Observer.
func (w *witness) Committed(rows []engine.Committed) {
	for i := range rows {
		w.saw(rows[i].Stream, rows[i].Version, rows[i].State)
	}
}

// Ready implements engine.Observer.
func (w *witness) Ready(domain.PartitionID, bool) {}

// Lost implements engine.Observer.
func (w *witness) Lost(domain.PartitionID) {}

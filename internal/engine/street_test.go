package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

// street is several engines over one store. They forward to each other as servers do, with
// every command and answer written out and read again.
type street struct {
	t     *testing.T
	store *memory.Store

	mu      sync.Mutex
	engines map[string]*Engine
	eyes    map[string]*eye
	between func(to string, w Wire) error            // before a command is delivered
	after   func(to string, w Wire, a WireAck) error // before its answer is
	change  func(name string, c *Config)             // of a new engine
}

func newStreet(t *testing.T, names ...string) *street {
	t.Helper()
	s := &street{t: t, store: memory.New(), engines: map[string]*Engine{}, eyes: map[string]*eye{}}
	for _, name := range names {
		s.open(name)
	}
	return s
}

func (s *street) open(name string) *Engine {
	s.t.Helper()
	cfg := Config{Store: s.store, Kinds: []*Kind{tallyKind()}, Partitions: []domain.PartitionID{home, "annex"},
		Owner: name, Paranoid: true, Fatal: func(err error) { s.t.Error(err) }, Prover: ours,
		Forward: func(ctx context.Context, to store.Holding, w Wire) (WireAck, error) { return s.carry(ctx, to.Owner, w) }}
	if s.change != nil {
		s.change(name, &cfg)
	}
	e, sees := New(cfg), &eye{}
	e.Observe(sees)
	if err := e.Start(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	s.engines[name], s.eyes[name] = e, sees
	s.mu.Unlock()
	return e
}

func (s *street) close() {
	for _, name := range sortedKeys(s.engines) {
		s.engines[name].Close()
	}
}

// carry is the wire.
func (s *street) carry(ctx context.Context, to string, w Wire) (WireAck, error) {
	s.mu.Lock()
	e, between, after := s.engines[to], s.between, s.after
	s.mu.Unlock()
	if e == nil {
		return WireAck{}, fmt.Errorf("dial %s: %w", to, ErrUnsent)
	}
	if between != nil {
		if err := between(to, w); err != nil {
			return WireAck{}, err
		}
	}
	var there Wire
	copyByJSON(s.t, w, &there)
	ack, err := e.Receive(ctx, there)
	if err != nil {
		return WireAck{}, err
	}
	if after != nil {
		if err := after(to, w, ack); err != nil {
			return WireAck{}, err
		}
	}
	var back WireAck
	copyByJSON(s.t, ack, &back)
	return back, nil
}

func copyByJSON(t *testing.T, from, to any) {
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		t.Error(err)
	}
}

// look shows every engine the same picture.
func (s *street) look() store.Picture {
	s.t.Helper()
	p, err := s.store.Picture(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range sortedKeys(s.engines) {
		s.engines[name].See(context.Background(), p)
	}
	return p
}

// give makes an engine the owner by taking from whoever has it, and tells everybody.
func (s *street) give(name string, p domain.PartitionID) {
	s.t.Helper()
	h, _ := s.look().Holding(p)
	if err := s.engines[name].Own(context.Background(), p, h.Epoch); err != nil {
		s.t.Fatal(err)
	}
	s.look()
}

func (s *street) engine(name string) *Engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engines[name]
}

func (s *street) submit(at, stream string, c tallyCommand) (Ack, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.engine(at).Submit(ctx, envelope(stream, c))
}

func (s *street) must(at, stream string, c tallyCommand) Ack {
	s.t.Helper()
	ack, err := s.submit(at, stream, c)
	if err != nil {
		s.t.Fatalf("%s %s at %s: %v", c.do, stream, at, err)
	}
	return ack
}

// eye is an observer that notes everything and checks what every observer may rely on: a
// row goes on from the last one, its state is that of its version, and after Lost nothing
// is known.
type eye struct {
	mu       sync.Mutex
	known    map[string]uint64 // versions, by stream
	totals   map[string]int
	at       map[domain.PartitionID]store.Position
	ready    map[domain.PartitionID]string // "owned" or "followed"
	rows     []string
	problems []string
	losses   int
}

func (o *eye) clear() {
	if o.known == nil {
		o.known, o.totals = map[string]uint64{}, map[string]int{}
		o.at, o.ready = map[domain.PartitionID]store.Position{}, map[domain.PartitionID]string{}
	}
}

func (o *eye) Loaded(l Live) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clear()
	o.hands(l.Partition, l.Owned)
	id := l.Stream.ID()
	if v, known := o.known[id]; known && v != l.Version {
		o.problems = append(o.problems, fmt.Sprintf("%s was at %d and is shown at %d", id, v, l.Version))
	}
	o.known[id], o.totals[id] = l.Version, l.State.(*tally).Total
}

// hands checks that what was ready does not change its owner without Lost.
func (o *eye) hands(p domain.PartitionID, owned bool) {
	if was := o.ready[p]; was != "" && (was == "owned") != owned {
		o.problems = append(o.problems, fmt.Sprintf("%s was %s and is shown with owned=%t", p, was, owned))
	}
}

func (o *eye) Committed(rows []Committed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clear()
	for _, r := range rows {
		o.hands(r.Partition, r.Owned)
		id := r.Stream.ID()
		if o.ready[r.Partition] != "" {
			if v := o.known[id]; v != r.First-1 && v != 0 {
				o.problems = append(o.problems, fmt.Sprintf("%s goes on from %d with %d", id, v, r.First))
			}
			if at := o.at[r.Partition]; at != 0 && at+1 != r.Position {
				o.problems = append(o.problems, fmt.Sprintf("row %d follows %d", r.Position, at))
			}
		}
		s := r.State.(*tally)
		o.known[id], o.totals[id], o.at[r.Partition] = r.Version, s.Total, r.Position
		o.rows = append(o.rows, fmt.Sprintf("%s/%d:%s@%d=%d", r.Partition, r.Position, id, r.Version, s.Total))
	}
}

func (o *eye) Ready(p domain.PartitionID, owned bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clear()
	if o.ready[p] != "" {
		o.problems = append(o.problems, fmt.Sprintf("%s is ready twice", p))
	}
	o.ready[p] = map[bool]string{true: "owned", false: "followed"}[owned]
}

func (o *eye) Lost(p domain.PartitionID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clear()
	o.losses++
	delete(o.ready, p)
	delete(o.at, p)
	if p == home {
		clear(o.known)
		clear(o.totals)
	}
}

func (o *eye) seen() (rows []string, total map[string]int, ready string, problems []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clear()
	totals := map[string]int{}
	for id, n := range o.totals {
		totals[id] = n
	}
	return slices.Clone(o.rows), totals, o.ready[home], slices.Clone(o.problems)
}

func (s *street) wants(at, ready string, totals map[string]int) {
	s.t.Helper()
	_, got, is, problems := s.eyes[at].seen()
	if is != ready || fmt.Sprint(got) != fmt.Sprint(totals) || len(problems) > 0 {
		s.t.Fatalf("%s is %q with %v, want %q with %v; problems %q", at, is, got, ready, totals, problems)
	}
}

package crash

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/anishathalye/porcupine"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Book is the observer's own record of what was acknowledged. Nothing is ever taken out of
// it, and what contradicts it is a finding at once.
type Book struct {
	mu       sync.Mutex
	orders   map[string]*order
	runs     map[string]*known
	attempts map[string]*knownAttempt
	tokens   map[domain.Token]bool
	codes    map[string]int // refusals and silences by their code
	findings []string

	creates, results, leases []porcupine.Operation
	Facts                    Facts
}

// Facts counts what was acknowledged and what was compared.
type Facts struct {
	Accepted   int   `json:"accepted"`   // runs
	Repeats    int   `json:"repeats"`    // keys that were used again, and told so
	Mismatches int   `json:"mismatches"` // keys used for another body, and refused
	Cancels    int   `json:"cancels"`
	Retries    int   `json:"retries"`
	Settled    int   `json:"settled"` // attempts that a person decided on
	Silences   int   `json:"silences"`
	Tokens     int   `json:"tokens"`
	Results    int   `json:"results"` // of attempts
	LogBytes   int64 `json:"log_bytes"`
	Marks      int   `json:"marks"`
	Woken      int   `json:"woken"` // marks of a machine in the instant of waking, repeatable jobs only
	Histories  int   `json:"operations_checked"`

	Outcomes map[string]int `json:"outcomes"` // of attempts, by outcome and failure class
}

// order is a key: what was asked for with it, and what was said.
type order struct {
	key    string
	sort   sort
	source int    // of the siege's repositories
	run    string // "" until somebody was told
}

// known is what was said of a run.
type known struct {
	sort     sort
	cancels  bool             // a cancel of its first round was acknowledged
	retried  bool             // a retry was acknowledged
	outcomes map[int32]string // committed, by round
	version  uint64
}

// knownAttempt is what was said of an attempt, and what of its log was shown.
type knownAttempt struct {
	outcome, class string
	decided        bool // a person said what follows, whether or not the answer came
	settled        bool // and it was acknowledged
	log            []byte
}

// NewBook makes an empty one.
func NewBook() *Book {
	return &Book{orders: map[string]*order{}, runs: map[string]*known{}, attempts: map[string]*knownAttempt{},
		tokens: map[domain.Token]bool{}, codes: map[string]int{}, Facts: Facts{Outcomes: map[string]int{}}}
}

// finding notes a contradiction. Only the first ones are kept word by word.
func (b *Book) finding(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note(format, args...)
}

func (b *Book) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(b.findings, text) {
		b.findings = append(b.findings, text)
	}
}

// token notes an acknowledgement.
func (b *Book) token(text string) {
	token, ok := domain.ParseToken(text)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !ok {
		b.note("an acknowledgement carries the malformed token %q", text)
	} else if token != (domain.Token{}) {
		b.tokens[token] = true
	}
}

// createdRun notes an answer to a request for a run.
func (b *Book) createdRun(o *order, call createCall, answer createAnswer, at [2]int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.creates = append(b.creates, porcupine.Operation{Input: call, Call: at[0], Output: answer, Return: at[1]})
	switch answer.kind {
	case silent:
		b.Facts.Silences++
	case mismatch:
		b.Facts.Mismatches++
	case answered:
		if answer.repeat {
			b.Facts.Repeats++
		}
		if o.run != "" && o.run != answer.run {
			b.note("key %s gave run %s and then run %s", o.key, o.run, answer.run)
		}
		o.run = answer.run
		if b.runs[answer.run] == nil {
			b.Facts.Accepted++
			b.runs[answer.run] = &known{sort: o.sort, outcomes: map[int32]string{}}
		}
	}
}

// asked notes an answer to a cancel or a retry.
func (b *Book) asked(call runCall, answer runAnswer, at [2]int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.results = append(b.results, porcupine.Operation{Input: call, Call: at[0], Output: answer, Return: at[1]})
	switch {
	case answer.kind == silent:
		b.Facts.Silences++
	case answer.kind == answered && call.verb == "cancel":
		b.Facts.Cancels++
		b.runs[call.run].cancels = true
	case answer.kind == answered && call.verb == "retry":
		b.Facts.Retries++
		b.runs[call.run].retried = true
	}
}

// saw notes a run as the API showed it, and compares it with all that it showed before.
func (b *Book) saw(run *fairleadv1.Run, at [2]int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := run.GetRun()
	k := b.runs[id]
	if k == nil {
		return
	}
	round := run.GetSummary().GetRound()
	b.results = append(b.results, porcupine.Operation{Input: runCall{id, "read"}, Call: at[0], Return: at[1],
		Output: runAnswer{kind: answered, desired: run.GetDesired(), outcome: run.GetOutcome(), round: round,
			version: run.GetVersion()}})
	for _, j := range run.GetJobs() {
		if n := len(j.GetAttempts()); n > 0 {
			latest := j.GetAttempts()[n-1]
			b.leases = append(b.leases, porcupine.Operation{Input: leaseCall{j.GetId(), "look"}, Call: at[0], Return: at[1],
				Output: leaseAnswer{int(latest.GetNumber()), latest.GetEpoch()}})
		}
	}
	if run.GetVersion() < k.version {
		return // answers overtake each other; whether this one was right is for the model to say
	}
	k.version = run.GetVersion()
	for _, r := range run.GetRounds() {
		b.result("round "+fmt.Sprint(r.GetNumber())+" of "+id, k.outcomes[r.GetNumber()], r.GetOutcome())
		k.outcomes[r.GetNumber()] = r.GetOutcome()
	}
	for _, j := range run.GetJobs() {
		for _, a := range j.GetAttempts() {
			b.sawAttempt(a)
		}
	}
}

func (b *Book) sawAttempt(a *fairleadv1.Attempt) {
	k := b.attempt(a.GetId())
	b.result("attempt "+a.GetId(), k.outcome, a.GetOutcome())
	b.result("the failure class of "+a.GetId(), k.class, a.GetFailureClass())
	k.outcome, k.class = a.GetOutcome(), a.GetFailureClass()
}

// result compares a write-once value with what it was.
func (b *Book) result(of, was, is string) {
	if was != "" && was != is {
		b.note("%s was %q and is %q", of, was, is)
	}
}

// deciding notes that a person is about to decide on an attempt.
func (b *Book) deciding(attempt string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attempt(attempt).decided = true
}

// settled notes that the person's finding was acknowledged.
func (b *Book) settled(attempt string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Facts.Settled++
	b.attempt(attempt).settled = true
}

// attempt finds or makes what is known of one. The caller holds the book.
func (b *Book) attempt(id string) *knownAttempt {
	k := b.attempts[id]
	if k == nil {
		k = &knownAttempt{}
		b.attempts[id] = k
	}
	return k
}

// isDecided says whether a person decided about the attempt, or may have.
func (b *Book) isDecided(attempt string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.attempts[attempt]
	return k != nil && k.decided
}

// logged notes bytes of a log that were shown, from the offset on.
func (b *Book) logged(attempt string, content []byte, offset int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.attempt(attempt)
	seen := int64(len(k.log))
	if offset > seen {
		b.note("the log of %s jumps from byte %d to %d while it is followed", attempt, seen, offset)
		return
	}
	same := min(seen-offset, int64(len(content)))
	if !bytes.Equal(k.log[offset:offset+same], content[:same]) {
		b.note("the log of %s shows other bytes at %d than before", attempt, offset)
	}
	k.log = append(k.log, content[same:]...)
	b.Facts.LogBytes += int64(len(content)) - same
}

// code counts what kept a call from being answered. Some of it must never come.
func (b *Book) code(code, message string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.codes[code]++
	switch code {
	case "history_lost", "token_unproved", "stream_quarantined", "evaluation_mismatch", "report_conflicted":
		b.note("the server answered %s: %s", code, message)
	}
}

// Findings are all contradictions so far.
func (b *Book) Findings() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.findings)
}

// knownRuns lists runs that were acknowledged, oldest first: their ids sort by time.
func (b *Book) knownRuns() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.runs))
}

// allOrders lists the keys that were used, in a fixed order.
func (b *Book) allOrders() []*order {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []*order
	for _, key := range slices.Sorted(maps.Keys(b.orders)) {
		out = append(out, b.orders[key])
	}
	return out
}

// acts adds what the world shows to the history of leases. Marks that a waking machine
// can't help are left out; the caller has counted them.
func (b *Book) acts(marks []Mark) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range marks {
		b.leases = append(b.leases, porcupine.Operation{Input: leaseCall{string(m.Job), "act"},
			Call: int64(m.At), Return: int64(m.Seen), Output: leaseAnswer{attempt: m.number()}})
	}
}

// check runs the histories through the models.
func (b *Book) check() (broken []string) {
	b.mu.Lock()
	creates, results, leases := slices.Clone(b.creates), slices.Clone(b.results), slices.Clone(b.leases)
	b.Facts.Histories = len(creates) + len(results) + len(leases)
	b.mu.Unlock()
	broken = append(broken, linearizable("idempotent create", createModel, creates)...)
	broken = append(broken, linearizable("result register", resultModel, results)...)
	return append(broken, linearizable("lease ownership", leaseModel, leases)...)
}

// span measures a call: it begins now; the second value is filled in by the caller when an
// answer came.
func span() [2]int64 { return [2]int64{int64(now()), never} }

// answers says how often a caller was answered no with that code.
func (b *Book) answers(code string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.codes[code]
}

package crash

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Entry is the siege as the journal keeps it; commit names what was besieged.
func (s *Siege) Entry(begun time.Time, commit string) Entry {
	return Entry{At: begun.UTC().Truncate(time.Second), Commit: commit, Store: s.Store, Servers: s.Servers,
		Seed: s.Seed, Kills: s.hits[Kill], Stops: s.hits[Stop], Parts: s.hits[Part], Facts: s.Book.Facts,
		Seconds: int(time.Since(begun).Seconds()), Findings: s.Book.Findings()}
}

// Summary is an entry in some lines for people.
func (e *Entry) Summary() string {
	f := e.Facts
	verdict := "clean"
	if !e.Clean() {
		verdict = fmt.Sprintf("%d findings", len(e.Findings))
	}
	return fmt.Sprintf(`%s in %d s
  kills %d (%s), stops %d (%s), partitions %d (%s)
  accepted: %d runs, %d repeats of keys, %d mismatches refused, %d cancels, %d retries, %d decisions, %d tokens
  compared: %d results (%s), %d log bytes, %d marks (%d in the instant of waking), %d silences
  linearizable: %d operations`, verdict, e.Seconds, sum(e.Kills), list(e.Kills), sum(e.Stops), list(e.Stops),
		sum(e.Parts), list(e.Parts), f.Accepted, f.Repeats, f.Mismatches, f.Cancels, f.Retries, f.Settled, f.Tokens,
		f.Results, list(f.Outcomes), f.LogBytes, f.Marks, f.Woken, f.Silences, f.Histories)
}

func list[K ~string](of map[K]int) string {
	var out []string
	for _, t := range slices.Sorted(maps.Keys(of)) {
		out = append(out, fmt.Sprintf("%s %d", t, of[t]))
	}
	return strings.Join(out, ", ")
}

// Missing counts what can't be tried on this machine, with the reasons.
type Missing struct {
	mu      sync.Mutex
	reasons []string
}

// NotRun is what this process could not try.
var NotRun Missing

// Say prints a reason at once and counts it.
func (m *Missing) Say(what, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reasons = append(m.reasons, what+": "+reason)
	fmt.Printf("not run: %s: %s\n", what, reason)
}

// Print repeats all reasons with their number; it prints nothing when there are none.
func (m *Missing) Print(w io.Writer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, reason := range m.reasons {
		_, _ = fmt.Fprintf(w, "not run: %s\n", reason)
	}
	_, _ = fmt.Fprintf(w, "crash: %d not run\n", len(m.reasons))
}

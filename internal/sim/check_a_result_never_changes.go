package sim

import (
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Promises: [RUN-1].
const checkResultStays = "a committed result never changes"

func resultNeverChanges(w *world) checker {
	results := map[string]domain.Outcome{}
	rounds := map[domain.StreamID]int{}
	commit := func(what string, o domain.Outcome) {
		if before, ok := results[what]; ok {
			w.violation(checkResultStays, "%s was committed as %q and then as %q", what, before, o)
		}
		if o == domain.OutcomeNone {
			w.violation(checkResultStays, "%s was committed without an outcome", what)
		}
		results[what] = o
	}
	return checker{
		sentence: checkResultStays,
		event: func(e *seen) {
			id := e.history.id
			switch event := e.event.(type) {
			case *run.RunRequested:
				rounds[id] = 1
			case *run.RoundOpened:
				rounds[id]++
				if event.Round != rounds[id] {
					w.violation(checkResultStays, "%s: round %d opened after %d", id, event.Round, rounds[id]-1)
				}
			case *run.AttemptConcluded:
				commit(fmt.Sprintf("attempt %s", e.attempt()), event.Outcome)
			case *run.JobConcluded:
				commit(fmt.Sprintf("job %d of %s in round %d", e.job, id, rounds[id]), event.Outcome)
			case *run.RunConcluded:
				commit(fmt.Sprintf("%s in round %d", id, rounds[id]), event.Outcome)
			case *run.LogSealed:
				commit(fmt.Sprintf("the log of %s", e.attempt()), "sealed")
			}
		},
		end: func() {
			for _, id := range sortedAttempts(w.book.promises.results) {
				att := domain.AttemptID(id)
				_, a, ok := w.book.streams[att.Run().Stream()].run().AttemptByID(att)
				if digest := w.book.promises.results[id]; !ok || a.Report != digest {
					w.violation(checkResultStays, "report %s on %s was acknowledged, and %s stands", digest, id, a.Report)
				}
			}
		},
	}
}

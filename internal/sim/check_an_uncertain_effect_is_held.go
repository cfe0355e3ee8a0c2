package sim

import (
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Promises: [RUN-7].
const checkHeld = "an uncertain effect is held until somebody settles it"

// uncertainEffectHeld looks at every attempt that might have changed the outside and of whose
// end nobody heard. Time alone must not end it: a person says what was found there, or had
// asked for the end before, or the limit had passed that the workflow sets.
func uncertainEffectHeld(w *world) checker {
	ended := map[domain.AttemptID]string{} // by what, other than time
	return checker{
		sentence: checkHeld,
		event: func(e *seen) {
			if e.number == 0 || !e.before.Skeleton(e.job).Effectful {
				return
			}
			id := e.attempt()
			switch event := e.event.(type) {
			case *run.LeaseDeclined, *run.AttemptStopRequested:
				ended[id] = e.event.Name()
			case *run.ReconciliationRecorded:
				if event.Actor.Kind != "person" {
					w.violation(checkHeld, "%s was settled by %s %s", id, event.Actor.Kind, event.Actor.ID)
				}
				ended[id] = e.event.Name()
			case *run.AttemptConcluded:
				if event.Report == "" && ended[id] == "" {
					w.violation(checkHeld, "%s is committed as %s: its runner reported nothing, and nobody settled it",
						id, event.Outcome)
				}
			}
		},
	}
}

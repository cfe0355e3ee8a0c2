package sim

import (
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Promises: [RUN-10].
const checkDropped = "nothing that was admitted is dropped: what did not run has a cause that a person can read"

func nothingDropped(w *world) checker {
	reason := func(e *seen, r run.Reason) {
		if r.Code == "" || e.before.Sentence(r) == "." {
			w.violation(checkDropped, "%s of %s without a reason", e.event.Name(), e.history.id)
		}
	}
	return checker{
		sentence: checkDropped,
		event: func(e *seen) {
			switch event := e.event.(type) {
			case *run.JobConcluded:
				reason(e, event.Reason)
			case *run.AttemptConcluded:
				reason(e, event.Reason)
				if event.Effect == "" {
					w.violation(checkDropped, "%s concluded without a word on side effects", e.attempt())
				}
			case *run.RunConcluded:
				reason(e, event.Reason)
			case *run.JobHeld:
				reason(e, event.Reason)
			}
		},
		end: func() {
			for _, a := range w.book.promises.runs {
				s := w.book.streams[a.run.Stream()].run()
				waits := false
				for j := range s.Jobs {
					waits = waits || w.book.mayRest(s, j)
				}
				if !s.Concluded() && !waits {
					w.violation(checkDropped, "%s was promised to %s, and neither ended nor waits for anybody", a.run, a.client)
				}
				if s.Concluded() && s.Outcome == domain.OutcomeNone {
					w.violation(checkDropped, "%s concluded without an outcome", a.run)
				}
			}
		},
	}
}

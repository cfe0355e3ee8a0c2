package sim

import (
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Promises: [SRC-2].
const checkOneRun = "a trigger starts at most one run, however often it is told"

func oneRunPerTrigger(w *world) checker {
	runs := map[string]domain.StreamID{}
	return checker{
		sentence: checkOneRun,
		event: func(e *seen) {
			r, ok := e.event.(*run.RunRequested)
			if !ok || r.Request.Trigger.Event != "push" && r.Request.Trigger.Event != "schedule" {
				return
			}
			q := &r.Request
			if q.Trigger.Event == "schedule" {
				cause := string(q.Repository) + " " + q.Trigger.Key
				if before, ok := runs[cause]; ok {
					w.violation(checkOneRun, "the occurrence %s started %s and %s", cause, before, e.history.id)
				}
				runs[cause] = e.history.id
				return
			}
			// A repository has one workflow here, so whatever path a run names, it is the run.
			cause := fmt.Sprintf("%s %s %s", q.Repository, q.Source.Ref, q.Source.Commit)
			if before, ok := runs[cause]; ok {
				w.violation(checkOneRun, "the push %s started %s and %s", cause, before, e.history.id)
			}
			runs[cause] = e.history.id
		},
		end: func() {
			for key, id := range w.book.promises.pushes {
				if w.book.streams[id.Stream()] == nil {
					w.violation(checkOneRun, "the push %s was told to have started %s, and there is no such run", key, id)
				}
			}
		},
	}
}

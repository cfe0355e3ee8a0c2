package sim

import (
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Promises: [CANCEL-2].
const checkCancel = "a cancel request reaches a conclusion"

func cancelConcludes(w *world) checker {
	type state struct{ asked, concluded bool }
	runs := map[domain.StreamID]*state{}
	return checker{
		sentence: checkCancel,
		event: func(e *seen) {
			s := runs[e.history.id]
			if s == nil {
				s = &state{}
				runs[e.history.id] = s
			}
			switch e.event.(type) {
			case *run.CancelRequested:
				s.asked = true
			case *run.RunConcluded:
				s.concluded = true
			case *run.RoundOpened:
				*s = state{}
			case *run.LeaseGranted, *run.JobReady, *run.JobHeld:
				if s.asked {
					w.violation(checkCancel, "%s of %s after its cancellation was requested", e.event.Name(), e.history.id)
				}
			}
		},
		held: func(id domain.StreamID, _ uint64, state any) {
			s, ok := state.(*run.State)
			if !ok || s.Desired != domain.DesiredCancel || s.Concluded() {
				return
			}
			for j, job := range s.Jobs {
				if a := job.Current(); a != nil && a.Desired != domain.DesiredCancel {
					w.violation(checkCancel, "%s is to be cancelled, and attempt %d of job %d was not asked to stop", id, a.Number, j)
				}
			}
		},
		end: func() {
			for _, id := range w.book.order {
				if s := runs[id]; s != nil && s.asked && !s.concluded {
					w.violation(checkCancel, "%s was to be cancelled, and has not concluded", id)
				}
			}
			for _, id := range w.book.promises.cancels {
				if s := w.book.streams[id.Stream()].run(); s.Rounds[0].Cancel == nil && len(s.Rounds) == 1 && !s.Concluded() {
					w.violation(checkCancel, "the cancellation of %s was acknowledged, and history knows nothing of it", id)
				}
			}
		},
	}
}

package sim

import (
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Promises: [RUN-5].
const checkWaits = "everything that waits has a stored reason, and something that ends it"

// everyWaitHasAnEnd finds the earliest time that a run waits for, by rules of its own, and
// requires that a timer is stored for it: a new owner knows of nothing else.
func everyWaitHasAnEnd(w *world) checker {
	type head struct {
		version uint64
		wake    time.Time
	}
	heads := map[domain.StreamID]head{}
	return checker{
		sentence: checkWaits,
		batch: func(b *store.Batch) {
			for _, h := range b.Heads {
				heads[h.Stream] = head{h.Version, h.NextWake}
			}
		},
		held: func(id domain.StreamID, version uint64, state any) {
			s, ok := state.(*run.State)
			h := heads[id]
			if !ok || h.version != version || s.Concluded() {
				return
			}
			var next time.Time
			for j, job := range s.Jobs {
				if job.State == run.StateConcluded {
					continue
				}
				if job.Reason.Code == "" || job.Cause.Event == "" {
					w.violation(checkWaits, "job %d of %s is %s without a reason or a cause", j, id, job.State)
				}
				at, timed := endsAt(s, j)
				if timed && at.IsZero() {
					w.violation(checkWaits, "job %d of %s is %s, and nothing ends it", j, id, job.State)
				}
				if timed && (next.IsZero() || at.Before(next)) {
					next = at
				}
			}
			if !next.IsZero() && (h.wake.IsZero() || h.wake.After(next)) {
				w.violation(checkWaits, "%s waits until %s, and its timer is %s", id, next, h.wake)
			}
		},
	}
}

// endsAt is the time that ends a job's wait; timed is false where something else does.
func endsAt(s *run.State, j int) (at time.Time, timed bool) {
	job := s.Jobs[j]
	switch job.State {
	case run.StateWaiting:
		if job.Evaluation != nil && !job.Evaluation.Answered {
			return job.Evaluation.Deadline, true
		}
	case run.StateHeld:
		if job.Reason.Code == run.ReasonGroup { // whoever is ahead leaves; at the end of the world nobody may wait
			return time.Time{}, false
		}
		return job.HeldUntil, true
	case run.StateReady:
		return job.QueueDeadline, true
	case run.StateActive:
		switch a := job.Current(); {
		case a.Held: // a person
		case a.Uncertain:
			return a.SettleAt, true
		case a.Desired != domain.DesiredCancel:
			return a.Deadline, true
		}
	}
	return time.Time{}, false
}

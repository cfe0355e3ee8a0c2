package sim

import (
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Promises: [LEASE-5].
const checkCurrentEpoch = "only the attempt's current lease epoch may report; a stale one is refused and recorded"

func currentEpochOnly(w *world) checker {
	type lease struct {
		number int
		epoch  uint64
		over   bool
	}
	leases := map[domain.JobID]*lease{}
	return checker{
		sentence: checkCurrentEpoch,
		event: func(e *seen) {
			if e.number == 0 {
				return
			}
			job := e.attempt().Job()
			if g, ok := e.event.(*run.LeaseGranted); ok {
				leases[job] = &lease{number: e.number, epoch: g.Epoch}
				return
			}
			at := leases[job]
			var epoch uint64
			switch event := e.event.(type) {
			case *run.ProgressReported:
				epoch = event.Epoch
			case *run.AttemptConcluded:
				epoch = event.Epoch
			case *run.LeaseDeclined:
				epoch = event.Epoch
			case *run.LeaseLapsed:
				epoch = event.Epoch
			case *run.LeaseRegained:
				epoch = event.Epoch
			case *run.AttemptStopRequested:
				epoch = event.Epoch
			case *run.AttemptHeld:
				epoch = event.Epoch
			default:
				return // evidence and findings about attempts that are over
			}
			if at == nil || at.number != e.number || at.epoch != epoch || at.over {
				w.violation(checkCurrentEpoch, "%s of %s with epoch %d, when the lease was %+v",
					e.event.Name(), e.attempt(), epoch, at)
				return
			}
			if _, ok := e.event.(*run.AttemptConcluded); ok {
				at.over = true
			}
		},
	}
}

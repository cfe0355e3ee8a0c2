package sim

import (
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Promises: [LEASE-8].
const checkSilence = "neither silence nor a request to cancel ends an attempt: without a report it is committed only " +
	"when its runner must have abandoned it"

// silenceIsNoEnd looks at every attempt that was committed without a word of its runner.
func silenceIsNoEnd(w *world) checker {
	type lease struct {
		lapsed    bool
		declined  bool
		abandonBy time.Time
	}
	leases := map[domain.AttemptID]*lease{}
	return checker{
		sentence: checkSilence,
		event: func(e *seen) {
			if e.number == 0 {
				return
			}
			l := leases[e.attempt()]
			switch event := e.event.(type) {
			case *run.LeaseGranted:
				leases[e.attempt()] = &lease{abandonBy: event.AbandonBy}
			case *run.LeaseLapsed:
				l.lapsed, l.abandonBy = true, event.AbandonBy
			case *run.LeaseRegained:
				l.lapsed, l.abandonBy = false, event.AbandonBy
			case *run.LeaseDeclined:
				l.declined = true
			case *run.AttemptConcluded:
				if event.Report != "" || l.declined {
					return
				}
				if clear := l.abandonBy.Add(run.Skew); !l.lapsed || event.At.Before(clear) {
					w.violation(checkSilence, "%s is %s without a report at %s; its lease lapsed: %t; it might act until %s",
						e.attempt(), event.Outcome, event.At, l.lapsed, clear)
				}
			}
		},
	}
}

package sim

import (
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Promises: [LEASE-4].
const checkNeverTwo = "no attempt starts while an earlier one of the same job might still act"

// neverTwoActing looks at what jobs really do, on machines whose clocks nobody knows, and at
// the times that were committed.
func neverTwoActing(w *world) checker {
	acting := map[domain.JobID]*attempt{}
	newest := map[domain.JobID]int{}
	type grant struct {
		abandonBy time.Time
		closed    bool // it said itself that it ended, or never began
		effectful bool
	}
	grants := map[domain.JobID]*grant{}
	lapsed := map[domain.AttemptID]time.Time{}
	return checker{
		sentence: checkNeverTwo,
		acts: func(a *attempt, begins bool) {
			id := domain.AttemptID(a.id)
			job := id.Job()
			if !begins {
				if acting[job] == a {
					delete(acting, job)
				}
				return
			}
			if other := acting[job]; other != nil && other != a {
				w.violation(checkNeverTwo, "%s acts on %s while %s acts on %s", a.id, a.machine.name, other.id, other.machine.name)
			}
			if a.order.Number < newest[job] {
				w.violation(checkNeverTwo, "%s acts on %s after attempt %d did", a.id, a.machine.name, newest[job])
			}
			acting[job], newest[job] = a, a.order.Number
		},
		mayAct: func(a *attempt) {
			if by, ok := lapsed[domain.AttemptID(a.id)]; ok {
				w.mayNotOutlive(a, by)
			}
		},
		event: func(e *seen) {
			if e.number == 0 {
				return
			}
			job := e.attempt().Job()
			g := grants[job]
			switch event := e.event.(type) {
			case *run.LeaseGranted:
				if g != nil && g.effectful && !g.closed && event.At.Before(g.abandonBy.Add(run.Skew)) {
					w.violation(checkNeverTwo, "%s was granted at %s; the one before might act until %s",
						e.attempt(), event.At, g.abandonBy.Add(run.Skew))
				}
				grants[job] = &grant{abandonBy: event.AbandonBy, effectful: e.before.Skeleton(e.job).Effectful}
			case *run.LeaseLapsed:
				g.abandonBy = event.AbandonBy
				lapsed[e.attempt()] = event.AbandonBy
				for _, m := range w.machines {
					if a := m.attempts[string(e.attempt())]; a != nil {
						w.mayNotOutlive(a, event.AbandonBy)
					}
				}
			case *run.LeaseRegained:
				g.abandonBy = event.AbandonBy
				delete(lapsed, e.attempt())
			case *run.LeaseDeclined:
				g.closed = true
				delete(lapsed, e.attempt())
			case *run.AttemptConcluded:
				if event.Report != "" {
					g.closed = true
					delete(lapsed, e.attempt())
				}
			}
		},
	}
}

// mayNotOutlive compares until when a runner was allowed to act with what history says of it
// once the lease has lapsed: what comes after the attempt is planned by that. The clock by which
// it was written is the store's, read some time ago.
func (w *world) mayNotOutlive(a *attempt, abandonBy time.Time) {
	until := w.storeWall().Add(a.machine.when(a.abandonAt) - w.sched.now)
	apart := w.behind + time.Millisecond + time.Duration(4*w.swarm.drift*float64(w.swarm.abandon))
	if w.storeSet == 0 && a.alive && until.After(abandonBy.Add(apart)) {
		w.violation(checkNeverTwo, "%s may act on %s until %s, and history says that it abandons by %s",
			a.id, a.machine.name, until, abandonBy)
	}
}

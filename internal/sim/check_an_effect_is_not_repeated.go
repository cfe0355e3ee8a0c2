package sim

import (
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Promises: [RUN-7].
const checkEffect = "an effectful job whose step had started is never retried by itself"

// effectNotRepeated knows from the machines, and from no server, which attempts began to
// change the outside. Only a person may let such a job run again.
func effectNotRepeated(w *world) checker {
	acted := map[domain.JobID]domain.AttemptID{}
	opened := map[domain.JobID]bool{} // jobs that a person runs again, whose legs are not made yet
	return checker{
		sentence: checkEffect,
		acts: func(a *attempt, begins bool) {
			if begins && a.order.Effectful {
				acted[domain.AttemptID(a.id).Job()] = domain.AttemptID(a.id)
			}
		},
		event: func(e *seen) {
			r := domain.RunID(e.history.id.ID())
			switch event := e.event.(type) {
			case *run.ReconciliationRecorded:
				if event.Then == run.ThenRetry {
					delete(acted, r.Job(e.job))
				}
			case *run.RoundOpened: // somebody asked for a rerun
				for _, j := range event.Jobs {
					delete(acted, r.Job(j))
					opened[r.Job(j)] = true
				}
			case *run.MatrixExpanded:
				for _, leg := range event.Legs {
					if opened[r.Job(e.job)] {
						delete(acted, r.Job(leg))
					}
				}
				delete(opened, r.Job(e.job))
			case *run.LeaseGranted:
				if before, ok := acted[r.Job(e.job)]; ok {
					w.violation(checkEffect, "%s got a lease after %s had begun to change the outside, and nobody decided it",
						e.attempt(), before)
				}
			}
		},
	}
}

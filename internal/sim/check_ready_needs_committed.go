package sim

import (
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Promises: [RUN-4].
const checkReady = "a job becomes ready only when every dependency is committed, and starts only when it is ready"

func readyNeedsCommitted(w *world) checker {
	type plan struct {
		needs [][]int
		done  map[int]bool
		ready map[int]bool
	}
	plans := map[domain.StreamID]*plan{}
	return checker{
		sentence: checkReady,
		event: func(e *seen) {
			p := plans[e.history.id]
			switch event := e.event.(type) {
			case *run.RunRequested:
				p = &plan{done: map[int]bool{}, ready: map[int]bool{}}
				for _, k := range event.Request.Skeleton {
					p.needs = append(p.needs, k.Needs)
				}
				plans[e.history.id] = p
			case *run.RoundOpened:
				for _, j := range event.Jobs {
					delete(p.done, j)
				}
			case *run.JobConcluded:
				p.done[e.job] = true
				delete(p.ready, e.job)
			case *run.JobReady, *run.JobHeld, *run.EvaluationAsked:
				for _, need := range p.needs[e.job] {
					if !p.done[need] {
						w.violation(checkReady, "%s of job %d of %s on job %d, which has no committed result",
							e.event.Name(), e.job, e.history.id, need)
					}
				}
				_, p.ready[e.job] = e.event.(*run.JobReady)
			case *run.LeaseGranted:
				if !p.ready[e.job] {
					w.violation(checkReady, "%s got a lease and was not ready", e.attempt())
				}
				delete(p.ready, e.job)
			}
		},
	}
}

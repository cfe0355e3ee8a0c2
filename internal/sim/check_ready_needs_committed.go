package sim

import (
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Promises: [RUN-4].
const checkReady = "a job becomes ready only when every dependency is committed, and starts only when it is ready"

func readyNeedsCommitted(w *world) checker {
	plans := map[domain.StreamID]*readiness{}
	return checker{
		sentence: checkReady,
		event: func(e *seen) {
			p := plans[e.history.id]
			switch event := e.event.(type) {
			case *run.RunRequested:
				p = &readiness{done: map[int]bool{}, ready: map[int]bool{}, open: map[int]bool{}}
				p.add(event.Request.Skeleton)
				plans[e.history.id] = p
			case *run.MatrixExpanded:
				p.add(event.Added)
				for _, l := range event.Legs {
					delete(p.done, l)
				}
				p.mustBe(w, e)
			case *run.RoundOpened:
				for _, j := range event.Jobs {
					delete(p.done, j)
					delete(p.open, j)
				}
			case *run.CallOpened:
				p.mustBe(w, e)
				p.open[e.job] = true
			case *run.CallAsked:
				p.mustBe(w, e)
			case *run.JobConcluded:
				p.done[e.job] = true
				delete(p.open, e.job)
				delete(p.ready, e.job)
			case *run.JobReady, *run.JobHeld, *run.EvaluationAsked, *run.MatrixAsked:
				p.mustBe(w, e)
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

// readiness is what is known of a run's jobs.
type readiness struct {
	needs [][]int
	done  map[int]bool
	ready map[int]bool
	in    []*int // the caller, of a job in a called workflow
	open  map[int]bool
}

// add takes jobs over. A leg needs what its job needs.
func (p *readiness) add(jobs []run.JobSkeleton) {
	for _, k := range jobs {
		needs, in := k.Needs, k.In
		if k.Leg != nil {
			needs, in = p.needs[k.Leg.Of], p.in[k.Leg.Of]
		}
		p.needs, p.in = append(p.needs, needs), append(p.in, in)
	}
}

func (p *readiness) mustBe(w *world, e *seen) {
	if in := p.in[e.job]; in != nil && !p.open[*in] {
		w.violation(checkReady, "%s of job %d of %s, whose call by job %d is not open", e.event.Name(), e.job, e.history.id,
			*in)
	}
	for _, need := range p.needs[e.job] {
		if !p.done[need] {
			w.violation(checkReady, "%s of job %d of %s on job %d, which has no committed result",
				e.event.Name(), e.job, e.history.id, need)
		}
	}
}

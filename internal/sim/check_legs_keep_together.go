package sim

import (
	"slices"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Promises: [RUN-20].
const checkLegs = "legs run at most so many at a time, none begins after one failed fast, and their job ends as the " +
	"worst of them when all have"

// legsKeepTogether follows every job with a matrix, by rules of its own.
func legsKeepTogether(w *world) checker {
	type group struct {
		legs     []int
		fast     bool
		parallel int
		outcomes map[int]domain.Outcome // of this round, and those that were kept
		failed   bool                   // a leg in this round
		live     map[int]bool           // attempts
	}
	groups := map[domain.StreamID]map[int]*group{} // by the job
	of := map[domain.StreamID]map[int]int{}        // by the leg
	note := func(id domain.StreamID, first int, jobs []run.JobSkeleton) {
		for i, k := range jobs {
			switch {
			case k.Group != nil:
				groups[id][first+i] = &group{fast: k.Group.FailFast, parallel: k.Group.MaxParallel,
					outcomes: map[int]domain.Outcome{}, live: map[int]bool{}}
			case k.Leg != nil:
				of[id][first+i] = k.Leg.Of
			}
		}
	}
	worst := []domain.Outcome{domain.OutcomeFailure, domain.OutcomeTimedOut, domain.OutcomeCancelled,
		domain.OutcomeSuperseded, domain.OutcomeSoftFailure, domain.OutcomeSuccess, domain.OutcomeSkipped}
	return checker{
		sentence: checkLegs,
		event: func(e *seen) {
			id := e.history.id
			leg := groups[id][-1]
			if g, ok := of[id][e.job]; ok {
				leg = groups[id][g]
			}
			switch event := e.event.(type) {
			case *run.RunRequested:
				groups[id], of[id] = map[int]*group{}, map[int]int{}
				note(id, 0, event.Request.Skeleton)
			case *run.MatrixExpanded:
				note(id, len(e.before.Jobs), event.Added)
				g := groups[id][e.job]
				g.legs, g.failed, g.outcomes = event.Legs, false, map[int]domain.Outcome{}
				if event.InputDigest != "" {
					g.fast, g.parallel = event.FailFast, event.MaxParallel
				}
			case *run.RoundOpened:
				for _, g := range groups[id] {
					g.failed = false
					for _, j := range event.Jobs {
						delete(g.outcomes, j)
					}
				}
			case *run.LeaseGranted, *run.CallOpened:
				if leg == nil {
					return
				}
				if leg.live[e.job] = true; leg.parallel > 0 && len(leg.live) > leg.parallel {
					w.violation(checkLegs, "job %d of %s: %d legs run, of at most %d", e.job, id, len(leg.live), leg.parallel)
				}
				if leg.fast && leg.failed {
					w.violation(checkLegs, "job %d of %s began after another leg had failed", e.job, id)
				}
			case *run.AttemptConcluded:
				if leg != nil {
					delete(leg.live, e.job)
				}
			case *run.JobConcluded:
				if leg != nil {
					delete(leg.live, e.job)
					leg.outcomes[e.job] = event.Outcome
					leg.failed = leg.failed || event.Outcome == domain.OutcomeFailure || event.Outcome == domain.OutcomeTimedOut
					return
				}
				g := groups[id][e.job]
				if g == nil || event.Reason.Code != run.ReasonLegsDone && event.Reason.Code != run.ReasonLegsFailed {
					return
				}
				at := len(worst) - 1
				for _, l := range g.legs {
					if g.outcomes[l] == "" {
						w.violation(checkLegs, "job %d of %s concluded before its leg %d", e.job, id, l)
					}
					at = min(at, max(slices.Index(worst, g.outcomes[l]), 0))
				}
				if worst[at] != event.Outcome {
					w.violation(checkLegs, "job %d of %s is %s, the worst of its legs %s", e.job, id, event.Outcome, worst[at])
				}
			}
		},
	}
}

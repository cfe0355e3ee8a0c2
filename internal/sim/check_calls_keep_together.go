package sim

import (
	"slices"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Promises: [RUN-22].
const checkCalls = "a call ends as the worst of the jobs that it calls, when all of them have, and is opened again " +
	"with other inputs only when it is decided anew"

// callsKeepTogether follows every job that calls a workflow, by rules of its own.
func callsKeepTogether(w *world) checker {
	type call struct {
		jobs   []int
		inputs run.CallInputs
		kept   bool // in this round
	}
	type calls struct {
		by       map[int]*call // the caller
		outcomes map[int]domain.Outcome
	}
	runs := map[domain.StreamID]*calls{}
	worst := []domain.Outcome{domain.OutcomeFailure, domain.OutcomeTimedOut, domain.OutcomeCancelled,
		domain.OutcomeSoftFailure, domain.OutcomeSuccess, domain.OutcomeSkipped}
	return checker{
		sentence: checkCalls,
		event: func(e *seen) {
			id := e.history.id
			c := runs[id]
			switch event := e.event.(type) {
			case *run.RunRequested:
				c = &calls{by: map[int]*call{}, outcomes: map[int]domain.Outcome{}}
				runs[id] = c
				for i, k := range event.Request.Skeleton {
					if k.In == nil {
						continue
					}
					if c.by[*k.In] == nil {
						c.by[*k.In] = &call{}
					}
					c.by[*k.In].jobs = append(c.by[*k.In].jobs, i)
				}
			case *run.RoundOpened:
				for _, j := range event.Jobs {
					delete(c.outcomes, j)
					if of := c.by[j]; of != nil {
						of.kept = slices.Contains(event.Kept, j)
					}
				}
			case *run.CallOpened:
				of := c.by[e.job]
				if of.kept && of.inputs != event.Inputs {
					w.violation(checkCalls, "job %d of %s is kept, and opened with other inputs", e.job, id)
				}
				of.inputs = event.Inputs
			case *run.JobConcluded:
				c.outcomes[e.job] = event.Outcome
				of := c.by[e.job]
				if of == nil || event.Reason.Code != run.ReasonCallDone && event.Reason.Code != run.ReasonCallFailed {
					return
				}
				at := len(worst) - 1
				for _, j := range of.jobs {
					if c.outcomes[j] == "" {
						w.violation(checkCalls, "job %d of %s concluded before job %d that it calls", e.job, id, j)
					}
					at = min(at, max(slices.Index(worst, c.outcomes[j]), 0))
				}
				if worst[at] != event.Outcome {
					w.violation(checkCalls, "job %d of %s is %s, the worst of what it calls %s", e.job, id, event.Outcome, worst[at])
				}
			}
		},
	}
}

package plan

import (
	"slices"
	"strings"
)

// FormOne gives the plan as readers of form 1 understand it, for as long as a server of the
// fleet reads no more: without what is only shown. ok is false when the plan has what such a
// reader would have to execute.
func (p *Plan) FormOne() (lowered *Plan, ok bool) {
	out := *p
	out.RunName, out.Jobs = "", slices.Clone(p.Jobs)
	for i := range out.Jobs {
		job := &out.Jobs[i]
		job.Permissions = nil
		if job.Strategy != nil || len(job.Outputs) > 0 {
			return nil, false
		}
		for n := range job.Steps {
			step := &job.Steps[n]
			// A shell is text to such a reader, which would look for a program with this name.
			if step.SoftFailText != "" || step.TimeoutText != "" || strings.Contains(step.Shell, "${{") {
				return nil, false
			}
		}
	}
	return &out, len(p.Legs) == 0
}

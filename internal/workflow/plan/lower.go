package plan

import (
	"slices"
	"strings"
)

// FormOne gives the plan as readers of form 1 understand it, for as long as a server of the
// fleet reads no more: without what is only shown. ok is false when the plan has what such a
// reader would have to execute.
func (p *Plan) FormOne() (lowered *Plan, ok bool) {
	out, ok := p.FormTwo()
	if !ok {
		return nil, false
	}
	out.RunName = ""
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
	return out, len(p.Legs) == 0
}

// FormTwo is FormOne for readers of form 2, which know nothing of called workflows, groups,
// containers and actions.
func (p *Plan) FormTwo() (lowered *Plan, ok bool) {
	out := *p
	out.Jobs = slices.Clone(p.Jobs)
	for i := range out.Jobs {
		job := &out.Jobs[i]
		job.Environment = nil
		if job.Call != nil || job.In != nil || job.ID != "" || job.Concurrency != nil || job.Container != nil ||
			len(job.Services) > 0 || len(job.Unmet) > 0 {
			return nil, false
		}
		for n := range job.Steps {
			step := &job.Steps[n]
			if len(step.With) > 0 || step.Action != "" || len(step.Steps) > 0 || len(step.Unmet) > 0 {
				return nil, false
			}
		}
	}
	return &out, p.Concurrency == nil
}

package workflow

import (
	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// other checks the expressions of a job's keys that this release refuses. The address of
// an environment is evaluated when the steps are done, so it sees all of them.
func (c *compiler) other(job *syntax.Job) {
	var ids []string
	for _, step := range job.Steps {
		if step.ID != nil {
			ids = append(ids, scalarText(step.ID))
		}
	}
	for _, site := range job.Other {
		s := at(expr.Site(site.Under), site.Key)
		s.step = &stepScope{before: ids}
		c.template(site.Value, s)
	}
}

// call checks what a workflow says to those that call it.
func (c *compiler) call() {
	if c.file.On == nil || c.file.On.Call == nil {
		return
	}
	for _, in := range c.file.On.Call.Inputs {
		c.template(in.Default, at(expr.SiteCallInputDefault, "default"))
	}
	for _, out := range c.file.On.Call.Outputs {
		c.template(out.Value, at(expr.SiteCallOutput, "value"))
	}
}

package workflow

import (
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// keyScope is the scope of a key that is checked and not compiled: one that this release
// refuses, or that only says what the file is.
func keyScope(key string) scope {
	withJob := []string{"github", "needs", "strategy", "matrix", "vars", "inputs"}
	s := scope{key: key, contexts: withJob}
	switch key {
	case "run-name", "concurrency", "on.workflow_call.inputs.*.default":
		s.contexts = []string{"github", "inputs", "vars"}
	case "on.workflow_call.outputs.*.value":
		s.contexts = []string{"github", "inputs", "vars", "jobs"}
	case "jobs.*.secrets":
		s.contexts = append(withJob, "secrets")
	case "jobs.*.defaults.run":
		s.contexts = append(withJob, "env")
	case "jobs.*.environment.url":
		s.contexts = append(withJob, "job", "runner", "env", "steps")
	case "jobs.*.container", "jobs.*.services":
		s.contexts = append(withJob, "secrets", "env", "job", "runner", "steps")
	}
	return s
}

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
		s := keyScope(site.Key)
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
		c.template(in.Default, keyScope("on.workflow_call.inputs.*.default"))
	}
	for _, out := range c.file.On.Call.Outputs {
		c.template(out.Value, keyScope("on.workflow_call.outputs.*.value"))
	}
}

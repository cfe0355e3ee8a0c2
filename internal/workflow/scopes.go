package workflow

import (
	"slices"

	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// keyScope is the scope of a key that is checked and not compiled: one that this release
// refuses, or only records. under is the name of what GitHub's schema calls it.
func keyScope(key, under string) scope {
	start := []string{"github", "inputs", "vars"}
	leg := append(slices.Clone(start), "needs", "strategy", "matrix")
	steps := append(slices.Clone(leg), "steps", "job", "runner", "env")
	s := scope{key: key, contexts: leg}
	switch under {
	case "run-name", "workflow-concurrency", "workflow-call-input-default":
		s.contexts = start
	case "workflow-output-context":
		s.contexts = append(start, "jobs")
	case "scalar-needs-context-with-secrets":
		s.contexts = append(leg, "secrets")
	case "job-defaults-run":
		s.contexts = append(leg, "env")
	case "container-registry-credentials":
		s.contexts = append(start, "secrets", "env")
	case "string-runner-context-no-secrets":
		s.contexts = steps
	case "string-runner-context":
		s.contexts = append(steps, "secrets")
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
		s := keyScope(site.Key, site.Under)
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
		c.template(in.Default, keyScope("default", "workflow-call-input-default"))
	}
	for _, out := range c.file.On.Call.Outputs {
		c.template(out.Value, keyScope("value", "workflow-output-context"))
	}
}

package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// Undefined warns about references to what is not there: a step that has not run, a job
// that is not needed, an input that is not declared, an unknown property. They evaluate
// to nothing, without an error.
func Undefined(s Site) []Finding {
	t := s.template()
	if t == nil {
		return nil
	}
	var out []Finding
	for _, ref := range t.References() {
		if len(ref.Path) < 2 || ref.Path[1] == "*" {
			continue
		}
		if message, hint := s.undefined(ref.Path); message != "" {
			out = append(out, Finding{syntax.CodeUndefinedReference, ref.Span, message, hint})
		}
	}
	return out
}

func (s Site) undefined(path []string) (message, hint string) {
	name := path[1]
	switch path[0] {
	case "steps":
		return s.undefinedStep(path)
	case "needs":
		return s.undefinedNeed(path)
	case "inputs":
		for _, in := range s.Inputs {
			if strings.EqualFold(in.Name, name) {
				return "", ""
			}
		}
		return fmt.Sprintf("the workflow has no input %s", syntax.Quote(name)), "declare it under on.workflow_dispatch.inputs"
	case "matrix":
		return s.undefinedMatrix(name)
	case "strategy":
		return unknownProperty("strategy", name, []string{"fail-fast", "job-index", "job-total", "max-parallel"})
	case "github":
		return unknownProperty("github", name, githubProperties())
	case "runner":
		return unknownProperty("runner", name, runnerProperties())
	case "job":
		return unknownProperty("job", name, []string{"status", "container", "services", "check_run_id"})
	}
	return "", ""
}

func (s Site) undefinedStep(path []string) (message, hint string) {
	name := path[1]
	switch {
	case has(s.Before, name):
		if len(path) > 2 && path[2] != "*" {
			return unknownProperty("a step", path[2], []string{"outputs", "outcome", "conclusion"})
		}
		return "", ""
	case has(s.Later, name):
		return fmt.Sprintf("the step %s has not run yet at this place", syntax.Quote(name)), "move it before this step"
	}
	return fmt.Sprintf("the job has no step with the id %s", syntax.Quote(name)), "give the step that id"
}

func (s Site) undefinedNeed(path []string) (message, hint string) {
	name := path[1]
	switch {
	case has(s.Needs, name):
		if len(path) > 3 && path[3] != "*" && strings.EqualFold(path[2], "outputs") {
			return s.undefinedOutput(name, path[3])
		}
		if len(path) > 2 && path[2] != "*" {
			return unknownProperty("a needed job", path[2], []string{"result", "outputs"})
		}
		return "", ""
	case has(s.Jobs, name):
		return fmt.Sprintf("the job %s is not among this job's needs", syntax.Quote(name)), "add it to needs"
	}
	return fmt.Sprintf("there is no job %s", syntax.Quote(name)), ""
}

func (s Site) undefinedOutput(job, name string) (message, hint string) {
	names, known := s.Outputs[strings.ToUpper(job)]
	switch {
	case !known || has(names, name):
		return "", ""
	case len(names) == 0:
		return fmt.Sprintf("the job %s has no output %s: it has none at all", syntax.Quote(job), syntax.Quote(name)),
			"declare it under outputs of that job"
	}
	return fmt.Sprintf("the job %s has no output %s", syntax.Quote(job), syntax.Quote(name)),
		"known are " + strings.Join(names, ", ")
}

func (s Site) undefinedMatrix(name string) (message, hint string) {
	switch {
	case s.Matrix == nil || has(s.Matrix, name):
		return "", ""
	case len(s.Matrix) == 0:
		return "the job has no matrix", "add one under strategy"
	}
	return fmt.Sprintf("no leg of the matrix has %s", syntax.Quote(name)), "known are " + strings.Join(s.Matrix, ", ")
}

func has(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

func unknownProperty(what, name string, known []string) (message, hint string) {
	if has(known, name) {
		return "", ""
	}
	return fmt.Sprintf("%s has no property %s", what, syntax.Quote(name)), "known are " + strings.Join(known, ", ")
}

func githubProperties() []string {
	return []string{
		"action", "action_path", "action_ref", "action_repository", "action_status", "actor", "actor_id",
		"api_url", "artifact_cache_size_limit", "base_ref", "env", "event", "event_name", "event_path",
		"graphql_url", "head_ref", "job", "job_workflow_sha", "output", "path", "ref", "ref_name",
		"ref_protected", "ref_type", "repository", "repository_id", "repository_owner",
		"repository_owner_id", "repository_visibility", "repositoryUrl", "retention_days", "run_attempt",
		"run_id", "run_number", "secret_source", "server_url", "sha", "state", "step_summary", "token",
		"triggering_actor", "workflow", "workflow_ref", "workflow_sha", "workspace",
	}
}

func runnerProperties() []string {
	return []string{"arch", "debug", "environment", "name", "os", "temp", "tool_cache", "workspace"}
}

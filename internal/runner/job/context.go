package job

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/manifest"
	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/matrix"
)

// contexts hold what expressions of steps may refer to.
type contexts struct {
	github expr.Value
	inputs expr.Value
	needs  expr.Value
	runner expr.Value
	// Of a leg of a job with a matrix; other jobs are the one leg of one.
	matrix   expr.Value
	strategy expr.Value
	env      map[string]string // workflow, job and GITHUB_ENV; a step's own comes on top
	steps    []expr.Field
	// Of the steps of a composite action: the env of the step that uses it, the variables that
	// name it, whether one of its steps failed, and the job's status.
	outer  map[string]string
	vars   map[string]string
	action *actionStatus
	// files answers hashFiles(); nil while there is no workspace to look at.
	files func(patterns []string) (string, error)
}

func newContexts(m *manifest.Manifest, r Runner, paths pathsInside) (*contexts, error) {
	c := &contexts{env: make(map[string]string)}
	for _, one := range []struct {
		name string
		text []byte
		to   *expr.Value
	}{
		{"github", m.Github, &c.github}, {"inputs", m.Inputs, &c.inputs}, {"needs", m.Needs, &c.needs},
		{"matrix", m.Matrix, &c.matrix}, {"strategy", m.Strategy, &c.strategy},
	} {
		*one.to = expr.Object()
		if len(one.text) == 0 || string(one.text) == "null" {
			continue
		}
		v, err := expr.FromJSON(string(one.text))
		if err != nil {
			return nil, fmt.Errorf("read the %s context of the manifest: %w", one.name, err)
		}
		*one.to = v
	}
	if len(m.Matrix) == 0 {
		c.matrix, c.strategy = expr.Null(), matrix.StrategyContext(true, 0, 0, 1)
	}
	for name, value := range map[string]string{
		"workspace": paths.workspace, "event_path": paths.event, "job": m.JobKey,
	} {
		c.github = c.github.With(name, expr.String(value))
	}
	c.runner = expr.Object(
		expr.Field{Name: "os", Value: expr.String(r.os())},
		expr.Field{Name: "arch", Value: expr.String(r.arch())},
		expr.Field{Name: "name", Value: expr.String(r.Name)},
		expr.Field{Name: "environment", Value: expr.String("self-hosted")},
		expr.Field{Name: "temp", Value: expr.String(paths.temp)},
		expr.Field{Name: "tool_cache", Value: expr.String(paths.tools)},
		expr.Field{Name: "workspace", Value: expr.String(paths.workspace)},
	)
	return c, nil
}

// pathsInside are folders and files as steps see them.
type pathsInside struct{ workspace, temp, home, files, tools, event string }

// env makes the environment of an evaluation. extra is the step's own env.
func (c *contexts) evaluation(action string, extra map[string]string, status expr.StepStatus) expr.Env {
	return expr.Env{
		Status:    status,
		HashFiles: c.files,
		Context: func(name string) (expr.Value, bool) {
			switch name {
			case "github":
				return c.github.With("action", expr.String(action)), true
			case "inputs":
				return c.inputs, true
			case "needs":
				return c.needs, true
			case "matrix":
				return c.matrix, true
			case "strategy":
				return c.strategy, true
			case "runner":
				return c.runner, true
			case "steps":
				return expr.Object(c.steps...), true
			case "job":
				return expr.Object(expr.Field{Name: "status", Value: expr.String(c.jobStatus(status))}), true
			case "env":
				all := maps.Clone(c.env)
				maps.Copy(all, c.outer)
				maps.Copy(all, extra)
				return expr.Strings(all), true
			}
			return expr.Value{}, false
		},
	}
}

func statusText(s expr.StepStatus) string {
	switch {
	case s.Stopped:
		return "cancelled"
	case s.Failed:
		return "failure"
	}
	return "success"
}

// record adds a finished step to the steps context. A step that timed out is a failed
// one in the language, which has no word for it.
func (c *contexts) record(id string, outputs map[string]string, outcome, conclusion string) {
	if id == "" || strings.HasPrefix(id, "__") {
		return
	}
	word := func(text string) expr.Value {
		if text == outcomeTimedOut {
			text = outcomeFailure
		}
		return expr.String(text)
	}
	c.steps = append(c.steps, expr.Field{Name: id, Value: expr.Object(
		expr.Field{Name: "outputs", Value: expr.Strings(outputs)},
		expr.Field{Name: "outcome", Value: word(outcome)},
		expr.Field{Name: "conclusion", Value: word(conclusion)},
	)})
}

// githubVariables maps the names of the github context that steps get as variables.
var githubVariables = []string{
	"action_path", "action_ref", "action_repository", "actor", "actor_id", "api_url", "base_ref", "event_name",
	"graphql_url", "head_ref", "ref", "ref_name", "ref_protected", "ref_type", "repository", "repository_id",
	"repository_owner", "repository_owner_id", "retention_days", "run_attempt", "run_id", "run_number",
	"server_url", "sha", "triggering_actor", "workflow", "workflow_ref", "workflow_sha",
}

// reserved lists the variables that only the runner sets: no env of the workflow
// replaces them.
func (c *contexts) reserved(m *manifest.Manifest, r Runner, paths pathsInside) map[string]string {
	vars := make(map[string]string)
	for _, name := range githubVariables {
		if v, ok := c.github.Field(name); ok {
			vars["GITHUB_"+strings.ToUpper(name)] = v.Text()
		}
	}
	fallback := func(name, value string) {
		if vars[name] == "" {
			vars[name] = value
		}
	}
	fallback("GITHUB_SHA", m.Source.Commit)
	fallback("GITHUB_REF", m.Source.Ref)
	fallback("GITHUB_REPOSITORY", m.RepositoryName)
	fallback("GITHUB_RUN_ID", string(m.Run))
	fallback("GITHUB_RUN_NUMBER", strconv.FormatUint(m.RunNumber, 10))
	fallback("GITHUB_RUN_ATTEMPT", strconv.Itoa(max(m.Round, 1)))
	maps.Copy(vars, map[string]string{
		"GITHUB_ACTIONS":           "true",
		"GITHUB_JOB":               m.JobKey,
		"GITHUB_WORKSPACE":         paths.workspace,
		"GITHUB_EVENT_PATH":        paths.event,
		"RUNNER_OS":                r.os(),
		"RUNNER_ARCH":              r.arch(),
		"RUNNER_NAME":              r.Name,
		"RUNNER_ENVIRONMENT":       "self-hosted",
		"RUNNER_TEMP":              paths.temp,
		"RUNNER_TOOL_CACHE":        paths.tools,
		"RUNNER_WORKSPACE":         paths.workspace,
		"FAIRLEAD":                 "true",
		"FAIRLEAD_RUN":             string(m.Run),
		"FAIRLEAD_JOB":             string(m.Job),
		"FAIRLEAD_ATTEMPT":         string(m.Attempt),
		"FAIRLEAD_IDEMPOTENCY_KEY": m.IdempotencyKey,
	})
	return vars
}

// list writes an environment down in a fixed order.
func list(vars map[string]string) []string {
	out := make([]string, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(vars[name], 0) {
			continue // no process can have it
		}
		out = append(out, name+"="+vars[name])
	}
	return out
}

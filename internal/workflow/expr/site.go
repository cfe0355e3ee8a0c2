package expr

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
)

// Site names a place of a workflow file where expressions may stand. Every key whose
// value may hold one has a site; keys that see the same things share it. The names are
// those of GitHub's published schema of workflow files, so that the two tables can be
// compared by a program.
type Site string

// Sites of a workflow.
const (
	SiteRunName             Site = "run-name"
	SiteCallInputDefault    Site = "workflow-call-input-default"
	SiteCallOutput          Site = "workflow-output-context" // on.workflow_call.outputs.*.value
	SiteWorkflowEnv         Site = "workflow-env"
	SiteWorkflowConcurrency Site = "workflow-concurrency"
)

// Sites of a job.
const (
	SiteJobIf           Site = "job-if"
	SiteJobName         Site = "string-strategy-context"
	SiteJobTimeout      Site = "number-strategy-context"  // timeout-minutes, cancel-timeout-minutes
	SiteJobSoftFail     Site = "boolean-strategy-context" // continue-on-error
	SiteStrategy        Site = "strategy"
	SiteRunsOn          Site = "runs-on"
	SiteJobEnv          Site = "job-env"
	SiteJobConcurrency  Site = "job-concurrency"
	SiteEnvironment     Site = "job-environment" // also its name
	SiteEnvironmentURL  Site = "string-runner-context-no-secrets"
	SiteDefaultsRun     Site = "job-defaults-run"
	SiteContainer       Site = "container"
	SiteServices        Site = "services"
	SiteCredentials     Site = "container-registry-credentials"
	SiteJobOutputs      Site = "string-runner-context" // also env of containers
	SiteCallWith        Site = "scalar-needs-context"
	SiteCallSecrets     Site = "scalar-needs-context-with-secrets"
	SiteSnapshotIf      Site = "snapshot-if"
	siteEnvironmentName Site = "job-environment-name"
	siteServiceOne      Site = "services-container"
)

// Sites of a step.
const (
	SiteStepIf       Site = "step-if"
	SiteStepName     Site = "step-name"
	SiteStepEnv      Site = "step-env"
	SiteStepWith     Site = "step-with"
	SiteStepTimeout  Site = "step-timeout-minutes"
	SiteStepSoftFail Site = "step-continue-on-error"
	SiteStepText     Site = "string-steps-context" // run, working-directory
)

// Arity is a function with the number of arguments that it takes at a site.
type Arity struct {
	Name     string
	Min, Max int
}

// Availability is what the expressions of a site may use, beside the functions that
// are there everywhere: case, contains, endsWith, format, fromJSON, join, startsWith and
// toJSON.
type Availability struct {
	Contexts  []string // lower case, in the order in which they become known
	Functions []Arity
}

// table is the rows of all sites. Nobody changes any of it.
var table = sync.OnceValue(func() map[Site]Availability {
	out := make(map[Site]Availability)
	for _, s := range Sites() {
		if a, ok := s.availability(); ok {
			out[s] = a
		}
	}
	return out
})

// Availability is the row of the table for a site, which the caller must not change. ok is false for
// a site that is none.
func (s Site) Availability() (a Availability, ok bool) {
	a, ok = table()[s]
	return a, ok
}

func (s Site) availability() (a Availability, ok bool) {
	const (
		start = "github inputs vars"
		needs = start + " needs"
		leg   = needs + " strategy matrix"
		steps = leg + " secrets steps job runner env"
	)
	jobStatus := []Arity{{"always", 0, 0}, {"failure", 0, math.MaxInt}, {"cancelled", 0, 0}, {"success", 0, math.MaxInt}}
	files := []Arity{{"hashFiles", 1, argsMax}}
	make := func(contexts string, functions ...Arity) (Availability, bool) {
		return Availability{Contexts: strings.Fields(contexts), Functions: functions}, true
	}
	switch s {
	case SiteRunName, SiteCallInputDefault, SiteWorkflowConcurrency:
		return make(start)
	case SiteCallOutput:
		return make(start + " jobs")
	case SiteWorkflowEnv:
		return make(start + " secrets")
	case SiteJobIf:
		return make(needs, jobStatus...)
	case SiteStrategy:
		return make(needs)
	case SiteJobName, SiteJobTimeout, SiteJobSoftFail, SiteRunsOn, SiteJobConcurrency, SiteEnvironment,
		siteEnvironmentName,
		SiteContainer, SiteServices, siteServiceOne, SiteCallWith, SiteSnapshotIf:
		return make(leg)
	case SiteJobEnv:
		return make(leg + " secrets")
	case SiteCallSecrets:
		return make(needs + " secrets strategy matrix")
	case SiteDefaultsRun:
		return make(start + " strategy matrix needs env")
	case SiteCredentials:
		return make(start + " secrets env")
	case SiteJobOutputs:
		return make(steps)
	case SiteEnvironmentURL:
		return make(leg + " steps job runner env")
	case SiteStepIf:
		return make(leg+" steps job runner env", Arity{"always", 0, 0}, Arity{"failure", 0, 0},
			Arity{"cancelled", 0, 0}, Arity{"success", 0, 0}, files[0])
	case SiteStepName, SiteStepEnv, SiteStepWith, SiteStepTimeout, SiteStepSoftFail, SiteStepText:
		return make(steps, files...)
	}
	return Availability{}, false
}

// Sites lists all sites, those of the workflow first, then jobs, then steps.
func Sites() []Site {
	return []Site{
		SiteRunName, SiteCallInputDefault, SiteCallOutput, SiteWorkflowEnv, SiteWorkflowConcurrency,
		SiteJobIf, SiteJobName, SiteJobTimeout, SiteJobSoftFail, SiteStrategy, SiteRunsOn, SiteJobEnv,
		SiteJobConcurrency, SiteEnvironment, siteEnvironmentName, SiteEnvironmentURL, SiteDefaultsRun, SiteContainer,
		SiteServices, siteServiceOne, SiteCredentials, SiteJobOutputs, SiteCallWith, SiteCallSecrets, SiteSnapshotIf,
		SiteStepIf, SiteStepName, SiteStepEnv, SiteStepWith, SiteStepTimeout, SiteStepSoftFail, SiteStepText,
	}
}

// ContextNames lists the contexts of the language in alphabetical order.
func ContextNames() []string {
	return []string{"env", "github", "inputs", "job", "jobs", "matrix", "needs", "runner", "secrets", "steps",
		"strategy", "vars"}
}

// Check lists what the expressions of a template may not use at a site: contexts that
// do not exist or not there, functions that do not exist there, arguments that they do
// not take there. key is what the messages call the place.
func (t *Template) Check(site Site, key string) []*Error {
	a, ok := site.Availability()
	if !ok {
		return []*Error{fail(CodeContextNotAllowed, Span{0, len(t.text)}, "there can be no expression in %q", key)}
	}
	var out []*Error
	for _, ref := range t.References() {
		if err := a.context(ref, key); err != nil {
			out = append(out, err)
		}
	}
	for _, call := range t.Calls() {
		if err := a.call(call, key); err != nil {
			out = append(out, err)
		}
	}
	return out
}

func (a Availability) context(ref Reference, key string) *Error {
	name := ref.Path[0]
	at := Span{ref.Span.Start, ref.Span.Start + len(name)}
	switch {
	case !slices.Contains(ContextNames(), name):
		err := fail(CodeUnknownContext, at, "there is no context %q", short(name))
		err.Hint = "text is written in single quotes"
		return err
	case !slices.Contains(a.Contexts, name):
		err := fail(CodeContextNotAllowed, at, "the context %q does not exist in %q", name, key)
		err.Hint = "available are " + strings.Join(a.Contexts, ", ")
		return err
	}
	return nil
}

func (a Availability) call(call Call, key string) *Error {
	if !call.Bound {
		return nil
	}
	at := slices.IndexFunc(a.Functions, func(f Arity) bool { return f.Name == call.Name })
	if at < 0 {
		err := fail(CodeFunctionNotAllowed, call.Span, "%s() can't be used in %q", call.Name, key)
		if call.Status {
			err.Hint = "use it in an if"
		}
		return err
	}
	f := a.Functions[at]
	if call.Args >= f.Min && call.Args <= f.Max {
		return nil
	}
	err := fail(CodeArgumentCount, call.Span, "%s() takes %s in %q", call.Name, arity(f.Min, f.Max), key)
	if call.Status && f.Max == 0 {
		err.Hint = "use steps.<id>.outcome"
	}
	return err
}

// arity says how many arguments a function takes.
func arity(least, most int) string {
	switch {
	case most == 0:
		return "no arguments"
	case most == math.MaxInt:
		return fmt.Sprintf("at least %d arguments", least)
	case least == most && least == 1:
		return "1 argument"
	case least == most:
		return fmt.Sprintf("%d arguments", least)
	}
	return fmt.Sprintf("%d to %d arguments", least, most)
}

// Package plan is the job graph that a snapshot compiles to: what the core schedules
// and what manifests are made from.
//
// It is deliberately data only. Building a plan from syntax is workflow.Compile's work;
// scheduling it is core/run's; running a step is the runner's.
//
// Invariants: Encode is canonical (same plan, same bytes, same digest); job indexes are
// positions in Jobs and needs point at lower or higher indexes but never in a cycle;
// a plan holds no secret value.
//
// Read next: internal/workflow/compile.go, internal/core/run/command.go
package plan

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Evaluator is the version of compiler and expression language that made a plan. It
// grows whenever the same snapshot could compile or evaluate to something else.
//
//	2: a job's condition with text outside of its ${{ }}, even a space, is always true
//	3: actions, options of checkout, containers, services, environments and their like are in the plan
const Evaluator = 3

// Plan is the compiled job graph of one workflow for one event.
type Plan struct {
	Evaluator int    `json:"evaluator"`
	Name      string `json:"name"` // the workflow's name, or its path
	// RunName is the run-name of the file, a template over github and inputs.
	RunName string `json:"run_name,omitempty"`
	Path    string `json:"path"` // the workflow file's path in the repository
	Event   string `json:"event,omitempty"`
	// Inputs are the values of the inputs of workflow_dispatch, defaults included, in the
	// order of their declaration. They are the contexts inputs and github.event.inputs.
	Inputs []Input `json:"inputs,omitempty"`
	// Concurrency is the group that the run as a whole joins before any of its jobs may start.
	Concurrency *Concurrency `json:"concurrency,omitempty"`
	Jobs        []Job        `json:"jobs"`
	// Legs are those of all matrices that are known before the run starts, in the order of
	// their jobs: the leg at i is scheduled as the job with index len(Jobs)+i.
	Legs []Leg `json:"legs,omitempty"`
}

// Types of inputs. A choice and a string are text; the others have been checked.
const (
	InputString  = "string"
	InputBoolean = "boolean"
	InputNumber  = "number"
	InputChoice  = "choice"
)

// Input is one input with its value as text: "true" or "false" for a boolean, a number
// as the expression language writes it.
type Input struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Value string `json:"value"`
}

// Ancestors lists the indexes of all jobs that the job at that index needs, directly or
// through others, in ascending order. success() and failure() of a job's condition look
// at exactly these.
func (p *Plan) Ancestors(job int) []int {
	seen := make([]bool, len(p.Jobs))
	waiting := []int{job}
	for len(waiting) > 0 {
		next := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		for _, need := range p.Jobs[next].Needs {
			if !seen[need] {
				seen[need] = true
				waiting = append(waiting, need)
			}
		}
	}
	var out []int
	for i, is := range seen {
		if is {
			out = append(out, i)
		}
	}
	return out
}

// Job is a schedulable node.
type Job struct {
	Index          int       `json:"index"`
	Key            string    `json:"key"`  // unique in the plan: the id in the file, after its callers' and a slash each
	Name           string    `json:"name"` // for people; may repeat
	Needs          []int     `json:"needs,omitempty"`
	If             string    `json:"if,omitempty"` // expression text; "" means success()
	RunsOn         []string  `json:"runs_on,omitempty"`
	Env            []Binding `json:"env,omitempty"` // workflow level first, then the job's: later wins
	TimeoutSeconds int64     `json:"timeout_seconds"`
	SoftFail       bool      `json:"continue_on_error,omitempty"`
	Effectful      bool      `json:"effectful,omitempty"`
	Retry          Retry     `json:"retry"`
	// Permissions are what the file permits the job's token: the job's own, or else the workflow's.
	// They are nil when it says nothing. Jobs get no token yet.
	Permissions *Permissions `json:"permissions,omitempty"`
	Steps       []Step       `json:"steps"`
	// Outputs are evaluated on the runner when the steps have ended.
	Outputs []Binding `json:"outputs,omitempty"`
	// Strategy makes the job a group: its legs run, and it concludes as they do.
	Strategy *Strategy `json:"strategy,omitempty"`
	// Call makes the job the caller of another workflow. With a strategy, each leg calls it.
	Call *Call `json:"call,omitempty"`
	// In is the index of the caller, a job or a leg, whose workflow this job is of. It is nil for
	// jobs of the run's own workflow. Needs are jobs of the same workflow.
	In *int `json:"in,omitempty"`
	// ID is the key within the called workflow, by which its other jobs know this one; "": Key.
	ID          string       `json:"id,omitempty"`
	Concurrency *Concurrency `json:"concurrency,omitempty"`
	Environment *Environment `json:"environment,omitempty"`
	Container   *Container   `json:"container,omitempty"`
	Services    []Service    `json:"services,omitempty"`
	Unmet       []Unmet      `json:"unmet,omitempty"`
}

// Unmet is a key of a job or a step that a plan only records: what it asks for is not done, so each
// is a requirement.
type Unmet struct {
	Code string `json:"code"` // of the requirement
	Key  string `json:"key"`
	Text string `json:"text"` // the value: a text as it is written, anything else as JSON
}

// Permissions is one word for all scopes, or a level for each scope that is named; a scope
// that is not named has none.
type Permissions struct {
	All    string       `json:"all,omitempty"` // read-all or write-all
	Scopes []Permission `json:"scopes,omitempty"`
}

// Permission is the level of one scope: read, write or none.
type Permission struct {
	Scope string `json:"scope"`
	Level string `json:"level"`
}

// Retry says which failures start another attempt without a person.
type Retry struct {
	// Max is the number of further attempts after the first, over all classes.
	Max int `json:"max"`
	// On lists the classes that may retry; by default runner_lost and platform_error.
	On []domain.FailureClass `json:"on,omitempty"`
	// BackoffSeconds is the wait before the second attempt; it doubles for each one more.
	BackoffSeconds int64 `json:"backoff_seconds"`
}

// Binding is one environment variable; Value is a template and may hold ${{ }}.
type Binding struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Uses of a step.
const (
	UsesRun      = "run"      // run Script with Shell
	UsesCheckout = "checkout" // built-in: the pinned commit into the workspace
	// UsesAction is an action whose definition is not known, as linting leaves it. Nothing that was
	// resolved has one.
	UsesAction    = "action"
	UsesComposite = "composite" // run Steps, in contexts of their own
	UsesNode      = "node"      // a JavaScript action
	UsesContainer = "container" // a container action, or an image
	UsesDeploy    = "deploy"    // the artifact that Action names, to the job's environment
	UsesWait      = "wait"      // about steps beside each other; Unmet says what
)

// Step is one operation of a job. Text fields that are templates may hold ${{ }} and
// are evaluated on the runner, in the step's own contexts.
type Step struct {
	Index          int       `json:"index"`
	ID             string    `json:"id"`   // unique in the job; generated ones start with "__"
	Name           string    `json:"name"` // template; what people see
	Uses           string    `json:"uses"` // UsesRun, UsesCheckout, …
	Script         string    `json:"script,omitempty"`
	Shell          string    `json:"shell,omitempty"`             // "" is the default shell
	WorkDir        string    `json:"working_directory,omitempty"` // template, relative to the workspace
	Env            []Binding `json:"env,omitempty"`
	If             string    `json:"if,omitempty"`              // expression text; "" means success()
	TimeoutSeconds int64     `json:"timeout_seconds,omitempty"` // 0: only the job's
	SoftFail       bool      `json:"continue_on_error,omitempty"`
	Cleanup        bool      `json:"cleanup,omitempty"` // runs after cancellation too
	Line           int       `json:"line"`              // in the workflow file, for people
	// Templates of what differs from leg to leg, or is known on the runner only. They take
	// the place of SoftFail and TimeoutSeconds.
	SoftFailText string `json:"continue_on_error_text,omitempty"`
	TimeoutText  string `json:"timeout_minutes_text,omitempty"`
	// With are the options of checkout, or the inputs of an action: all that it declares, with
	// their defaults, when its definition is known.
	With []Binding `json:"with,omitempty"`
	// Action is the reference of an action as it is written; Component is what it was resolved to,
	// empty for one of the run's own commit, and ActionPath its folder in its repository.
	Action     string `json:"action,omitempty"`
	Component  string `json:"component,omitempty"`
	ActionPath string `json:"action_path,omitempty"`
	// Steps and Outputs are those of a composite action. Outputs are templates over its steps.
	Steps   []Step    `json:"steps,omitempty"`
	Outputs []Binding `json:"outputs,omitempty"`
	Unmet   []Unmet   `json:"unmet,omitempty"`
}

// NeedResult is the outcome of a job in the words of the expression language: what
// needs.<job>.result and the status functions see. A soft failure counts as a success
// there, because that is what continue-on-error asks for. It is empty while the job has
// no outcome.
func NeedResult(outcome domain.Outcome) string {
	switch outcome {
	case domain.OutcomeNone:
		return ""
	case domain.OutcomeSuccess, domain.OutcomeSoftFailure:
		return "success"
	case domain.OutcomeSkipped:
		return "skipped"
	case domain.OutcomeCancelled, domain.OutcomeSuperseded:
		return "cancelled"
	}
	return "failure"
}

// Encode gives the canonical bytes of the plan: JSON with fields in the order of the
// types above and no map anywhere, so the same plan is the same bytes.
func (p *Plan) Encode() []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		panic(fmt.Sprintf("encode plan %s: %v", p.Path, err)) // only strings and numbers: can't happen
	}
	return out.Bytes()
}

// Digest is the digest of the canonical bytes.
func (p *Plan) Digest() domain.Digest { return domain.DigestOf(p.Encode()) }

// Decode reads canonical bytes back. Unknown fields are an error: a plan from a newer
// release must not be half understood.
func Decode(data []byte) (*Plan, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	p := new(Plan)
	if err := dec.Decode(p); err != nil {
		return nil, fmt.Errorf("decode plan: %w", err)
	}
	return p, nil
}

package syntax

import "fmt"

// Workflow is the typed form of a file. A field whose key is absent is nil; a value of
// the wrong type was reported and is nil too, so that the rest can still be checked.
type Workflow struct {
	Root        *Node
	Name        *Node
	RunName     *Node
	On          *On
	Env         []Variable
	EnvFrom     *Node // an expression that gives the whole of env
	Permissions *Permissions
	Defaults    Defaults
	Concurrency *Concurrency
	Jobs        []*Job
}

// Variable is one entry of an env mapping; Value is a scalar.
type Variable struct{ Name, Value *Node }

// Permissions is what the token of a job may do: a word for all scopes, or scopes with levels.
type Permissions struct {
	Key    *Node
	All    *Node
	Scopes []Pair
}

// Defaults are what steps with run have unless they say otherwise.
type Defaults struct {
	Shell, WorkDir *Node
	From           *Node // an expression that gives both
}

// Concurrency is a group of runs or jobs that wait for each other.
type Concurrency struct{ Group, CancelInProgress, Queue *Node }

// Environment is where a job deploys to.
type Environment struct{ Name, URL, Deployment *Node }

// Container is the image that a job or a service runs in.
type Container struct {
	Name                *Node // of a service
	Image, Options      *Node
	Username, Password  *Node
	Env                 []Variable
	Ports, Volumes      []*Node
	Entrypoint, Command *Node // of a service
}

// Call is what a job passes to the workflow that it calls.
type Call struct {
	Uses    *Node
	With    []Pair
	Secrets []Pair
	Inherit *Node // secrets: inherit
}

// Snapshot is the image that a job leaves behind.
type Snapshot struct{ ImageName, If, Version *Node }

// Job is one entry of jobs.
type Job struct {
	ID          *Node
	Name        *Node
	Needs       []*Node
	If          *Node
	RunsOn      []*Node // labels; one of them may be an expression that gives a list
	Group       *Node   // of runners
	Env         []Variable
	EnvFrom     *Node // an expression that gives the whole of env
	Permissions *Permissions
	Defaults    Defaults
	Concurrency *Concurrency
	Environment *Environment
	Container   *Container
	Services    []*Container
	Call        *Call
	Snapshot    *Snapshot
	Timeout     *Node
	SoftFail    *Node
	Retry       *Retry
	Effects     *Node
	Strategy    *Strategy
	Outputs     []Output
	Steps       []*Step

	// Other are values of keys that are not available yet. Their expressions are checked all the same.
	Other []Site
	Unmet []Unmet
}

// Unmet is a key that a plan records and that has no effect yet.
type Unmet struct {
	Code Code
	Pair Pair
}

// Site is a value that may hold expressions, and the key whose rules it is under.
type Site struct {
	Key   string
	Under string // the name, in GitHub's schema, of what says which contexts it may use
	Value *Node
}

// Retry is the retry policy of a job.
type Retry struct {
	Max     *Node
	On      []*Node
	Backoff *Node
}

// Step is one entry of steps.
type Step struct {
	Node     *Node
	Builtin  *Node // the word of a bare step
	ID       *Node
	Name     *Node
	If       *Node
	Run      *Node
	Uses     *Node
	With     []Pair
	WithFrom *Node // an expression that gives the whole of with
	Env      []Variable
	EnvFrom  *Node // an expression that gives the whole of env
	Shell    *Node
	WorkDir  *Node
	SoftFail *Node
	Timeout  *Node
	Cleanup  *Node
	Deploy   *Node // the name of an artifact
	Unmet    []Unmet
}

// reader walks a tree and reports what does not fit the language.
type reader struct {
	reports   *Reports
	job, step []key // the tables that are needed most often
}

func newReader(reports *Reports) *reader { return &reader{reports, jobKeys(), stepKeys()} }

// Read turns the tree of a file into its typed form and reports everything in it that
// the language or this release doesn't have.
func Read(root *Node, reports *Reports) *Workflow {
	r := newReader(reports)
	w := &Workflow{Root: root}
	top := r.top(root)
	w.Name = scalarOf(top["name"])
	w.RunName = scalarOf(top["run-name"])
	w.On = r.on(root, top["on"])
	w.Env, w.EnvFrom = envOf(top["env"])
	w.Permissions = permissionsOf(top["permissions"])
	w.Defaults = defaultsOf(top["defaults"])
	w.Concurrency = r.concurrency(top["concurrency"])
	w.Jobs = r.jobs(root, top["jobs"])
	reports.reportOwn()
	return w
}

// ReadTriggers reads only what says when a workflow starts: its name and events. What
// is wrong elsewhere in the file is not reported.
func ReadTriggers(root *Node, reports *Reports) *Workflow {
	quiet := &reader{reports: NewReports("")}
	r := &reader{reports: reports}
	w := &Workflow{Root: root}
	if root.Kind != Mapping {
		r.top(root)
		return w
	}
	top := quiet.top(root)
	w.Name = scalarOf(top["name"])
	w.On = r.on(root, top["on"])
	return w
}

func (r *reader) add(code Code, n *Node, hint, format string, args ...any) {
	r.reports.Add(code, n.Range, fmt.Sprintf(format, args...), hint)
}

func (r *reader) top(root *Node) map[string]Pair {
	if root.IsNull() {
		r.reports.Add(CodeEmptyWorkflow, Range{}, "the file has no content", "a workflow needs at least on: and jobs:")
		return nil
	}
	if root.Kind != Mapping {
		r.add(CodeEmptyWorkflow, root, "a workflow needs at least on: and jobs:", "the file is %s, not a mapping",
			describe(root))
		return nil
	}
	return r.fields(root, "a workflow", workflowKeys())
}

// fields checks the keys of a mapping against a table and returns the known ones.
func (r *reader) fields(n *Node, where string, keys []key) map[string]Pair {
	return r.known(n, where, keys, false)
}

func (r *reader) later(at *Node, k key) {
	r.add(k.code, at, k.later, "%q is part of the workflow language, but not available yet", k.name)
}

// mapping wants a mapping as the value of a key.
func (r *reader) mapping(p Pair, what string) *Node {
	switch {
	case p.Value == nil:
		return nil
	case p.Value.IsNull():
		r.add(CodeEmptyValue, p.Key, "remove the key, or give it entries", "%s is empty", what)
		return nil
	case p.Value.Kind != Mapping:
		r.add(CodeWrongType, p.Value, "", "%s must be a mapping, not %s", what, describe(p.Value))
		return nil
	}
	return p.Value
}

// scalar wants a value that is neither a mapping nor a list nor empty.
func (r *reader) scalar(p Pair, what string) *Node {
	switch {
	case p.Value == nil:
		return nil
	case p.Value.IsNull():
		r.add(CodeEmptyValue, p.Key, "remove the key, or give it a value", "%s is empty", what)
		return nil
	case p.Value.Kind != Scalar:
		r.add(CodeWrongType, p.Value, "", "%s must be a single value, not %s", what, describe(p.Value))
		return nil
	}
	return p.Value
}

func (r *reader) jobs(root *Node, p Pair) []*Job {
	if p.Value == nil {
		if root.Kind == Mapping && p.Key == nil {
			r.reports.Add(CodeMissingKey, Range{Start: root.Start}, "a workflow must have the key \"jobs\"", "")
		}
		return nil
	}
	if p.Value.IsNull() || p.Value.Kind == Mapping && len(p.Value.Pairs) == 0 {
		r.add(CodeNoJobs, p.Key, "add a job with runs-on and steps", "the workflow has no jobs")
		return nil
	}
	if p.Value.Kind == Sequence {
		r.add(CodeWrongType, p.Value, "write each job as its id with a colon, like test:, and its keys indented below",
			"jobs must be a mapping, not a list")
		return nil
	}
	n := r.mapping(p, "jobs")
	if n == nil {
		return nil
	}
	var out []*Job
	for _, pair := range n.Pairs {
		if job := r.readJob(pair); job != nil {
			out = append(out, job)
		}
	}
	return out
}

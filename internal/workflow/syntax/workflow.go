package syntax

import "fmt"

// Workflow is the typed form of a file. A field whose key is absent is nil; a value of
// the wrong type was reported and is nil too, so that the rest can still be checked.
type Workflow struct {
	Root *Node
	Name *Node
	On   *On
	Env  []Variable
	Jobs []*Job
}

// Variable is one entry of an env mapping; Value is a scalar.
type Variable struct{ Name, Value *Node }

// Job is one entry of jobs.
type Job struct {
	ID       *Node
	Name     *Node
	Needs    []*Node
	If       *Node
	RunsOn   []*Node // labels; one of them may be an expression that gives a list
	Env      []Variable
	Timeout  *Node
	SoftFail *Node
	Retry    *Retry
	Effects  *Node
	Strategy *Strategy
	Outputs  []Output
	Steps    []*Step
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
	Env      []Variable
	Shell    *Node
	WorkDir  *Node
	SoftFail *Node
	Timeout  *Node
	Cleanup  *Node
}

// reader walks a tree and reports what does not fit the language.
type reader struct{ reports *Reports }

// Read turns the tree of a file into its typed form and reports everything in it that
// the language or this release doesn't have.
func Read(root *Node, reports *Reports) *Workflow {
	r := &reader{reports}
	w := &Workflow{Root: root}
	top := r.top(root)
	w.Name = r.text(top["name"], "name")
	r.text(top["description"], "description")
	w.On = r.on(root, top["on"])
	w.Env = r.env(top["env"])
	w.Jobs = r.jobs(root, top["jobs"])
	return w
}

// ReadTriggers reads only what says when a workflow starts: its name and events. What
// is wrong elsewhere in the file is not reported.
func ReadTriggers(root *Node, reports *Reports) *Workflow {
	quiet := &reader{NewReports("")}
	r := &reader{reports}
	w := &Workflow{Root: root}
	if root.Kind != Mapping {
		r.top(root)
		return w
	}
	top := quiet.top(root)
	w.Name = r.text(top["name"], "name")
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
	known := make(map[string]Pair, len(n.Pairs))
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	for _, pair := range n.Pairs {
		name := pair.Key.Value
		at := -1
		for i := range keys {
			if keys[i].name == name {
				at = i
			}
		}
		switch {
		case at < 0:
			hint := r.reports.Suggest(name, names, "")
			r.add(CodeUnknownKey, pair.Key, hint, "%s has no key %s", where, Quote(name))
		case keys[at].later != "":
			r.later(pair.Key, keys[at])
			known[name] = pair
		default:
			known[name] = pair
		}
	}
	return known
}

func (r *reader) later(at *Node, k key) {
	code := k.code
	if code == "" {
		code = CodeNotAvailable
	}
	r.add(code, at, k.later, "%q is part of the workflow language, but not available yet", k.name)
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

// text wants a scalar; numbers and booleans are taken by their text.
func (r *reader) text(p Pair, what string) *Node { return r.scalar(p, what) }

// scalars wants one value or a list of values.
func (r *reader) scalars(p Pair, what string) []*Node {
	if p.Value == nil || p.Value.Kind != Sequence {
		if n := r.scalar(p, what); n != nil {
			return []*Node{n}
		}
		return nil
	}
	var out []*Node
	for _, item := range p.Value.Items {
		if n := r.scalar(Pair{item, item}, "an entry of "+what); n != nil {
			out = append(out, n)
		}
	}
	return out
}

// env reads a mapping of variables. An empty value is the empty text.
func (r *reader) env(p Pair) []Variable {
	if p.Value.IsNull() {
		return nil // `env:` with all its entries commented out is common and harmless
	}
	n := r.mapping(p, "env")
	if n == nil {
		return nil
	}
	var out []Variable
	for _, pair := range n.Pairs {
		if pair.Value.Kind != Scalar {
			r.add(CodeWrongType, pair.Value, "write the value as text, for example with toJSON or a | block",
				"the variable %s must be a single value, not %s", Quote(pair.Key.Value), describe(pair.Value))
			continue
		}
		out = append(out, Variable{pair.Key, pair.Value})
	}
	return out
}

func (r *reader) jobs(root *Node, p Pair) []*Job {
	if p.Value == nil {
		if root.Kind == Mapping {
			r.reports.Add(CodeMissingKey, Range{Start: root.Start}, "a workflow must have the key \"jobs\"", "")
		}
		return nil
	}
	if p.Value.IsNull() || p.Value.Kind == Mapping && len(p.Value.Pairs) == 0 {
		r.add(CodeNoJobs, p.Key, "add a job with runs-on and steps", "the workflow has no jobs")
		return nil
	}
	n := r.mapping(p, "jobs")
	if n == nil {
		return nil
	}
	var out []*Job
	for _, pair := range n.Pairs {
		if job := r.job(pair); job != nil {
			out = append(out, job)
		}
	}
	return out
}

package syntax

import "fmt"

// Kinds of actions, as runs.using has them.
const (
	UsingComposite = "composite"
	UsingDocker    = "docker"
)

// Action is the typed form of an action.yml. What is absent is nil.
type Action struct {
	Name    *Node
	Using   *Node
	Inputs  []ActionInput
	Outputs []Output // of a composite action
	Steps   []*Step  // of a composite action
}

// ActionInput is one input of an action.
type ActionInput struct {
	Name, Default, Required, Deprecation *Node
}

// Kind is composite, docker or one of the versions of node; "" when it is not known.
func (a *Action) Kind() string {
	if a.Using == nil {
		return ""
	}
	return a.Using.Value
}

// actionKeys are the keys of an action.yml that mean something. Others, like author, are for
// catalogues, and whatever they are, GitHub takes them.
func actionKeys() []key {
	return []key{
		{name: "name", value: text()}, {name: "description", value: text()},
		{name: "inputs"}, {name: "outputs"},
		{name: "runs", required: true, hint: "say what the action does, like using: composite"},
	}
}

func actionInputKeys() []key {
	return []key{
		{name: "description", value: text()}, {name: "required", value: truth().or(text())},
		{name: "default", value: text().evaluated()}, {name: "deprecationMessage", value: text()},
		{name: "type", value: text()},
	}
}

func actionOutputKeys() []key {
	return []key{{name: "description", value: text()}, {name: "value", value: text().evaluated()}}
}

// runsKeys are the keys of runs of all kinds of actions; kinds says which belong to which.
func runsKeys() []key {
	return []key{
		{name: "using", required: true, value: oneOf(UsingComposite, "node12", "node16", "node20", "node24", UsingDocker)},
		{name: "steps"},
		{name: "main", value: word()}, {name: "pre", value: word()}, {name: "post", value: word()},
		{name: "pre-if", value: text()}, {name: "post-if", value: text()},
		{name: "image", value: word()}, {name: "entrypoint", value: text()}, {name: "pre-entrypoint", value: text()},
		{name: "post-entrypoint", value: text()}, {name: "args", value: listOf(text()).evaluated()},
		{name: "env", value: envShape()},
	}
}

// compositeStepKeys are the keys of a step of a composite action. It has no timeout-minutes.
func compositeStepKeys() []key {
	return []key{
		{name: "id", value: word()}, {name: "name", value: text().evaluated()},
		{name: "if", value: conditionShape()},
		{name: "run", value: text().evaluated()}, {name: "uses", value: word()},
		{name: "with", value: mapOf(text()).evaluated().orEmpty()},
		{name: "env", value: envShape()}, {name: "shell", value: word().evaluated()},
		{name: "working-directory", value: text().evaluated()},
		{name: "continue-on-error", value: truth().evaluated()},
	}
}

// ReadAction turns the tree of an action.yml into its typed form and reports everything in it
// that the language does not have.
func ReadAction(root *Node, reports *Reports) *Action {
	r := &reader{reports: reports, step: compositeStepKeys()}
	a := new(Action)
	if root.Kind != Mapping {
		r.add(CodeWrongType, root, "it needs at least runs", "the definition of an action must be a mapping, not %s",
			describe(root))
		return a
	}
	top := r.open(root, "an action", actionKeys())
	a.Name = scalarOf(top["name"])
	a.inputs(r, top["inputs"])
	p := top["runs"]
	runs := r.mapping(p, "runs")
	if runs == nil {
		return a
	}
	f := r.fields(runs, "runs", runsKeys())
	a.Using = scalarOf(f["using"])
	a.outputs(r, top["outputs"])
	a.fits(r, p.Key, f)
	return a
}

// open is fields of a mapping that may have other keys too.
func (r *reader) open(n *Node, where string, keys []key) map[string]Pair {
	known := *n
	known.Pairs = nil
	for _, pair := range n.Pairs {
		for _, k := range keys {
			if k.name == pair.Key.Value {
				known.Pairs = append(known.Pairs, pair)
			}
		}
	}
	return r.fields(&known, where, keys)
}

func (a *Action) inputs(r *reader, p Pair) {
	if p.Value == nil || p.Value.IsNull() {
		return
	}
	n := r.mapping(p, "inputs")
	if n == nil {
		return
	}
	for _, pair := range n.Pairs {
		in := ActionInput{Name: pair.Key}
		if !pair.Value.IsNull() {
			if of := r.mapping(pair, "the input "+Quote(pair.Key.Value)); of != nil {
				f := r.open(of, "an input", actionInputKeys())
				in.Default, in.Required = textOf(f["default"]), scalarOf(f["required"])
				in.Deprecation = scalarOf(f["deprecationMessage"])
			}
		}
		a.Inputs = append(a.Inputs, in)
	}
}

func (a *Action) outputs(r *reader, p Pair) {
	if p.Value == nil || p.Value.IsNull() {
		return
	}
	n := r.mapping(p, "outputs")
	if n == nil {
		return
	}
	for _, pair := range n.Pairs {
		of := r.mapping(pair, "the output "+Quote(pair.Key.Value))
		if of == nil {
			continue
		}
		f := r.open(of, "an output", actionOutputKeys())
		value := textOf(f["value"])
		if value == nil && a.Kind() == UsingComposite {
			r.add(CodeMissingKey, pair.Key, "write value: ${{ steps.ID.outputs.NAME }}",
				"the output %s of a composite action must have the key \"value\"", Quote(pair.Key.Value))
		}
		if value != nil {
			a.Outputs = append(a.Outputs, Output{pair.Key, value})
		}
	}
}

// fits checks that runs has what its kind needs, and nothing of another.
func (a *Action) fits(r *reader, runs *Node, f map[string]Pair) {
	needs, kind := "main", a.Kind()
	switch kind {
	case "":
		return
	case UsingComposite:
		needs = "steps"
	case UsingDocker:
		needs = "image"
	}
	for _, name := range []string{"main", "steps", "image"} {
		p, given := f[name]
		switch {
		case given && name != needs:
			r.add(CodeMisplacedKey, p.Key, "remove it", "an action that uses %s has no key %q", kind, name)
		case !given && name == needs:
			r.reports.Add(CodeMissingKey, runs.Range,
				fmt.Sprintf("runs must have the key %q, because it uses %s", name, kind), "")
		case given && kind == UsingComposite:
			a.steps(r, p)
		}
	}
}

func (a *Action) steps(r *reader, p Pair) {
	if p.Value.Kind != Sequence {
		r.add(CodeWrongType, p.Value, "start each step with a dash", "steps must be a list, not %s", describe(p.Value))
		return
	}
	for _, item := range p.Value.Items {
		step := r.readStep(item)
		if step == nil {
			continue
		}
		if step.Builtin != nil {
			r.add(CodeWrongType, item, "write uses: actions/checkout@v4", "a step of an action must be a mapping, not text")
			continue
		}
		if step.Run != nil && step.Shell == nil {
			r.reports.Add(CodeMissingKey, Range{Start: item.Start},
				"a step of a composite action that has run must have the key \"shell\"", "write shell: bash")
		}
		a.Steps = append(a.Steps, step)
	}
}

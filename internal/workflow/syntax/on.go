package syntax

// On is when a workflow starts.
type On struct {
	Key      *Node // the key "on" itself, for reports about the whole
	Push     *Push
	Dispatch *Dispatch
}

// Push is the event push with its filters. A nil filter was not given.
type Push struct {
	Branches, BranchesIgnore *Filter
	Tags, TagsIgnore         *Filter
}

// Filter is a list of patterns.
type Filter struct {
	Key      *Node
	Patterns []*Node
}

// Dispatch is the event workflow_dispatch with its inputs.
type Dispatch struct{ Inputs []*Input }

// Input is the definition of an input.
type Input struct {
	Name        *Node
	Description *Node
	Required    *Node
	Default     *Node
	Type        *Node
	Options     []*Node
}

func (r *reader) on(root *Node, p Pair) *On {
	if p.Value == nil {
		if root.Kind == Mapping {
			r.reports.Add(CodeMissingKey, Range{Start: root.Start}, "a workflow must have the key \"on\"",
				"add on: [push]")
		}
		return nil
	}
	on := &On{Key: p.Key}
	switch {
	case p.Value.IsNull(), p.Value.Kind == Sequence && len(p.Value.Items) == 0,
		p.Value.Kind == Mapping && len(p.Value.Pairs) == 0:
		r.add(CodeEmptyValue, p.Key, "add on: [push]", "on is empty, so nothing starts the workflow")
	case p.Value.Kind == Scalar:
		r.event(on, p.Value, nil)
	case p.Value.Kind == Sequence:
		for _, item := range p.Value.Items {
			if n := r.scalar(Pair{item, item}, "an entry of on"); n != nil {
				r.event(on, n, nil)
			}
		}
	default:
		for _, pair := range p.Value.Pairs {
			r.event(on, pair.Key, pair.Value)
		}
	}
	return on
}

// event reads one event; config is nil in the short forms of on.
func (r *reader) event(on *On, name, config *Node) {
	switch name.Value {
	case "push":
		on.Push = r.push(config)
	case "workflow_dispatch":
		on.Dispatch = r.dispatch(config)
	default:
		for _, later := range laterEvents() {
			if later == name.Value {
				r.add(CodeNotAvailable, name, "remove it; push and workflow_dispatch are available",
					"the event %q is part of the workflow language, but not available yet", later)
				return
			}
		}
		known := append([]string{"push", "workflow_dispatch"}, laterEvents()...)
		hint := r.reports.Suggest(name.Value, known, "push and workflow_dispatch are available")
		r.add(CodeUnknownEvent, name, hint, "there is no event %s", Quote(name.Value))
	}
}

// config wants a mapping or nothing after the name of an event.
func (r *reader) config(n *Node, event string, keys []key) map[string]Pair {
	if n.IsNull() {
		return nil
	}
	if n.Kind != Mapping {
		r.add(CodeWrongType, n, "", "%s must be empty or a mapping, not %s", event, describe(n))
		return nil
	}
	return r.fields(n, event, keys)
}

func (r *reader) push(n *Node) *Push {
	f := r.config(n, "push", pushKeys())
	push := &Push{
		Branches: r.filter(f["branches"]), BranchesIgnore: r.filter(f["branches-ignore"]),
		Tags: r.filter(f["tags"]), TagsIgnore: r.filter(f["tags-ignore"]),
	}
	r.exclusive(push.Branches, push.BranchesIgnore)
	r.exclusive(push.Tags, push.TagsIgnore)
	return push
}

func (r *reader) filter(p Pair) *Filter {
	if p.Value == nil {
		return nil
	}
	f := &Filter{Key: p.Key, Patterns: r.scalars(p, p.Key.Value)}
	if p.Value.Kind == Sequence && len(p.Value.Items) == 0 {
		r.add(CodeEmptyValue, p.Key, "remove it, or give patterns", "%s is an empty list", p.Key.Value)
	}
	return f
}

func (r *reader) exclusive(include, ignore *Filter) {
	if include != nil && ignore != nil {
		r.add(CodeInvalidFilter, ignore.Key, "write exceptions as patterns that start with ! in "+include.Key.Value,
			"%s and %s can't be used together", include.Key.Value, ignore.Key.Value)
	}
}

func (r *reader) dispatch(n *Node) *Dispatch {
	d := &Dispatch{}
	f := r.config(n, "workflow_dispatch", dispatchKeys())
	p := f["inputs"]
	if p.Value.IsNull() {
		return d
	}
	inputs := r.mapping(p, "inputs")
	if inputs == nil {
		return d
	}
	for _, pair := range inputs.Pairs {
		d.Inputs = append(d.Inputs, r.input(pair))
	}
	return d
}

func (r *reader) input(p Pair) *Input {
	input := &Input{Name: p.Key}
	if p.Value.IsNull() {
		return input
	}
	n := r.mapping(p, "the input "+Quote(p.Key.Value))
	if n == nil {
		return input
	}
	f := r.fields(n, "an input", inputKeys())
	input.Description = r.optional(f["description"], "description")
	input.Required = r.scalar(f["required"], "required")
	input.Default = r.optional(f["default"], "default")
	input.Type = r.scalar(f["type"], "type")
	if options, ok := f["options"]; ok {
		input.Options = r.scalars(options, "options")
	}
	return input
}

// optional is scalar for a key that may be left empty.
func (r *reader) optional(p Pair, what string) *Node {
	if p.Value.IsNull() {
		return nil
	}
	return r.scalar(p, what)
}

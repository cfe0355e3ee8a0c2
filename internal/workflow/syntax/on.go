package syntax

import (
	"errors"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/cron"
)

// On is when a workflow starts.
type On struct {
	Key      *Node // the key "on" itself, for reports about the whole
	Push     *Push
	Dispatch *Dispatch
	Call     *Callable
	Schedule []*Time
	Events   []*Event // all others
}

// Push is the event push with its filters. A nil filter was not given.
type Push struct {
	Branches, BranchesIgnore *Filter
	Tags, TagsIgnore         *Filter
	Paths, PathsIgnore       *Filter
}

// Event is an event that is declared with what narrows it.
type Event struct {
	Name                     *Node
	Types                    []*Node
	Branches, BranchesIgnore *Filter
	Paths, PathsIgnore       *Filter
	Workflows                []*Node // of workflow_run
	Names, Versions          []*Node // of image_version
}

// Time is one entry of schedule.
type Time struct{ Cron, Timezone, CatchUp *Node }

// Callable is what a workflow takes from and gives to the one that calls it.
type Callable struct {
	Inputs  []*Input
	Secrets []*CallSecret
	Outputs []*CallOutput
}

// CallSecret is the declaration of a secret of workflow_call.
type CallSecret struct{ Name, Description, Required *Node }

// CallOutput is the declaration of an output of workflow_call.
type CallOutput struct{ Name, Description, Value *Node }

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
	Unfit       bool // its type was reported, so the rest can't be judged by it
}

func (r *reader) on(root *Node, p Pair) *On {
	if p.Value == nil {
		if root.Kind == Mapping && p.Key == nil {
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
	all := events()
	at := slices.IndexFunc(all, func(e event) bool { return e.name == name.Value })
	if at < 0 {
		known := make([]string, len(all))
		for i, e := range all {
			known[i] = e.name
		}
		hint := r.reports.Suggest(name.Value, known, "events of this release are "+list(sent(), "and"))
		if words := strings.Fields(name.Value); len(words) > 1 && slices.Contains(known, words[0]) {
			hint = "write several events as a list: on: [" + strings.Join(words, ", ") + "]"
		}
		r.add(CodeUnknownEvent, name, hint, "there is no event %s", Quote(name.Value))
		return
	}
	if name.Value != "workflow_call" && !slices.Contains(sent(), name.Value) {
		r.add(CodeNeverFires, name, "it does no harm; "+list(sent(), "and")+" are the events that start runs",
			"nothing sends the event %q yet, so it never starts the workflow", name.Value)
	}
	p := Pair{name, config}
	if config != nil && !r.check(config, name, "the event "+name.Value, all[at].settings(), false) {
		p.Value = nil
	}
	switch name.Value {
	case "push":
		on.Push = r.push(p)
	case "workflow_dispatch":
		on.Dispatch = r.dispatch(p)
	case "workflow_call":
		on.Call = r.callable(p)
	case "schedule":
		on.Schedule = append(on.Schedule, r.schedule(p)...)
	default:
		on.Events = append(on.Events, r.other(p))
	}
}

func (r *reader) push(p Pair) *Push {
	f := below(p)
	push := &Push{
		Branches: filterOf(f["branches"]), BranchesIgnore: filterOf(f["branches-ignore"]),
		Tags: filterOf(f["tags"]), TagsIgnore: filterOf(f["tags-ignore"]),
		Paths: filterOf(f["paths"]), PathsIgnore: filterOf(f["paths-ignore"]),
	}
	r.exclusive(push.Branches, push.BranchesIgnore)
	r.exclusive(push.Tags, push.TagsIgnore)
	r.exclusive(push.Paths, push.PathsIgnore)
	return push
}

func (r *reader) other(p Pair) *Event {
	f := below(p)
	e := &Event{
		Name: p.Key, Types: scalarsOf(f["types"]), Workflows: scalarsOf(f["workflows"]),
		Branches: filterOf(f["branches"]), BranchesIgnore: filterOf(f["branches-ignore"]),
		Paths: filterOf(f["paths"]), PathsIgnore: filterOf(f["paths-ignore"]),
		Names: scalarsOf(f["names"]), Versions: scalarsOf(f["versions"]),
	}
	r.exclusive(e.Branches, e.BranchesIgnore)
	r.exclusive(e.Paths, e.PathsIgnore)
	return e
}

func filterOf(p Pair) *Filter {
	if p.Value == nil {
		return nil
	}
	return &Filter{Key: p.Key, Patterns: scalarsOf(p)}
}

func (r *reader) exclusive(include, ignore *Filter) {
	if include != nil && ignore != nil {
		r.add(CodeInvalidFilter, ignore.Key, "write exceptions as patterns that start with ! in "+include.Key.Value,
			"%s and %s can't be used together", include.Key.Value, ignore.Key.Value)
	}
}

func (r *reader) schedule(p Pair) []*Time {
	if p.Value == nil || p.Value.Kind != Sequence {
		return nil
	}
	var out []*Time
	for _, item := range p.Value.Items {
		f := below(Pair{item, item})
		t := &Time{Cron: scalarOf(f["cron"]), Timezone: scalarOf(f["timezone"]), CatchUp: scalarOf(f["catch-up"])}
		if t.Cron != nil {
			r.cron(t.Cron)
		}
		if t.Timezone != nil && !cron.KnownZone(t.Timezone.Value) {
			hint := r.reports.Suggest(t.Timezone.Value, cron.Zones(), "write it like Europe/Berlin")
			r.add(CodeInvalidSchedule, t.Timezone, hint, "there is no time zone %s", Quote(t.Timezone.Value))
		}
		out = append(out, t)
	}
	return out
}

func (r *reader) cron(n *Node) {
	_, err := cron.Parse(n.Value)
	if err == nil {
		return
	}
	place, hint := n.Range, ""
	if e := (*cron.Error)(nil); errors.As(err, &e) {
		hint = e.Hint
		if e.Length < len(n.Value) {
			place = n.Place(e.Offset, e.Offset+e.Length)
		}
	}
	r.reports.Add(CodeInvalidSchedule, place, err.Error(), hint)
}

func (r *reader) dispatch(p Pair) *Dispatch {
	d := &Dispatch{}
	inputs := below(p)["inputs"].Value
	if inputs == nil {
		return d
	}
	for _, pair := range inputs.Pairs {
		d.Inputs = append(d.Inputs, r.input(pair))
	}
	return d
}

// input reads an input of workflow_dispatch. That it may be empty is our leniency.
func (r *reader) input(p Pair) *Input {
	if !p.Value.IsNull() && p.Value.Kind == Mapping {
		r.known(p.Value, "an input", inputKeys(), false)
	} else if !p.Value.IsNull() {
		r.unfit(p.Value, "the input "+Quote(p.Key.Value), keysOf("an input", inputKeys))
	}
	return inputOf(p)
}

func inputOf(p Pair) *Input {
	f := below(p)
	kind, given := f["type"]
	return &Input{
		Unfit: given && scalarOf(kind) == nil,
		Name:  p.Key, Description: scalarOf(f["description"]), Required: scalarOf(f["required"]),
		Default: scalarOf(f["default"]), Type: scalarOf(f["type"]), Options: scalarsOf(f["options"]),
	}
}

func (r *reader) callable(p Pair) *Callable {
	f := below(p)
	out := &Callable{}
	for _, pair := range entries(f["inputs"]) {
		out.Inputs = append(out.Inputs, inputOf(pair))
	}
	for _, pair := range entries(f["secrets"]) {
		of := below(pair)
		out.Secrets = append(out.Secrets, &CallSecret{pair.Key, scalarOf(of["description"]), scalarOf(of["required"])})
	}
	for _, pair := range entries(f["outputs"]) {
		of := below(pair)
		out.Outputs = append(out.Outputs, &CallOutput{pair.Key, scalarOf(of["description"]), scalarOf(of["value"])})
	}
	return out
}

func entries(p Pair) []Pair {
	if p.Value == nil || p.Value.Kind != Mapping {
		return nil
	}
	return p.Value.Pairs
}

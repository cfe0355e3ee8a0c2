package workflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/cron"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// Events that can start a workflow.
const (
	EventPush     = "push"
	EventSchedule = "schedule"
	EventDispatch = "workflow_dispatch"
)

// Source is one workflow file.
type Source struct {
	Path string // in the repository, with slashes
	Text []byte
}

// Triggers says when a workflow starts, without the rest of it: enough to choose among
// files before any is compiled.
type Triggers struct {
	Name   string // the workflow's name, or its path
	Events []string
	Inputs []InputSpec // of workflow_dispatch
	// Schedules are the times at which the workflow starts, in the order of the file.
	Schedules []Schedule

	push   *pushFilter // nil: push is not declared
	called []InputSpec // inputs of workflow_call
}

// Schedule is one entry of on.schedule.
type Schedule struct {
	Cron    string // cron.Parse reads it
	Zone    string // an IANA name, one of cron.Zones; empty is UTC
	CatchUp string // what is started of occurrences that were missed: latest, all or none
}

// Event is what happened, as far as triggers look at it.
type Event struct {
	Name string
	Ref  string // in full: "refs/heads/main", "refs/tags/v1"
	Cron string // of a schedule: which one
	// Changed are the files that a push changes; nil when that is not known, and then Unknown
	// says why in half a sentence.
	Changed []string
	Unknown string
}

// InputSpec is the declaration of one input of workflow_dispatch.
type InputSpec struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Type        string   `json:"type"` // plan.InputString and its like
	Required    bool     `json:"required,omitempty"`
	Default     string   `json:"default,omitempty"`
	Options     []string `json:"options,omitempty"` // of a choice

	node       *syntax.Node // its name in the file
	hasDefault bool
}

type pushFilter struct {
	branches, branchesIgnore, tags, tagsIgnore, paths, pathsIgnore *filter
}

// Inspect reads only when the workflow starts. Problems elsewhere in the file are left
// to Compile, so that a file with a broken job is still found by its event and becomes
// a run that says what is wrong.
//
// Trust: src may come from anybody.
func Inspect(src Source, lim Limits) (Triggers, []Diagnostic) {
	reports := syntax.NewReports(src.Path)
	root := syntax.Load(src.Text, lim.lowered().bounds(), reports)
	if root == nil {
		return Triggers{Name: src.Path}, reports.Sorted()
	}
	t := readTriggers(src, syntax.ReadTriggers(root, reports), reports)
	return t, reports.Sorted()
}

// Declares reports whether the workflow names that event under on.
func (t Triggers) Declares(event string) bool { return slices.Contains(t.Events, event) }

// Filters reports whether it depends on the changed files of a push whether the workflow starts.
func (t Triggers) Filters() bool {
	return t.push != nil && (t.push.paths != nil || t.push.pathsIgnore != nil)
}

// Match reports whether an event starts the workflow, and says in a sentence why, or why not.
func (t Triggers) Match(e Event) (matches bool, reason string) {
	switch {
	case !t.Declares(e.Name):
		return false, fmt.Sprintf("the workflow does not declare the event %s", e.Name)
	case e.Name == EventPush:
		return t.push.match(e)
	case e.Name == EventSchedule && !slices.ContainsFunc(t.Schedules, func(s Schedule) bool { return s.Cron == e.Cron }):
		return false, fmt.Sprintf("the workflow has no schedule %s (any more)", syntax.Quote(e.Cron))
	}
	return true, fmt.Sprintf("the workflow declares the event %s", e.Name)
}

// match applies the filters on the ref, and of branches those on files. Filters on files are
// not asked about tags: a tag changes none.
func (p *pushFilter) match(e Event) (bool, string) {
	matches, reason := p.matchRef(e.Ref)
	if !matches || p.paths == nil && p.pathsIgnore == nil || !strings.HasPrefix(e.Ref, "refs/heads/") {
		return matches, reason
	}
	if e.Changed == nil && e.Unknown != "" {
		return true, reason + ", and filters on files let it pass: " + e.Unknown
	}
	return p.matchPaths(e.Changed)
}

func (p *pushFilter) matchPaths(changed []string) (bool, string) {
	if p.paths != nil {
		for _, path := range changed {
			if p.paths.accepts(path) {
				return true, fmt.Sprintf("the push changes %s, which matches paths", syntax.Quote(path))
			}
		}
		return false, fmt.Sprintf("none of the %d changed files matches paths", len(changed))
	}
	for _, path := range changed {
		if !p.pathsIgnore.accepts(path) {
			return true, fmt.Sprintf("the push changes %s, which paths-ignore does not name", syntax.Quote(path))
		}
	}
	if len(changed) == 0 {
		return true, "the push changes no file, so there is none to ignore"
	}
	return false, fmt.Sprintf("paths-ignore names all of the %d changed files", len(changed))
}

func (p *pushFilter) matchRef(ref string) (bool, string) {
	branchFilters := p.branches != nil || p.branchesIgnore != nil
	tagFilters := p.tags != nil || p.tagsIgnore != nil
	name, branch := strings.CutPrefix(ref, "refs/heads/")
	tag, tagged := strings.CutPrefix(ref, "refs/tags/")
	switch {
	case !branchFilters && !tagFilters:
		return true, "the workflow declares the event push without filters on refs"
	case branch:
		return decide("branch", name, branchFilters, p.branches, p.branchesIgnore)
	case tagged:
		return decide("tag", tag, tagFilters, p.tags, p.tagsIgnore)
	}
	return false, "the push filters by branch or tag, and the commit came with neither"
}

// decide applies the filters of one kind of ref. When only the other kind has filters,
// refs of this kind start nothing.
func decide(kind, name string, filtered bool, include, ignore *filter) (bool, string) {
	label := kind + " " + syntax.Quote(name)
	switch {
	case !filtered:
		return false, fmt.Sprintf("the push has no filter for the %s, only for the other kind of ref", label)
	case include != nil && include.accepts(name):
		return true, fmt.Sprintf("the %s matches the push filter", label)
	case include != nil:
		return false, fmt.Sprintf("the %s does not match the push filter", label)
	case ignore.accepts(name):
		return false, fmt.Sprintf("the push filter ignores the %s", label)
	}
	return true, fmt.Sprintf("the push filter does not ignore the %s", label)
}

// triggerReader turns the typed form of on into Triggers.
type triggerReader struct{ reports *syntax.Reports }

func readTriggers(src Source, w *syntax.Workflow, reports *syntax.Reports) Triggers {
	r := &triggerReader{reports}
	t := Triggers{Name: src.Path}
	if w.Name != nil && strings.TrimSpace(w.Name.Value) != "" {
		t.Name = scalarText(w.Name)
	}
	if w.On == nil {
		return t
	}
	if p := w.On.Push; p != nil {
		t.Events = append(t.Events, EventPush)
		t.push = &pushFilter{
			branches: r.filter(p.Branches), branchesIgnore: r.filter(p.BranchesIgnore),
			tags: r.filter(p.Tags), tagsIgnore: r.filter(p.TagsIgnore),
			paths: r.filter(p.Paths), pathsIgnore: r.filter(p.PathsIgnore),
		}
	}
	r.schedules(w.On.Schedule, &t)
	for _, e := range w.On.Events {
		for _, f := range []*syntax.Filter{e.Branches, e.BranchesIgnore, e.Paths, e.PathsIgnore} {
			r.filter(f)
		}
	}
	if call := w.On.Call; call != nil {
		for _, in := range call.Inputs {
			t.called = append(t.called, InputSpec{Name: in.Name.Value, Type: calledType(in.Type)})
		}
	}
	if d := w.On.Dispatch; d != nil {
		t.Events = append(t.Events, EventDispatch)
		if len(d.Inputs) > inputsMax {
			r.reports.Add(syntax.CodeInvalidInput, d.Inputs[inputsMax].Name.Range,
				fmt.Sprintf("the workflow declares %d inputs; at most %d are allowed", len(d.Inputs), inputsMax), "")
			return t
		}
		for _, in := range d.Inputs {
			t.Inputs = append(t.Inputs, r.input(in))
		}
	}
	return t
}

// schedules takes over what is valid; the rest was reported.
func (r *triggerReader) schedules(times []*syntax.Time, t *Triggers) {
	for _, one := range times {
		if one.Cron == nil {
			continue
		}
		s := Schedule{Cron: strings.Join(strings.Fields(one.Cron.Value), " "), CatchUp: "latest"}
		if one.Timezone != nil && one.Timezone.Value != "UTC" {
			s.Zone = one.Timezone.Value
		}
		if one.CatchUp != nil {
			s.CatchUp = one.CatchUp.Value
		}
		spec, err := cron.Parse(s.Cron)
		if err != nil || s.Zone != "" && !cron.KnownZone(s.Zone) {
			continue
		}
		if gap := spec.ShortestGap(); gap < 5 {
			often := "minute"
			if gap > 1 {
				often = fmt.Sprintf("%d minutes", gap)
			}
			r.reports.Add(syntax.CodeShortSchedule, one.Cron.Range, "it is due every "+often+" at times; GitHub "+
				"starts a schedule every 5 minutes at most", "this server starts it as it is written")
		}
		t.Schedules = append(t.Schedules, s)
	}
	if len(t.Schedules) > 0 {
		t.Events = append(t.Events, EventSchedule)
	}
}

// calledType is the type of an input of workflow_call; what is not valid was reported.
func calledType(n *syntax.Node) string {
	if n == nil {
		return plan.InputString
	}
	return n.Value
}

func (r *triggerReader) input(in *syntax.Input) InputSpec {
	spec := InputSpec{Name: in.Name.Value, Type: plan.InputString, node: in.Name}
	if !isName(spec.Name) || len(spec.Name) > idMax {
		r.reports.Add(syntax.CodeInvalidInput, in.Name.Range, "the name of an input must be a letter or _, then letters, "+
			"digits, - and _", "")
	}
	if in.Description != nil {
		spec.Description = scalarText(in.Description)
	}
	if in.Type != nil {
		spec.Type = r.inputType(in.Type)
	}
	if in.Required != nil {
		truth, ok := boolean(in.Required)
		if !ok {
			r.reports.Add(syntax.CodeWrongType, in.Required.Range, "required must be true or false", "")
		}
		spec.Required = truth
	}
	if in.Unfit {
		return spec
	}
	r.options(in, &spec)
	if in.Default != nil {
		spec.Default, spec.hasDefault = scalarText(in.Default), true
		if why := spec.check(spec.Default); why != "" {
			r.reports.Add(syntax.CodeInvalidInput, in.Default.Range, "the default does not fit: "+why, "")
		} else {
			spec.Default = spec.normal(spec.Default)
		}
	}
	return spec
}

func (r *triggerReader) inputType(n *syntax.Node) string {
	known := []string{plan.InputString, plan.InputBoolean, plan.InputNumber, plan.InputChoice}
	switch text := scalarText(n); {
	case slices.Contains(known, text):
		return text
	case text == "environment":
		return plan.InputString // the name of one: nobody keeps a list that it could be chosen from
	default:
		r.reports.Add(syntax.CodeInvalidInput, n.Range, fmt.Sprintf("there is no type %s of inputs", syntax.Quote(text)),
			r.reports.Suggest(text, known, "types are string, boolean, number and choice"))
	}
	return plan.InputString
}

func (r *triggerReader) options(in *syntax.Input, spec *InputSpec) {
	for _, n := range in.Options {
		spec.Options = append(spec.Options, scalarText(n))
	}
	switch {
	case spec.Type == plan.InputChoice && len(spec.Options) == 0:
		r.reports.Add(syntax.CodeInvalidInput, in.Name.Range, "an input of the type choice needs options", "")
	case spec.Type != plan.InputChoice && len(spec.Options) > 0:
		r.reports.Add(syntax.CodeInvalidInput, in.Options[0].Range, "only an input of the type choice has options",
			"add type: choice")
	}
}

package workflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/matrix"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// static computes the value of a key that must be known when the plan is made (labels,
// timeouts, names of jobs). known is false when there is no value: because the text is
// not valid, which was reported, or because only the file is looked at and the text
// depends on what the inputs of the compilation leave open.
func (c *compiler) static(n *syntax.Node, s scope) (v expr.Value, known bool) {
	if n == nil {
		return expr.Null(), false
	}
	t := c.template(n, s)
	if t == nil {
		return expr.Null(), false
	}
	if t.Plain() {
		return scalarValue(n), true
	}
	untold := func(ref expr.Reference) bool { return !c.told(ref) }
	if !c.knowable(n, t, s) || c.in.Event == "" || slices.ContainsFunc(t.References(), untold) {
		return expr.Null(), false
	}
	v, err := t.Eval(expr.Env{Context: c.staticContext})
	if err != nil {
		c.expression(n, err)
		return expr.Null(), false
	}
	return v, true
}

// knowable reports whether the value of a static key can be known. What only a run can know is left as
// it is written, and is a requirement.
func (c *compiler) knowable(n *syntax.Node, t *expr.Template, s scope) bool {
	fine, late := true, false
	for _, ref := range t.References() {
		if !slices.Contains(s.contexts, ref.Path[0]) {
			fine = false // reported already
			continue
		}
		if ref.Path[0] == "matrix" || ref.Path[0] == "strategy" {
			continue // of a job without a matrix
		}
		if !c.isStatic(ref) {
			late = true
		}
	}
	if late {
		c.unmet = append(c.unmet, plan.Unmet{Code: plan.RequireDynamic, Key: s.key, Text: scalarText(n)})
	}
	for _, call := range t.Calls() {
		fine = fine && !call.Bound // status functions were reported already
		if call.Name == "hashFiles" && s.files {
			c.reports.Add(syntax.CodeUnsupportedFunction, c.place(n, call.Span),
				fmt.Sprintf("%q can't depend on hashFiles() yet: it must be known before the run starts", s.key), "")
		}
	}
	return fine && !late
}

// staticProperties are the properties of github that are known before a run starts. Of the
// event that is what inputs make of it: the payload is not there yet.
func staticProperties() []string {
	return []string{"actor", "base_ref", "event.inputs", "event_name", "head_ref", "ref", "ref_name", "ref_type",
		"repository", "repository_owner", "sha", "workflow"}
}

// staticContext is the contexts that are known before a run starts.
func (c *compiler) staticContext(name string) (expr.Value, bool) {
	switch name {
	case "inputs":
		if c.caller != nil {
			return InputsContext(c.caller.inputs), true
		}
		return InputsContext(c.plan.Inputs), true
	case "github":
		return githubContext(c.in, c.root.triggers.Name, c.root.plan.Inputs), true
	case "matrix":
		return expr.Null(), true
	case "strategy":
		return matrix.StrategyContext(true, 0, 0, 1), true
	}
	return expr.Null(), false
}

// githubContext is the part of the context `github` that the compiler knows.
func githubContext(in Inputs, workflow string, inputs []plan.Input) expr.Value {
	refName, refType := RefName(in.Ref)
	owner, _, _ := strings.Cut(in.Repository, "/")
	texts := []expr.Field{
		{Name: "actor", Value: expr.String(in.Actor)},
		{Name: "base_ref", Value: expr.String("")},
		{Name: "event", Value: EventContext(in.Event, inputs)},
		{Name: "event_name", Value: expr.String(in.Event)},
		{Name: "head_ref", Value: expr.String("")},
		{Name: "ref", Value: expr.String(in.Ref)},
		{Name: "ref_name", Value: expr.String(refName)},
		{Name: "ref_type", Value: expr.String(refType)},
		{Name: "repository", Value: expr.String(in.Repository)},
		{Name: "repository_owner", Value: expr.String(owner)},
		{Name: "sha", Value: expr.String(in.SHA)},
		{Name: "workflow", Value: expr.String(workflow)},
	}
	return expr.Object(texts...)
}

// EventContext is github.event as far as inputs go: their values as text, whatever
// their type.
func EventContext(event string, inputs []plan.Input) expr.Value {
	if event != EventDispatch {
		return expr.Object()
	}
	fields := make([]expr.Field, len(inputs))
	for i, in := range inputs {
		fields[i] = expr.Field{Name: in.Name, Value: expr.String(in.Value)}
	}
	return expr.Object(expr.Field{Name: "inputs", Value: expr.Object(fields...)})
}

// RefName is the short name of a ref and its type, "branch" or "tag"; the type is empty
// for a ref that is neither.
func RefName(ref string) (name, kind string) {
	if name, ok := strings.CutPrefix(ref, "refs/heads/"); ok {
		return name, "branch"
	}
	if name, ok := strings.CutPrefix(ref, "refs/tags/"); ok {
		return name, "tag"
	}
	return strings.TrimPrefix(ref, "refs/"), ""
}

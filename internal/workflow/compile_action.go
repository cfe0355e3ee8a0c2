package workflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// readAction reads the definition of a component; nil when it can't be read at all.
func readAction(found Component, lim Limits, reports *syntax.Reports) *syntax.Action {
	root := syntax.Load(found.Text, lim.bounds(), reports)
	if root == nil {
		return nil
	}
	return syntax.ReadAction(root, reports)
}

// frame is the action whose steps are compiled; nil in the workflow itself.
type frame struct {
	above     *frame
	reference Reference
}

// chain are the actions from the outermost one to r.
func (f *frame) chain(r Reference) []string {
	out := []string{r.String()}
	for ; f != nil; f = f.above {
		out = append(out, f.reference.String())
	}
	slices.Reverse(out)
	return out
}

// use compiles a step that uses an action which was resolved.
func (c *compiler) use(step *plan.Step, in *syntax.Step, r Reference, visible *stepScope) {
	if c.full() {
		return
	}
	found, _ := c.in.Components.find(r)
	if found.Problem != "" {
		c.reports.Add(syntax.CodeUnresolved, in.Uses.Range,
			fmt.Sprintf("the action %s can't be used: %s", syntax.Quote(r.String()), found.Problem), "")
		return
	}
	c.pinned(in.Uses, found)
	action, reports := c.definition(found)
	if c.broken(in.Uses, r, reports) || action == nil {
		return
	}
	step.Action, step.Component, step.ActionPath = scalarText(in.Uses), found.Digest(), r.Path
	step.With = c.with(in, action, r)
	switch action.Kind() {
	case syntax.UsingComposite:
		step.Uses = plan.UsesComposite
		c.composite(step, in, action, found)
	case syntax.UsingDocker:
		step.Uses = plan.UsesContainer
	default:
		step.Uses = plan.UsesNode
	}
}

// parsed is the definition of an action that was read.
type parsed struct {
	action  *syntax.Action
	reports *syntax.Reports
}

// definition reads the definition of an action once, however many steps use it.
func (c *compiler) definition(found Component) (*syntax.Action, *syntax.Reports) {
	name := found.Reference.String()
	p, ok := c.actions[name]
	if !ok {
		p.reports = syntax.NewReports(found.File)
		p.action = readAction(found, c.lim, p.reports)
		if c.actions == nil {
			c.actions = make(map[string]parsed)
		}
		c.actions[name] = p
	}
	return p.action, p.reports
}

// broken reports what is wrong with an action's definition, where it is used.
func (c *compiler) broken(at *syntax.Node, r Reference, reports *syntax.Reports) bool {
	const shown = 10
	if !reports.Failed() {
		return false
	}
	n := 0
	for _, d := range reports.Sorted() {
		if n++; d.Severity == Error && n <= shown {
			c.reports.Add(syntax.CodeInvalidAction, at.Range, fmt.Sprintf("the action %s is not valid: %s:%d:%d: %s",
				syntax.Quote(r.String()), d.Path, d.Pos.Line, d.Pos.Column, d.Message), d.Hint)
		}
	}
	return true
}

// with gives every input of the action its value or default, in the order of the action.
func (c *compiler) with(in *syntax.Step, action *syntax.Action, r Reference) []plan.Binding {
	const shown = 20
	names, places := make([]string, 0, len(action.Inputs)), make(map[string]int, len(action.Inputs))
	for i, input := range action.Inputs {
		names = append(names, input.Name.Value)
		if lower := strings.ToLower(input.Name.Value); places[lower] == 0 {
			places[lower] = i + 1
		}
	}
	hint := "it has no inputs"
	switch {
	case len(names) > shown:
		hint = fmt.Sprintf("the first of its %d inputs are %s", len(names), strings.Join(names[:shown], ", "))
	case len(names) > 0:
		hint = "its inputs are " + strings.Join(names, ", ")
	}
	given := make(map[string]*syntax.Node)
	for _, p := range in.With {
		at := places[strings.ToLower(p.Key.Value)] - 1
		if at < 0 {
			c.reports.Add(syntax.CodeActionInput, p.Key.Range, fmt.Sprintf("the action %s has no input %s",
				syntax.Quote(r.String()), syntax.Quote(p.Key.Value)), c.reports.Suggest(p.Key.Value, names, hint))
			continue
		}
		given[names[at]] = p.Value
		if message := action.Inputs[at].Deprecation; message != nil {
			c.reports.Add(syntax.CodeActionInput, p.Key.Range, fmt.Sprintf("the input %s is deprecated: %s",
				syntax.Quote(names[at]), scalarText(message)), "")
		}
	}
	var out []plan.Binding
	for i, input := range action.Inputs {
		value := ""
		switch n := given[names[i]]; {
		case n != nil:
			value = scalarText(n)
		case input.Default != nil:
			value = scalarText(input.Default)
		case input.Required != nil && strings.EqualFold(scalarText(input.Required), "true"):
			c.reports.Add(syntax.CodeNoActionInput, in.Uses.Range, fmt.Sprintf("the action %s requires the input %s",
				syntax.Quote(r.String()), syntax.Quote(names[i])), "add it under with")
		}
		c.charge(in.Node.Range, names[i], value)
		out = append(out, plan.Binding{Name: names[i], Value: value})
	}
	return out
}

// composite compiles the steps of a composite action, in scopes of their own.
func (c *compiler) composite(step *plan.Step, in *syntax.Step, action *syntax.Action, found Component) {
	chain := c.frame.chain(found.Reference)
	for f := c.frame; f != nil; f = f.above {
		if f.reference == found.Reference {
			c.reports.Add(syntax.CodeInvalidAction, in.Uses.Range, "the action uses itself: "+strings.Join(chain, " uses "),
				"break the circle")
			return
		}
	}
	if len(chain) > actionDepthMax {
		c.reports.Add(syntax.CodeInvalidAction, in.Uses.Range,
			fmt.Sprintf("actions are nested more than %d deep: %s", actionDepthMax, strings.Join(chain, " uses ")), "")
		return
	}
	if c.full() {
		return
	}
	if c.expanded += len(action.Steps); c.expanded > c.lim.Steps {
		c.reports.Add(syntax.CodeTooManySteps, in.Uses.Range,
			fmt.Sprintf("the job has more than %d steps with those of its actions", c.lim.Steps), "split the job")
		return
	}
	inner := &compiler{in: c.in, lim: c.lim, reports: syntax.NewReports(found.File), file: new(syntax.Workflow),
		plan: new(plan.Plan), planBytes: c.planBytes, expanded: c.expanded, actions: c.actions,
		frame: &frame{c.frame, found.Reference}, path: found.File, calls: c.calls, root: c.root}
	for _, input := range action.Inputs {
		inner.triggers.Inputs = append(inner.triggers.Inputs, InputSpec{Name: input.Name.Value, Type: plan.InputString})
		inner.template(input.Default, inner.inputScope())
	}
	ids := inner.stepIDs(&syntax.Job{Steps: action.Steps})
	for i, s := range action.Steps {
		step.Steps = append(step.Steps, inner.innerStep(s, i, ids[i], &stepScope{before: ids[:i], later: ids[i:]}))
	}
	for _, o := range action.Outputs {
		inner.template(o.Value, inActions(stepKeyScope("value", &stepScope{before: ids})))
		step.Outputs = append(step.Outputs, plan.Binding{Name: o.Name.Value, Value: scalarText(o.Value)})
		inner.charge(o.Name.Range, o.Name.Value, scalarText(o.Value))
	}
	c.expanded, c.planBytes = inner.expanded, inner.planBytes
	if c.broken(in.Uses, found.Reference, inner.reports) {
		return
	}
	for _, d := range inner.reports.Sorted() {
		if d.Code == syntax.CodeMovingReference { // what an action uses moves as well
			c.reports.Add(syntax.CodeMovingReference, in.Uses.Range,
				fmt.Sprintf("in %s: %s", syntax.Quote(found.Reference.String()), d.Message), "")
		}
	}
}

// inActions leaves out of a scope what actions don't see.
func inActions(s scope) scope {
	s.contexts = slices.DeleteFunc(slices.Clone(s.contexts), func(name string) bool {
		return name == "secrets" || name == "vars" || name == "needs"
	})
	return s
}

// inputScope is that of the default of an action's input.
func (c *compiler) inputScope() scope {
	s := stepKeyScope("default", nil)
	s.contexts = []string{"github", "strategy", "matrix", "job", "runner"}
	return s
}

// innerStep compiles a step of a composite action. Nothing of it is known before it runs, so all
// its expressions are left to the runner.
func (c *compiler) innerStep(in *syntax.Step, index int, id string, visible *stepScope) plan.Step {
	step := plan.Step{Index: index, ID: id, Uses: plan.UsesRun, Line: in.Node.Start.Line}
	scoped := func(key string) scope { return inActions(stepKeyScope(key, visible)) }
	r, is := actionReference(in.Uses, c.frame.reference)
	switch {
	case is:
		step.Name = "Run " + scalarText(in.Uses)
		c.use(&step, in, r, visible)
	case in.Uses != nil:
		c.action(&step, in)
	default:
		step.Script = scalarText(in.Run)
		c.template(in.Run, scoped("run"))
		step.Name = title(step.Script)
		step.WorkDir = c.text(in.WorkDir, scoped("working-directory"))
		switch {
		case in.Shell == nil: // reported
		case expr.HasExpression(scalarText(in.Shell)):
			step.Shell = c.text(in.Shell, scoped("shell"))
		default:
			step.Shell = c.shell(in.Shell, scoped("shell"))
		}
	}
	if in.Name != nil {
		step.Name = c.text(in.Name, scoped("name"))
	}
	if cond := c.condition(in.If, inActions(stepIfScope(visible))); cond != nil && !cond.Default() {
		step.If = cond.Text()
	}
	step.Env = c.env(in.Env, scoped("env"))
	for _, b := range step.Env {
		c.charge(in.Node.Range, b.Name, b.Value)
	}
	c.whole(in.EnvFrom, scoped("env"))
	c.whole(in.WithFrom, scoped("with"))
	for _, p := range in.With {
		c.template(p.Value, scoped("with"))
	}
	if in.SoftFail != nil {
		if text := c.text(in.SoftFail, scoped("continue-on-error")); expr.HasExpression(text) {
			step.SoftFailText = text
		} else {
			step.SoftFail = strings.EqualFold(text, "true")
		}
	}
	step.Unmet, c.unmet = c.unmet, nil
	c.charge(in.Node.Range, step.ID, step.Name, step.If, step.Script, step.WorkDir, step.Shell, step.SoftFailText)
	if c.full() {
		return plan.Step{}
	}
	return step
}

// text is a value as it is written, with its expressions checked.
func (c *compiler) text(n *syntax.Node, s scope) string {
	if n == nil {
		return ""
	}
	c.template(n, s)
	return scalarText(n)
}

package workflow

import (
	"fmt"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// concurrency compiles the group of the run or of a job. Its texts stay templates: they are
// evaluated for the new member when it joins.
func (c *compiler) concurrency(in *syntax.Concurrency, s scope) *plan.Concurrency {
	if in == nil || in.Group == nil {
		return nil
	}
	for _, n := range []*syntax.Node{in.Group, in.CancelInProgress, in.Queue} {
		c.template(n, s)
	}
	out := &plan.Concurrency{Group: scalarText(in.Group), Line: in.Group.Range.Start.Line}
	if out.Group == "" {
		c.reports.Add(syntax.CodeInvalidValue, in.Group.Range, "the name of a concurrency group can't be empty",
			"name what only one run or job at a time may use")
	}
	if n := in.CancelInProgress; n != nil {
		out.Cancel = strings.ToLower(scalarText(n))
		if expr.HasExpression(scalarText(n)) {
			out.Cancel = scalarText(n)
		}
		if out.Cancel == "false" {
			out.Cancel = ""
		}
	}
	if n := in.Queue; n != nil && expr.HasExpression(scalarText(n)) {
		c.reports.Add(syntax.CodeUnsupportedDynamic, n.Range, "queue can't come from an expression yet",
			"write single or max")
	} else if n != nil && scalarText(n) == plan.QueueMax {
		out.Queue = plan.QueueMax
	}
	c.charge(in.Group.Range, out.Group, out.Cancel)
	return out
}

// waitsForItself reports a job whose group is the one that its own run holds.
func (c *compiler) waitsForItself(in *syntax.Job, job *plan.Job) {
	whole, own := c.plan.Concurrency, job.Concurrency
	if whole == nil || own == nil || expr.HasExpression(whole.Group) || expr.HasExpression(own.Group) ||
		!strings.EqualFold(whole.Group, own.Group) {
		return
	}
	c.reports.Add(syntax.CodeInvalidValue, in.Concurrency.Group.Range,
		fmt.Sprintf("the workflow's own run holds the concurrency group %s, so the job would wait for itself",
			syntax.Quote(own.Group)), "give the job another group, or remove one of the two")
}

// GroupOf is a concurrency group with its texts evaluated.
type GroupOf struct {
	Group  string
	Cancel bool
	Max    bool
}

// Group evaluates the texts of a concurrency group. The error is a sentence for its author.
//
// Trust: the values in the contexts may come from anybody.
func Group(c *plan.Concurrency, contexts Contexts) (GroupOf, error) {
	env := expr.Env{Context: contexts}
	name, err := expr.Interpolate(c.Group, env)
	if err != nil {
		return GroupOf{}, fmt.Errorf("group: %w", err)
	}
	if name == "" {
		return GroupOf{}, fmt.Errorf("the name of the concurrency group on line %d is empty", c.Line)
	}
	cancel, err := expr.Interpolate(c.Cancel, env)
	if err != nil {
		return GroupOf{}, fmt.Errorf("cancel-in-progress: %w", err)
	}
	out := GroupOf{Group: name, Max: c.Queue == plan.QueueMax}
	switch cancel {
	case "true":
		out.Cancel = true
	case "", "false":
	default:
		return GroupOf{}, fmt.Errorf("cancel-in-progress is %s, and neither true nor false", syntax.Quote(cancel))
	}
	if out.Cancel && out.Max {
		return GroupOf{}, fmt.Errorf("queue: max keeps every member waiting, and cancel-in-progress ends the one before")
	}
	return out, nil
}

// GroupOfRun evaluates the texts of a run's group over its frozen contexts.
func GroupOfRun(c *plan.Concurrency, github, inputs []byte) (GroupOf, error) {
	values := map[string]expr.Value{}
	for _, one := range []struct {
		name string
		raw  []byte
	}{{"github", github}, {"inputs", inputs}} {
		v, err := expr.FromJSON(string(one.raw))
		if err != nil {
			return GroupOf{}, fmt.Errorf("the %s context can't be read: %w", one.name, err)
		}
		values[one.name] = v
	}
	return Group(c, func(name string) (expr.Value, bool) { v, ok := values[name]; return v, ok })
}

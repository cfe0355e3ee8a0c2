package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/matrix"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// when says what has to be known before an expression has a value.
type when int

const (
	whenCompiled when = iota // nothing that the compiler lacks
	whenStarted              // the event, and only the file is looked at
	whenRunning              // results of other jobs, or what only a run has
	whenNever                // it has no value; that was reported
)

// certainty says when a template can be evaluated. Contexts that the scope lacks were
// reported by template.
func (c *compiler) certainty(t *expr.Template, s scope) when {
	at := whenCompiled
	for _, ref := range t.References() {
		name := ref.Path[0]
		switch {
		case !slices.Contains(s.contexts, name):
			return whenNever
		case name == "matrix" || name == "strategy":
		case c.isStatic(ref):
			if !c.told(ref) {
				at = max(at, whenStarted)
			}
		default:
			at = whenRunning
		}
	}
	for _, call := range t.Calls() {
		if call.Status || call.Name == "hashFiles" {
			return whenNever
		}
	}
	return at
}

// isStatic reports whether a reference has its value before the run starts.
func (c *compiler) isStatic(ref expr.Reference) bool {
	switch ref.Path[0] {
	case "inputs":
		if c.caller == nil {
			return true
		}
		if len(ref.Path) > 1 && ref.Path[1] != "*" {
			return c.caller.known[strings.ToLower(ref.Path[1])]
		}
		return len(c.caller.known) == len(c.caller.inputs)
	case "github":
		path := strings.ToLower(strings.Join(ref.Path[1:], "."))
		return slices.ContainsFunc(staticProperties(), func(p string) bool {
			return path == p || strings.HasPrefix(path, p+".")
		})
	}
	return false
}

// told reports whether who compiles says what a static reference needs: the event and, for
// what comes with a commit, the commit.
func (c *compiler) told(ref expr.Reference) bool {
	if c.in.Event == "" {
		return false
	}
	ofCommit := []string{"actor", "repository", "repository_owner", "sha"}
	return ref.Path[0] != "github" || c.in.SHA != "" || !slices.Contains(ofCommit, strings.ToLower(ref.Path[1]))
}

func strategyScope(key string) scope {
	return scope{key: key, contexts: []string{"github", "needs", "vars", "inputs"}}
}

// perLeg reports whether a key of the job at hand has a value for each leg.
func (c *compiler) perLeg(in *syntax.Job, n *syntax.Node) bool {
	if n == nil || in.Strategy == nil || in.Strategy.Matrix == nil || n.Type != syntax.TypeString {
		return false
	}
	t, err := expr.ParseTemplate(n.Value)
	if err != nil {
		return false // reported where the key is compiled
	}
	for _, ref := range t.References() {
		name := ref.Path[0]
		if name == "matrix" || name == "strategy" || name == "needs" || name == "vars" ||
			name == "github" && !c.isStatic(ref) {
			return true
		}
	}
	return false
}

// strategyOf is the strategy of a job under construction: what may differ from leg to leg,
// with the places where it is written.
type strategyOf struct {
	in        *syntax.Job
	expansion expansion
	nodes     map[string]*syntax.Node // of the templates, by key
	at        when
	later     plan.Later
}

// strategy compiles the strategy of a job: its legs, or what is needed to make them later.
func (c *compiler) strategy(in *syntax.Job, job *plan.Job) {
	if in.Strategy == nil {
		return
	}
	if in.Strategy.Matrix == nil {
		c.template(in.Strategy.FailFast, strategyScope("fail-fast"))
		c.template(in.Strategy.MaxParallel, strategyScope("max-parallel"))
		return
	}
	s := &strategyOf{in: in, nodes: map[string]*syntax.Node{}}
	s.expansion.key, s.expansion.base = job.Key, job.Name
	e := &s.expansion
	fast, parallel := in.Strategy.FailFast, in.Strategy.MaxParallel
	e.failFast = c.legKey(s, "fail-fast", fast, strategyScope("fail-fast"), &s.later.FailFast)
	e.maxParallel = c.legKey(s, "max-parallel", parallel, strategyScope("max-parallel"), &s.later.MaxParallel)
	if c.perLeg(in, in.Name) {
		e.name = c.legKey(s, "name", in.Name, jobScope("name"), &s.later.Name)
	}
	if c.perLeg(in, in.Timeout) {
		e.timeout = c.legKey(s, "timeout-minutes", in.Timeout, jobScope("timeout-minutes"), &s.later.Timeout)
	}
	if c.perLeg(in, in.SoftFail) {
		e.softFail = c.legKey(s, "continue-on-error", in.SoftFail, jobScope("continue-on-error"), &s.later.SoftFail)
	}
	if slices.ContainsFunc(in.RunsOn, func(n *syntax.Node) bool { return c.perLeg(in, n) }) {
		for _, n := range in.RunsOn {
			text := ""
			if t := c.legKey(s, "runs-on", n, jobScope("runs-on"), &text); t != nil {
				e.runsOn = append(e.runsOn, t)
			}
			s.later.RunsOn = append(s.later.RunsOn, text)
		}
	}
	value, written, at := c.tree(in.Strategy.Matrix, strategyScope("matrix"))
	if at == whenNever || at == whenStarted && c.in.Event == "" {
		return // no matrix to look at
	}
	if len(c.plan.Legs) > c.lim.Jobs {
		return // over the bound; more of them would only be more to build
	}
	if at != whenCompiled || s.at == whenRunning {
		c.postpone(s, job, written)
		return
	}
	if s.at == whenStarted { // the matrix is known, and what each leg makes of it isn't
		s.expansion = expansion{key: job.Key, base: job.Name}
	}
	c.legs(s, job, value)
}

// legKey compiles one key of a strategy or of its legs.
func (c *compiler) legKey(s *strategyOf, key string, n *syntax.Node, in scope, text *string) *expr.Template {
	t := c.template(n, in)
	if t == nil {
		return nil
	}
	s.nodes[key], *text = n, scalarText(n)
	s.at = max(s.at, c.certainty(t, in))
	return t
}

// tree reads the matrix: its value as far as that is known, and as it is written.
func (c *compiler) tree(n *syntax.Node, s scope) (value, written expr.Value, at when) {
	switch n.Kind {
	case syntax.Sequence:
		values, texts := make([]expr.Value, len(n.Items)), make([]expr.Value, len(n.Items))
		for i, item := range n.Items {
			var one when
			values[i], texts[i], one = c.tree(item, s)
			at = max(at, one)
		}
		return expr.Array(values...), expr.Array(texts...), at
	case syntax.Mapping:
		values, texts := make([]expr.Field, len(n.Pairs)), make([]expr.Field, len(n.Pairs))
		for i, pair := range n.Pairs {
			var one when
			values[i].Name, texts[i].Name = pair.Key.Value, pair.Key.Value
			values[i].Value, texts[i].Value, one = c.tree(pair.Value, s)
			at = max(at, one)
			if expr.HasExpression(pair.Key.Value) {
				c.reports.Add(syntax.CodeInvalidMatrix, pair.Key.Range, "a key of a matrix can't be an expression",
					"make the whole matrix one expression with fromJSON")
				at = whenNever
			}
		}
		return expr.Object(values...), expr.Object(texts...), at
	}
	plain := scalarValue(n)
	if n.Type != syntax.TypeString || !expr.HasExpression(n.Value) {
		return plain, plain, whenCompiled
	}
	t := c.template(n, s)
	if t == nil {
		return plain, plain, whenNever
	}
	at = c.certainty(t, s)
	if at != whenCompiled {
		return plain, plain, at
	}
	v, err := t.Eval(expr.Env{Context: c.staticContext})
	if err != nil {
		c.expression(n, err)
		return plain, plain, whenNever
	}
	return v, plain, whenCompiled
}

// postpone keeps the strategy as it is written, for when the needs have concluded.
func (c *compiler) postpone(s *strategyOf, job *plan.Job, written expr.Value) {
	text, err := written.MarshalJSON()
	if err != nil {
		c.reports.Add(syntax.CodeInvalidMatrix, s.in.Strategy.Matrix.Range, err.Error(), "")
		return
	}
	s.later.Matrix = json.RawMessage(text)
	c.charge(s.in.Strategy.Matrix.Range, string(text))
	job.Strategy = &plan.Strategy{Later: &s.later}
}

// legs expands a matrix that is known. The legs follow all jobs in the plan.
func (c *compiler) legs(s *strategyOf, job *plan.Job, value expr.Value) {
	out, err := s.expansion.expand(value, c.staticContext, matrix.LegsMax)
	if err != nil {
		c.unexpandable(s, err)
		return
	}
	job.Strategy = &plan.Strategy{FailFast: out.FailFast, MaxParallel: out.MaxParallel}
	for i := range out.Legs {
		leg := &out.Legs[i]
		leg.Of = job.Index
		c.charge(s.in.ID.Range, leg.Key, leg.Name, string(leg.Matrix))
	}
	if !c.full() {
		c.plan.Legs = append(c.plan.Legs, out.Legs...)
	}
}

// unexpandable reports why there are no legs, at the place that is to blame.
func (c *compiler) unexpandable(s *strategyOf, err error) {
	var of *legError
	if !errors.As(err, &of) {
		of = &legError{key: "matrix", err: err}
	}
	n := s.nodes[of.key]
	if n == nil {
		n = s.in.Strategy.Matrix
	}
	var m *matrix.Error
	var x *expr.Error
	switch {
	case errors.As(err, &m):
		code, hint := syntax.CodeInvalidMatrix, ""
		if m.Bound {
			code, hint = syntax.CodeTooManyLegs, "split the job, or let one leg do several combinations"
		}
		c.reports.Add(code, matrixPlace(n, m), m.Message, hint)
	case errors.As(err, &x):
		c.expression(n, x)
	case of.key == "timeout-minutes":
		c.reports.Add(syntax.CodeInvalidTimeout, n.Range, of.Error(), "")
	default:
		c.reports.Add(syntax.CodeInvalidValue, n.Range, of.Error(), "")
	}
}

// matrixPlace is where the part of a matrix is that an error names.
func matrixPlace(n *syntax.Node, m *matrix.Error) syntax.Range {
	for _, pair := range n.Pairs {
		if m.Key == "" || !strings.EqualFold(pair.Key.Value, m.Key) {
			continue
		}
		if m.Entry >= 0 && m.Entry < len(pair.Value.Items) {
			return pair.Value.Items[m.Entry].Range
		}
		return pair.Key.Range
	}
	return n.Range
}

// outputs compiles the outputs of a job. Their values are known when its steps have ended.
func (c *compiler) outputs(in *syntax.Job, ids []string) []plan.Binding {
	var out []plan.Binding
	for _, o := range in.Outputs {
		if name := o.Name.Value; !isName(name) || len(name) > idMax {
			c.reports.Add(syntax.CodeInvalidOutput, o.Name.Range,
				fmt.Sprintf("%s can't be the name of an output", syntax.Quote(name)),
				"use letters, digits, - and _, starting with a letter or _")
			continue
		}
		c.template(o.Value, outputScope(ids))
		text := scalarText(o.Value)
		c.charge(o.Name.Range, o.Name.Value, text)
		out = append(out, plan.Binding{Name: o.Name.Value, Value: text})
	}
	return out
}

func outputScope(ids []string) scope {
	s := stepKeyScope("outputs", &stepScope{before: ids})
	s.files = false
	return s
}

// matrixKeys are the properties that legs of a job can have, as far as the file says so; nil
// where an expression tells them.
func matrixKeys(job *syntax.Job) []string {
	out := []string{}
	if job.Strategy == nil || job.Strategy.Matrix == nil {
		return out
	}
	if job.Strategy.Matrix.Kind != syntax.Mapping {
		return nil
	}
	for _, pair := range job.Strategy.Matrix.Pairs {
		switch {
		case strings.EqualFold(pair.Key.Value, "exclude"):
		case !strings.EqualFold(pair.Key.Value, "include"):
			out = append(out, pair.Key.Value)
		case pair.Value.Kind == syntax.Scalar:
			return nil
		default:
			for _, item := range pair.Value.Items {
				if item.Kind == syntax.Scalar {
					return nil
				}
				for _, entry := range item.Pairs {
					if !slices.Contains(out, entry.Key.Value) {
						out = append(out, entry.Key.Value)
					}
				}
			}
		}
	}
	return out
}

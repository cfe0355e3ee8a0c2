package workflow

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/rule"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// scope is which contexts and functions the expressions of a key may use, taken from the
// table of sites; what this release lacks among them is said as such.
type scope struct {
	key      string
	contexts []string
	status   bool // success(), failure(), cancelled(), always()
	files    bool // hashFiles()
	step     *stepScope
}

// at is the scope of a key at a site.
func at(site expr.Site, key string) scope {
	a, _ := site.Availability()
	has := func(name string) bool {
		return slices.ContainsFunc(a.Functions, func(f expr.Arity) bool { return f.Name == name })
	}
	return scope{key: key, contexts: a.Contexts, status: has("success"), files: has("hashFiles")}
}

// stepScope is what an expression of a step can see of its job.
type stepScope struct {
	before, later []string // ids
}

func workflowEnvScope() scope { return at(expr.SiteWorkflowEnv, "env") }

func jobScope(key string) scope { return at(expr.SiteJobName, key) }

func jobEnvScope() scope { return at(expr.SiteJobEnv, "env") }

func jobIfScope() scope { return at(expr.SiteJobIf, "if") }

func stepKeyScope(key string, step *stepScope) scope {
	s := at(expr.SiteStepText, key)
	s.step = step
	return s
}

func stepIfScope(step *stepScope) scope {
	s := at(expr.SiteStepIf, "if")
	s.step = step
	return s
}

// laterContexts says what to do instead of a context that this release lacks.
func laterContexts(name string) (hint string, later bool) {
	switch name {
	case "secrets":
		return "no secrets can be stored yet", true
	case "vars":
		return "write the value in env", true
	}
	return "", false
}

// template parses the text of a value and checks what its expressions use. It is nil
// when n is nil, or when the text is not valid.
func (c *compiler) template(n *syntax.Node, s scope) *expr.Template {
	if n == nil {
		return nil
	}
	text := scalarText(n)
	t, err := expr.ParseTemplate(text)
	if err != nil {
		c.expression(n, err)
		return nil
	}
	c.uses(n, t, s)
	c.lint(rule.Site{Key: s.key, Node: n, Text: text, Template: t}, s)
	return t
}

// condition parses an `if:` and checks what it uses.
func (c *compiler) condition(n *syntax.Node, s scope) *expr.Condition {
	if n == nil {
		return nil
	}
	text := scalarText(n)
	cond, err := expr.ParseCondition(text)
	if err != nil {
		c.expression(n, err)
		return nil
	}
	if t := cond.Template(); t != nil {
		c.uses(n, t, s)
	}
	c.lint(rule.Site{Key: s.key, Node: n, Text: text, Condition: cond}, s)
	return cond
}

// expression reports a problem that package expr found in a value.
func (c *compiler) expression(n *syntax.Node, err error) {
	var e *expr.Error
	if !errors.As(err, &e) {
		c.reports.Add(syntax.CodeExpressionSyntax, n.Range, err.Error(), "")
		return
	}
	hint := e.Hint
	if e.Code == expr.CodeUnknownFunction {
		name := scalarText(n)[e.Span.Start:e.Span.End]
		hint = c.reports.Suggest(name, expr.FunctionNames(), hint)
	}
	c.reports.Add(syntax.Code(e.Code), c.place(n, e.Span), e.Message, hint)
}

// place is where a span of a value's text is in the file. A value that YAML rewrote (a
// number, a boolean) is reported as a whole, and so is everything once the list of
// reports is full.
func (c *compiler) place(n *syntax.Node, span expr.Span) syntax.Range {
	if n.Type != syntax.TypeString || c.reports.Full() {
		return n.Range
	}
	return n.Place(span.Start, span.End)
}

// uses checks contexts and functions against the scope.
func (c *compiler) uses(n *syntax.Node, t *expr.Template, s scope) {
	for _, ref := range t.References() {
		name := ref.Path[0]
		span := expr.Span{Start: ref.Span.Start, End: ref.Span.Start + len(name)}
		hint, later := laterContexts(name)
		switch {
		case !slices.Contains(expr.ContextNames(), name):
			c.reports.Add(syntax.CodeUnknownContext, c.place(n, span),
				fmt.Sprintf("there is no context %s", syntax.Quote(name)),
				c.reports.Suggest(name, s.contexts, "text is written in single quotes"))
		case !slices.Contains(s.contexts, name):
			c.reports.Add(syntax.CodeContextNotAllowed, c.place(n, span),
				fmt.Sprintf("the context %q does not exist in %q", name, s.key),
				"available are "+strings.Join(available(s.contexts), ", "))
		case later:
			c.reports.Add(syntax.CodeUnsupportedContext, c.place(n, span),
				fmt.Sprintf("the context %q is part of the workflow language, but not available yet", name), hint)
		}
	}
	for _, call := range t.Calls() {
		switch {
		case call.Status && !s.status:
			c.reports.Add(syntax.CodeFunctionNotAllowed, c.place(n, call.Span),
				fmt.Sprintf("%s() can't be used in %q", call.Name, s.key), "use it in an if")
		case call.Status && s.step != nil && call.Args > 0:
			c.reports.Add(syntax.CodeArgumentCount, c.place(n, call.Span),
				fmt.Sprintf("%s() takes no arguments in a step", call.Name), "use steps.<id>.outcome")
		case call.Name == "hashFiles" && !s.files:
			c.reports.Add(syntax.CodeFunctionNotAllowed, c.place(n, call.Span),
				fmt.Sprintf("hashFiles() can't be used in %q", s.key), "")
		}
	}
}

// available leaves out of a scope what this release lacks.
func available(contexts []string) []string {
	var out []string
	for _, name := range contexts {
		if _, later := laterContexts(name); !later {
			out = append(out, name)
		}
	}
	return out
}

// lint applies the rules to a site.
func (c *compiler) lint(site rule.Site, s scope) {
	for _, spec := range slices.Concat(c.triggers.Inputs, c.triggers.called) {
		site.Inputs = append(site.Inputs, rule.Input{Name: spec.Name, Type: spec.Type})
	}
	site.Jobs, site.Needs, site.Outputs, site.Matrix = c.jobIDs, c.needIDs, c.outputIDs, c.matrixKeys
	if s.step != nil {
		site.Before, site.Later = s.step.before, s.step.later
	}
	for _, apply := range rule.All() {
		for _, f := range apply(site) {
			at := site.Node.Range
			if f.Span != (expr.Span{}) {
				at = c.place(site.Node, f.Span)
			}
			c.reports.Add(f.Code, at, f.Message, f.Hint)
		}
	}
}

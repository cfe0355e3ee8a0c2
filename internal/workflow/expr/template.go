package expr

import "strings"

// Template is text with ${{ }} in it.
type Template struct {
	text  string
	parts []part
}

// part is literal text, or an expression with the place of its text in the template.
type part struct {
	literal string
	expr    *Expr
	at      int // where expr's text starts
}

// ParseTemplate finds and parses every ${{ }} in text. The error is an *Error with its
// place in text.
//
// Trust: text may come from anybody.
func ParseTemplate(text string) (*Template, error) {
	t, err := parseTemplate(text, nil)
	if err != nil {
		return nil, err
	}
	return t, nil
}

func parseTemplate(text string, w world) (*Template, *Error) {
	t := &Template{text: text}
	for at := 0; ; {
		open := strings.Index(text[at:], "${{")
		if open < 0 {
			t.literal(text[at:])
			return t, nil
		}
		t.literal(text[at : at+open])
		start := at + open + len("${{")
		end := closing(text, start)
		if end < 0 {
			err := fail(CodeNotClosed, Span{at + open, start}, "${{ is not closed").in(PhaseLexing)
			err.Hint = "add }} at the end of the expression"
			return nil, err
		}
		if strings.TrimSpace(text[start:end]) == "" {
			return nil, fail(CodeSyntax, Span{at + open, end + len("}}")}, "the expression is empty").in(PhaseParsing)
		}
		e, err := parse(text[start:end], w)
		if err != nil {
			return nil, err.shifted(start)
		}
		t.parts = append(t.parts, part{expr: e, at: start})
		at = end + len("}}")
	}
}

func (t *Template) literal(text string) {
	if text != "" {
		t.parts = append(t.parts, part{literal: text})
	}
}

// closing finds the }} that ends the expression starting at start: the first one
// outside a string. It is -1 when there is none.
func closing(text string, start int) int {
	quoted := false
	for i := start; i < len(text); i++ {
		switch {
		case text[i] == '\'':
			quoted = !quoted
		case !quoted && strings.HasPrefix(text[i:], "}}"):
			return i
		}
	}
	return -1
}

// HasExpression reports whether text holds ${{, so that a caller can pass plain text
// on without parsing it.
func HasExpression(text string) bool { return strings.Contains(text, "${{") }

// Plain reports whether the template has no expression: its value is its text.
func (t *Template) Plain() bool {
	for _, p := range t.parts {
		if p.expr != nil {
			return false
		}
	}
	return true
}

// Single is the one expression that the template consists of, with nothing around it;
// nil for every other template.
func (t *Template) Single() *Expr {
	if len(t.parts) == 1 {
		return t.parts[0].expr
	}
	return nil
}

// Eval computes the template's value: that of its single expression, with its type, or
// else a string in which each expression is replaced by its text. The error is an
// *Error with its place in the template.
func (t *Template) Eval(env Env) (Value, error) {
	v, err := t.eval(env)
	if err != nil {
		return Value{}, err
	}
	return v, nil
}

func (t *Template) eval(env Env) (Value, *Error) {
	v, err := t.run(newEvaluator(env))
	return v, err.in(PhaseEvaluation)
}

func (t *Template) run(ev *evaluator) (Value, *Error) {
	if e := t.Single(); e != nil {
		v, err := ev.eval(e.root)
		if err != nil {
			return Value{}, err.shifted(t.parts[0].at)
		}
		return v, nil
	}
	var out strings.Builder
	for _, p := range t.parts {
		text := p.literal
		if p.expr != nil {
			v, err := ev.eval(p.expr.root)
			if err != nil {
				return Value{}, err.shifted(p.at)
			}
			text = v.Text()
			if err := ev.build(p.expr.root, len(text)); err != nil {
				return Value{}, err.shifted(p.at)
			}
		}
		out.WriteString(text)
	}
	return String(out.String()), nil
}

// Interpolate replaces every ${{ }} in text by the text of its value. The error is an
// *Error with its place in text.
//
// Trust: what a context holds may be an attacker's. The result is text, not code: never
// hand it to a shell as a program unless the author of the template chose to.
func Interpolate(text string, env Env) (string, error) {
	if !HasExpression(text) {
		return text, nil
	}
	t, err := parseTemplate(text, nil)
	if err != nil {
		return "", err
	}
	v, err := t.eval(env)
	if err != nil {
		return "", err
	}
	return v.Text(), nil
}

package expr

import "strings"

// Condition is the text of an `if:`. Without ${{ the whole text is one expression. With
// ${{ it is a template; if anything stands outside its one ${{ }}, even a space, the
// value is text and, being never empty, always true. Unless a status function is called
// anywhere in it, the condition also demands success().
type Condition struct {
	text     string
	template *Template // nil: no condition was given
	implicit bool
}

// ParseCondition parses the text of an `if:`. Empty text means success(). The error is
// an *Error with its place in text.
//
// Trust: text may come from anybody.
func ParseCondition(text string) (*Condition, error) {
	c, err := parseCondition(text)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func parseCondition(text string) (*Condition, *Error) {
	c := &Condition{text: text, implicit: true}
	if strings.TrimSpace(text) == "" {
		return c, nil
	}
	if HasExpression(text) {
		t, err := parseTemplate(text, nil)
		if err != nil {
			return nil, err
		}
		c.template = t
	} else {
		e, err := parse(text, nil)
		if err != nil {
			return nil, err
		}
		c.template = &Template{text: text, parts: []part{{expr: e}}}
	}
	for _, call := range c.template.Calls() {
		if call.Status {
			c.implicit = false
		}
	}
	return c, nil
}

// Text is the text that was parsed.
func (c *Condition) Text() string { return c.text }

// Default reports whether the condition is just success().
func (c *Condition) Default() bool {
	if c.template == nil {
		return true
	}
	single := c.template.Single()
	if single == nil {
		return false
	}
	call, ok := single.root.(*callNode)
	return ok && call.fn.name == "success" && len(call.args) == 0
}

// Implicit reports whether success() is demanded beside what the text says.
func (c *Condition) Implicit() bool { return c.implicit }

// AlwaysText reports whether text stands outside ${{ }}, which makes the value a string
// that is never empty and so always true.
func (c *Condition) AlwaysText() bool { return c.template != nil && c.template.Single() == nil }

// TrueText finds a text that makes the condition always true though no text stands outside of
// ${{ }}: that of a || whose other side is a comparison, as in ref == 'a' || 'b'. ok is false
// when there is none.
func (c *Condition) TrueText() (at Span, ok bool) {
	if c.template == nil || c.template.Single() == nil {
		return Span{}, false
	}
	n := trueText(c.template.Single().root)
	if n == nil {
		return Span{}, false
	}
	by := c.template.parts[0].at
	return Span{n.span().Start + by, n.span().End + by}, true
}

// trueText is the part of n because of which n is a text that is never empty, or nil.
func trueText(n node) node {
	switch n := n.(type) {
	case *literalNode:
		if n.value.kind == KindString && n.value.text != "" {
			return n
		}
	case *callNode:
		if n.fn.name == "toJSON" {
			return n
		}
	case *logicNode:
		var found node
		for _, operand := range n.operands {
			part := trueText(operand)
			if n.and && part == nil {
				return nil
			}
			if found = part; part != nil && !n.and {
				return part
			}
		}
		return found
	}
	return nil
}

// Template is the condition as a template, for looking at its references and calls; nil
// when no condition was given.
func (c *Condition) Template() *Template { return c.template }

// Verdict is the answer to a condition.
type Verdict struct {
	Holds bool
	// ByStatus is true when the condition fails because of what went before it (the
	// success() that every condition without a status function demands), and not
	// because of what its text says.
	ByStatus bool
}

// Eval answers the condition. The error is an *Error with its place in the text.
func (c *Condition) Eval(env Env) (Verdict, error) {
	if c.implicit {
		if env.Status == nil {
			return Verdict{}, fail(CodeFailed, Span{0, len(c.text)}, "a condition can't be answered without a status")
		}
		if !env.Status.Success(nil) {
			return Verdict{ByStatus: true}, nil
		}
	}
	if c.template == nil {
		return Verdict{Holds: true}, nil
	}
	v, err := c.template.eval(env)
	if err != nil {
		return Verdict{}, err
	}
	holds := v.Truthy()
	return Verdict{Holds: holds, ByStatus: !holds && c.Default()}, nil
}

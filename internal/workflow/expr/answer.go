package expr

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Question is an expression to be tried out: at a prompt, on a page, by a test.
type Question struct {
	Text     string
	Template bool // Text is a template with ${{ }} in it, not one expression
	// Contexts is an object with a field for every context that exists. A text that
	// refers to another one is refused before anything is evaluated.
	Contexts Value
	Status   Status // nil: the status functions don't exist
	Budget   Budget
	Explain  bool
}

// Answer is what a question came to: a value, or a problem.
type Answer struct {
	Value Value
	Err   *Error
	// Explanation says how, one entry for each expression of the text; only if it was
	// asked for, and if the text could be read.
	Explanation []Explanation
}

// Ask answers a question. An expression without text is null: there is nothing to
// compute. (A workflow may not write that; ParseTemplate refuses it.)
//
// Trust: all of the question may come from anybody. The cost is bounded by its budget.
func Ask(q Question) Answer {
	if strings.TrimSpace(q.Text) == "" && !q.Template {
		return Answer{}
	}
	t, err := q.parse()
	if err != nil {
		return Answer{Err: err}
	}
	ev := newEvaluator(Env{Context: q.Contexts.Field, Status: q.Status, Budget: q.Budget})
	if q.Explain {
		ev.trace = make(map[node]outcome)
	}
	var a Answer
	a.Value, a.Err = t.run(ev)
	a.Err = a.Err.in(PhaseEvaluation)
	if q.Explain {
		a.Explanation = t.explain(ev.trace)
	}
	return a
}

func (q Question) parse() (*Template, *Error) {
	if q.Template {
		return parseTemplate(q.Text, q.exists)
	}
	e, err := parse(q.Text, q.exists)
	if err != nil {
		return nil, err
	}
	return &Template{text: q.Text, parts: []part{{expr: e}}}, nil
}

// exists is the world of a question.
func (q Question) exists(name string, call bool, at Span) *Error {
	switch {
	case call && name == "hashFiles":
		return fail(CodeFunctionNotAllowed, at, "hashFiles() has no files to look at here")
	case call:
		if lookup(name).status && q.Status == nil {
			return fail(CodeFunctionNotAllowed, at, "%s() has no job to ask here", name)
		}
	default:
		if _, ok := q.Contexts.Field(name); !ok {
			err := fail(CodeUnknownContext, at, "the context %q does not exist here", short(name))
			err.Hint = "give its value with the contexts; text is written in single quotes"
			return err
		}
	}
	return nil
}

// MarshalJSON implements json.Marshaler: {"kind", "value"}, or {"error": {"phase", "code",
// "message", "start", "end"}} with places in bytes of the text. A number has all its
// digits; one that JSON can't hold is {"$num": "NaN"}.
func (a Answer) MarshalJSON() ([]byte, error) {
	if a.Err == nil {
		return json.Marshal(struct {
			Kind  string          `json:"kind"`
			Value json.RawMessage `json:"value"`
		}{a.Value.Kind().String(), a.Value.Exact()})
	}
	type problem struct {
		Phase   Phase  `json:"phase"`
		Code    Code   `json:"code"`
		Message string `json:"message"`
		Hint    string `json:"hint,omitempty"`
		Start   int    `json:"start"`
		End     int    `json:"end"`
	}
	return json.Marshal(struct {
		Error problem `json:"error"`
	}{problem{a.Err.Phase, a.Err.Code, a.Err.Message, a.Err.Hint, a.Err.Span.Start, a.Err.Span.End}})
}

// Exact is v as compact JSON that loses nothing: numbers have all their digits, and those
// that JSON can't hold are {"$num": "NaN"}, "Infinity" or "-Infinity".
func (v Value) Exact() []byte {
	w := &jsonWriter{exact: true}
	_ = w.write(v, 0)
	return []byte(w.out.String())
}

func exactNumber(f float64) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return `{"$num":"` + formatNumber(f) + `"}`
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// Explanation is one sub-expression and what it came to.
type Explanation struct {
	Text string
	Span Span // in the text of the question
	// Reached is false for what was not evaluated, because the result did not depend on
	// it: the right side of a && whose left side is false.
	Reached bool
	Value   Value
	Err     *Error // the problem, where it arose
	Parts   []Explanation
}

// explain lists the expressions of a template with what each came to.
func (t *Template) explain(trace map[node]outcome) []Explanation {
	var out []Explanation
	for _, p := range t.parts {
		if p.expr != nil {
			out = append(out, explain(t.text, p.at, p.expr.root, trace))
		}
	}
	return out
}

// explain goes as deep as the expression, which its length bounds.
func explain(text string, at int, n node, trace map[node]outcome) Explanation {
	span := Span{n.span().Start + at, n.span().End + at}
	e := Explanation{Text: text[span.Start:span.End], Span: span}
	var found outcome
	found, e.Reached = trace[n]
	e.Value, e.Err = found.value, found.err
	for _, c := range children(n) {
		if _, plain := c.(*literalNode); !plain {
			e.Parts = append(e.Parts, explain(text, at, c, trace))
		}
	}
	if found.err != nil && slices.ContainsFunc(e.Parts, func(p Explanation) bool { return p.Err == found.err }) {
		e.Err = nil // it is told where it arose
		e.Reached = false
	}
	return e
}

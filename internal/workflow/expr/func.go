package expr

import (
	"math"
	"strings"
)

// function is one entry of the table below.
type function struct {
	name             string
	argsMin, argsMax int
	status           bool // asks for the state of the job or run
	bound            bool // exists at some sites only
	eval             func(*evaluator, *callNode) (Value, *Error)
}

// functions is the table of the language. It is a function and not a variable, because
// the evaluators in it refer back to the table's users.
func functions() []*function {
	many := math.MaxInt
	return []*function{
		{"always", 0, 0, true, true, evalAlways},
		{"cancelled", 0, 0, true, true, evalCancelled},
		{"case", 3, many, false, false, evalCase},
		{"contains", 2, 2, false, false, evalContains},
		{"endsWith", 2, 2, false, false, evalEndsWith},
		{"failure", 0, many, true, true, evalFailure},
		{"format", 1, many, false, false, evalFormat},
		{"fromJSON", 1, 1, false, false, evalFromJSON},
		{"hashFiles", 1, argsMax, false, true, evalHashFiles},
		{"join", 1, 2, false, false, evalJoin},
		{"startsWith", 2, 2, false, false, evalStartsWith},
		{"success", 0, many, true, true, evalSuccess},
		{"toJSON", 1, 1, false, false, evalToJSON},
	}
}

// lookup finds a function, without case; nil when there is none.
func lookup(name string) *function {
	for _, f := range functions() {
		if strings.EqualFold(f.name, name) {
			return f
		}
	}
	return nil
}

// FunctionNames lists the functions of the language in alphabetical order.
func FunctionNames() []string {
	var names []string
	for _, f := range functions() {
		names = append(names, f.name)
	}
	return names
}

// args evaluates all arguments.
func (ev *evaluator) args(n *callNode) ([]Value, *Error) {
	values := make([]Value, len(n.args))
	for i, a := range n.args {
		v, err := ev.eval(a)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return values, nil
}

// status evaluates a status function's arguments (ids of jobs) and needs an answerer.
func (ev *evaluator) status(n *callNode) ([]string, *Error) {
	if ev.env.Status == nil {
		return nil, fail(CodeFailed, n.at, "%s() has no meaning here", n.fn.name)
	}
	values, err := ev.args(n)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, v := range values {
		ids = append(ids, v.Text())
	}
	return ids, nil
}

func evalAlways(*evaluator, *callNode) (Value, *Error) { return Bool(true), nil }

func evalCancelled(ev *evaluator, n *callNode) (Value, *Error) {
	if _, err := ev.status(n); err != nil {
		return Value{}, err
	}
	return Bool(ev.env.Status.Cancelled()), nil
}

func evalSuccess(ev *evaluator, n *callNode) (Value, *Error) {
	ids, err := ev.status(n)
	if err != nil {
		return Value{}, err
	}
	return Bool(ev.env.Status.Success(ids)), nil
}

func evalFailure(ev *evaluator, n *callNode) (Value, *Error) {
	ids, err := ev.status(n)
	if err != nil {
		return Value{}, err
	}
	return Bool(ev.env.Status.Failure(ids)), nil
}

// evalCase is case(condition, value, condition, value, …, otherwise). Only what is
// chosen is evaluated.
func evalCase(ev *evaluator, n *callNode) (Value, *Error) {
	last := len(n.args) - 1
	for i := 0; i < last; i += 2 {
		v, err := ev.eval(n.args[i])
		if err != nil {
			return Value{}, err
		}
		if v.kind != KindBool {
			return Value{}, fail(CodeFailed, n.args[i].span(), "a condition of case must be true or false, not %s", v.kind)
		}
		if v.truth {
			return ev.eval(n.args[i+1])
		}
	}
	return ev.eval(n.args[last])
}

func evalContains(ev *evaluator, n *callNode) (Value, *Error) {
	values, err := ev.args(n)
	if err != nil {
		return Value{}, err
	}
	where, what := values[0], values[1]
	switch {
	case where.kind == KindArray:
		for _, item := range where.array.items {
			if err := ev.step(n, 1+(len(item.text)+len(what.text))>>10); err != nil {
				return Value{}, err
			}
			if Equal(item, what) {
				return Bool(true), nil
			}
		}
		return Bool(false), nil
	case where.primitive() && what.primitive():
		return ev.textTest(n, where, what, strings.Contains)
	}
	return Bool(false), nil
}

func evalStartsWith(ev *evaluator, n *callNode) (Value, *Error) {
	return ev.edgeTest(n, strings.HasPrefix)
}

func evalEndsWith(ev *evaluator, n *callNode) (Value, *Error) {
	return ev.edgeTest(n, strings.HasSuffix)
}

func (ev *evaluator) edgeTest(n *callNode, test func(s, part string) bool) (Value, *Error) {
	values, err := ev.args(n)
	if err != nil || !values[0].primitive() || !values[1].primitive() {
		return Bool(false), err
	}
	return ev.textTest(n, values[0], values[1], test)
}

// textTest compares two values as text, without case.
func (ev *evaluator) textTest(n node, a, b Value, test func(s, part string) bool) (Value, *Error) {
	left, err := ev.text(n, a)
	if err != nil {
		return Value{}, err
	}
	right, err := ev.text(n, b)
	return Bool(test(fold(left), fold(right))), err
}

func evalJoin(ev *evaluator, n *callNode) (Value, *Error) {
	values, err := ev.args(n)
	if err != nil {
		return Value{}, err
	}
	separator := ","
	if len(values) > 1 && values[1].primitive() {
		separator = values[1].Text()
	}
	if values[0].primitive() {
		return String(values[0].Text()), nil
	}
	if values[0].kind != KindArray {
		return String(""), nil
	}
	var out strings.Builder
	for i, item := range values[0].array.items {
		text := item.Text()
		if i > 0 {
			text = separator + text
		}
		if err := ev.step(n, 1); err != nil {
			return Value{}, err
		}
		if err := ev.build(n, len(text)); err != nil {
			return Value{}, err
		}
		out.WriteString(text)
	}
	return String(out.String()), nil
}

func evalToJSON(ev *evaluator, n *callNode) (Value, *Error) {
	v, err := ev.eval(n.args[0])
	if err != nil {
		return Value{}, err
	}
	var spent *Error
	w := &jsonWriter{indent: true, charge: func(steps, bytes int) error {
		if spent = ev.step(n, steps); spent == nil {
			spent = ev.build(n, bytes)
		}
		if spent != nil {
			return spent
		}
		return nil
	}}
	if w.write(v, 0) != nil {
		return Value{}, spent
	}
	return String(w.out.String()), nil
}

func evalFromJSON(ev *evaluator, n *callNode) (Value, *Error) {
	arg, err := ev.eval(n.args[0])
	if err != nil {
		return Value{}, err
	}
	text := arg.Text()
	if err := ev.build(n, len(text)); err != nil {
		return Value{}, err
	}
	if err := ev.step(n, len(text)>>6); err != nil {
		return Value{}, err
	}
	v, cause := FromJSON(text)
	if cause != nil {
		return Value{}, fail(CodeFailed, n.at, "fromJSON: %v", cause)
	}
	return v, nil
}

func evalHashFiles(ev *evaluator, n *callNode) (Value, *Error) {
	values, err := ev.args(n)
	if err != nil {
		return Value{}, err
	}
	if ev.env.HashFiles == nil {
		return Value{}, fail(CodeFunctionNotAllowed, n.at, "hashFiles() has no files to look at here")
	}
	patterns := make([]string, len(values))
	for i, v := range values {
		patterns[i] = v.Text()
	}
	digest, cause := ev.env.HashFiles(patterns)
	if cause != nil {
		return Value{}, fail(CodeFailed, n.at, "hashFiles: %v", cause)
	}
	return String(digest), nil
}

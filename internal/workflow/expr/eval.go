package expr

import "math"

// Env is what an expression is evaluated in.
type Env struct {
	// Context gives the value of a context by its lower-case name. ok is false for a
	// context that does not exist here, which is an error of the evaluation.
	Context func(name string) (v Value, ok bool)
	// Status answers success(), failure() and cancelled(); nil makes them an error.
	Status Status
	// HashFiles answers hashFiles(); nil makes it an error, for there are no files then.
	HashFiles func(patterns []string) (string, error)
	// Budget bounds the evaluation; the zero Budget is the default one.
	Budget Budget
}

// Eval computes the value. The error is an *Error.
func (e *Expr) Eval(env Env) (Value, error) {
	v, err := newEvaluator(env).eval(e.root)
	if err != nil {
		return Value{}, err.in(PhaseEvaluation)
	}
	return v, nil
}

// evaluator holds what is left of the budget. One evaluator serves one evaluation.
type evaluator struct {
	env   Env
	left  Budget
	trace map[node]outcome // nil: nobody wants to know
}

// outcome is what a node came to.
type outcome struct {
	value Value
	err   *Error
}

func newEvaluator(env Env) *evaluator { return &evaluator{env: env, left: env.Budget.orDefault()} }

// step charges elementary operations.
func (ev *evaluator) step(n node, count int) *Error {
	if ev.left.Steps -= count; ev.left.Steps < 0 {
		return fail(CodeBudget, n.span(), "the evaluation takes more than %d steps", ev.env.Budget.orDefault().Steps)
	}
	return nil
}

// build charges bytes of a result under construction.
func (ev *evaluator) build(n node, bytes int) *Error {
	if ev.left.Bytes -= bytes; ev.left.Bytes < 0 {
		return fail(CodeBudget, n.span(), "the evaluation builds more than %d bytes", ev.env.Budget.orDefault().Bytes)
	}
	return nil
}

// text is a value as text, charged for when it is long.
func (ev *evaluator) text(n node, v Value) (string, *Error) {
	text := v.Text()
	return text, ev.step(n, len(text)>>10)
}

func (ev *evaluator) eval(n node) (Value, *Error) {
	if ev.trace == nil {
		return ev.compute(n)
	}
	v, err := ev.compute(n)
	ev.trace[n] = outcome{v, err}
	return v, err
}

func (ev *evaluator) compute(n node) (Value, *Error) {
	if err := ev.step(n, 1); err != nil {
		return Value{}, err
	}
	switch n := n.(type) {
	case *literalNode:
		return n.value, nil
	case *contextNode:
		return ev.context(n)
	case *indexNode:
		return ev.index(n)
	case *callNode:
		return n.fn.eval(ev, n)
	case *notNode:
		v, err := ev.eval(n.operand)
		return Bool(!v.Truthy()), err
	case *compareNode:
		return ev.compare(n)
	case *logicNode:
		return ev.logic(n)
	}
	return Value{}, fail(CodeFailed, n.span(), "unknown kind of node")
}

func (ev *evaluator) context(n *contextNode) (Value, *Error) {
	if ev.env.Context != nil {
		if v, ok := ev.env.Context(n.name); ok {
			return v, nil
		}
	}
	return Value{}, fail(CodeUnknownContext, n.at, "the context %q does not exist here", short(n.name))
}

// logic returns an operand, not a boolean: the first that decides, or the last.
func (ev *evaluator) logic(n *logicNode) (v Value, err *Error) {
	for _, operand := range n.operands {
		if v, err = ev.eval(operand); err != nil || v.Truthy() != n.and {
			return v, err
		}
	}
	return v, nil
}

func (ev *evaluator) compare(n *compareNode) (Value, *Error) {
	left, err := ev.eval(n.left)
	if err != nil {
		return Value{}, err
	}
	right, err := ev.eval(n.right)
	if err != nil {
		return Value{}, err
	}
	if err := ev.step(n, (len(left.text)+len(right.text))>>10); err != nil {
		return Value{}, err
	}
	switch n.op {
	case "==":
		return Bool(Equal(left, right)), nil
	case "!=":
		return Bool(!Equal(left, right)), nil
	}
	sign, ordered := order(left, right)
	less, more := ordered && sign < 0, ordered && sign > 0
	switch n.op {
	case "<":
		return Bool(less), nil
	case ">":
		return Bool(more), nil
	case "<=":
		return Bool(less || Equal(left, right)), nil
	}
	return Bool(more || Equal(left, right)), nil
}

func (ev *evaluator) index(n *indexNode) (Value, *Error) {
	left, err := ev.eval(n.left)
	if err != nil {
		return Value{}, err
	}
	var key Value
	if n.key != nil {
		if key, err = ev.eval(n.key); err != nil {
			return Value{}, err
		}
	}
	if left.kind == KindArray && left.array.filtered {
		return ev.indexEach(n, left.array.items, key)
	}
	if n.key == nil {
		items, err := ev.elements(n, left)
		return filtered(items), err
	}
	v, _ := pick(left, key)
	return v, nil
}

// indexEach applies the index to every element of a filtered array. Elements that have
// no such property or index leave nothing behind.
func (ev *evaluator) indexEach(n *indexNode, items []Value, key Value) (Value, *Error) {
	var out []Value
	for _, item := range items {
		if err := ev.step(n, 1); err != nil {
			return Value{}, err
		}
		if n.key == nil {
			below, err := ev.elements(n, item)
			if err != nil {
				return Value{}, err
			}
			out = append(out, below...)
			continue
		}
		if v, ok := pick(item, key); ok {
			out = append(out, v)
		}
	}
	return filtered(out), nil
}

// elements lists what `.*` selects of v: nothing, of a value without parts.
func (ev *evaluator) elements(n node, v Value) ([]Value, *Error) {
	const valueBytes = 8 // a reference, as in GitHub's accounting
	if err := ev.step(n, v.Len()); err != nil {
		return nil, err
	}
	if err := ev.build(n, v.Len()*valueBytes); err != nil {
		return nil, err
	}
	switch v.kind {
	case KindArray:
		return v.array.items, nil
	case KindObject:
		items := make([]Value, len(v.obj.fields))
		for i, f := range v.obj.fields {
			items[i] = f.Value
		}
		return items, nil
	}
	return nil, nil
}

// pick is v[key]: a property by text, an element by number. ok is false when v has no
// such part, and then the value is null.
func pick(v, key Value) (Value, bool) {
	switch v.kind {
	case KindObject:
		if key.primitive() {
			return v.Field(key.Text())
		}
	case KindArray:
		at := math.Floor(key.number())
		if at >= 0 && at < float64(len(v.array.items)) { // false for NaN
			return v.array.items[int(at)], true
		}
	}
	return Null(), false
}

package expr

// Reference is a chain of names that starts at a context: github.event.inputs.x.
type Reference struct {
	// Path starts with the context's lower-case name. A wildcard is "*"; the path ends
	// before the first index that is not a literal.
	Path []string
	// Span is the place of the whole chain.
	Span Span
	// Flows is true when the value, or a text made of it, can be the result of the
	// expression. What is only compared or tested does not flow.
	Flows bool
}

// Call is a call of a function.
type Call struct {
	Name   string // as the language spells it
	Span   Span   // of the name
	Args   int
	Status bool // success, failure, cancelled or always
	Bound  bool // exists at some sites only: status functions and hashFiles
}

// References lists the references in the expression, in the order of the text.
func (e *Expr) References() []Reference {
	var out []Reference
	collect(e.root, true, &out)
	return out
}

// Calls lists the calls in the expression, in the order of the text.
func (e *Expr) Calls() []Call {
	var out []Call
	walk(e.root, func(n node) {
		if c, ok := n.(*callNode); ok {
			out = append(out, Call{Name: c.fn.name, Span: c.nameAt, Args: len(c.args), Status: c.fn.status,
				Bound: c.fn.bound})
		}
	})
	return out
}

// References lists the references of all expressions, with places in the template.
func (t *Template) References() []Reference {
	var out []Reference
	for _, p := range t.parts {
		if p.expr == nil {
			continue
		}
		for _, r := range p.expr.References() {
			r.Span = Span{r.Span.Start + p.at, r.Span.End + p.at}
			out = append(out, r)
		}
	}
	return out
}

// Calls lists the calls of all expressions, with places in the template.
func (t *Template) Calls() []Call {
	var out []Call
	for _, p := range t.parts {
		if p.expr == nil {
			continue
		}
		for _, c := range p.expr.Calls() {
			c.Span = Span{c.Span.Start + p.at, c.Span.End + p.at}
			out = append(out, c)
		}
	}
	return out
}

// collect appends the references below n. flows says whether n's value can reach the
// result.
func collect(n node, flows bool, out *[]Reference) {
	switch n := n.(type) {
	case *contextNode:
		*out = append(*out, Reference{Path: []string{n.name}, Span: n.at, Flows: flows})
	case *indexNode:
		collectIndex(n, flows, out)
	case *callNode:
		for i, a := range n.args {
			collect(a, flows && carries(n, i), out)
		}
	case *logicNode:
		for i, o := range n.operands {
			// Only a falsy operand leaves a chain of && early, and that carries no text.
			collect(o, flows && (!n.and || i == len(n.operands)-1), out)
		}
	default: // comparisons and negations yield booleans
		for _, c := range children(n) {
			collect(c, false, out)
		}
	}
}

// carries reports whether a function's result can hold text of that argument.
func carries(n *callNode, arg int) bool {
	switch n.fn.name {
	case "format", "join", "toJSON", "fromJSON":
		return true
	case "case":
		return arg%2 == 1 || arg == len(n.args)-1
	}
	return false
}

// collectIndex appends the chain that ends at n, and what its computed keys refer to.
func collectIndex(n *indexNode, flows bool, out *[]Reference) {
	var keys []node
	var chain []*indexNode
	root := node(n)
	for {
		index, ok := root.(*indexNode)
		if !ok {
			break
		}
		chain = append(chain, index)
		root = index.left
	}
	context, ok := root.(*contextNode)
	if !ok {
		collect(root, flows, out)
	}
	path, open := []string(nil), ok
	if ok {
		path = append(path, context.name)
	}
	for i := len(chain) - 1; i >= 0; i-- {
		key := chain[i].key
		literal, fixed := key.(*literalNode)
		switch {
		case key == nil && open:
			path = append(path, "*")
		case fixed && open:
			path = append(path, literal.value.Text())
		case key != nil && !fixed:
			open = false
			keys = append(keys, key)
		}
	}
	if ok {
		*out = append(*out, Reference{Path: path, Span: n.at, Flows: flows})
	}
	for _, key := range keys {
		collect(key, false, out)
	}
}

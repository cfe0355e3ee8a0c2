package expr

// node is one node of a parsed expression. Depth is counted from the leaves, so that
// the parser can refuse an expression as soon as it is too deep.
type node interface {
	span() Span
	depth() int
}

// base is what every node has.
type base struct {
	at     Span
	levels int
}

func (b base) span() Span { return b.at }
func (b base) depth() int { return b.levels }

type (
	// literalNode is null, true, false, a number or a string.
	literalNode struct {
		base
		value Value
	}
	// contextNode is a context by name: the root of every reference.
	contextNode struct {
		base
		name string // lower case
	}
	// indexNode is left.name, left[key] or left.*
	indexNode struct {
		base
		left node
		key  node // a string literal for left.name; nil for the wildcard
	}
	// callNode is a call of a function.
	callNode struct {
		base
		fn     *function
		nameAt Span
		args   []node
	}
	notNode struct {
		base
		operand node
	}
	// compareNode is one of == != < <= > >=
	compareNode struct {
		base
		op          string
		left, right node
	}
	// logicNode is a whole chain of && or of ||, evaluated from the left.
	logicNode struct {
		base
		and      bool
		operands []node
	}
)

// children lists the nodes directly below n, in the order of the text.
func children(n node) []node {
	switch n := n.(type) {
	case *indexNode:
		if n.key == nil {
			return []node{n.left}
		}
		return []node{n.left, n.key}
	case *callNode:
		return n.args
	case *notNode:
		return []node{n.operand}
	case *compareNode:
		return []node{n.left, n.right}
	case *logicNode:
		return n.operands
	}
	return nil
}

// walk visits n and everything below it, parents first.
func walk(n node, visit func(node)) {
	visit(n)
	for _, c := range children(n) {
		walk(c, visit)
	}
}

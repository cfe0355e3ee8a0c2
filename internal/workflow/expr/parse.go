package expr

import (
	"strings"
	"unicode/utf8"
)

// Expr is a parsed expression. It is immutable and may be shared.
type Expr struct {
	text string
	root node
}

// Text is the text that was parsed.
func (e *Expr) Text() string { return e.text }

// Parse reads one expression, without ${{ and }} around it. The error is an *Error.
//
// Trust: text may come from anybody; length and depth are bounded.
func Parse(text string) (*Expr, error) {
	e, err := parse(text, nil)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// world says what exists where an expression is read. The nil world has everything.
type world func(name string, call bool, at Span) *Error

func parse(text string, w world) (*Expr, *Error) {
	if count := utf8.RuneCountInString(text); count > LengthMax {
		return nil, fail(CodeTooLong, Span{0, len(text)},
			"the expression has %d characters; at most %d are allowed", count, LengthMax).in(PhaseLexing)
	}
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	p := &parser{text: text, tokens: tokens, tok: tokens[0], world: w}
	root, err := p.whole()
	if err != nil {
		return nil, err.in(PhaseParsing)
	}
	return &Expr{text: text, root: root}, nil
}

func (p *parser) whole() (node, *Error) {
	if p.tok.kind == tokenEnd {
		return nil, fail(CodeSyntax, Span{0, len(p.text)}, "the expression is empty")
	}
	root, err := p.binary(1)
	if err == nil && p.tok.kind != tokenEnd {
		err = p.unexpected("after the end of the expression")
	}
	return root, err
}

// parser is a precedence-climbing parser with one token of lookahead.
type parser struct {
	text   string
	tokens []token // the last one is the end
	tok    token   // the first of tokens
	world  world
}

func (p *parser) advance() {
	if len(p.tokens) > 1 {
		p.tokens = p.tokens[1:]
	}
	p.tok = p.tokens[0]
}

func (p *parser) unexpected(where string) *Error {
	if p.tok.kind == tokenEnd {
		return fail(CodeSyntax, p.tok.span, "the expression ends too early, %s", where)
	}
	raw := p.text[p.tok.span.Start:p.tok.span.End]
	return fail(CodeSyntax, p.tok.span, "unexpected %q %s", short(raw), where)
}

func (p *parser) expect(punct, where string) *Error {
	if !p.tok.is(punct) {
		err := p.unexpected(where)
		err.Message += ", expected " + punct
		return err
	}
	p.advance()
	return nil
}

// made computes the base of a node and refuses one that is too deep.
func made(at Span, below ...node) (base, *Error) {
	levels := 0
	for _, n := range below {
		levels = max(levels, n.depth())
	}
	if levels++; levels > DepthMax {
		return base{}, tooDeep(at)
	}
	return base{at, levels}, nil
}

func tooDeep(at Span) *Error {
	return fail(CodeTooDeep, at, "the expression nests deeper than %d levels", DepthMax)
}

// precedence of a binary operator; 0 is none.
func precedence(t token) int {
	if t.kind != tokenPunct {
		return 0
	}
	switch t.text {
	case "||":
		return 1
	case "&&":
		return 2
	case "==", "!=":
		return 3
	case "<", "<=", ">", ">=":
		return 4
	}
	return 0
}

// binary reads operands joined by operators of at least that precedence.
func (p *parser) binary(least int) (node, *Error) {
	left, err := p.unary()
	for err == nil {
		level := precedence(p.tok)
		if level < least || level == 0 {
			return left, nil
		}
		if level <= 2 {
			left, err = p.chain(left, level)
		} else {
			left, err = p.compare(left, level)
		}
	}
	return nil, err
}

// chain reads the rest of a chain of one logical operator, as one node.
func (p *parser) chain(first node, level int) (node, *Error) {
	operands := []node{first}
	for op := p.tok.text; p.tok.is(op); {
		p.advance()
		operand, err := p.binary(level + 1)
		if err != nil {
			return nil, err
		}
		operands = append(operands, operand)
	}
	at := Span{first.span().Start, operands[len(operands)-1].span().End}
	b, err := madeChain(at, level == 2, operands)
	if err != nil {
		return nil, err
	}
	return &logicNode{base: b, and: level == 2, operands: operands}, nil
}

// madeChain is made for a chain. An operand that is such a chain itself, in parentheses, is
// no further level: it means the same as if its operands stood here.
func madeChain(at Span, and bool, operands []node) (base, *Error) {
	levels := 0
	for _, n := range operands {
		below := n.depth()
		if inner, ok := n.(*logicNode); ok && inner.and == and {
			below--
		}
		levels = max(levels, below)
	}
	if levels++; levels > DepthMax {
		return base{}, tooDeep(at)
	}
	return base{at, levels}, nil
}

func (p *parser) compare(left node, level int) (node, *Error) {
	op := p.tok.text
	p.advance()
	right, err := p.binary(level + 1)
	if err != nil {
		return nil, err
	}
	b, err := made(Span{left.span().Start, right.span().End}, left, right)
	if err != nil {
		return nil, err
	}
	return &compareNode{base: b, op: op, left: left, right: right}, nil
}

func (p *parser) unary() (node, *Error) {
	if !p.tok.is("!") {
		return p.postfix()
	}
	start := p.tok.span.Start
	p.advance()
	operand, err := p.unary()
	if err != nil {
		return nil, err
	}
	b, err := made(Span{start, operand.span().End}, operand)
	if err != nil {
		return nil, err
	}
	return &notNode{base: b, operand: operand}, nil
}

// postfix reads an operand and the properties and indexes after it. A literal has none,
// unless it stands in parentheses.
func (p *parser) postfix() (node, *Error) {
	grouped := p.tok.is("(")
	n, err := p.operand()
	if err != nil {
		return nil, err
	}
	if _, ok := n.(*literalNode); ok && !grouped {
		return n, nil
	}
	for p.tok.is(".") || p.tok.is("[") {
		var key node
		var end int
		if p.tok.is(".") {
			key, end, err = p.property()
		} else {
			key, end, err = p.bracket()
		}
		if err != nil {
			return nil, err
		}
		below := []node{n}
		if key != nil {
			below = append(below, key)
		}
		b, err := made(Span{n.span().Start, end}, below...)
		if err != nil {
			return nil, err
		}
		n = &indexNode{base: b, left: n, key: key}
	}
	return n, nil
}

// property reads ".name" or ".*"; the key of the wildcard is nil.
func (p *parser) property() (key node, end int, err *Error) {
	p.advance()
	t := p.tok
	switch {
	case t.is("*"):
	case t.kind == tokenWord:
		key = &literalNode{base: base{t.span, 1}, value: String(t.text)}
	default:
		return nil, 0, p.unexpected("where the name of a property should be")
	}
	p.advance()
	return key, t.span.End, nil
}

func (p *parser) bracket() (key node, end int, err *Error) {
	p.advance()
	if p.tok.is("*") {
		p.advance()
	} else {
		key, err = p.binary(1)
	}
	if err != nil {
		return nil, 0, err
	}
	end = p.tok.span.End
	return key, end, p.expect("]", "in an index")
}

func (p *parser) operand() (node, *Error) {
	t := p.tok
	switch {
	case t.is("("):
		p.advance()
		inner, err := p.binary(1)
		if err != nil {
			return nil, err
		}
		if err := p.expect(")", "in parentheses"); err != nil {
			return nil, err
		}
		return inner, nil
	case t.kind == tokenString:
		return p.literal(String(t.text))
	case t.kind == tokenNumber:
		return p.literal(Number(t.num))
	case t.kind == tokenWord:
		return p.word()
	}
	return nil, p.unexpected("where a value should be")
}

func (p *parser) literal(v Value) (node, *Error) {
	n := &literalNode{base: base{p.tok.span, 1}, value: v}
	p.advance()
	return n, nil
}

// word reads null, true, false, a context, or a call.
func (p *parser) word() (node, *Error) {
	switch p.tok.text {
	case "null":
		return p.literal(Null())
	case "true":
		return p.literal(Bool(true))
	case "false":
		return p.literal(Bool(false))
	}
	t := p.tok
	p.advance()
	if p.tok.is("(") {
		return p.call(t)
	}
	name := strings.ToLower(t.text)
	if p.world != nil {
		if err := p.world(name, false, t.span); err != nil {
			return nil, err
		}
	}
	return &contextNode{base: base{t.span, 1}, name: name}, nil
}

func (p *parser) call(name token) (node, *Error) {
	fn := lookup(name.text)
	if fn == nil {
		err := fail(CodeUnknownFunction, name.span, "there is no function %q", short(name.text))
		err.Hint = "functions are " + strings.Join(FunctionNames(), ", ")
		return nil, err
	}
	if p.world != nil {
		if err := p.world(fn.name, true, name.span); err != nil {
			return nil, err
		}
	}
	args, end, err := p.arguments(fn)
	if err != nil {
		return nil, err
	}
	at := Span{name.span.Start, end}
	if len(args) < fn.argsMin || len(args) > fn.argsMax {
		return nil, fail(CodeArgumentCount, at, "%s takes %s, not %d", fn.name, arity(fn.argsMin, fn.argsMax), len(args))
	}
	if fn.name == "case" && len(args)%2 == 0 {
		return nil, fail(CodeArgumentCount, at, "case takes pairs of condition and value, and one value for the rest")
	}
	b, err := made(at, args...)
	if err != nil {
		return nil, err
	}
	return &callNode{base: b, fn: fn, nameAt: name.span, args: args}, nil
}

// arguments reads what stands in the parentheses of a call.
func (p *parser) arguments(fn *function) (args []node, end int, err *Error) {
	p.advance()
	for !p.tok.is(")") {
		if len(args) > 0 {
			if err := p.expect(",", "in the arguments of "+fn.name); err != nil {
				return nil, 0, err
			}
		}
		arg, err := p.binary(1)
		if err != nil {
			return nil, 0, err
		}
		args = append(args, arg)
	}
	end = p.tok.span.End
	p.advance()
	return args, end, nil
}

package expr

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind is a terminal of the grammar.
type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenWord
	tokenNumber
	tokenString
	tokenPunct // one of ( ) [ ] , . * ! < > or a two-character operator
)

type token struct {
	kind tokenKind
	span Span
	text string // the word, the punctuation, or the string without its quotes
	num  float64
}

// is reports whether t is that punctuation.
func (t token) is(punct string) bool { return t.kind == tokenPunct && t.text == punct }

// lexer cuts text into tokens. operand says whether "." starts a number (`.5`) rather than
// a property (`a.b`): it does, unless it follows a name, a bracket or a star.
type lexer struct {
	text    string
	at      int
	operand bool
	dotted  bool // the last token was ".", so a keyword is a property's name
}

// lex cuts the whole text, so that what is no symbol at all is reported before what is
// a symbol at a wrong place.
func lex(text string) ([]token, *Error) {
	l := lexer{text: text, operand: true}
	var out []token
	for {
		t, err := l.next()
		if err != nil {
			return nil, err.in(PhaseLexing)
		}
		if out = append(out, t); t.kind == tokenEnd {
			return out, nil
		}
	}
}

func (l *lexer) next() (token, *Error) {
	for l.at < len(l.text) {
		r, size := utf8.DecodeRuneInString(l.text[l.at:])
		if !unicode.IsSpace(r) {
			break
		}
		l.at += size
	}
	if l.at >= len(l.text) {
		return token{kind: tokenEnd, span: Span{l.at, l.at}}, nil
	}
	t, err := l.read()
	if err != nil {
		return token{}, err
	}
	name := t.kind == tokenWord && (l.dotted || !isKeyword(t.text))
	l.operand = !name && !t.is(")") && !t.is("]") && !t.is("*")
	l.dotted = t.is(".")
	return t, nil
}

func (l *lexer) read() (token, *Error) {
	c := l.text[l.at]
	switch {
	case c == '\'':
		return l.readString()
	case c == '"':
		e := fail(CodeSyntax, Span{l.at, l.at + 1}, "strings are written in single quotes here")
		e.Hint = "write 'text'; a quote inside is doubled: 'it''s'"
		return token{}, e
	case c == '.' && !l.operand:
		return l.punct(1), nil
	case c == '.' || c == '-' || c == '+' || c >= '0' && c <= '9':
		return l.readNumber()
	case strings.IndexByte("()[],*", c) >= 0:
		return l.punct(1), nil
	case strings.IndexByte("!<>=&|", c) >= 0:
		return l.readOperator()
	}
	return l.readWord()
}

func (l *lexer) punct(size int) token {
	t := token{kind: tokenPunct, span: Span{l.at, l.at + size}, text: l.text[l.at : l.at+size]}
	l.at += size
	return t
}

func (l *lexer) readOperator() (token, *Error) {
	if l.at+1 < len(l.text) {
		switch l.text[l.at : l.at+2] {
		case "!=", "<=", ">=", "==", "&&", "||":
			return l.punct(2), nil
		}
	}
	switch l.text[l.at] {
	case '!', '<', '>':
		return l.punct(1), nil
	}
	single := l.text[l.at : l.at+1]
	e := fail(CodeSyntax, Span{l.at, l.at + 1}, "unexpected %q", single)
	e.Hint = "the operator is written " + single + single
	return token{}, e
}

func (l *lexer) readString() (token, *Error) {
	start := l.at
	var out strings.Builder
	for l.at++; l.at < len(l.text); l.at++ {
		if l.text[l.at] != '\'' {
			out.WriteByte(l.text[l.at])
			continue
		}
		if l.at+1 >= len(l.text) || l.text[l.at+1] != '\'' {
			l.at++
			return token{kind: tokenString, span: Span{start, l.at}, text: out.String()}, nil
		}
		out.WriteByte('\'')
		l.at++
	}
	return token{}, fail(CodeSyntax, Span{start, l.at}, "the string that starts here has no closing quote")
}

// boundary reports whether a word or number ends before r.
func boundary(r rune) bool {
	return strings.ContainsRune("()[],.!<>=&|", r) || unicode.IsSpace(r)
}

// run is the text up to the next boundary; dots count as part of a number.
func (l *lexer) run(dots bool) string {
	end := l.at
	for end < len(l.text) {
		r, size := utf8.DecodeRuneInString(l.text[end:])
		if end > l.at && boundary(r) && !(dots && r == '.') {
			break
		}
		end += size
	}
	return l.text[l.at:end]
}

func (l *lexer) readNumber() (token, *Error) {
	raw := l.run(true)
	t := token{kind: tokenNumber, span: Span{l.at, l.at + len(raw)}, text: raw, num: ParseNumber(raw)}
	if math.IsNaN(t.num) {
		e := fail(CodeSyntax, t.span, "%q is not a number", short(raw))
		if raw == "-" || raw == "+" {
			e.Message = "there is no arithmetic in expressions"
		}
		return token{}, e
	}
	l.at = t.span.End
	return t, nil
}

func (l *lexer) readWord() (token, *Error) {
	raw := l.run(false)
	span := Span{l.at, l.at + len(raw)}
	if !IsName(raw) {
		return token{}, fail(CodeSyntax, span, "unexpected %q", short(raw))
	}
	l.at = span.End
	t := token{kind: tokenWord, span: span, text: raw}
	if !l.dotted {
		switch raw {
		case "NaN":
			t.kind, t.num = tokenNumber, math.NaN()
		case "Infinity":
			t.kind, t.num = tokenNumber, math.Inf(1)
		}
	}
	return t, nil
}

func isKeyword(text string) bool { return text == "null" || text == "true" || text == "false" }

// IsName reports whether text is a name in the language: a letter or underscore, then
// letters, digits, underscores and hyphens.
func IsName(text string) bool {
	for i := range len(text) {
		c := text[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '-') {
			return false
		}
	}
	return text != ""
}

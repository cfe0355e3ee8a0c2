package oracle

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// worlds are the contexts of generated expressions: ordinary ones and odd ones.
var worlds = []string{
	`{"github": {"ref": "refs/heads/Main", "event": {"labels": [{"name": "bug"}, {"name": "UI"}, {"id": 3}], "n": null}},
	  "env": {"A": "1", "B-C": "two", "EMPTY": ""}, "a": [[1, "1", true, null], {"b": "x"}, "s", 2.5, [], {}],
	  "n": 3, "s": "Text", "t": true, "z": null}`,
	`{"github": {"Ref": "straße", "ref": "ǅ", "event": {}},
	  "env": {"A": "0x1F", "a": " 12 ", "B-C": "it's", "EMPTY": "\t"},
	  "a": {"b": [{"c": "ı"}, {"C": "ſ"}, {"c": {"d": -0.0}}], "constructor": 1, "": "empty", "null": 7,
		"true": "T", "1.5": "k"},
	  "n": 12345678901234567890, "s": "line\u2028\u0085\u0001\"\\", "t": false, "z": {"x": [[["deep"]]]}}`,
	`{"github": "just text",
	  "env": [], "a": [1e308, -1e-7, 0.1, 1e15, 999999999999999.9, 123456789.123456789, "1e3", "0b1"],
	  "n": -1.5, "s": "😀ÀÉ ﬁ K", "t": "false", "z": [null, [null], {"k": null}]}`,
}

// generator makes expressions from a seed.
type generator struct {
	*rand.Rand
}

// Generate makes expressions over the worlds: every operator, every function, odd values.
func Generate(seed uint64, count int) []Asked {
	g := generator{rand.New(rand.NewPCG(seed, 0))}
	out := make([]Asked, count)
	for i := range out {
		text := g.expr(1 + g.IntN(4))
		switch g.IntN(24) {
		case 0:
			text = g.damaged(text)
		case 1:
			text = g.deep()
		}
		out[i] = Asked{Expr: text, Contexts: worlds[g.IntN(len(worlds))]}
	}
	return out
}

func (g generator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g generator) literal() string {
	return g.pick("null", "true", "false", "0", "1", "-1", "2.50", ".5", "5.", "-.5e1", "+3", "1e3", "1E-7",
		"0x1F", "0xFFFFFFFF",
		"0x1FFFFFFFFF", "0o17", "0b1", "0X1f", "1e400", "NaN", "Infinity", "-Infinity", "123456789012345678", "1e15", "0.1",
		"3.14159265358979312", "''", "'a'", "'A'", "'it''s'", "'''x'''", "'1'", "' 1 '", "'0x1f'", "'1e3'", "'NaN'", "'true'",
		"'false'", "'Infinity'", "'infinity'", "'+Infinity'", "'0b1'", "'-0x1'", "'1_0'", "'straße'", "'STRASSE'",
		"'ı'", "'I'",
		"'ſ'", "'s'", "'ﬁ'", "'😀'", "'Text'", "'refs/heads/main'", "'[1,2]'", "'{\"a\":1,\"A\":2}'",
		"'{\"b\":[{\"c\":1},{\"C\":\"x\"}]}'", "'[1,'", "'null'", "'{0}'", "'{0}{1}'", "'{{'", "'}'", "'{0x}'", "'{00}'",
		"'{256}'", "'\u00a01'", "'\ufeff1'", "'.'", "'-'", "','")
}

func (g generator) reference() string {
	return g.pick("github", "env", "a", "n", "s", "t", "z", "GitHub", "A", "github.ref", "github.REF", "github['ref']",
		"github.event.labels", "github.event.labels.*.name", "github.event.labels[0].name", "github.event.labels[*].Name",
		"github.event.n.x", "github.*", "env.A", "env.a", "env.B-C", "env.missing", "env.*", "a[0]", "a[1].b",
		"a[0][1]", "a.*",
		"a.*.*", "a.*[0]", "a[*].b", "a.b", "a.b.*.c", "a.b.*.c.d", "a['1']", "a[1.9]", "a[-1]", "a['']", "a[null]",
		"a[true]",
		"a[n]", "a[s]", "a.constructor", "a.true", "a.NaN", "a.null", "z.x", "z.*.k", "z.x[0][0][0]", "z.x.*.*", "z[0]",
		"s", "z", "n", "github.ref", "env.A", "a.b.*.c")
}

// letters is a text of letters whose case is odd.
func (g generator) letters() string {
	var out strings.Builder
	for range 1 + g.IntN(3) {
		out.WriteString(g.pick("a", "A", "ß", "SS", "ss", "ı", "i", "I", "İ", "ſ", "s", "K", "k", "ﬁ", "FI", "é",
			"É", "ǆ", "Ǆ", "ǅ",
			"σ", "ς", "Σ", "ŉ", "ᾳ", "😀", "\u2028", "\u0085"))
	}
	return "'" + out.String() + "'"
}

// expr makes an expression that nests as deep as that.
func (g generator) expr(depth int) string {
	if depth <= 0 {
		switch g.IntN(40) {
		case 0:
			return g.pick("nosuch", "nosuch.x", "True", "contains")
		case 1, 2, 3:
			return g.letters()
		case 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19:
			return g.literal()
		}
		return g.reference()
	}
	next := func() string { return g.expr(depth - 1 - g.IntN(2)) }
	switch g.IntN(14) {
	case 0, 1, 2:
		return next() + g.blank() + g.pick("==", "!=", "<", "<=", ">", ">=") + g.blank() + next()
	case 3:
		return next() + g.blank() + g.pick("&&", "||") + g.blank() + next()
	case 4:
		return next() + " && " + next() + " || " + next()
	case 5:
		return "!" + next()
	case 6:
		return "(" + next() + ")"
	case 7:
		return "(" + next() + ")" + g.pick("[0]", "['b']", ".b", ".*", "[1]", ".*.c", "[*]", ".name", "[n]")
	case 8:
		return g.reference() + "[" + next() + "]"
	}
	return g.call(next)
}

func (g generator) call(next func() string) string {
	switch g.IntN(12) {
	case 0, 1:
		return g.name("contains") + "(" + next() + g.comma() + next() + ")"
	case 2:
		return g.name(g.pick("startsWith", "endsWith")) + "(" + next() + g.comma() + next() + ")"
	case 3, 4:
		return g.name("format") + "(" + g.pick("'{0}'", "'{0}{1}'", "'{{{0}}}'", "'{1}-{0}'", "'x{{}}'", "'{0'",
			"'}'", "'{0x}'",
			"'{1}'", "'{00}'", "'{-1}'", "'{256}'", "'{ 0}'", "'{}'", next()) + g.comma() + next() + g.pick("",
			g.comma()+next()) + ")"
	case 5:
		return g.name("join") + "(" + next() + g.pick("", ", '-'", ", ''", ", 0", ", a") + ")"
	case 6:
		return g.name("toJSON") + "(" + next() + ")"
	case 7:
		return g.name("fromJSON") + "(" + g.pick("toJSON("+next()+")", next()) + ")"
	case 8:
		return g.name("case") + "(" + next() + g.comma() + next() + g.comma() + next() + g.pick("",
			g.comma()+next()+g.comma()+next()) + ")"
	case 9:
		return g.name("case") + "(" + g.pick("true", "false", "1 == 1", "'a' > 'b'") + g.comma() + next() +
			g.comma() + next() + ")"
	case 10:
		return g.name(g.pick("success", "failure", "always", "cancelled")) + "()"
	}
	return g.pick("hashFiles('x')", "nosuch("+next()+")", "contains("+next()+")", "join()", "toJSON(a, n)", "always(1)",
		"contains(s, t,)", "case(true, 1)")
}

// name is a function's name, often as it is written, sometimes in other letters.
func (g generator) name(name string) string {
	switch g.IntN(6) {
	case 0:
		return strings.ToUpper(name)
	case 1:
		return strings.ToLower(name)
	}
	return name
}

func (g generator) blank() string {
	if g.IntN(60) == 0 {
		return g.pick("\u00a0", "\v", "\u2003", "\u0085")
	}
	return g.pick("", " ", " ", "\n", "\t", " \r\n")
}

func (g generator) comma() string { return g.pick(",", ", ", " ,") }

// damaged is an expression with a mistake in it, more often than not.
func (g generator) damaged(text string) string {
	at := g.IntN(len(text) + 1)
	for at < len(text) && text[at]&0xC0 == 0x80 {
		at++ // not within a character
	}
	return text[:at] + g.pick("'", "(", ")", "[", "]", ",", ".", "*", "!", "=", "&", "|", "\"", "#", "-", " x ",
		"1", "..", "") +
		text[at:]
}

// deep is an expression near the bounds on depth.
func (g generator) deep() string {
	count := 44 + g.IntN(12)
	switch g.IntN(7) {
	case 0:
		return strings.Repeat("!", count) + "s"
	case 1:
		return "a" + strings.Repeat(".b", count)
	case 2:
		return strings.Repeat("(", count) + "n" + strings.Repeat(")", count)
	case 3:
		return strings.Repeat("join(", count) + "n" + strings.Repeat(")", count)
	case 4:
		return "n" + strings.Repeat(" && (t", count) + strings.Repeat(")", count)
	case 5:
		return fmt.Sprintf("toJSON(fromJSON('%s%s'))", strings.Repeat("[", count*2), strings.Repeat("]", count*2))
	}
	return "a" + strings.Repeat("[a", count) + strings.Repeat("]", count)
}

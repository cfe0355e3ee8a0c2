package expr

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// FuzzEval holds that no text makes the parser or the evaluator panic, that errors have
// a place inside the text, and that the same text gives the same value.
func FuzzEval(f *testing.F) {
	for _, seed := range []string{
		"", "a.*.b[0]", "format('{0}{{', toJSON(github))", "!(1 < 0x1f) && 'it''s' || null", "case(true, 1, 2)",
		"fromJSON('[1,{\"a\":null}]').*.a", "github['ref'] == 'refs/heads/main'", "success() && always()", "-.5e-3 >= +7",
		"${{ a }} b ${{ 'x' }}", "${{ '}}' }}", "join(n.*.*, env.T)", "NaN != Infinity", "'", "((((", "a.b.c.d[*].e",
		"\x00\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		env := testEnv(t)
		env.Budget = Budget{Steps: 10_000, Bytes: 1 << 16}
		if e, err := Parse(text); err == nil {
			e.References()
			e.Calls()
			first, err1 := e.Eval(env)
			second, err2 := e.Eval(env)
			if (err1 == nil) != (err2 == nil) || first.JSON() != second.JSON() {
				t.Fatalf("two evaluations differ: %s %v, %s %v", first.JSON(), err1, second.JSON(), err2)
			}
			inside(t, text, err1)
		} else {
			inside(t, text, err)
		}
		if c, err := ParseCondition(text); err == nil {
			_, err = c.Eval(env)
			inside(t, text, err)
		} else {
			inside(t, text, err)
		}
		_, err := Interpolate(text, env)
		inside(t, text, err)
	})
}

func inside(t *testing.T, text string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var e *Error
	if !errors.As(err, &e) || e.Span.Start < 0 || e.Span.End < e.Span.Start || e.Span.End > len(text) || e.Message == "" {
		t.Fatalf("error %v of a text of %d bytes", err, len(text))
	}
}

// FuzzLex holds that symbols are in the order of the text, within it, and that only white
// space is between them.
func FuzzLex(f *testing.F) {
	for _, seed := range []string{"", "a.b", "'x''y' == .5", "!a[*]", "1..2", "\u00a0a", "a.null.true", "-0x1F",
		"a-b_c(1,2)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := lex(text)
		if err != nil {
			inside(t, text, err)
			if err.Phase != PhaseLexing {
				t.Fatalf("phase %s", err.Phase)
			}
			return
		}
		at := 0
		for _, tok := range tokens {
			if tok.span.Start < at || tok.span.End > len(text) || strings.TrimSpace(text[at:tok.span.Start]) != "" {
				t.Fatalf("%q has %+v after %d", text, tok, at)
			}
			at = tok.span.End
		}
	})
}

// FuzzTemplate holds that what stands outside of expressions comes through as it is.
func FuzzTemplate(f *testing.F) {
	for _, seed := range [][2]string{{"a ", " b"}, {"", ""}, {"}}", "$"}, {"'", "'"}, {"$$", "{{"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		if HasExpression(before) || HasExpression(after) || strings.HasSuffix(before, "$") {
			return
		}
		got, err := Interpolate(before+"${{ 'x''y' }}"+after+"${{ 1.50 }}", Env{})
		if want := before + "x'y" + after + "1.5"; err != nil || got != want {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
	})
}

// FuzzAsk holds that every answer can be written down, and that every problem has a phase
// and a place, whatever the contexts are.
func FuzzAsk(f *testing.F) {
	for _, seed := range [][2]string{
		{"a.b[0] == 'x'", `{"a": {"b": ["X"]}}`}, {"x ${{ a }}", `{"a": null}`}, {"fromJSON(a).*.k",
			`{"a": "[{\"k\":NaN}]"}`},
		{"case(a, 1, 2)", `{"a": true}`}, {"", `{}`}, {"a && (b || c)", `{"a": 1, "b": 1e999, "c": "\ud800"}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, text, contexts string) {
		values, err := FromJSON(contexts)
		if err != nil {
			return
		}
		for _, template := range []bool{false, true} {
			a := Ask(Question{Text: text, Template: template, Contexts: values, Explain: true,
				Budget: Budget{Steps: 10_000, Bytes: 1 << 16}})
			if a.Err != nil {
				inside(t, text, a.Err)
				if a.Err.Phase == "" {
					t.Fatalf("%v has no phase", a.Err)
				}
			}
			if out, err := json.Marshal(a); err != nil || !json.Valid(out) {
				t.Fatalf("%s, %v", out, err)
			}
		}
	})
}

package expr

import (
	"errors"
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

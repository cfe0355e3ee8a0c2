package rule

import "github.com/fairlead-ci/fairlead/internal/workflow/syntax"

// AlwaysTrue warns about an `if:` with text outside ${{ }}. Its value is then text, and
// text that is not empty is true: `if: ${{ env.T }} == "false"` always runs.
//
// A text inside is as true: `github.ref == 'a' || 'b'` does not compare with b.
func AlwaysTrue(s Site) []Finding {
	if s.Condition == nil {
		return nil
	}
	if at, ok := s.Condition.TrueText(); ok {
		return []Finding{{
			Code:    syntax.CodeAlwaysTrue,
			Span:    at,
			Message: "this condition is always true because of this text: a text that is not empty is never false",
			Hint:    "compare it with something: a == 'x' || a == 'y'",
		}}
	}
	if !s.Condition.AlwaysText() {
		return nil
	}
	return []Finding{{
		Code:    syntax.CodeAlwaysTrue,
		Message: "this condition is always true: with text outside ${{ }} it is text, and text is never false",
		Hint:    "leave ${{ and }} away, or put the whole condition inside one pair with nothing around it",
	}}
}

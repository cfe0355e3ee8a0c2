package rule

import "github.com/fairlead-ci/fairlead/internal/workflow/syntax"

// AlwaysTrue warns about an `if:` with text outside ${{ }}. Its value is then text, and
// text that is not empty is true: `if: ${{ env.T }} == "false"` always runs.
func AlwaysTrue(s Site) []Finding {
	if s.Condition == nil || !s.Condition.AlwaysText() {
		return nil
	}
	return []Finding{{
		Code:    syntax.CodeAlwaysTrue,
		Message: "this condition is always true: with text outside ${{ }} it is text, and text is never false",
		Hint:    "leave ${{ and }} away, or put the whole condition inside one pair with nothing around it",
	}}
}

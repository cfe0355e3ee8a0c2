package matrix

import (
	"strings"
	"unicode/utf8"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
)

// nameMax is the longest name in characters; a longer one is cut and ends in three dots.
const nameMax = 100

// Name is the default name of a leg: the job's, with the leg's values in parentheses. It is
// for people, and several legs may have the same.
func Name(job string, leg Leg) string {
	name := job
	if len(leg.Names) > 0 {
		name += " (" + strings.Join(leg.Names, ", ") + ")"
	}
	if utf8.RuneCountInString(name) <= nameMax {
		return name
	}
	return string([]rune(name)[:nameMax-3]) + "..."
}

// leaves appends the texts of the scalars in v, without those that are null or empty.
func leaves(out []string, v expr.Value) []string {
	switch v.Kind() {
	case expr.KindObject:
		for _, f := range v.Fields() {
			out = leaves(out, f.Value)
		}
	case expr.KindArray:
		for i := range v.Len() {
			out = leaves(out, v.At(i))
		}
	default:
		if text := v.Text(); text != "" {
			out = append(out, text)
		}
	}
	return out
}

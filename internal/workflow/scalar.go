package workflow

import (
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// scalarText is a scalar as text after YAML's types: 3.10 is the number 3.1 and its
// text "3.1", True is "true", null is empty.
func scalarText(n *syntax.Node) string { return scalarValue(n).Text() }

// scalarValue is a scalar as a value of the expression language.
func scalarValue(n *syntax.Node) expr.Value {
	switch n.Type {
	case syntax.TypeNull:
		return expr.Null()
	case syntax.TypeBool:
		return expr.Bool(strings.EqualFold(n.Value, "true"))
	case syntax.TypeInt, syntax.TypeFloat:
		return expr.Number(expr.ParseNumber(special(n.Value)))
	}
	return expr.String(n.Value)
}

// special translates YAML's names of infinity.
func special(text string) string {
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign = "-"
	}
	if strings.EqualFold(strings.TrimLeft(text, "+-"), ".inf") {
		return sign + "Infinity"
	}
	return text
}

// boolean reads a literal boolean; the text "true" counts as one.
func boolean(n *syntax.Node) (truth, ok bool) {
	switch strings.ToLower(scalarText(n)) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

func isName(text string) bool { return expr.IsName(text) }

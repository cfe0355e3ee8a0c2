package rule

import (
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// NumberChanged warns about a number whose text is not what it looks like: 3.10 is the
// number 3.1, and a variable then holds "3.1".
func NumberChanged(s Site) []Finding {
	n := s.Node
	if n == nil || n.Kind != syntax.Scalar || n.Type != syntax.TypeInt && n.Type != syntax.TypeFloat {
		return nil
	}
	if s.Condition != nil || s.Text == n.Value {
		return nil
	}
	return []Finding{{
		Code:    syntax.CodeNumberChanged,
		Message: fmt.Sprintf("%s is a number here, and its text is %s", n.Value, s.Text),
		Hint:    "put it in quotes to keep it as it is written",
	}}
}

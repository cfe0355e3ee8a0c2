package oracle

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
)

// Agrees reports whether our answer is the oracle's: the same kind and value, or a problem in
// the same phase. The words of a problem are everybody's own.
func (r Reply) Agrees(a expr.Answer) bool {
	if a.Err != nil || r.Error != nil {
		return a.Err != nil && r.Error != nil && string(a.Err.Phase) == r.Error.Phase
	}
	var theirs any
	if json.Unmarshal(r.Value, &theirs) != nil {
		return false
	}
	return r.Kind == a.Value.Kind().String() && equal(a.Value, theirs)
}

// String is the answer for a report.
func (r Reply) String() string {
	if r.Error != nil {
		return r.Error.Phase + " error: " + r.Error.Message
	}
	return r.Kind + " " + string(r.Value)
}

// equal compares a value with one as the oracle writes it: an object is a list of pairs, a
// number that JSON can't hold is named.
func equal(v expr.Value, theirs any) bool {
	switch v.Kind() {
	case expr.KindArray:
		list, ok := theirs.([]any)
		if !ok || len(list) != v.Len() {
			return false
		}
		for i, item := range list {
			if !equal(v.At(i), item) {
				return false
			}
		}
		return true
	case expr.KindObject:
		return equalObject(v, theirs)
	}
	var ours any
	if json.Unmarshal(v.Exact(), &ours) != nil {
		return false
	}
	if f, ok := ours.(float64); ok && f == 0 {
		ours = 0.0 // minus zero can't be told from zero in the language
	}
	if f, ok := theirs.(float64); ok && f == 0 {
		theirs = 0.0
	}
	return fmt.Sprint(ours) == fmt.Sprint(theirs)
}

func equalObject(v expr.Value, theirs any) bool {
	object, ok := theirs.(map[string]any)
	if !ok {
		return false
	}
	pairs, ok := object["$object"].([]any)
	fields := v.Fields()
	if !ok || len(pairs) != len(fields) {
		return false
	}
	for i, f := range fields {
		pair, ok := pairs[i].([]any)
		if !ok || len(pair) != 2 || pair[0] != f.Name || !equal(f.Value, pair[1]) {
			return false
		}
	}
	return true
}

// ask evaluates text with contexts as a case has them.
func ask(text string, template bool, contexts string) (expr.Answer, error) {
	values := expr.Object()
	if strings.TrimSpace(contexts) != "" {
		var err error
		if values, err = expr.FromJSON(contexts); err != nil {
			return expr.Answer{}, err
		}
	}
	return expr.Ask(expr.Question{Text: text, Template: template, Contexts: values, Status: expr.StepStatus{}}), nil
}

// Shown is an answer for a report.
func shown(a expr.Answer) string {
	if a.Err != nil {
		return string(a.Err.Phase) + " error: " + a.Err.Message
	}
	return a.Value.Kind().String() + " " + string(a.Value.Exact())
}

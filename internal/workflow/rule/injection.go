package rule

import (
	"fmt"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// Injection warns about values that an outsider may choose and that are pasted into a
// script. The shell reads the result, so a branch named `$(…)` is a command. Through an
// environment variable the same value is only text.
func Injection(s Site) []Finding {
	if s.Key != "run" || s.Template == nil {
		return nil
	}
	var out []Finding
	for _, ref := range s.Template.References() {
		if !ref.Flows || !s.outsider(ref.Path) {
			continue
		}
		name := strings.Join(ref.Path, ".")
		out = append(out, Finding{
			Code: syntax.CodeExpressionInjection,
			Span: ref.Span,
			Message: fmt.Sprintf("%s is pasted into the script as it is, so whoever chooses it can run commands",
				syntax.Quote(name)),
			Hint: fmt.Sprintf("give it to the step as env: { %s: ${{ %s }} } and write \"$%s\" in the script",
				variable(ref.Path), name, variable(ref.Path)),
		})
	}
	return out
}

// outsider reports whether the value behind a path may be any text that somebody
// outside the repository chose.
func (s Site) outsider(path []string) bool {
	switch path[0] {
	case "inputs":
		return len(path) < 2 || s.freeText(path[1])
	case "github":
		if len(path) < 2 {
			return false
		}
		switch strings.ToLower(path[1]) {
		case "head_ref", "ref_name":
			return true
		case "event":
			if len(path) == 4 && strings.EqualFold(path[2], "inputs") {
				return s.freeText(path[3])
			}
			return !boundText(strings.ToLower(path[len(path)-1]))
		}
	}
	return false
}

// boundText reports whether a property of an event's payload has a form in which nothing can
// be hidden: a number, a commit, a time, a word of the source system.
func boundText(name string) bool {
	switch name {
	case "number", "id", "sha", "before", "after", "action", "created", "deleted", "forced", "draft", "merged",
		"conclusion",
		"private", "fork", "run_attempt":
		return true
	}
	for _, end := range []string{"_id", "_sha", "_at", "_number", "_count"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// freeText reports whether an input takes any text. Values of the other types are
// checked before the run exists.
func (s Site) freeText(name string) bool {
	for _, in := range s.Inputs {
		if strings.EqualFold(in.Name, name) {
			return in.Type == "string"
		}
	}
	return true
}

// variable is a name for an environment variable that holds the value of a path.
func variable(path []string) string {
	last := path[len(path)-1]
	if !expr.IsName(last) {
		return "VALUE"
	}
	return strings.ToUpper(strings.ReplaceAll(last, "-", "_"))
}

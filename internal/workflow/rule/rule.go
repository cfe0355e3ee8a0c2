// Package rule holds the lint rules of workflows: one file per rule, each a warning
// about a file that compiles but does something its author may not want.
//
// It deliberately refuses nothing: what can't be executed is an error, and errors are
// package workflow's and package syntax's. A rule sees one place at a time and what is
// known there; it needs no state and keeps none.
//
// Invariants: a rule's findings depend only on the site it is given; a finding's place
// is inside the site's text; every rule has an example in workflow/testdata/err.
//
// Read next: injection.go
package rule

import (
	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// Site is one value of a workflow that is text or a condition, with what is known there.
type Site struct {
	Key       string       // the key whose value it is: "run", "if", "env" …
	Node      *syntax.Node // the value
	Text      string       // the value as text, after YAML's types
	Template  *expr.Template
	Condition *expr.Condition // for "if" only; then Template may be nil

	Inputs []Input
	Jobs   []string // ids of all jobs of the file
	Needs  []string // ids of the job's direct needs; nil outside jobs
	Before []string // ids of the steps before this one; nil outside steps
	Later  []string // ids of this step and the ones after it
	// Outputs are the outputs of jobs, by their ids in upper case; not known of those not in it.
	Outputs map[string][]string
	Matrix  []string // properties of the context matrix; nil: not known
}

// Input is a declared input.
type Input struct{ Name, Type string }

// Finding is what a rule has to say about a site.
type Finding struct {
	Code syntax.Code
	// Span is the place in the site's text; the zero Span is the whole of it. It is not
	// a place in the file yet, because finding that costs a walk over the text.
	Span    expr.Span
	Message string
	Hint    string
}

// Rule looks at one site.
type Rule func(Site) []Finding

// All lists the rules, in the order in which they are applied.
func All() []Rule {
	return []Rule{AlwaysTrue, Injection, Undefined, NumberChanged}
}

// template is what the site's references are found in; nil when it has none.
func (s Site) template() *expr.Template {
	if s.Template == nil && s.Condition != nil {
		return s.Condition.Template()
	}
	return s.Template
}

package workflow

import (
	"slices"
	"strings"
	"testing"
)

// TestWhatAnEventHoldsIsNotGuessedWhileCompiling: of github.event only the inputs are known when
// the plan is made, so everything else of it is refused, or left to when the legs are made.
func TestWhatAnEventHoldsIsNotGuessedWhileCompiling(t *testing.T) {
	for _, text := range []string{"github.event.repository.private", "GitHub.Event.head_commit.message",
		"toJSON(github.event)"} {
		_, list := Compile(Source{Path: "w.yml", Text: []byte("on: push\njobs:\n  a:\n    runs-on: ${{ " + text +
			" && 'x' || 'y' }}\n    steps: [checkout]\n")}, Inputs{Event: EventPush, SHA: "c"}, Limits{})
		refused := func(d Diagnostic) bool { return d.Code == "not_run_dynamic_value" && d.Pos.Line == 3 }
		if !slices.ContainsFunc(list, refused) {
			t.Errorf("%s: %v", text, list)
		}
	}
	p := compiled(t, matrixJob("{matrix: {os: ['${{ github.event.repository.private && 1 || 2 }}']}}"))
	if len(p.Legs) > 0 || p.Jobs[0].Strategy == nil || p.Jobs[0].Strategy.Later == nil {
		t.Errorf("the matrix was expanded without the event: %+v", p.Legs)
	}
}

// TestWithoutACommitNothingOfItIsGuessed: who looks at a file for an event says neither commit
// nor repository nor actor, and text from them stays unknown instead of empty.
func TestWithoutACommitNothingOfItIsGuessed(t *testing.T) {
	for _, name := range []string{"sha", "actor", "repository", "repository_owner"} {
		text := "on: push\njobs:\n  a:\n    runs-on: ${{ github." + name + " == '' && 'x' || 'y' }}\n    steps: [checkout]\n"
		p, list := Compile(Source{Path: "w.yml", Text: []byte(text)}, Inputs{Event: EventPush, Ref: "refs/heads/m"}, Limits{})
		if p == nil || len(p.Jobs[0].RunsOn) > 0 {
			t.Errorf("github.%s: %v", name, list)
		}
		p, list = Compile(Source{Path: "w.yml", Text: []byte(text)}, Inputs{Event: EventPush, SHA: "c"}, Limits{})
		if p == nil || strings.Join(p.Jobs[0].RunsOn, "") == "" {
			t.Errorf("github.%s with a commit: %v", name, list)
		}
	}
	p, list := Compile(Source{Path: "w.yml", Text: []byte(matrixJob("{matrix: {v: ['${{ github.repository }}']}}"))},
		Inputs{Event: EventPush}, Limits{})
	if p == nil || len(p.Legs) > 0 || p.Jobs[0].Strategy == nil || p.Jobs[0].Strategy.Later == nil {
		t.Errorf("a matrix of the repository: %v", list)
	}
}

package workflow

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

func inspect(t *testing.T, text string) Triggers {
	t.Helper()
	triggers, list := Inspect(Source{Path: "w.yml", Text: []byte(text)}, Limits{})
	if len(list) > 0 {
		t.Fatalf("inspect: %v", list)
	}
	return triggers
}

func TestMatch(t *testing.T) {
	branches := "on: {push: {branches: [main, 'release/**', '!release/old*', 'release/older']}, workflow_dispatch: }"
	tests := []struct {
		on, event, ref string
		want           bool
	}{
		{"on: push", "push", "refs/heads/x", true},
		{"on: push", "push", "refs/tags/v1", true},
		{"on: push", "push", "", true},
		{"on: push", "workflow_dispatch", "refs/heads/x", false},
		{"on: workflow_dispatch", "push", "refs/heads/x", false},
		{"on: [workflow_dispatch]", "workflow_dispatch", "", true},
		{branches, "push", "refs/heads/main", true},
		{branches, "push", "refs/heads/mainly", false},
		{branches, "push", "refs/heads/release/1/2", true},
		{branches, "push", "refs/heads/release/old", false},
		{branches, "push", "refs/heads/release/older", true},
		{branches, "push", "refs/tags/main", false},
		{branches, "push", "", false},
		{branches, "workflow_dispatch", "refs/heads/x", true},
		{"on: {push: {branches-ignore: ['wip/*']}}", "push", "refs/heads/wip/a", false},
		{"on: {push: {branches-ignore: ['wip/*']}}", "push", "refs/heads/wip/a/b", true},
		{"on: {push: {tags-ignore: ['**']}}", "push", "refs/heads/main", false},
		{"on: {push: {tags-ignore: ['**']}}", "push", "refs/tags/v1", false},
		{"on: {push: {tags: ['v[0-9]+.?']}}", "push", "refs/tags/v12", true},
		{"on: {push: {tags: ['v[0-9]+.?']}}", "push", "refs/tags/vx", false},
		{"on: {push: {branches: ['*'], tags: [v1]}}", "push", "refs/tags/v1", true},
		{"on: {push: {branches: ['*'], tags: [v1]}}", "push", "refs/heads/a/b", false},
		{`on: {push: {branches: ['a\*']}}`, "push", "refs/heads/a*", true},
		{`on: {push: {branches: ['a\*']}}`, "push", "refs/heads/ab", false},
	}
	for _, test := range tests {
		got, reason := inspect(t, test.on).Match(test.event, test.ref)
		if got != test.want || reason == "" {
			t.Errorf("%s: %s on %q: %v (%s)", test.on, test.event, test.ref, got, reason)
		}
	}
}

func TestPatternsThatAreNotValid(t *testing.T) {
	for _, pattern := range []string{"", "a[", "a[]", "a[z-a]", "a[a-Z]", "a[/]", `a\`, "a++?", strings.Repeat("a",
		2_000)} {
		if _, err := compilePattern(pattern); err == nil {
			t.Errorf("%q is valid", pattern)
		}
	}
}

func TestInspectLooksOnlyAtTriggers(t *testing.T) {
	got := inspect(t, "name: n\non:\n  workflow_dispatch:\n    inputs:\n"+
		"      a: {type: choice, options: [x, y], default: y,"+
		" description: d}\n"+
		"      b: {type: number, required: true}\n  push:\njobs: nonsense\nbogus: 1\n")
	want := Triggers{Name: "n", Events: []string{"push", "workflow_dispatch"}, Inputs: []InputSpec{
		{Name: "a", Type: "choice", Options: []string{"x", "y"}, Default: "y", Description: "d"},
		{Name: "b", Type: "number", Required: true},
	}}
	if fmt.Sprint(got.Name, got.Events) != fmt.Sprint(want.Name, want.Events) || len(got.Inputs) != 2 {
		t.Fatalf("got %+v", got)
	}
	for i := range want.Inputs {
		got.Inputs[i].node, got.Inputs[i].hasDefault = nil, false
		if diff := cmp.Diff(want.Inputs[i], got.Inputs[i], cmp.AllowUnexported(InputSpec{})); diff != "" {
			t.Error(diff)
		}
	}
	if _, list := Inspect(Source{Path: "w.yml", Text: []byte("jobs: {}")}, Limits{}); len(list) != 1 ||
		list[0].Code != "missing_key" {
		t.Errorf("a file without on: %v", list)
	}
	if name := inspect(t, "on: push").Name; name != "w.yml" {
		t.Errorf("a workflow without name is called %q", name)
	}
}

func TestSelect(t *testing.T) {
	chosen, shadowed := Select([]string{
		".github/workflows/ci.yml", ".fairlead/workflows/ci.yml", ".github/workflows/b.yaml", "ci.yml",
		".github/workflows/sub/x.yml", ".fairlead/workflows/README.md", ".fairlead/workflows/a.yaml",
		".github/workflows/ci.yaml",
	})
	want := []string{".fairlead/workflows/a.yaml", ".github/workflows/b.yaml", ".github/workflows/ci.yaml",
		".fairlead/workflows/ci.yml"}
	if diff := cmp.Diff(want, chosen); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{".github/workflows/ci.yml"}, shadowed); diff != "" {
		t.Error(diff)
	}
}

func TestInputsOfADispatch(t *testing.T) {
	text := "on:\n  workflow_dispatch:\n    inputs:\n      s:\n      B: {type: boolean}\n" +
		"      n: {type: number, default: 1.50}\n" +
		"      c: {type: choice, options: [x, y]}\n      d: {default: hi}\n" +
		"jobs: {a: {runs-on: '${{ inputs.b && github.event.inputs.b == ''true'' && " +
		"inputs.n == 1.5 && inputs.s }}', steps: [checkout]}}\n"
	p, list := Compile(Source{Path: "w.yml", Text: []byte(text)},
		Inputs{Event: EventDispatch, Dispatch: map[string]string{"S": "label", "b": "TRUE"}}, Limits{})
	if p == nil {
		t.Fatal(list)
	}
	want := []plan.Input{{Name: "s", Type: "string", Value: "label"}, {Name: "B", Type: "boolean", Value: "true"},
		{Name: "n", Type: "number", Value: "1.5"}, {Name: "c", Type: "choice"}, {Name: "d", Type: "string", Value: "hi"}}
	if diff := cmp.Diff(want, p.Inputs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"label"}, p.Jobs[0].RunsOn); diff != "" {
		t.Error(diff)
	}
	p, _ = Compile(Source{Path: "w.yml", Text: []byte(strings.Replace(text, "on:", "on:\n  push:", 1))},
		Inputs{Event: EventPush}, Limits{})
	if p != nil {
		t.Error("a push has no inputs, so the label is empty and must be refused")
	}
	_, list = Compile(Source{Path: "w.yml", Text: []byte(text)}, Inputs{Event: EventPush}, Limits{})
	if len(list) == 0 || list[0].Code != "event_not_declared" {
		t.Errorf("a push that is not declared: %v", list)
	}
	_, list = Compile(Source{Path: "w.yml", Text: []byte(text)}, Inputs{Event: EventDispatch,
		Dispatch: map[string]string{"d": strings.Repeat("x", 70_000), "s": "l", "b": "true"}}, Limits{})
	if len(list) != 1 || list[0].Code != "invalid_input_value" {
		t.Errorf("inputs over the bound: %v", list)
	}
}

package workflow

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
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
		got, reason := inspect(t, test.on).Match(Event{Name: test.event, Ref: test.ref})
		if got != test.want || reason == "" {
			t.Errorf("%s: %s on %q: %v (%s)", test.on, test.event, test.ref, got, reason)
		}
	}
}

func TestPatternsThatAreNotValid(t *testing.T) {
	for _, pattern := range []string{"", "a[", "a[]", "a[z-a]", "a[a-Z]", "a[/]", "a[0-0-9]",
		"a[.-_]", `a\`, "a++?", "a+?", "a??", "*?", "**+", strings.Repeat("a", 2_000)} {
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

// Promises: [SRC-15].
func TestFiltersOnFiles(t *testing.T) {
	for _, c := range []struct {
		on      string
		changed string
		matches bool
		reason  string
	}{
		{"paths: ['src/**']", "docs/a src/b/c.go", true, "the push changes \"src/b/c.go\", which matches paths"},
		{"paths: ['src/**']", "docs/a README", false, "none of the 2 changed files matches paths"},
		{"paths: ['src/**', '!src/**/*.md']", "src/a.md", false, "none of the 1 changed files"},
		{"paths: ['src/**', '!src/**/*.md', 'src/keep.md']", "src/keep.md", true, "\"src/keep.md\", which matches"},
		{"paths: ['src/**']", "", false, "none of the 0 changed files"},
		{"paths-ignore: ['docs/**', '*.md']", "docs/a README.md", false, "paths-ignore names all of the 2 changed files"},
		{"paths-ignore: ['docs/**']", "docs/a main.go", true, "\"main.go\", which paths-ignore does not name"},
		{"paths-ignore: ['docs/**', '!docs/api/**']", "docs/api/a", true, "\"docs/api/a\", which paths-ignore"},
		{"paths-ignore: ['docs/**']", "", true, "changes no file"},
		{"branches: [main], paths: ['*.go']", "a.go", true, "which matches paths"},
		{"branches: [dev], paths: ['*.go']", "a.go", false, "does not match the push filter"},
	} {
		got, reason := match(t, "on: {push: {"+c.on+"}}", "refs/heads/main", strings.Fields(c.changed)...)
		if got != c.matches || !strings.Contains(reason, c.reason) {
			t.Errorf("%s, %q changed: %t, %s", c.on, c.changed, got, reason)
		}
	}
	got, reason := inspect(t, "on: {push: {paths: [x]}}").Match(Event{Name: EventPush, Ref: "refs/heads/main",
		Unknown: "who knows"})
	if !got || !strings.HasSuffix(reason, "filters on files let it pass: who knows") {
		t.Errorf("unknown changes: %t, %s", got, reason)
	}
}

func TestSchedules(t *testing.T) {
	triggers := inspect(t, "on:\n  push:\n  schedule:\n    - cron: ' 30  5 * * 1-5 '\n      timezone: Europe/Berlin\n"+
		"    - {cron: '0 0 * * *', timezone: UTC, catch-up: none}\n")
	want := []Schedule{{"30 5 * * 1-5", "Europe/Berlin", "latest"}, {"0 0 * * *", "", "none"}}
	if !slices.Equal(triggers.Schedules, want) || !triggers.Declares(EventSchedule) {
		t.Errorf("got %+v", triggers)
	}
	if ok, reason := triggers.Match(Event{Name: EventSchedule, Cron: "0 0 * * *"}); !ok {
		t.Error(reason)
	}
	ok, reason := triggers.Match(Event{Name: EventSchedule, Cron: "0 1 * * *"})
	if ok || !strings.Contains(reason, `no schedule "0 1 * * *"`) {
		t.Error(reason)
	}
	for on, want := range map[string]string{
		"{cron: '0 25 * * *'}":                        `3:15: the hour "25" is not valid: 25 is not between 0 and 23`,
		"{cron: '0 0 30 2 *'}":                        "3:17: no month of the schedule has such a day",
		"{cron: '0 0 1 1 *', timezone: Europe/Berln}": `there is no time zone "Europe/Berln" (did you mean "Europe/Berlin"?)`,
		"{cron: '0 0 1 1 *', catch-up: some}":         "catch-up",
		"{cron: '* * * * *'}":                         "it is due every minute at times",
		"{timezone: UTC}":                             "cron",
	} {
		_, found := Inspect(Source{Path: "ci.yml", Text: []byte("on:\n  schedule:\n  - " + on + "\n")}, Limits{})
		if len(found) != 1 {
			t.Errorf("%s: %v", on, found)
			continue
		}
		text := fmt.Sprintf("%d:%d: %s (%s)", found[0].Pos.Line, found[0].Pos.Column, found[0].Message, found[0].Hint)
		if !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %s", on, text, want)
		}
	}
}

// TestPublicPatterns runs cases from elsewhere; FAIRLEAD_CORPORA names the folder that holds them.
func TestPublicPatterns(t *testing.T) {
	folder := os.Getenv("FAIRLEAD_CORPORA")
	if folder == "" {
		t.Log("no FAIRLEAD_CORPORA: only our own cases")
		return
	}
	data, err := os.ReadFile(folder + "/filter/pattern.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		var c struct {
			ID               string
			Patterns, Inputs []string
			Skip, Filter     bool
		}
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		list, err := json.Marshal(c.Patterns)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Patterns) == 0 {
			continue // an empty list is refused here
		}
		if runs, why := match(t, "on: {push: {paths: "+string(list)+"}}", "refs/heads/main", c.Inputs...); runs == c.Skip {
			t.Errorf("%s: paths %v of %v: %t, %s", c.ID, c.Patterns, c.Inputs, runs, why)
		}
		if slices.ContainsFunc(c.Patterns, func(p string) bool { return p[0] == '!' }) {
			continue // what an exception in an ignore list means is each program's own choice
		}
		runs, why := match(t, "on: {push: {paths-ignore: "+string(list)+"}}", "refs/heads/main", c.Inputs...)
		if runs == c.Filter {
			t.Errorf("%s: paths-ignore %v of %v: %t, %s", c.ID, c.Patterns, c.Inputs, runs, why)
		}
		n++
	}
	t.Logf("%d cases", n)
}

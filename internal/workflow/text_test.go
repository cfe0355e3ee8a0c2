package workflow

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const minimal = "on: push\njobs:\n  a:\n    runs-on: linux\n    steps: [checkout]\n"

// bomb is a file of n anchors, each a list of nine aliases of the one before.
func bomb(n int) string {
	var out strings.Builder
	out.WriteString("a0: &a0 [x]\n")
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&out, "a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 8), i-1)
	}
	return out.String()
}

// Promises: [FORMAT-11].
func TestBrokenTextIsRefusedAtItsPlace(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"empty file":           {"", "0:0 empty_workflow"},
		"only a comment":       {"# nothing\n", "0:0 empty_workflow"},
		"null document":        {"---\n", "0:0 empty_workflow"},
		"not a mapping":        {"- a\n", "1:1 empty_workflow"},
		"NUL":                  {"on: push\nx: a\x00b\n", "2:5 control_character"},
		"invalid UTF-8":        {"on: push\nname: \xff\n", "2:7 invalid_utf8"},
		"UTF-16":               {"\xff\xfeo\x00", "1:1 invalid_utf8"},
		"tab as indentation":   {"on:\n\tpush:\n", "2:1 invalid_yaml"},
		"value inside a value": {"on: push\n jobs: x\n", "2:6 invalid_yaml"},
		"open flow sequence":   {"on: [push\n", "1:5 invalid_yaml"},
		"open quote":           {"on: 'push\n", "1:5 invalid_yaml"},
		"two documents":        {minimal + "---\non: push\n", "7:1 multiple_documents"},
		"unknown alias":        {"on: *x\n", "1:5 invalid_yaml"},
		"alias of itself":      {"on: &x [*x]\njobs: {}\n", "1:9 invalid_alias"},
		"merge key":            {"on: push\nenv: {<<: {a: b}}\n" + minimal[9:], "2:7 merge_key"},
		"duplicate key":        {"on: push\nOn: push\n" + minimal[9:], "2:1 duplicate_key"},
		"list as key":          {"? [a]\n: b\n" + minimal, "1:3 key_not_text"},
		"unknown tag":          {"on: !event push\n" + minimal[9:], "1:5 invalid_tag"},
		"too deep":             {"on: " + strings.Repeat("[", 60) + strings.Repeat("]", 60), "1:54 yaml_too_deep"},
		"far too deep":         {"on: " + strings.Repeat("[", 20_000), "1:65 yaml_too_deep"},
		"too many nodes":       {bomb(9), "6:20 yaml_too_many_nodes"},
		"too large":            {strings.Repeat("#", 1<<20+1), "0:0 source_too_large"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p, list := Compile(Source{Path: "w.yml", Text: []byte(test.text)}, Inputs{}, Limits{})
			if p != nil {
				t.Error("got a plan")
			}
			var got []string
			for _, d := range list {
				got = append(got, fmt.Sprintf("%d:%d %s", d.Pos.Line, d.Pos.Column, d.Code))
			}
			if diff := cmp.Diff(test.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, Render(list, []byte(test.text)))
			}
		})
	}
}

func TestLimitsNameTheBoundAndThePlace(t *testing.T) {
	jobs := func(n int) string {
		var out strings.Builder
		out.WriteString("on: push\njobs:\n  a0: &j {runs-on: linux, steps: [checkout]}\n")
		for i := 1; i < n; i++ {
			fmt.Fprintf(&out, "  a%d: *j\n", i)
		}
		return out.String()
	}
	steps := func(n int) string {
		return "on: push\njobs:\n  a:\n    runs-on: linux\n    steps:\n" + strings.Repeat("      - checkout\n", n)
	}
	scripts := "on: push\njobs:\n  a:\n    runs-on: linux\n    steps:\n      - &s {run: '" + strings.Repeat("x", 100_000) +
		"'}\n" + strings.Repeat("      - *s\n", 200)
	env := "on: push\nenv: {A: '" + strings.Repeat("x", 100_000) + "'}\n" + strings.TrimPrefix(jobs(200), "on: push\n")
	tests := map[string]struct {
		text string
		lim  Limits
		want string
	}{
		"1,000 jobs":              {jobs(1_000), Limits{}, ""},
		"1,001 jobs":              {jobs(1_001), Limits{}, "1003:3 too_many_jobs"},
		"2 jobs of 1":             {jobs(2), Limits{Jobs: 1}, "4:3 too_many_jobs"},
		"1,000 steps":             {steps(1_000), Limits{}, ""},
		"1,001 steps":             {steps(1_001), Limits{}, "1006:9 too_many_steps"},
		"limits can't be raised":  {jobs(1_001), Limits{Jobs: 5_000}, "1003:3 too_many_jobs"},
		"aliases of a big script": {scripts, Limits{}, "110:9 yaml_too_much_text"},
		"variables times jobs":    {env, Limits{}, "108:3 plan_too_large"},
		"an id of 101 characters": {strings.Replace(minimal, "a:", strings.Repeat("a", 101)+":", 1), Limits{},
			"3:3 invalid_job_id"},
		"an id of 100 characters": {strings.Replace(minimal, "a:", strings.Repeat("a", 100)+":", 1), Limits{}, ""},
		"an expression over 21000": {strings.Replace(minimal, "[checkout]", "[{run: \"${{ '"+strings.Repeat("x",
			21_000)+"' }}\"}]", 1), Limits{}, "5:24 expression_too_long"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p, list := Compile(Source{Path: "w.yml", Text: []byte(test.text)}, Inputs{}, test.lim)
			got := ""
			if len(list) > 0 {
				got = fmt.Sprintf("%d:%d %s", list[0].Pos.Line, list[0].Pos.Column, list[0].Code)
			}
			if got != test.want || len(list) > 1 || (p == nil) != (test.want != "") {
				t.Errorf("got %s of %d, want %s", got, len(list), test.want)
			}
		})
	}
}

// Promises: [FORMAT-12].
func TestAHostileFileGivesABoundedReport(t *testing.T) {
	var text strings.Builder
	text.WriteString("on: push\njobs:\n")
	for i := range 900 {
		fmt.Fprintf(&text, "  a%d: {runs-on: linux, needs: [nope%d], steps: [{run: \"${{ x.%s }}\"}], zzz: 1}\n", i,
			i, strings.Repeat("y", 900))
	}
	_, list := Compile(Source{Path: "w.yml", Text: []byte(text.String())}, Inputs{}, Limits{})
	if len(list) != 101 || list[100].Code != "too_many_problems" {
		t.Fatalf("got %d diagnostics, the last is %v", len(list), list[len(list)-1])
	}
	if out := Render(list, []byte(text.String())); len(out) > 100_000 {
		t.Errorf("the report has %d bytes", len(out))
	}
}

// One long line with a finding in every few characters: the place of each costs a walk
// along the line, so a compiler that looks for all of them would take minutes.
// Promises: [FORMAT-12].
func TestAHostileLineIsReadOnce(t *testing.T) {
	text := "on: push\njobs:\n  a:\n    runs-on: linux\n    steps:\n      - run: \"" +
		strings.Repeat("${{ github.head_ref }}", 40_000) + "\"\n"
	p, list := Compile(Source{Path: "w.yml", Text: []byte(text)}, Inputs{}, Limits{})
	if p == nil || len(list) != 101 || list[1].Pos != (Pos{Line: 6, Column: 41}) || list[100].Severity != Warning {
		t.Errorf("plan %v, %d diagnostics, the second at %v", p != nil, len(list), list[1].Pos)
	}
}

// Promises: [RUN-14].
func TestSameSourceGivesTheSameBytes(t *testing.T) {
	text := read(t, "testdata/ok/everything.yml")
	in := event(text)
	first, _ := Compile(Source{Path: "w.yml", Text: text}, in, Limits{})
	for range 20 {
		shuffled := in
		shuffled.Dispatch = make(map[string]string)
		for name, value := range in.Dispatch { // another map, another order
			shuffled.Dispatch[name] = value
		}
		p, _ := Compile(Source{Path: "w.yml", Text: text}, shuffled, Limits{})
		if !bytes.Equal(p.Encode(), first.Encode()) {
			t.Fatal("two compilations differ")
		}
	}
	bad := read(t, "testdata/err/inputs.yml")
	_, want := compile("inputs.yml", bad)
	for range 20 {
		if _, got := compile("inputs.yml", bad); cmp.Diff(want, got) != "" {
			t.Fatal("two lists of diagnostics differ")
		}
	}
}

func TestRenderShowsThePlace(t *testing.T) {
	text := []byte("on: push\njobs:\n  tést:\n    runs-on: linux\n    stepz: []\n    steps: [{run: \"\tmake\"}]\n\x1b[31m")
	list := []Diagnostic{
		{Code: "unknown_key", Severity: Error, Path: "w.yml", Pos: Pos{Line: 5, Column: 5}, End: Pos{Line: 5, Column: 10},
			Message: "a job has no key \"stepz\"", Hint: "did you mean \"steps\"?"},
		{Code: "x", Severity: Warning, Path: "w.yml", Pos: Pos{Line: 7, Column: 1}, Message: "hostile line"},
		{Code: "y", Severity: Error, Path: "w.yml", Message: "about the whole file"},
	}
	want := `w.yml:5:5: error: a job has no key "stepz" [unknown_key]
   5 |     stepz: []
     |     ^^^^^
      = did you mean "steps"?

w.yml:7:1: warning: hostile line [x]
   7 | �[31m
     | ^

w.yml:0:0: error: about the whole file [y]
`
	if diff := cmp.Diff(want, Render(list, text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	long := []byte("x: " + strings.Repeat("y", 1_000_000))
	list = []Diagnostic{{Path: "w.yml", Pos: Pos{Line: 1, Column: 500_000}, End: Pos{Line: 1, Column: 999_000}}}
	if out := Render(list, long); len(out) > 500 || !strings.Contains(out, "…") || !strings.Contains(out, "^") {
		t.Errorf("a long line renders as %q", out)
	}
}

// Promises: [FORMAT-12].
func TestExpressionsThatAreEvaluatedWhileCompilingAreBounded(t *testing.T) {
	named := func(name string) string {
		return "on: push\njobs:\n  a: {runs-on: linux, steps: [checkout], name: \"${{ " + name + " }}\"}\n"
	}
	grown := "format('" + strings.Repeat("{0}", 200) + "', format('" + strings.Repeat("{0}", 100) + "', '" +
		strings.Repeat("x", 1_000) + "'))"
	tests := map[string]struct{ text, want string }{
		"no jobs":       {"on: push\njobs: {}\n", "2:1 no_jobs"},
		"deep":          {named(strings.Repeat("!", 60) + "true"), "3:63 expression_too_deep"},
		"much text":     {named(grown), "3:53 expression_budget_exceeded"},
		"no such index": {named("github.event.inputs.nope[3] || 'x'"), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, list := Compile(Source{Path: "w.yml", Text: []byte(test.text)}, Inputs{Event: EventPush}, Limits{})
			got := ""
			if len(list) == 1 {
				got = fmt.Sprintf("%d:%d %s", list[0].Pos.Line, list[0].Pos.Column, list[0].Code)
			}
			if got != test.want {
				t.Errorf("got %q of %d, want %q", got, len(list), test.want)
			}
		})
	}
}

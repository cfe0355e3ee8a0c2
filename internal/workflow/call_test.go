package workflow

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// callFiles compiles the first of some files, which may call the others by the names a.yml, b.yml, …
func callFiles(t *testing.T, texts ...string) (*plan.Plan, []string) {
	t.Helper()
	in := Inputs{Event: EventPush, Ref: "refs/heads/main", SHA: strings.Repeat("a", 40), Components: Components{}}
	for i, text := range texts[1:] {
		r := Reference{Path: fmt.Sprintf(".github/workflows/%c.yml", 'a'+i)}
		in.Components[r.String()] = Component{Reference: r, File: r.Path, Text: []byte(text)}
	}
	p, list := Compile(Source{Path: ".github/workflows/main.yml", Text: []byte(texts[0])}, in, Limits{})
	var out []string
	for _, d := range list {
		if d.Severity == Error {
			out = append(out, d.String())
		}
	}
	return p, out
}

const calledDeploy = `
on:
  workflow_call:
    inputs:
      target: {type: string, required: true}
      fast: {type: boolean}
      times: {type: number, default: 3}
    secrets: {key: {required: true}}
    outputs: {url: {value: "${{ jobs.run.outputs.url }}"}}
env: {WHERE: "${{ inputs.target }}"}
jobs:
  build: {runs-on: "${{ inputs.target }}", steps: [{run: make}]}
  run:
    needs: build
    runs-on: linux
    timeout-minutes: ${{ inputs.times }}
    outputs: {url: x}
    steps: [{run: make deploy}]
`

// What a called workflow needs before the run starts can't come from an input that only the run tells.
func TestInputsThatOnlyTheRunTells(t *testing.T) {
	p, list := callFiles(t, `
on: push
jobs:
  first: {runs-on: linux, outputs: {n: "1"}, steps: [{run: make}]}
  second:
    needs: first
    uses: $/.github/workflows/a.yml
    with: {target: linux, times: "${{ fromJSON(needs.first.outputs.n) }}"}
    secrets: inherit
`, calledDeploy)
	if p == nil {
		t.Fatal(list)
	}
	needs := plan.Requires(p)
	if len(needs) != 1 || needs[0].Code != plan.RequireDynamic || p.Jobs[needs[0].Job].Key != "second/run" {
		t.Errorf("it requires %+v", needs)
	}
}

func TestWhereCalledJobsAre(t *testing.T) {
	p, list := callFiles(t, `
on: push
env: {MINE: x}
jobs:
  first:
    name: First
    strategy: {matrix: {at: [linux, mac]}}
    uses: ./.github/workflows/a.yml
    with: {target: "${{ matrix.at }}", fast: true}
    secrets: inherit
  last:
    needs: first
    runs-on: linux
    steps: [{run: "echo ${{ needs.first.outputs.url }}"}]
`, calledDeploy)
	if p == nil {
		t.Fatalf("no plan: %q", list)
	}
	var got []string
	for _, j := range p.Jobs {
		in := "-"
		if j.In != nil {
			in = p.Legs[*j.In-len(p.Jobs)].Key
		}
		got = append(got, fmt.Sprintf("%d %s (%s) id=%s in=%s needs=%v on=%v %ds env=%v", j.Index, j.Key, j.Name, j.ID, in,
			j.Needs, j.RunsOn, j.TimeoutSeconds, j.Env))
	}
	want := []string{
		"0 first (First) id= in=- needs=[] on=[] 21600s env=[{MINE x}]",
		"1 last (last) id= in=- needs=[0] on=[linux] 21600s env=[{MINE x}]",
		"2 first.1/build (First (linux) / build) id=build in=first.1 needs=[] on=[linux] 21600s " +
			"env=[{WHERE ${{ inputs.target }}}]",
		"3 first.1/run (First (linux) / run) id=run in=first.1 needs=[2] on=[linux] 180s env=[{WHERE ${{ inputs.target }}}]",
		"4 first.2/build (First (mac) / build) id=build in=first.2 needs=[] on=[mac] 21600s " +
			"env=[{WHERE ${{ inputs.target }}}]",
		"5 first.2/run (First (mac) / run) id=run in=first.2 needs=[4] on=[linux] 180s env=[{WHERE ${{ inputs.target }}}]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
	call := p.Jobs[0].Call
	wantCall := &plan.Call{Workflow: "./.github/workflows/a.yml", Path: ".github/workflows/a.yml",
		Name: ".github/workflows/a.yml", Secrets: &plan.Secrets{Inherit: true},
		Inputs: []plan.Input{{Name: "target", Type: "string", Value: "${{ matrix.at }}"},
			{Name: "fast", Type: "boolean", Value: "true"}, {Name: "times", Type: "number", Value: "3"}},
		Outputs: []plan.Binding{{Name: "url", Value: "${{ jobs.run.outputs.url }}"}},
	}
	if diff := cmp.Diff(wantCall, call); diff != "" {
		t.Errorf("call (-want +got):\n%s", diff)
	}
}

func TestCallsThatDoNotFit(t *testing.T) {
	const job = "{runs-on: linux, steps: [{run: make}]}"
	for name, of := range map[string]struct {
		files []string
		want  []string
	}{
		"inputs": {[]string{`
on: push
jobs:
  a:
    uses: ./.github/workflows/a.yml
    with: {targt: x, fast: "true"}
`, calledDeploy}, []string{"main.yml:5:11: missing_input",
			"main.yml:5:11: missing_input", "main.yml:6:12: unknown_input",
			"main.yml:6:28: invalid_input_value"}},
		"a circle": {[]string{"on: push\njobs: {a: {uses: ./.github/workflows/a.yml}}",
			"on: workflow_call\njobs: {b: {uses: ./.github/workflows/b.yml}}",
			"on: workflow_call\njobs: {c: {uses: ./.github/workflows/a.yml}}"}, []string{"b.yml:2:18: call_cycle"}},
		"inside": {[]string{"on: push\njobs: {a: {uses: ./.github/workflows/a.yml}}",
			"on: workflow_call\njobs: {b: {needs: c, runs-on: linux, steps: [{run: make}]}}"},
			[]string{"a.yml:2:19: unknown_need"}},
		"no file": {[]string{"on: push\njobs: {a: {uses: ./.github/workflows/x.yml}}"},
			[]string{"main.yml:2:18: unresolved_reference"}},
		"no call": {[]string{"on: push\njobs: {a: {uses: ./.github/workflows/a.yml}}", "on: push\njobs: {b: " + job + "}"},
			[]string{"main.yml:2:18: workflow_not_callable"}},
		"permissions two levels down": {[]string{
			"on: push\npermissions: {contents: read}\njobs: {a: {uses: ./.github/workflows/a.yml}}",
			"on: workflow_call\njobs: {b: {uses: ./.github/workflows/b.yml}}",
			"on: workflow_call\npermissions: write-all\njobs: {c: " + job + "}"}, []string{"b.yml:2:1: permissions_exceeded"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, list := callFiles(t, of.files...)
			var got []string
			for _, d := range list {
				place, rest, _ := strings.Cut(strings.TrimPrefix(d, ".github/workflows/"), ": error: ")
				got = append(got, place+": "+rest[strings.LastIndex(rest, "[")+1:len(rest)-1])
			}
			if diff := cmp.Diff(of.want, got); diff != "" || p != nil {
				t.Errorf("diagnostics (-want +got):\n%s\n%s", diff, strings.Join(list, "\n"))
			}
		})
	}
}

func TestCallsAreBounded(t *testing.T) {
	texts := []string{"on: push\njobs: {a: {uses: ./.github/workflows/a.yml}}"}
	for i := range 11 {
		texts = append(texts, fmt.Sprintf("on: workflow_call\njobs: {a: {uses: ./.github/workflows/%c.yml}}", 'b'+i))
	}
	texts = append(texts, "on: workflow_call\njobs: {a: {runs-on: linux, steps: [{run: make}]}}")
	_, list := callFiles(t, texts...)
	if len(list) != 1 || !strings.Contains(list[0], "more than 10 levels") {
		t.Errorf("nested too deep: %q", list)
	}
	// Each file calls the next one a hundred times.
	texts = texts[:1]
	for i := range 8 {
		text := "on: workflow_call\njobs:\n"
		for n := range 100 {
			text += fmt.Sprintf("  j%d: {uses: ./.github/workflows/%c.yml}\n", n, 'b'+i)
		}
		texts = append(texts, text)
	}
	texts = append(texts, "on: workflow_call\njobs: {a: {runs-on: linux, steps: [{run: make}]}}")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, list := callFiles(t, texts...)
	runtime.ReadMemStats(&after)
	if p != nil || len(list) != 1 || !strings.Contains(list[0], "more than 50 calls") {
		t.Errorf("a tree of calls is accepted: %q", list)
	}
	if made := after.TotalAlloc - before.TotalAlloc; made > 64<<20 {
		t.Errorf("to say so takes %d MiB", made>>20)
	}
}

// Calls of the same workflow count each, and so do the legs of a matrix.
func TestEachCallCounts(t *testing.T) {
	called := "on: workflow_call\njobs: {a: {runs-on: linux, steps: [{run: make}]}}"
	for _, n := range []int{callsMax, callsMax + 1} {
		legs, jobs := "on: push\njobs: {a: {strategy: {matrix: {n: [0", "on: push\njobs:\n"
		for i := range n {
			jobs += fmt.Sprintf("  j%d: {uses: ./.github/workflows/a.yml}\n", i)
			if i > 0 {
				legs += fmt.Sprintf(", %d", i)
			}
		}
		for _, text := range []string{jobs, legs + "]}}, uses: ./.github/workflows/a.yml}}"} {
			p, list := callFiles(t, text, called)
			if (p != nil) != (n == callsMax) || (len(list) == 1) != (n > callsMax) {
				t.Errorf("%d calls: plan %v, %q", n, p != nil, list)
			}
		}
	}
}

func TestCallInputsHaveTheirTypes(t *testing.T) {
	call := &plan.Call{Inputs: []plan.Input{{Name: "n", Type: "number", Value: "${{ needs.a.outputs.n }}"},
		{Name: "b", Type: "boolean", Value: "${{ 1 == 1 }}"}, {Name: "s", Type: "string", Value: "x"}}}
	for text, want := range map[string]string{"7": `{"n":7,"b":true,"s":"x"}`, "seven": ""} {
		got := ""
		v, err := CallInputs(call, needing("n", text))
		if err == nil {
			data, _ := v.MarshalJSON()
			got = string(data)
		}
		if got != want || (err != nil) != (want == "") {
			t.Errorf("inputs of %q are %s (%v)", text, got, err)
		}
	}
}

// needing is the context needs with one output of the job a.
func needing(name, value string) Contexts {
	return func(of string) (expr.Value, bool) {
		outputs := expr.Object().With("outputs", expr.Object().With(name, expr.String(value)))
		return expr.Object().With("a", outputs), of == "needs"
	}
}

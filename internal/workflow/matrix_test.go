package workflow

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// legs gives the legs of a plan, one line each.
func legs(list []plan.Leg) []string {
	var out []string
	for _, l := range list {
		out = append(out, l.Key+" "+l.Name+" "+string(l.Matrix))
	}
	return out
}

// matrixJob is a workflow with one job with that strategy.
func matrixJob(strategy string) string {
	return "on: push\njobs:\n  build:\n    runs-on: linux\n    strategy: " + strategy + "\n    steps: [checkout]\n"
}

func TestS01AMatrixOfIncludeAlone(t *testing.T) {
	p := compiled(t, matrixJob("{matrix: {include: [{foo: a}]}}"))
	if diff := cmp.Diff([]string{`build.1 build (a) {"foo":"a"}`}, legs(p.Legs)); diff != "" {
		t.Error(diff)
	}
}

func TestS02IncludeOverwritesWhatIncludeAdded(t *testing.T) {
	p := compiled(t, matrixJob("{matrix: {os: [w, u], p: [true, false], include: [{os: w, t: x86}, {os: w, t: x64}]}}"))
	want := []string{
		`build.1 build (w, true) {"os":"w","p":true,"t":"x64"}`, `build.2 build (w, false) {"os":"w","p":false,"t":"x64"}`,
		`build.3 build (u, true) {"os":"u","p":true}`, `build.4 build (u, false) {"os":"u","p":false}`,
	}
	if diff := cmp.Diff(want, legs(p.Legs)); diff != "" {
		t.Error(diff)
	}
}

func TestS03TheDocumentedMatrix(t *testing.T) {
	p := compiled(t, matrixJob(`
      matrix:
        fruit: [apple, pear]
        animal: [cat, dog]
        include:
          - color: green
          - {color: pink, animal: cat}
          - {fruit: apple, shape: circle}
          - fruit: banana
          - {fruit: banana, animal: cat}`))
	want := []string{
		`build.1 build (apple, cat) {"fruit":"apple","animal":"cat","color":"pink","shape":"circle"}`,
		`build.2 build (apple, dog) {"fruit":"apple","animal":"dog","color":"green","shape":"circle"}`,
		`build.3 build (pear, cat) {"fruit":"pear","animal":"cat","color":"pink"}`,
		`build.4 build (pear, dog) {"fruit":"pear","animal":"dog","color":"green"}`,
		`build.5 build (banana) {"fruit":"banana"}`, `build.6 build (banana, cat) {"fruit":"banana","animal":"cat"}`,
	}
	if diff := cmp.Diff(want, legs(p.Legs)); diff != "" {
		t.Error(diff)
	}
}

// results answers needs.c.outputs.l.
func results(l string) Contexts {
	needs := expr.Object(expr.Field{Name: "c", Value: expr.Object(
		expr.Field{Name: "result", Value: expr.String("success")},
		expr.Field{Name: "outputs", Value: expr.Strings(map[string]string{"l": l})})})
	return func(name string) (expr.Value, bool) { return needs, name == "needs" }
}

func TestS04AMatrixOfAnOutput(t *testing.T) {
	p := compiled(t, "on: push\njobs:\n  c:\n    runs-on: linux\n    outputs: {l: x}\n    steps: [checkout]\n"+
		"  d:\n    needs: c\n    if: needs.c.outputs.l != '[]'\n    runs-on: ${{ matrix.service }}\n"+
		"    strategy: {matrix: {service: '${{ fromJSON(needs.c.outputs.l) }}'}, max-parallel: 2}\n    steps: [checkout]\n")
	if len(p.Legs) != 0 || p.Jobs[1].If == "" || p.Jobs[1].Strategy.Later == nil {
		t.Fatalf("%d legs, condition %q", len(p.Legs), p.Jobs[1].If)
	}
	out, err := Expand(&p.Jobs[1], results(`["api", "web"]`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`d.1 d (api) {"service":"api"}`, `d.2 d (web) {"service":"web"}`}
	if diff := cmp.Diff(want, legs(out.Legs)); diff != "" {
		t.Error(diff)
	}
	if out.MaxParallel != 2 || !out.FailFast || out.Legs[1].RunsOn[0] != "web" {
		t.Errorf("%+v", out)
	}
	for l, want := range map[string]string{
		`[]`:                                   `the matrix vector "service" has no values`,
		``:                                     "matrix: fromJSON: read JSON: the text is empty or ends too early",
		`[1`:                                   "matrix: fromJSON: read JSON: the text is empty or ends too early",
		`"x"`:                                  `the matrix vector "service" must be a list, not String`,
		`["","a"]`:                             `runs-on: "" can't be a label of runs-on: it is empty`,
		"[" + strings.Repeat("1,", 299) + "1]": "the matrix has 300 legs; at most 256 are allowed",
	} {
		if _, err := Expand(&p.Jobs[1], results(l)); err == nil || err.Error() != want {
			t.Errorf("%.20s: %v, want %s", l, err, want)
		}
	}
}

func TestF2LegsThatLookAlikeStayApart(t *testing.T) {
	p := compiled(t, matrixJob(`{matrix: {a: [1, '1', "1 "], include: [{a: 1, b: [{c: x}]}]}}`))
	want := []string{`build.1 build (1) {"a":1,"b":[{"c":"x"}]}`, `build.2 build (1) {"a":"1","b":[{"c":"x"}]}`,
		`build.3 build (1 ) {"a":"1 ","b":[{"c":"x"}]}`}
	if diff := cmp.Diff(want, legs(p.Legs)); diff != "" {
		t.Error(diff)
	}
}

func TestF2ANameWithoutAnExpressionIsFollowedByTheValues(t *testing.T) {
	p := compiled(t, "on: push\njobs:\n"+job("a", "name: Test, strategy: {matrix: {os: [x]}}")+
		job("b", "name: 'Test ${{ matrix.os }}', strategy: {matrix: {os: [x]}}"))
	if p.Legs[0].Name != "Test (x)" || p.Legs[1].Name != "Test x" {
		t.Errorf("%q, %q", p.Legs[0].Name, p.Legs[1].Name)
	}
}

// A matrix beyond the bound is one diagnostic, and nothing of it is built.
func TestAMatrixOverTheBoundIsOneDiagnostic(t *testing.T) {
	list := "[" + strings.Repeat("1, ", 255) + "1]"
	for legs, strategy := range map[string]string{
		"257":   "{matrix: {a: [0, " + list[1:] + "}}",
		"65536": "{matrix: {a: " + list + ", b: " + list + "}}",
	} {
		text := matrixJob(strategy)
		var diagnostics []Diagnostic
		allocated := testing.AllocsPerRun(1, func() {
			_, diagnostics = Compile(Source{Path: "w.yml", Text: []byte(text)}, Inputs{Event: EventPush}, Limits{})
		})
		if len(diagnostics) != 1 || diagnostics[0].Code != "too_many_legs" ||
			!strings.Contains(diagnostics[0].Message, "has "+legs+" legs; at most 256") {
			t.Errorf("%s legs: %v", legs, diagnostics)
		}
		if allocated > 12_000 { // reading the file
			t.Errorf("%s legs took %.0f allocations", legs, allocated)
		}
	}
}

func TestTheLegsOfAllMatricesAreBounded(t *testing.T) {
	text := "on: push\njobs:\n"
	for i := range 5 {
		text += job(fmt.Sprintf("j%d", i), "strategy: {matrix: {a: ["+strings.Repeat("1, ", 250)+"1]}}")
	}
	_, diagnostics := Compile(Source{Path: "w.yml", Text: []byte(text)}, Inputs{Event: EventPush}, Limits{})
	if len(diagnostics) != 1 || diagnostics[0].Code != "too_many_jobs" {
		t.Errorf("%v", diagnostics)
	}
}

// Legs share what their job says: a thousand of them add little to a plan.
func TestLegsShareTheirSteps(t *testing.T) {
	text := fourMatrices(250)
	p := compiled(t, text)
	if len(p.Legs) != 1000 || len(p.Jobs) != 4 {
		t.Fatalf("%d jobs, %d legs", len(p.Jobs), len(p.Legs))
	}
	if size := len(p.Encode()); size > 200<<10 {
		t.Errorf("the plan has %d bytes", size)
	}
}

// fourMatrices is a workflow with four jobs of so many legs each.
func fourMatrices(legs int) string {
	var out strings.Builder
	out.WriteString("on: push\njobs:\n")
	for j := range 4 {
		fmt.Fprintf(&out, "  test-%d:\n    name: Test ${{ matrix.os }} ${{ matrix.n }}\n    runs-on: ${{ matrix.os }}\n", j)
		fmt.Fprintf(&out, "    strategy:\n      matrix:\n        os: [linux, mac]\n        n: [0")
		for n := 1; n < legs/2; n++ {
			fmt.Fprintf(&out, ", %d", n)
		}
		out.WriteString("]\n    env:\n      LEG: ${{ matrix.n }}\n    steps:\n      - uses: actions/checkout@v4\n" +
			"      - run: |\n          make test LEG=$LEG\n          make report\n" +
			"      - if: failure()\n        run: cat report.txt\n")
	}
	return out.String()
}

func BenchmarkCompileFourMatrices(b *testing.B) {
	source := Source{Path: "w.yml", Text: []byte(fourMatrices(250))}
	b.ReportAllocs()
	for b.Loop() {
		p, list := Compile(source, Inputs{Event: EventPush, Ref: "refs/heads/main"}, Limits{})
		if p == nil {
			b.Fatal(list)
		}
		if data := p.Encode(); !json.Valid(data[:len(data)-1]) {
			b.Fatal("no plan")
		}
	}
}

package forecast

import (
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/workflow"
	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// TestForecasts: each job says in its name what becomes of it.
func TestForecasts(t *testing.T) {
	const rest = "runs-on: x, steps: [{run: ':'}]"
	const text = `
on: {push: , workflow_dispatch: {inputs: {deep: {type: boolean, default: true}}}}
jobs:
  a: {name: "runs: it needs no other job", REST}
  b: {name: "runs: it needs a, and runs when", needs: a, REST}
  c: {name: "skips: its condition does not hold", if: "github.ref == 'refs/heads/x'", REST}
  d: {name: "skips: c, which it needs, is skipped", needs: [a, c], REST}
  e: {name: "skips: c, which it needs, is skipped", needs: d, REST}
  f: {name: "runs: its condition holds", if: always(), needs: [c, e], REST}
  g: {name: "runs: its condition holds", if: "always() && needs.a.result == 'success'", needs: [a, d], REST}
  h: {name: "runs: its condition holds", if: "always() && needs.c.result == 'skipped'", needs: [c], REST}
  i: {name: "skips: its condition does not hold", if: failure(), needs: a, REST}
  j: {name: "open: it depends on github.sha", if: "github.sha == 'x'", REST}
  k: {name: "open: a job that it needs is open", needs: j, REST}
  l: {name: "skips: its condition does not hold", if: "!always()", needs: j, REST}
  m: {name: "open: it depends on needs.j.result", if: "always() && needs.j.result == 'success'", needs: j, REST}
  n: {name: "runs: its condition holds", if: "github.event.pull_request.draft == null", REST}
  o: {name: "runs: its condition holds", if: "github.event.ref == 'r'", REST}
  p: {name: "runs: its condition holds", if: inputs.deep, REST}
  r: {name: "runs: its condition holds", if: "always() && !contains(needs.*.result, 'failure')", needs: [a, c], REST}
  s: {name: "open: it depends on needs.*.result", if: "always() && needs.*.result[0] == 'success'", needs: [a, j], REST}
  t: {name: "runs: its condition holds", if: "needs.A.Result == 'success'", needs: a, REST}
  u: {name: "runs: its condition holds", if: "github.event.commits[0].message == 'm'", REST}
  v: {name: "runs: its condition holds", if: "!contains(github.event.commits.*.message, 'x')", REST}
  w: {name: "skips: its condition does not hold", if: "github.event.commits[7].message == 'm'", REST}
  x: {name: "open: it depends on github.event.commits.*.id", if: "contains(github.event.commits.*.id, 'x')", REST}
  y: {name: "open: its condition can't be answered before: fromJSON", if: "fromJSON('{')", REST}
  z: {name: "open: it depends on github.event.nope", if: "github.event.nope == null", REST}
  q: {name: "skips: c, which it needs, is skipped", needs: [c, j], REST}
`
	src := workflow.Source{Path: "w.yml", Text: []byte(strings.ReplaceAll(text, "REST", rest))}
	p, found := workflow.Compile(src, workflow.Inputs{Event: "workflow_dispatch"}, workflow.Limits{})
	if p == nil {
		t.Fatal(found)
	}
	event, err := expr.FromJSON(`{"ref": "r", "pull_request": null, "commits": [{"message": "m"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	known := Known{Github: expr.Object(expr.Field{Name: "ref", Value: expr.String("refs/heads/main")},
		expr.Field{Name: "event", Value: event}), Inputs: expr.Object(expr.Field{Name: "deep", Value: expr.Bool(true)})}
	for i, got := range Of(p, known) {
		job := p.Jobs[i]
		want, reason, _ := strings.Cut(job.Name, ": ")
		if string(got.Answer) != want || !strings.Contains(got.Reason, reason) {
			t.Errorf("%s %s: %s, want %s", job.Key, got.Answer, got.Reason, job.Name)
		}
	}
}

func TestTheGroupIsNamedAsFarAsItIsKnown(t *testing.T) {
	known := Known{Github: expr.Object(expr.Field{Name: "ref", Value: expr.String("refs/heads/main")}),
		Inputs: expr.Object(expr.Field{Name: "stage", Value: expr.String("test")})}
	for text, want := range map[string][2]string{
		"deploy":                                {"deploy", ""},
		"${{ inputs.stage }}-${{ github.ref }}": {"test-refs/heads/main", ""},
		"a-${{ github.sha }}":                   {"a-${{ github.sha }}", "github.sha"},
		"${{ inputs.stage }}-${{ matrix.os }}":  {"${{ inputs.stage }}-${{ matrix.os }}", "matrix.os"},
		"${{ github }}":                         {"${{ github }}", "github"},
		"${{ needs.a.result || 'x' }}":          {"${{ needs.a.result || 'x' }}", "needs.a.result"},
	} {
		if group, later := Joins(&plan.Concurrency{Group: text}, known); group != want[0] || later != want[1] {
			t.Errorf("%s: %q until %q", text, group, later)
		}
	}
}

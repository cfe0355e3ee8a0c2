package workflow

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// These tests are named after public reports of what other systems got wrong (S..) and
// after facts about the language (F..), as far as compiling and evaluating decides them.

func compiled(t *testing.T, text string) *plan.Plan {
	t.Helper()
	p, list := Compile(Source{Path: "w.yml", Text: []byte(text)}, Inputs{Event: EventPush, Ref: "refs/heads/main"},
		Limits{})
	if p == nil {
		t.Fatalf("compile: %v", list)
	}
	return p
}

// conclude walks the plan in the order of needs, as the core does: a job whose condition
// holds concludes with its result in body ("success" by default), else it is skipped.
func conclude(t *testing.T, p *plan.Plan, body map[string]string) map[string]string {
	t.Helper()
	results := make(map[string]string)
	for len(results) < len(p.Jobs) {
		for _, job := range p.Jobs {
			if results[job.Key] == "" && ready(p, job, results) {
				results[job.Key] = answer(t, p, job, results, body)
			}
		}
	}
	return results
}

func ready(p *plan.Plan, job plan.Job, results map[string]string) bool {
	for _, need := range job.Needs {
		if results[p.Jobs[need].Key] == "" {
			return false
		}
	}
	return true
}

func answer(t *testing.T, p *plan.Plan, job plan.Job, results, body map[string]string) string {
	t.Helper()
	var status expr.JobStatus
	for _, a := range p.Ancestors(job.Index) {
		status.Ancestors = append(status.Ancestors, expr.JobResult{ID: p.Jobs[a].Key, Result: results[p.Jobs[a].Key]})
	}
	needs := expr.Object()
	for _, n := range job.Needs {
		needs = needs.With(p.Jobs[n].Key, expr.Strings(map[string]string{"result": results[p.Jobs[n].Key]}))
	}
	cond, err := expr.ParseCondition(job.If)
	if err != nil {
		t.Fatal(err)
	}
	verdict, err := cond.Eval(expr.Env{Status: status, Context: func(name string) (expr.Value,
		bool) {
		return needs, name == "needs"
	}})
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case !verdict.Holds:
		return "skipped"
	case body[job.Key] != "":
		return body[job.Key]
	}
	return "success"
}

// job writes a job for the tests below.
func job(id, keys string) string {
	return "  " + id + ": {runs-on: linux, steps: [checkout], " + keys + "}\n"
}

func TestS05AlwaysRunsAfterASkippedNeed(t *testing.T) {
	p := compiled(t, "on: push\njobs:\n"+job("job1", "if: false")+job("job2", "needs: job1, if: always()"))
	want := map[string]string{"job1": "skipped", "job2": "success"}
	if diff := cmp.Diff(want, conclude(t, p, nil)); diff != "" {
		t.Error(diff)
	}
}

func TestS06ASkippedAncestorSkipsTransitively(t *testing.T) {
	p := compiled(t, "on: push\njobs:\n"+job("S", "if: false")+job("A", "needs: S, if: always()")+
		job("B", "needs: A")+job("C", "needs: A, if: 'always() && needs.A.result == ''success'''"))
	want := map[string]string{"S": "skipped", "A": "success", "B": "skipped", "C": "success"}
	if diff := cmp.Diff(want, conclude(t, p, nil)); diff != "" {
		t.Error(diff)
	}
}

func TestS07TextAroundAnExpressionIsAlwaysTrue(t *testing.T) {
	text := "on: push\njobs:\n  a:\n    runs-on: linux\n    steps:\n" +
		"      - if: ${{ env.T }} == \"false\"\n        run: echo\n"
	p, list := Compile(Source{Path: "w.yml", Text: []byte(text)}, Inputs{}, Limits{})
	if p == nil || len(list) != 1 || list[0].Code != "always_true_condition" || list[0].Pos != (Pos{Line: 6, Column: 13}) {
		t.Fatalf("plan %v, diagnostics %v", p != nil, list)
	}
	cond, err := expr.ParseCondition(p.Jobs[0].Steps[0].If)
	if err != nil {
		t.Fatal(err)
	}
	verdict, err := cond.Eval(expr.Env{Status: expr.StepStatus{}, Context: func(string) (expr.Value, bool) {
		return expr.Strings(map[string]string{"T": "true"}), true
	}})
	if err != nil || !verdict.Holds {
		t.Errorf("the step does not run: %v, %v", verdict, err)
	}
}

func TestS08TheResultOfASkippedNeedIsSkipped(t *testing.T) {
	p := compiled(t, "on: push\njobs:\n"+job("a", "if: true")+job("b", "needs: a, if: needs.a.outputs.T == 'true'")+
		job("c", "needs: b, if: 'always() && needs.b.result == ''skipped'''"))
	want := map[string]string{"a": "success", "b": "skipped", "c": "success"}
	if diff := cmp.Diff(want, conclude(t, p, nil)); diff != "" {
		t.Error(diff)
	}
}

func TestS10ContinueOnErrorKeepsTheJobGoing(t *testing.T) {
	p := compiled(t, "on: push\njobs:\n  a:\n    runs-on: linux\n    steps:\n"+
		"      - {id: x, run: exit 1, continue-on-error: true}\n      - run: echo next\n      - {run: echo, if: failure()}\n"+
		"      - {run: echo, if: steps.x.outcome == 'failure' && steps.x.conclusion == 'success'}\n")
	steps := p.Jobs[0].Steps
	if !steps[0].SoftFail || steps[1].If != "" || steps[2].If != "failure()" {
		t.Fatalf("steps %+v", steps)
	}
	x := expr.Object(expr.Field{Name: "x", Value: expr.Strings(map[string]string{"outcome": "failure",
		"conclusion": "success"})})
	env := expr.Env{Status: expr.StepStatus{}, Context: func(string) (expr.Value, bool) { return x, true }}
	for i, want := range []bool{true, true, false, true} {
		cond, err := expr.ParseCondition(steps[i].If)
		if err != nil {
			t.Fatal(err)
		}
		if verdict, err := cond.Eval(env); err != nil || verdict.Holds != want {
			t.Errorf("step %d: %v, %v", i, verdict, err)
		}
	}
}

func TestS18AFractionOfAMinute(t *testing.T) {
	p := compiled(t, "on: push\njobs:\n"+job("a", "timeout-minutes: 0.5")+job("b", "name: b")+job("c",
		"timeout-minutes: 0.001"))
	got := []int64{p.Jobs[0].TimeoutSeconds, p.Jobs[1].TimeoutSeconds, p.Jobs[2].TimeoutSeconds}
	if diff := cmp.Diff([]int64{30, 6 * 3600, 1}, got); diff != "" {
		t.Error(diff)
	}
}

// match asks the triggers of a workflow about a push that changes these files.
func match(t *testing.T, on, ref string, changed ...string) (bool, string) {
	t.Helper()
	return inspect(t, on).Match(Event{Name: EventPush, Ref: ref, Changed: append([]string{}, changed...)})
}

func TestS28TagsAreNotFilteredAway(t *testing.T) {
	for _, on := range []string{"on: push", "on: {push: {paths: ['foo/**']}}"} {
		if matches, reason := match(t, on, "refs/tags/v1", "bar/a"); !matches {
			t.Errorf("%s: %s", on, reason)
		}
	}
}

func TestS29OnlyTagFiltersMeansNoBranch(t *testing.T) {
	matches, reason := match(t, "on: {push: {tags-ignore: ['**'], paths: [p.yaml]}}", "refs/heads/main", "p.yaml")
	if matches {
		t.Error(reason)
	}
}

func TestS30OnlyBranchFiltersMeansNoTag(t *testing.T) {
	on := "on: {push: {branches: ['**'], paths: ['x/**']}}"
	if matches, reason := match(t, on, "refs/tags/v1", "x/a"); matches {
		t.Error(reason)
	}
	if matches, reason := match(t, on, "refs/heads/any/branch", "x/a"); !matches {
		t.Error(reason)
	}
}

func TestS41ShellsStayApart(t *testing.T) {
	p := compiled(t, "on: push\njobs:\n  a:\n    runs-on: linux\n    steps:\n      - run: false | true\n"+
		"      - {run: false | true, shell: bash}\n      - {run: x, shell: 'perl -w {0}'}\n")
	var got []string
	for _, s := range p.Jobs[0].Steps {
		got = append(got, s.Shell)
	}
	if diff := cmp.Diff([]string{"", "bash", "perl -w {0}"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestF3NumbersAreWrittenWithFifteenDigits(t *testing.T) {
	p := compiled(t, "on: push\nenv: {A: 12345678901234567890.0, B: 1.0, C: 0x1F, D: '1.0', E: 007, "+
		"F: 0o17, G: yes, H: True, I: ~}\njobs:\n"+job("a", "name: a"))
	var got []string
	for _, b := range p.Jobs[0].Env {
		got = append(got, b.Name+"="+b.Value)
	}
	want := []string{"A=1.23456789012346E+19", "B=1", "C=31", "D=1.0", "E=7", "F=15", "G=yes", "H=true", "I="}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestF10GeneratedStepIDs(t *testing.T) {
	p := compiled(t, "on: push\njobs:\n  a:\n    runs-on: linux\n    steps:\n      - checkout\n"+
		"      - run: a\n      - uses: actions/checkout@v4\n"+
		"      - run: b\n      - {id: mine, run: c}\n      - uses: actions/checkout@v3\n      - run: d\n")
	var got []string
	for _, s := range p.Jobs[0].Steps {
		got = append(got, s.ID)
	}
	want := "__checkout __run __actions_checkout __run_2 mine __actions_checkout_2 __run_3"
	if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
		t.Error(diff)
	}
}

func TestTitlesOfSteps(t *testing.T) {
	p := compiled(t, "on: push\njobs:\n  a:\n    runs-on: linux\n    steps:\n      - run: |\n"+
		"\n          make all\n          make more\n"+
		"      - run: |\n          echo ${{\n            github.sha }}\n      - {run: x, name: 'build ${{ github.sha }}'}\n"+
		"      - run: "+strings.Repeat("x", 300)+"\n")
	var got []string
	for _, s := range p.Jobs[0].Steps {
		got = append(got, s.Name)
	}
	want := []string{"Run make all", "Run a script", "build ${{ github.sha }}", "Run a script"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

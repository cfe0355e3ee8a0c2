package replay

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
	"github.com/fairlead-ci/fairlead/internal/workflow"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

const text = "on: push\njobs:\n  a:\n    runs-on: linux\n    steps: [checkout]\n" +
	"  b:\n    needs: a\n    if: failure()\n    runs-on: linux\n    steps: [checkout]\n"

// whole is a run that was just asked for, with what it rests on.
func whole(t *testing.T, change func(*snapshot.Snapshot, *plan.Plan)) Input {
	t.Helper()
	p, list := workflow.Compile(workflow.Source{Path: "ci.yml", Text: []byte(text)}, workflow.Inputs{Event: "push",
		Ref: "refs/heads/main", SHA: "c1", Repository: "app", Actor: "ada"}, workflow.Limits{})
	if p == nil {
		t.Fatal(list)
	}
	s := &snapshot.Snapshot{Version: snapshot.Version, Evaluator: plan.Evaluator, Tenant: "tnt_a", RepositoryName: "app",
		Source: snapshot.Source{Commit: "c1", Ref: "refs/heads/main"}, Github: json.RawMessage(`{}`),
		Workflow: snapshot.Workflow{Path: "ci.yml", Digest: domain.DigestOf([]byte(text))}, Tier: domain.TierTrusted,
		Class: domain.ClassBatch, Trigger: snapshot.Trigger{Event: "push", Actor: domain.Actor{ID: "ada"}}}
	if change != nil {
		change(s, p)
	}
	in := Input{Snapshot: s.Encode(), Workflow: []byte(text), Plan: p.Encode(), Evaluator: Evaluator{
		Condition: func(s *run.State, job int, text string) (bool, string, string) {
			return text != "failure()", "", ""
		}}}
	live := run.New()
	do := func(c run.Command) {
		d, no := run.Decide(live, c, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		if no != nil {
			t.Fatalf("%s: %v", c.Name(), no)
		}
		for _, e := range d.Events {
			run.Evolve(live, e)
			in.Events = append(in.Events, e)
		}
	}
	do(run.RequestRun{Request: run.Request{Run: domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{1})),
		Tenant: "tnt_a", RepositoryName: "app", WorkflowPath: "ci.yml", Trigger: run.Trigger{Event: "push"},
		Source: run.Source{Commit: "c1", Ref: "refs/heads/main"}, Tier: s.Tier, Class: s.Class,
		Snapshot: domain.DigestOf(in.Snapshot), Plan: domain.DigestOf(in.Plan), Skeleton: run.SkeletonOf(p)}})
	return in
}

func TestTheSameBytesGiveTheSameResult(t *testing.T) {
	in := whole(t, nil)
	got, again := Run(in), Run(in)
	if got.Answer != Verified || !same(got, again) {
		t.Errorf("%+v, then %+v", got, again)
	}
}

func TestATamperedPlanIsFound(t *testing.T) {
	in := whole(t, nil)
	changed := strings.Replace(string(in.Plan), `"if":"failure()"`, `"if":"always()"`, 1)
	in.Plan = []byte(changed)
	got := Run(in)
	if got.Answer != Differs || got.Findings[0].What != WhatPlan ||
		!strings.Contains(got.Findings[0].Now, "stored plan is") {
		t.Errorf("an object under another digest: %+v", got)
	}
	in = whole(t, func(_ *snapshot.Snapshot, p *plan.Plan) { p.Jobs[1].If = "always()" })
	if got := Run(in); got.Answer != Differs || !strings.Contains(got.Findings[0].Recorded, "job b: if = always()") ||
		!strings.Contains(got.Findings[0].Now, "job b: if = failure()") {
		t.Errorf("history and object changed alike: %+v", got)
	}
	in = whole(t, nil)
	in.Plan = []byte(strings.Replace(string(in.Plan), `"needs":[0]`, `"needs":[7]`, 1))
	if got := Run(in); got.Answer != Differs || got.Findings[len(got.Findings)-1].What != WhatPlan {
		t.Errorf("needs that lead nowhere: %+v", got)
	}
}

// Promises: [REPLAY-2].
func TestWhatThisProgramCanNotTell(t *testing.T) {
	for name, one := range map[string]struct {
		change func(in *Input)
		want   Answer
	}{
		"garbage":      {func(in *Input) { in.Snapshot = []byte("\x00{") }, Unsupported},
		"no snapshot":  {func(in *Input) { in.Snapshot = nil }, Unsupported},
		"newer form":   {func(in *Input) { in.Snapshot = []byte(`{"version":9,"evaluator":7,"moons":1}`) }, Unsupported},
		"newer plan":   {func(in *Input) { in.Plan = []byte(`{"evaluator":2,"moons":[]}`) }, Unsupported},
		"no history":   {func(in *Input) { in.Events = nil }, Unknown},
		"no beginning": {func(in *Input) { in.Events = in.Events[1:] }, Unknown},
		"stopped":      {func(in *Input) { in.Stop = func() bool { return true } }, Unknown},
		"not known": {func(in *Input) {
			in.Evaluator.Condition = func(*run.State, int, string) (bool, string, string) { return false, "", "lost" }
		}, Unknown},
		"lost plan": {func(in *Input) { in.Plan, in.PlanLost = nil, "lost" }, Verified},
	} {
		in := whole(t, nil)
		one.change(&in)
		if got := Run(in); got.Answer != one.want || got.Sentence == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := Run(Input{Snapshot: []byte(`{"version":9,"evaluator":7}`)}); got.Evaluator != 7 ||
		!strings.Contains(got.Use, "evaluator 7") {
		t.Errorf("newer: %+v", got)
	}
}

func TestTheWorkIsBounded(t *testing.T) {
	in := whole(t, nil)
	for range decisionsMax {
		in.Events = append(in.Events, &run.EvaluationAsked{OfJob: run.OfJob{Job: 1}, Expression: "failure()"})
	}
	asked := 0
	in.Evaluator.Condition = func(*run.State, int, string) (bool, string, string) { asked++; return true, "", "" }
	got := Run(in)
	if got.Decisions > decisionsMax+2 || asked > decisionsMax || len(got.Findings) != findingsMax || got.More == 0 {
		t.Errorf("%d decisions, %d asked, %d findings and %d more", got.Decisions, asked, len(got.Findings), got.More)
	}
}

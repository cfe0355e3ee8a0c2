package reactor

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/workflow"
)

// asked compiles a workflow, runs its first job with that output, and gives the run in which
// the second one has asked for its legs.
func asked(t *testing.T, strategy, output string) (*run.State, run.RecordMatrix) {
	t.Helper()
	text := "on: push\njobs:\n  c:\n    runs-on: linux\n    outputs: {l: x}\n    steps: [checkout]\n" +
		"  d:\n    needs: c\n    runs-on: linux\n    continue-on-error: true\n    strategy: " + strategy +
		"\n    steps: [checkout]\n"
	p, list := workflow.Compile(workflow.Source{Path: "w.yml", Text: []byte(text)}, workflow.Inputs{Event: "push"},
		workflow.Limits{})
	if p == nil {
		t.Fatal(list)
	}
	s, now := run.New(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	id := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{1}))
	do := func(c run.Command) {
		d, rejection := run.Decide(s, c, now)
		if rejection != nil {
			t.Fatalf("%s: %v", c.Name(), rejection)
		}
		for _, e := range d.Events {
			run.Evolve(s, e)
		}
	}
	do(run.RequestRun{Request: run.Request{Run: id, Tenant: "tnt_a", Tier: domain.TierTrusted,
		Class: domain.ClassInteractive, Skeleton: run.SkeletonOf(p)}})
	do(run.GrantLease{Job: s.JobID(0), Runner: "r", Pool: "p", Slot: "r/0/1", Tiers: []domain.Tier{domain.TierTrusted},
		Until: now.Add(time.Minute), AbandonBy: now.Add(2 * time.Minute)})
	do(run.ReportResult{Attempt: s.AttemptID(0, 1), Epoch: 1, Digest: domain.DigestOf(nil),
		Outcome: domain.OutcomeSuccess, Outputs: []run.Output{{Name: "l", Value: output}}})
	values := &Values{Github: json.RawMessage(`{"ref":"main"}`), Outputs: map[int]map[string]string{0: {"l": output}}}
	c, again := Matrix(s, 1, p, values), Matrix(s, 1, p, values)
	if diff := cmp.Diff(c, again); diff != "" {
		t.Errorf("asked again, the answer is another one: %s", diff)
	}
	c.InputDigest = s.Jobs[1].Evaluation.InputDigest
	do(c)
	return s, c
}

// Promises: [RUN-19].
func TestS04AMatrixComesFromRecordedInputsAlone(t *testing.T) {
	s, c := asked(t, "{matrix: {v: '${{ fromJSON(needs.c.outputs.l) }}', ref: ['${{ github.ref }}']}, fail-fast: false}",
		`["a", {"k": 1}]`)
	want := []run.NewLeg{{Name: "d (a, main)", Matrix: `{"v":"a","ref":"main"}`, SoftFail: true},
		{Name: "d (1, main)", Matrix: `{"v":{"k":1},"ref":"main"}`, SoftFail: true}}
	if diff := cmp.Diff(want, c.Legs); diff != "" {
		t.Error(diff)
	}
	if c.FailFast || s.Jobs[1].State != run.StateExpanded || len(run.ReadyJobs(s)) != 2 {
		t.Errorf("the job is %s with %v", s.Jobs[1].State, run.ReadyJobs(s))
	}
}

func TestS04AnEmptyVectorFailsThatJobWithItsName(t *testing.T) {
	s, c := asked(t, "{matrix: {service: '${{ fromJSON(needs.c.outputs.l) }}'}}", `[]`)
	if c.Error != `the matrix vector "service" has no values` || s.Jobs[1].Outcome != domain.OutcomeSoftFailure ||
		s.Sentence(s.Jobs[1].Reason) != `Its matrix can't be expanded: the matrix vector "service" has no values.` {
		t.Errorf("%q, %s: %s", c.Error, s.Jobs[1].Outcome, s.Sentence(s.Jobs[1].Reason))
	}
}

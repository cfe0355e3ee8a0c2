package job

import (
	"encoding/json"
	"strings"
	"testing"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

func given(r *runnerv1.Result) string {
	var out []string
	for _, o := range r.GetOutputs() {
		out = append(out, o.GetName()+"="+o.GetValue())
	}
	return strings.Join(out, " ")
}

func TestOutputsAreEvaluatedAtTheEnd(t *testing.T) {
	b := newBench(t, plan.Step{ID: "x", Script: "echo v=one >> $GITHUB_OUTPUT"}, plan.Step{Script: "exit 1"})
	b.order.Manifest.Outputs = []plan.Binding{
		{Name: "v", Value: "${{ steps.x.outputs.v }}"}, {Name: "none", Value: "${{ steps.x.outputs.w }}"},
		{Name: "os", Value: "${{ matrix.os }} ${{ strategy.job-total }} ${{ needs.build.outputs.digest }} ${{ job.status }}"},
	}
	b.order.Manifest.Matrix = json.RawMessage(`{"os":"linux"}`)
	b.order.Manifest.Strategy = json.RawMessage(`{"job-total":2}`)
	if r := b.run().result; given(r) != "v=one os=linux 2 d1 failure" || r.GetOutcome() != outcomeFailure {
		t.Errorf("%s with %q", r.GetOutcome(), given(r))
	}
}

// Promises: [RUN-21].
func TestS11AMaskedOutputIsDroppedWithAWarningThatNamesIt(t *testing.T) {
	b := newBench(t, plan.Step{ID: "x", Script: "V=sesame-open; echo ::add-mask::$V; echo k=$V >> $GITHUB_OUTPUT; " +
		"echo k2=a-$V-b >> $GITHUB_OUTPUT; echo fine=yes >> $GITHUB_OUTPUT"})
	b.order.Manifest.Outputs = []plan.Binding{{Name: "k", Value: "${{ steps.x.outputs.k }}"},
		{Name: "k2", Value: "${{ steps.x.outputs.k2 }}"}, {Name: "fine", Value: "${{ steps.x.outputs.fine }}"}}
	r := b.run().result
	if given(r) != "fine=yes" || r.GetOutcome() != outcomeSuccess {
		t.Errorf("%s with %q", r.GetOutcome(), given(r))
	}
	for _, said := range []string{b.sink.raw(0), r.GetMessage()} {
		if !strings.Contains(said, "the output k is not passed on") || !strings.Contains(said, "the output k2 is not") ||
			strings.Contains(said, "sesame") {
			t.Errorf("said %q", said)
		}
	}
}

func TestOutputsOverTheBoundFailTheJobAndNameTheBiggest(t *testing.T) {
	b := newBench(t, plan.Step{ID: "x", Script: "printf 'v=%0600000d' 1 >> $GITHUB_OUTPUT"})
	b.order.Manifest.Outputs = []plan.Binding{{Name: "a", Value: "${{ steps.x.outputs.v }}"},
		{Name: "b", Value: "${{ steps.x.outputs.v }}1"}}
	r := b.run().result
	if r.GetOutcome() != outcomeFailure || given(r) != "" ||
		!strings.Contains(r.GetMessage(), "the biggest is b with 600002") {
		t.Errorf("%s: %s", r.GetOutcome(), r.GetMessage())
	}
}

func TestAnOutputWithoutAValueFailsTheJob(t *testing.T) {
	b := newBench(t, plan.Step{Script: "true"})
	b.order.Manifest.Outputs = []plan.Binding{{Name: "a", Value: "${{ fromJSON('[') }}"}}
	r := b.run().result
	if r.GetOutcome() != outcomeFailure || r.GetFailureClass() != string(domain.FailureInvalid) ||
		!strings.Contains(r.GetMessage(), "the output a:") {
		t.Errorf("%s: %s", r.GetOutcome(), r.GetMessage())
	}
}

func TestStepsOfALegSeeItsMatrix(t *testing.T) {
	b := newBench(t,
		plan.Step{Name: "On ${{ matrix.os }}", Script: "echo os=${{ matrix.os }} ${{ strategy.job-index }} $OS; exit 1",
			Env:   []plan.Binding{{Name: "OS", Value: "${{ matrix.os }}"}},
			Shell: "${{ matrix.shell }}", SoftFailText: "${{ matrix.soft }}", TimeoutText: "${{ matrix.minutes }}"},
		plan.Step{Script: "sleep 10", TimeoutText: "${{ matrix.minutes }}"})
	b.order.Manifest.Matrix = json.RawMessage(`{"os":"bsd","shell":"sh","soft":true,"minutes":0.01}`)
	b.order.Manifest.Strategy = json.RawMessage(`{"job-index":3}`)
	r := b.run().result
	if !strings.Contains(b.sink.raw(0), "os=bsd 3 bsd") || r.GetSteps()[0].GetName() != "On bsd" ||
		r.GetSteps()[0].GetConclusion() != outcomeSuccess || r.GetSteps()[1].GetOutcome() != outcomeTimedOut {
		t.Errorf("%v: %s", r.GetSteps(), b.sink.raw(0))
	}
}

func TestAStepWhoseKeysHaveNoValueFails(t *testing.T) {
	for _, step := range []plan.Step{{SoftFailText: "${{ matrix.soft }}"}, {TimeoutText: "${{ 'soon' }}"},
		{Shell: "${{ fromJSON('') }}"}} {
		step.Script = "true"
		if r := newBench(t, step).run().result; r.GetOutcome() != outcomeFailure ||
			r.GetFailureClass() != string(domain.FailureInvalid) {
			t.Errorf("%+v: %s %s", step, r.GetOutcome(), r.GetMessage())
		}
	}
}

package canned

import (
	"context"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// ReplayRun differs for a run that failed, and is verified for the others.
func (w *World) ReplayRun(_ context.Context, in *fairleadv1.ReplayRunRequest) (*fairleadv1.ReplayRunResponse, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	run, err := w.find(in.GetRun())
	if err != nil {
		return nil, err
	}
	out := &fairleadv1.ReplayRunResponse{Run: run.GetRun(), Answer: "verified", Evaluator: 2, ServerEvaluator: 2,
		Sentence:  "The workflow compiles to the same plan, and all 17 decisions came out as they are recorded.",
		Decisions: 17, PlanDigest: run.GetPlanDigest(), ReplayedDigest: run.GetPlanDigest()}
	if run.GetOutcome() == "failure" {
		out.Answer, out.Sentence, out.More = "differs", "Of 17 decisions that were made again, 2 came out otherwise.", 1
		out.Findings = []*fairleadv1.ReplayedDecision{{Answer: "differs", What: "condition", Job: "deploy", Round: 1,
			Event: "EvaluationRecorded", Version: 12, Recorded: "true", Now: "no value: <b>\u202ehostile</b>"}}
	}
	return out, nil
}

// failed is a run that failed.
func (w *World) failed() string {
	for _, run := range w.runs {
		if run.GetOutcome() == "failure" {
			return run.GetRun()
		}
	}
	return ""
}

// DiffRuns finds something of each kind, or nothing for a run and itself.
func (w *World) DiffRuns(_ context.Context, in *fairleadv1.DiffRunsRequest) (*fairleadv1.DiffRunsResponse, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	run, err := w.find(in.GetRun())
	if err != nil {
		return nil, err
	}
	other, err := w.find(in.GetOther())
	if err != nil {
		return nil, err
	}
	out := &fairleadv1.DiffRunsResponse{Run: run.GetSummary(), Other: other.GetSummary(), Same: run == other}
	if !out.Same {
		out.Differences = []*fairleadv1.Difference{
			{Part: "source", Name: "commit", Kind: "changed", Before: "a1b2", After: "c3d4"},
			{Part: "plan", Name: "job test: steps[1].script", Kind: "changed", Before: "make", After: "make <check>"},
			{Part: "plan", Name: "job lint", Kind: "removed"}, {Part: "plan", Name: "job scan", Kind: "added", After: "scan"},
			{Part: "outcome", Name: "run", Kind: "changed", Before: "success", After: "failure"}}
		out.Lines = []*fairleadv1.DiffLine{{Kind: "cut", Text: "9 equal lines"}, {Kind: "same", Before: 10, After: 10,
			Text: "    steps:"}, {Kind: "removed", Before: 11, Text: "      - run: make"},
			{Kind: "added", After: 11, Text: "      - run: make <check>"}}
		out.Notes = []string{"The inputs of the first run can't be compared: the stored object is missing."}
	}
	return out, nil
}

// Withdraw takes note of nothing.
func (w *World) Withdraw(ctx context.Context, in *fairleadv1.WithdrawRequest) (*fairleadv1.WithdrawResponse, error) {
	key, _ := ctx.Value(keyOf{}).(string)
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, done := w.replies[key]; !done {
		w.replies[key] = in.GetAction()
		w.acted++
	}
	return &fairleadv1.WithdrawResponse{}, nil
}

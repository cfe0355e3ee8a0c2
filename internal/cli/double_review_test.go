package cli

import (
	"context"
	"fmt"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// ReplayRun implements the contract: a run that failed differs.
func (d *double) ReplayRun(_ context.Context, q *fairleadv1.ReplayRunRequest) (*fairleadv1.ReplayRunResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.find(q.GetRun())
	if r == nil {
		return nil, absent("run")
	}
	out := &fairleadv1.ReplayRunResponse{Run: q.GetRun(), Answer: "verified", Sentence: "All of it came out again."}
	switch r.run.GetOutcome() {
	case "failure":
		out.Answer, out.Sentence, out.More = "differs", "Of 9 decisions 2 came out otherwise.", 1
		out.Findings = []*fairleadv1.ReplayedDecision{{Answer: "differs", What: "condition", Job: "test", Round: 1,
			Event: "EvaluationRecorded", Version: 7, Recorded: "true", Now: "false\x1b[31m"}}
	case "":
		out.Answer, out.Sentence = "unknown", "The stored object is missing."
	}
	return out, nil
}

// DiffRuns implements the contract: two runs differ in everything.
func (d *double) DiffRuns(_ context.Context, q *fairleadv1.DiffRunsRequest) (*fairleadv1.DiffRunsResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, b := d.find(q.GetRun()), d.find(q.GetOther())
	if a == nil || b == nil {
		return nil, absent("run")
	}
	out := &fairleadv1.DiffRunsResponse{Run: a.run.GetSummary(), Other: b.run.GetSummary(), Same: a == b}
	if a != b {
		out.Differences = []*fairleadv1.Difference{{Part: "plan", Name: "job a", Kind: "added"},
			{Part: "plan", Name: "job b: if", Kind: "removed", Before: "always()"},
			{Part: "outcome", Name: "run", Kind: "changed", Before: "success", After: "failure"}}
		out.Lines = []*fairleadv1.DiffLine{{Kind: "cut", Text: "3 equal lines"},
			{Kind: "same", Before: 4, After: 4, Text: "x:"},
			{Kind: "removed", Before: 5, Text: "  old"}, {Kind: "added", After: 5, Text: "  new"}}
		out.Notes = []string{"More is not listed."}
	}
	return out, nil
}

// Withdraw implements the contract, and remembers the last one.
func (d *double) Withdraw(_ context.Context, q *fairleadv1.WithdrawRequest) (*fairleadv1.WithdrawResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, fmt.Sprintf("Withdraw %s workflow=%s component=%s commit=%s reason=%s", q.GetAction(),
		q.GetWorkflow(), q.GetComponent(), q.GetCommit(), q.GetReason()))
	d.withdrawals = nil
	if q.GetAction() != "enable" {
		d.withdrawals = []*fairleadv1.Withdrawal{{Workflow: q.GetWorkflow(), Component: q.GetComponent(), State: "disabled",
			Reason: q.GetReason(), By: "user admin", At: doubleTime}}
	}
	return &fairleadv1.WithdrawResponse{Withdrawals: d.withdrawals}, nil
}

// ListWithdrawals implements the contract.
func (d *double) ListWithdrawals(_ context.Context, _ *fairleadv1.ListWithdrawalsRequest) (
	*fairleadv1.ListWithdrawalsResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &fairleadv1.ListWithdrawalsResponse{Withdrawals: d.withdrawals}, nil
}

package web

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// matrixRun is a run of a job with two legs now and one of an earlier round, between others.
func matrixRun() *fairleadv1.Run {
	return &fairleadv1.Run{Run: "run_x", Summary: &fairleadv1.RunSummary{}, Jobs: []*fairleadv1.Job{
		{Index: 0, Key: "prep", Name: "Prepare", State: "concluded", Outcome: "success",
			Outputs: []*fairleadv1.Output{{Name: "id", Value: "4711"}, {Name: "large", Bytes: 5000}}},
		{Index: 1, Key: "test", Name: "Test", State: "expanded", Needs: []string{"prep"}, Legs: []string{"test.3", "test.1"}},
		{Index: 2, Key: "ship", Name: "Ship", State: "waiting", Needs: []string{"test"}},
		{Index: 3, Key: "test.1", Name: "Test (a)", State: "ready", LegOf: "test", Needs: []string{"prep"}},
		{Index: 4, Key: "test.2", Name: "Test (b)", State: "concluded", Outcome: "failure", LegOf: "test"},
		{Index: 5, Key: "test.3", Name: "Test (c)", State: "active", LegOf: "test", Needs: []string{"prep"}},
	}}
}

func TestLegsFollowTheirJob(t *testing.T) {
	v := runViewOf(matrixRun(), time.Now(), func() string { return "key" })
	var jobs, rows, nodes []string
	for _, job := range v.Jobs {
		jobs = append(jobs, job.Key)
	}
	for _, row := range v.Waterfall.Rows {
		rows = append(rows, row.Name)
	}
	for _, node := range v.Graph.Nodes {
		nodes = append(nodes, node.Name)
	}
	if diff := cmp.Diff([]string{"prep", "test", "test.3", "test.1", "test.2", "ship"}, jobs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"Prepare", "Test", "Test (c)", "Test (a)", "Test (b)", "Ship"}, rows); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"Prepare", "Test ×2", "Ship"}, nodes); diff != "" {
		t.Error(diff)
	}
	group := v.Jobs[1]
	if len(group.Legs) != 2 || group.Legs[0] != (legView{"Test (c)", "#job-5", statusOf("running")}) ||
		group.Status.Word != "its legs run" || !v.Jobs[2].Leg {
		t.Errorf("the group is %+v", group)
	}
	if diff := cmp.Diff([]outputView{{"id", "4711"}, {"large", bytesText(5000)}}, v.Jobs[0].Outputs); diff != "" {
		t.Error(diff)
	}
}

// A job that calls a workflow is followed by the jobs of that, with their legs and what they call.
func TestCalledJobsFollowTheirCaller(t *testing.T) {
	v := runViewOf(&fairleadv1.Run{Run: "run_x", Summary: &fairleadv1.RunSummary{}, Jobs: []*fairleadv1.Job{
		{Index: 0, Key: "call", Name: "Call", State: "expanded", ReasonCode: "call_unfinished"},
		{Index: 1, Key: "last", Name: "Last", State: "waiting", Needs: []string{"call"}},
		{Index: 2, Key: "call/a", Name: "Call / a", State: "concluded", Outcome: "success", In: "call"},
		{Index: 3, Key: "call/b", Name: "Call / b", State: "expanded", In: "call", Needs: []string{"call/a"},
			Legs: []string{"call/b.1"}},
		{Index: 4, Key: "call/b.1/x", Name: "Call / b (1) / x", State: "ready", In: "call/b.1"},
		{Index: 5, Key: "call/b.1", Name: "Call / b (1)", State: "expanded", LegOf: "call/b", ReasonCode: "call_unfinished"},
	}}, time.Now(), func() string { return "key" })
	var jobs, nodes []string
	for _, job := range v.Jobs {
		jobs = append(jobs, job.Key)
	}
	for _, node := range v.Graph.Nodes {
		nodes = append(nodes, node.Name)
	}
	if diff := cmp.Diff([]string{"call", "call/a", "call/b", "call/b.1", "call/b.1/x", "last"}, jobs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"Call", "Last"}, nodes); diff != "" {
		t.Error(diff)
	}
	if call := v.Jobs[0]; len(call.Legs) != 2 || call.Status.Word != "what it calls runs" {
		t.Errorf("the call is %+v", call)
	}
}

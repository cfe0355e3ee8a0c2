package trigger

import (
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/scm/scmtest"
)

// What can be started is read at the ref that was asked for, also beside a file that can't be read.
func TestAnOfferNamesWorkflowsAndTheirInputs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	repo := scmtest.NewRepo(t)
	repo.Write(".github/workflows/r.yml", "on: {workflow_dispatch: {inputs: {level: {type: number, required: true}}}}\n"+
		"jobs: {a: {runs-on: linux, steps: [{run: ':'}]}}\n", ".github/workflows/x.yml", "on: {push").Commit("base")
	row := w.add("app", repo)
	w.look(w.poller(), row)
	offer, err := w.Offer(t.Context(), tenant, "app", "")
	if err != nil {
		t.Fatal(err)
	}
	if offer.Ref != "refs/heads/main" || len(offer.Workflows) != 2 {
		t.Fatalf("offer %+v", offer)
	}
	first, second := offer.Workflows[0], offer.Workflows[1]
	if first.Path != ".github/workflows/r.yml" || first.Problem != "" || len(first.Triggers.Inputs) != 1 ||
		!first.Triggers.Inputs[0].Required || second.Problem == "" {
		t.Errorf("offer %+v", offer)
	}
	if _, err := w.Offer(t.Context(), tenant, "app", "nowhere"); err == nil {
		t.Error("a branch that is not there has an offer")
	} else if no, ok := domain.AsRejection(err); !ok || no.Code != domain.CodeCommitNotFound {
		t.Error(err)
	}
}

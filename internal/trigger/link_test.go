package trigger

import (
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/scm/scmtest"
	"github.com/fairlead-ci/fairlead/internal/workflow"
)

// TestAWorkflowThatIsALinkIsCalledOne: a link is in the commit for everybody to see, so
// "there is no workflow" alone would send its author looking in the wrong place.
func TestAWorkflowThatIsALinkIsCalledOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	repo := scmtest.NewRepo(t)
	repo.Write("shared.yml", onPush)
	repo.Git("add", "-A")
	target := repo.Git("rev-parse", ":shared.yml")
	repo.Git("update-index", "--add", "--cacheinfo", "120000,"+target+",.fairlead/workflows/ci.yml")
	repo.Git("commit", "-q", "-m", "a link")
	repo.Git("reset", "-q", "--hard")
	w.add("app", repo)
	const sentence = ".fairlead/workflows/ci.yml is a symbolic link, and links are not followed"
	said := func(r Request) string { return w.refused(r, domain.CodeWorkflowNotFound).Rejection.Message }
	for what, r := range map[string]Request{
		"nothing else":   {Repository: "app"},
		"by its path":    {Repository: "app", Workflow: ".fairlead/workflows/ci.yml"},
		"by a file name": {Repository: "app", Workflow: "ci"},
	} {
		if got := said(r); !strings.Contains(got, sentence) {
			t.Errorf("%s: %s", what, got)
		}
	}

	// Beside a workflow that is a file.
	tip := repo.Write(".fairlead/workflows/other.yml", onDispatch).Commit("and a file")
	for what, r := range map[string]Request{
		"named": {Repository: "app", Workflow: "ci"},
		"meant": {Repository: "app", Event: workflow.EventPush},
	} {
		if got := said(r); !strings.Contains(got, sentence) {
			t.Errorf("%s beside a file: %s", what, got)
		}
	}
	if got := said(Request{Repository: "app", Workflow: "else"}); strings.Contains(got, "link") {
		t.Errorf("a name that no link has: %s", got)
	}
	pushed, err := w.Push(t.Context(), Push{Tenant: tenant, Repository: "app", Ref: "refs/heads/main", After: tip})
	if err != nil || !strings.Contains(strings.Join(pushed.Reasons, "\n"), sentence) {
		t.Errorf("push: %+v, %v", pushed, err)
	}
}

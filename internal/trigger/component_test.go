package trigger

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/scm/scmtest"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
	"github.com/fairlead-ci/fairlead/internal/workflow"
)

const (
	usesGreet = "on: push\njobs:\n  test:\n    runs-on: linux\n    steps:\n      - uses: octo/greet@v1\n"
	greeting  = "runs:\n  using: composite\n  steps:\n    - run: echo hello\n      shell: sh\n"
)

// actionWorld has a repository with a workflow that uses an action of another one, which is tagged v1.
func actionWorld(t *testing.T) (w *world, app, greet *scmtest.Repo) {
	t.Helper()
	w = newWorld(t, false)
	greet = scmtest.NewRepo(t).Write("action.yml", greeting)
	greet.Commit("one")
	greet.Git("tag", "v1")
	app = scmtest.NewRepo(t).Write(".fairlead/workflows/ci.yml", usesGreet)
	app.Commit("one")
	w.add("app", app)
	return w, app, greet
}

func TestAComponentIsPinnedInSnapshotAndMirror(t *testing.T) {
	w, _, greet := actionWorld(t)
	row := w.add("octo/greet", greet)
	first := greet.Git("rev-parse", "HEAD")
	accepted := w.mustRun(Request{Repository: "app"})
	s := w.frozen(accepted.Run)
	if len(s.Components) != 1 || s.Version != snapshot.Version {
		t.Fatalf("the snapshot has version %d and %+v", s.Version, s.Components)
	}
	c := s.Components[0]
	if c.Name != "octo/greet@v1" || c.Commit() != first || c.Mirror != row.Repository || c.File != "action.yml" ||
		string(w.object(c.Text)) != greeting {
		t.Errorf("the component is %+v", c)
	}
	if len(accepted.Warnings) != 1 || accepted.Warnings[0].Code != "moving_reference" {
		t.Errorf("warnings: %v", accepted.Warnings)
	}
	step := w.plan(accepted.Run).Jobs[0].Steps[0]
	if step.Component != c.Digest || len(step.Steps) != 1 {
		t.Errorf("the step is %+v", step)
	}

	// The tag moves, and what it was is on no branch: the pin keeps it, and new runs have the new one.
	greet.Git("checkout", "-q", "--orphan", "other")
	greet.Write("action.yml", greeting+"    - run: echo more\n      shell: sh\n")
	second := greet.Commit("two")
	greet.Git("tag", "-f", "v1")
	greet.Git("branch", "-D", "main")
	if got := w.frozen(w.mustRun(Request{Repository: "app"}).Run).Components[0].Commit(); got != second {
		t.Errorf("a new run has %s, want %s", got, second)
	}
	if _, err := w.mirrors.Resolve(t.Context(), mirrorOf(row), first); err != nil {
		t.Errorf("the pinned commit: %v", err)
	}
}

func TestComponentsThatCannotBeResolvedStartNothing(t *testing.T) {
	w, app, greet := actionWorld(t)
	missing := w.refused(Request{Repository: "app"}, domain.CodeWorkflowInvalid)
	if !strings.Contains(fmt.Sprint(missing.Diagnostics), "this server has no repository octo/greet; register it") {
		t.Errorf("%v", missing.Diagnostics)
	}
	// A repository of another tenant answers like a missing one.
	if _, err := w.AddRepository(t.Context(), Registration{Tenant: "tnt_other", Name: "octo/greet", URL: greet.Dir,
		Administrator: true, Cause: person()}); err != nil {
		t.Fatal(err)
	}
	other := w.refused(Request{Repository: "app"}, domain.CodeWorkflowInvalid)
	if fmt.Sprint(other.Diagnostics) != fmt.Sprint(missing.Diagnostics) {
		t.Errorf("another tenant's repository shows: %v", other.Diagnostics)
	}
	w.add("octo/greet", greet)
	for _, c := range []struct{ uses, says string }{
		{"octo/greet@v9", "no branch, tag or commit"},
		{"octo/greet/nowhere@v1", "its folder has no action.yml"},
		{"octo/greet/../x@v1", "its folder is not written plainly"},
		{"./../greet", "its folder is not written plainly"},
	} {
		app.Write(".fairlead/workflows/ci.yml", strings.Replace(usesGreet, "octo/greet@v1", c.uses, 1))
		app.Commit(c.uses)
		got := w.refused(Request{Repository: "app"}, domain.CodeWorkflowInvalid)
		if !strings.Contains(fmt.Sprint(got.Diagnostics), c.says) {
			t.Errorf("%s: %v", c.uses, got.Diagnostics)
		}
	}
	if runs := w.runs(); len(runs) > 0 {
		t.Errorf("there are %d runs", len(runs))
	}
}

func TestPoliciesAboutReferences(t *testing.T) {
	w, app, greet := actionWorld(t)
	w.add("octo/greet", greet)
	set := func(policy string) {
		t.Helper()
		if err := w.SetComponentPolicy(t.Context(), tenant, "app", policy, person()); err != nil {
			t.Fatal(err)
		}
	}
	want := func(code string) {
		t.Helper()
		got := w.refused(Request{Repository: "app"}, domain.CodeWorkflowInvalid)
		if len(got.Diagnostics) == 0 || string(got.Diagnostics[0].Code) != code {
			t.Errorf("want %s: %v", code, got.Diagnostics)
		}
	}
	w.mustRun(Request{Repository: "app"}) // what is remembered of it must not count below
	set(workflow.PinsRequire)
	want("unpinned_reference")
	set(workflow.PinsLock)
	want("reference_not_locked")
	found, err := w.Resolve(t.Context(), tenant, "app", []string{"octo/greet@v1"})
	if err != nil || found[0].Problem != "" || found[0].Committed.IsZero() {
		t.Fatalf("%+v, %v", found, err)
	}
	app.Write(workflow.LockFile, string(workflow.Lock{"octo/greet@v1": found[0].Digest()}.Encode()))
	app.Commit("lock")
	w.mustRun(Request{Repository: "app"})
	greet.Write("x", "y").Commit("two")
	greet.Git("tag", "-f", "v1")
	want("reference_not_locked")
	if err := w.SetComponentPolicy(t.Context(), tenant, "app", "sometimes", person()); err == nil {
		t.Error("a policy that there is not was set")
	}
}

func TestAWithdrawnComponentStartsNothing(t *testing.T) {
	w, _, greet := actionWorld(t)
	w.add("octo/greet", greet)
	first := w.mustRun(Request{Repository: "app"}).Run
	used, q := w.frozen(first).Components[0], w.state(first).Request
	for _, name := range []string{used.Digest, "Octo/Greet@" + used.Commit()} {
		decide := func(action string) {
			t.Helper()
			if _, err := w.Withdraw(t.Context(), Withdrawal{Tenant: tenant, Repository: "app", Component: name, Action: action,
				Reason: "it was stolen", Cause: person()}); err != nil {
				t.Fatal(err)
			}
		}
		decide(ActionDisable)
		got := w.refused(Request{Repository: "app"}, domain.CodeWorkflowInvalid)
		if !strings.Contains(fmt.Sprint(got.Diagnostics), "it was stolen") {
			t.Errorf("%v", got.Diagnostics)
		}
		if err := w.MayRerun(t.Context(), tenant, &q); code(err) != domain.CodeWorkflowDisabled {
			t.Errorf("a rerun: %v", err)
		}
		decide(ActionEnable)
		if err := w.MayRerun(t.Context(), tenant, &q); err != nil {
			t.Errorf("a rerun once it is enabled: %v", err)
		}
		w.mustRun(Request{Repository: "app"})
	}
}

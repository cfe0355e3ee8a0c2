package trigger

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/core/repository"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/scm/scmtest"
	"github.com/fairlead-ci/fairlead/internal/workflow"
)

const ciPath = ".github/workflows/ci.yml"

func (w *world) withdraw(action, what, commit string) error {
	_, err := w.Withdraw(w.t.Context(), Withdrawal{Tenant: tenant, Repository: "app", Workflow: what, Action: action,
		Commit: commit, Reason: "bad release", Cause: person()})
	return err
}

func (w *world) mustWithdraw(action, what, commit string) {
	w.t.Helper()
	if err := w.withdraw(action, what, commit); err != nil {
		w.t.Fatal(err)
	}
}

func code(err error) domain.Code {
	if no, ok := domain.AsRejection(err); ok {
		return no.Code
	}
	return ""
}

// Promises: [REPLAY-3], [REPLAY-4].
func TestADisabledWorkflowStartsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	repo := scmtest.NewRepo(t)
	before := repo.Write(ciPath, onPush, ".github/workflows/two.yml", onPush).Commit("base")
	w.add("app", repo)
	first := w.mustRun(Request{Repository: "app", Workflow: "ci"})
	keyed := Request{Repository: "app", Workflow: "ci", Key: &engine.Key{Scope: "client/x", Key: "k"}}
	kept := w.mustRun(keyed)

	push := Push{Tenant: tenant, Repository: "app", Ref: "refs/heads/main", Before: before, Cause: person()}
	push.After = repo.Write("a", "1").Commit("one")
	if pushed, err := w.Push(t.Context(), push); err != nil || len(pushed.Runs) != 2 {
		t.Fatalf("%+v, %v", pushed, err)
	}
	w.mustWithdraw(ActionDisable, "ci", "")
	// A repeat finds what there is; what is new does not start, and says why.
	if again := w.mustRun(keyed); again.Run != kept.Run || !again.Repeat {
		t.Errorf("a repeat is %+v", again)
	}
	if pushed, err := w.Push(t.Context(), push); err != nil || len(pushed.Runs) != 2 {
		t.Errorf("a repeat of the push is %+v, %v", pushed, err)
	}
	push.Before, push.After = push.After, repo.Write("a", "2").Commit("two")
	pushed, err := w.Push(t.Context(), push)
	if err != nil || len(pushed.Runs) != 1 || len(pushed.Reasons) != 1 ||
		!strings.Contains(pushed.Reasons[0], ciPath+" is disabled since ") ||
		!strings.HasSuffix(pushed.Reasons[0], " by user ada: bad release") {
		t.Errorf("%+v, %v", pushed, err)
	}
	for _, r := range []Request{{Repository: "app", Workflow: "ci"},
		{Repository: "app", Workflow: ciPath, Event: "push"}} {
		if no := w.refused(r, domain.CodeWorkflowDisabled); !strings.Contains(no.Rejection.Message, "bad release") {
			t.Errorf("refused: %s", no.Rejection.Message)
		}
	}
	w.mustRun(Request{Repository: "app"}) // the other one is the only one that starts now
	w.mustWithdraw(ActionDisable, "two.yml", "")
	w.refused(Request{Repository: "app"}, domain.CodeWorkflowDisabled)

	q := w.state(first.Run).Request
	if err := w.MayRerun(t.Context(), tenant, &q); code(err) != domain.CodeWorkflowDisabled {
		t.Errorf("a rerun: %v", err)
	}
	w.mustWithdraw(ActionEnable, "ci", "")
	if err := w.MayRerun(t.Context(), tenant, &q); err != nil {
		t.Errorf("a rerun once it is enabled: %v", err)
	}
	w.mustRun(Request{Repository: "app", Workflow: "ci"})
}

// Promises: [REPLAY-4].
func TestARestoredWorkflowHasItsGoodText(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	repo := scmtest.NewRepo(t)
	good := repo.Write(ciPath, onPush).Commit("good")
	w.add("app", repo)
	old := w.mustRun(Request{Repository: "app"})
	bad := repo.Write(ciPath, strings.Replace(onPush, "make test", "rm -r /", 1)).Commit("bad")
	evil := w.mustRun(Request{Repository: "app"})
	for _, one := range []struct {
		action, what, commit string
		want                 domain.Code
	}{
		{ActionRestore, ciPath, strings.Repeat("1", 40), domain.CodeCommitNotFound},
		{ActionRestore, ciPath, "no-such-branch", domain.CodeCommitNotFound},
		{ActionRestore, ciPath, "--upload-pack=x", domain.CodeInvalidArgument},
		{ActionRestore, ".github/workflows/other.yml", good, domain.CodeWorkflowNotFound},
		{ActionRestore, ciPath, "", domain.CodeInvalidArgument},
		{ActionDisable, ciPath, good, domain.CodeInvalidArgument},
		{ActionDisable, "nothing", "", domain.CodeWorkflowNotFound},
		{"remove", ciPath, "", domain.CodeInvalidArgument},
	} {
		if err := w.withdraw(one.action, one.what, one.commit); code(err) != one.want {
			t.Errorf("%s %s to %.12s: %v", one.action, one.what, one.commit, err)
		}
	}
	w.mustWithdraw(ActionRestore, "ci", good)
	run := w.mustRun(Request{Repository: "app"})
	frozen, p := w.frozen(run.Run), w.plan(run.Run)
	if frozen.Source.Commit != bad || string(w.object(frozen.Workflow.Digest)) != onPush ||
		p.Jobs[0].Steps[1].Script != "make test" || !strings.Contains(string(frozen.Github), `"workflow_sha":"`+good+`"`) {
		t.Errorf("commit %s, script %q, github %s", frozen.Source.Commit, p.Jobs[0].Steps[1].Script, frozen.Github)
	}
	for id, want := range map[domain.RunID]domain.Code{old.Run: "", run.Run: "", evil.Run: domain.CodeWorkflowDisabled} {
		q := w.state(id).Request
		if err := w.MayRerun(t.Context(), tenant, &q); code(err) != want {
			t.Errorf("a rerun of %s: %v", id, err)
		}
	}
	q := w.state(run.Run).Request
	if err := w.blobs.Delete(t.Context(), blob.ObjectKey(tenant, q.Snapshot)); err != nil {
		t.Fatal(err)
	}
	if err := w.MayRerun(t.Context(), tenant, &q); code(err) != domain.CodeWorkflowDisabled {
		t.Errorf("a rerun of what nobody knows the text of: %v", err)
	}
	w.mustWithdraw(ActionEnable, ciPath, "")
	if p := w.plan(w.mustRun(Request{Repository: "app"}).Run); p.Jobs[0].Steps[1].Script != "rm -r /" {
		t.Errorf("enabled, it runs %q", p.Jobs[0].Steps[1].Script)
	}
}

// Promises: [REPLAY-3].
func TestSchedulesFollowAWithdrawal(t *testing.T) {
	t.Parallel()
	const path = ".github/workflows/n.yml"
	w, repo, row := scheduledAgo(t, 72*time.Hour, onSchedule("cron: '17 * * * *'"))
	good := w.tip(row)
	repo.Write(path, onSchedule("cron: '23 * * * *'")).Commit("bad")
	w.look(w.poller(), row)
	w.step()
	if all := w.schedules(row); len(all) != 1 || all[0].Cron != "23 * * * *" {
		t.Fatalf("schedules %+v", all)
	}
	w.mustWithdraw(ActionDisable, path, "")
	w.ago.Add(-int64(time.Hour))
	w.step()
	if last := w.schedules(row)[0].Last; last == nil || last.Outcome != repository.OccurrenceRefused ||
		!strings.Contains(last.Message, "is disabled since") || len(w.runs()) != 0 {
		t.Fatalf("settled as %+v, with %d runs", last, len(w.runs()))
	}
	w.mustWithdraw(ActionRestore, path, good)
	w.step()
	if all := w.schedules(row); len(all) != 1 || all[0].Cron != "17 * * * *" {
		t.Fatalf("restored: schedules %+v", all)
	}
	w.ago.Add(-int64(time.Hour))
	w.step()
	if last := w.schedules(row)[0].Last; last == nil || last.Outcome != repository.OccurrenceStarted ||
		len(w.runs()) != 1 {
		t.Fatalf("settled as %+v, with %d runs", last, len(w.runs()))
	}
	w.mustWithdraw(ActionEnable, path, "")
	w.step()
	if all := w.schedules(row); len(all) != 1 || all[0].Cron != "23 * * * *" {
		t.Errorf("enabled: schedules %+v", all)
	}
	if wait := w.step(); wait < time.Second {
		t.Errorf("the scheduler looks again in %v", wait)
	}
}

func TestAWithdrawnComponentIsRefused(t *testing.T) {
	commit, tree := strings.Repeat("a", 40), "sha256:"+strings.Repeat("b", 64)
	s := repository.New()
	for _, name := range []string{"acme/tool@" + commit, tree} {
		repository.Evolve(s, &repository.Withdrew{Withdrawal: repository.Withdrawal{Component: name, Reason: "stolen"}})
	}
	reference := workflow.Reference{Repository: "Acme/Tool", Revision: "v1", Path: "sub"}
	for _, one := range []struct {
		of   workflow.Component
		want bool
	}{
		{workflow.Component{Reference: reference, Commit: commit}, true},
		{workflow.Component{Reference: reference, Commit: strings.Repeat("c", 40)}, false},
		{workflow.Component{Reference: reference, Commit: strings.Repeat("c", 40), Tree: tree}, true},
		{workflow.Component{Reference: workflow.Reference{Path: "x"}}, false},
	} {
		no := withdrawn(s, one.of)
		if (no != "") != one.want || no != "" && !strings.Contains(no, "stolen") {
			t.Errorf("%+v: %q", one.of, no)
		}
	}
}

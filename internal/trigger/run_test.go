package trigger

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/scm/scmtest"
)

// Promises: [SRC-3].
func TestRunFreezesEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	repo := scmtest.NewRepo(t)
	repo.Write(".fairlead/workflows/ci.yml", onPush, ".github/workflows/ci.yml", "not: read\n")
	tip := repo.Commit("Add ci\n\nBody")
	row := w.add("acme/app", repo)
	a := w.mustRun(Request{Repository: "acme/app", Ref: "main"})
	b := w.mustRun(Request{Repository: string(row.Repository), Commit: tip})
	if a.Run == b.Run || a.Repeat || a.Workflow != ".fairlead/workflows/ci.yml" || a.Token == (domain.Token{}) {
		t.Errorf("got %+v and %+v", a, b)
	}
	got := w.state(a.Run).Request
	if got.Source.Commit != tip || got.Source.Ref != "refs/heads/main" || got.Source.Title != "Add ci" ||
		got.Number != 1 || got.Trigger.Event != "push" || got.Trigger.Actor.ID != "ada" || len(got.Skeleton) != 1 ||
		got.Tier != domain.TierProtected || got.Class != domain.ClassInteractive {
		t.Errorf("request: %+v", got)
	}
	if n := w.state(b.Run).Request.Number; n != 2 {
		t.Errorf("the second run has number %d", n)
	}
	if w.plan(a.Run).Jobs[0].Key != "test" {
		t.Error("the plan is not the workflow's")
	}
	s := w.frozen(a.Run)
	if s.Source.Tree != repo.Git("rev-parse", "HEAD^{tree}") || string(w.object(s.Workflow.Digest)) != onPush ||
		s.Policy != PolicyVersion || s.Evaluator == 0 {
		t.Errorf("snapshot: %+v", s)
	}
	var github map[string]any
	if err := json.Unmarshal(s.Github, &github); err != nil {
		t.Fatal(err)
	}
	event := github["event"].(map[string]any)
	head := event["head_commit"].(map[string]any)
	if github["sha"] != tip || github["ref_name"] != "main" || github["ref_type"] != "branch" ||
		github["actor"] != "ada" ||
		github["repository_owner"] != "acme" || event["after"] != tip ||
		head["message"] != "Add ci\n\nBody" ||
		event["repository"].(map[string]any)["full_name"] != "acme/app" || github["ref_protected"] != true {
		t.Errorf("github: %v", github)
	}
	// Everything is the same the next time but the run itself.
	again := w.state(w.mustRun(Request{Repository: "acme/app", Ref: "main"}).Run).Request
	if again.Snapshot != got.Snapshot || again.Trigger.Key == got.Trigger.Key {
		t.Error("the same request froze something else")
	}
}

// The answer to a request is made of the events that were committed, without reading them back:
// they must lead to what history has. A repeat has none, and is read.
func TestARunBeganWithWhatHistoryHas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	repo := scmtest.NewRepo(t)
	repo.Write(".fairlead/workflows/ci.yml", onPush)
	repo.Commit("first")
	w.add("acme/app", repo)
	ask := Request{Repository: "acme/app", Ref: "main", Key: &engine.Key{Scope: "client/ada/run", Key: "k"}}
	a := w.mustRun(ask)
	s := run.New()
	for i, e := range a.Begun {
		run.Evolve(s, e.Event.(run.Event))
		if e.Version != uint64(i+1) || e.At.IsZero() {
			t.Errorf("event %d has version %d of %v", i, e.Version, e.At)
		}
	}
	got, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(w.state(a.Run))
	if err != nil || len(a.Begun) == 0 || !bytes.Equal(got, want) {
		t.Errorf("%d events lead to\n%s\nhistory has\n%s\n%v", len(a.Begun), got, want, err)
	}
	if again := w.mustRun(ask); !again.Repeat || again.Run != a.Run || again.Begun != nil {
		t.Errorf("a repeat: %+v", again)
	}
}

// What is remembered is found by everything that it was made from, and by nothing less.
func TestKeysOfWhatIsRememberedAreApart(t *testing.T) {
	t.Parallel()
	seen := map[domain.Digest]int{}
	for i, key := range []domain.Digest{keyOf([]byte("ab"), "c"), keyOf([]byte("a"), "bc"), keyOf([]byte("ab"), "c", ""),
		keyOf(nil, "ab", "c"), keyOf(nil, "a", "bc"), keyOf(nil, "abc"), keyOf([]byte("abc"))} {
		if other, known := seen[key]; known {
			t.Errorf("%d and %d have one key", other, i)
		}
		seen[key] = i
	}
}

// TestTheCommitIsResolvedOnce: a branch that moves or goes after acceptance changes
// nothing, and its commit stays readable.
// Promises: [CMD-3], [SRC-1].
func TestTheCommitIsResolvedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	repo := scmtest.NewRepo(t)
	repo.Write("a", "1").Commit("base")
	repo.Git("checkout", "-q", "-b", "topic")
	tip := repo.Write(".fairlead/workflows/ci.yml", onPush).Commit("topic")
	repo.Git("checkout", "-q", "main")
	row := w.add("app", repo)
	a := w.mustRun(Request{Repository: "app", Ref: "topic"})
	repo.Git("branch", "-D", "topic")
	w.refused(Request{Repository: "app", Ref: "topic"}, domain.CodeCommitNotFound)
	if got := w.state(a.Run).Request; got.Source.Commit != tip || got.Tier != domain.TierTrusted {
		t.Errorf("request: %+v", got)
	}
	if _, _, err := w.mirrors.Read(t.Context(), mirrorOf(row), tip, scm.Query{}); err != nil {
		t.Error(err)
	}
	// The same key after the branch went: the run that there is.
	repo.Write(".fairlead/workflows/ci.yml", onPush).Commit("main")
	key := &engine.Key{Scope: engine.ClientScope("ada", "CreateRun"), Key: "k1"}
	first := w.mustRun(Request{Repository: "app", Ref: "main", Key: key})
	repo.Git("rm", "-q", "-r", ".fairlead")
	repo.Commit("no workflow any more")
	second := w.mustRun(Request{Repository: "app", Ref: "main", Key: key})
	if second.Run != first.Run || !second.Repeat {
		t.Errorf("got %+v, then %+v", first, second)
	}
	w.refused(Request{Repository: "app", Ref: "main", Title: "other", Key: key}, domain.CodeIdempotencyMismatch)
}

func TestChoosing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	repo := scmtest.NewRepo(t)
	main := "on:\n  push:\n    branches: [release]\njobs:\n  a:\n    runs-on: x\n    steps:\n      - run: x\n"
	repo.Write(".fairlead/workflows/a.yml", onPush, ".github/workflows/b.yaml", onPush,
		".fairlead/workflows/release.yml", onDispatch, ".fairlead/workflows/only.yml", main).Commit("several")
	w.add("app", repo)

	// Each workflow is asked with its own event: a release that can be dispatched must not
	// start because somebody meant the tests.
	r := w.refused(Request{Repository: "app"}, domain.CodeWorkflowAmbiguous)
	want := []string{".fairlead/workflows/a.yml", ".fairlead/workflows/release.yml", ".github/workflows/b.yaml"}
	if !slices.Equal(r.Choices, want) {
		t.Errorf("choices without an event: got %v, want %v", r.Choices, want)
	}
	a := w.mustRun(Request{Repository: "app", Event: "workflow_dispatch"}) // the only one that declares it
	if got := w.state(a.Run).Request; got.WorkflowPath != ".fairlead/workflows/release.yml" ||
		got.Trigger.Event != "workflow_dispatch" || got.WorkflowName != "Release" {
		t.Errorf("without a name: %+v", got)
	}
	r = w.refused(Request{Repository: "app", Event: "push"}, domain.CodeWorkflowAmbiguous)
	if want := []string{".fairlead/workflows/a.yml", ".github/workflows/b.yaml"}; !slices.Equal(r.Choices, want) {
		t.Errorf("choices: got %v, want %v", r.Choices, want)
	}
	for _, name := range []string{"b.yaml", "b", ".github/workflows/b.yaml", "./.github/workflows/b.yaml"} {
		if a := w.mustRun(Request{Repository: "app", Workflow: name}); a.Workflow != ".github/workflows/b.yaml" {
			t.Errorf("%s: got %s", name, a.Workflow)
		}
	}
	if a := w.mustRun(Request{Repository: "app", Workflow: "only", Event: "push"}); a.Workflow == "" {
		t.Error("a named workflow is not held back by a branch filter")
	}
	w.refused(Request{Repository: "app", Workflow: "none"}, domain.CodeWorkflowNotFound)
	w.refused(Request{Repository: "app", Workflow: "../../etc/passwd"}, domain.CodeWorkflowNotFound)
	w.refused(Request{Repository: "app", Workflow: "a", Event: "workflow_dispatch"}, domain.CodeEventNotDeclared)
	w.refused(Request{Repository: "app", Event: "schedule"}, domain.CodeInvalidArgument)
	w.refused(Request{Repository: "none"}, domain.CodeNotFound)
	w.refused(Request{Repository: "app", Ref: "none"}, domain.CodeCommitNotFound)
	w.refused(Request{Repository: "app", Commit: strings.Repeat("1", 40)}, domain.CodeCommitNotFound)
	for _, bad := range []string{"abc", "HEAD", "--help", strings.Repeat("A", 40)} {
		w.refused(Request{Repository: "app", Commit: bad}, domain.CodeInvalidArgument)
	}
	for _, bad := range []string{"--upload-pack=x", "a..b", "refs/fairlead/pins/x", "a b", "main^"} {
		w.refused(Request{Repository: "app", Ref: bad}, domain.CodeInvalidArgument)
	}
}

// What a run rests on may be there already, from a run before. A disk that has cut or changed it
// must not make the next run one that is accepted and can never be read: it is replaced.
func TestObjectsThatWereDamagedAreReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	repo := scmtest.NewRepo(t)
	repo.Write(".fairlead/workflows/a.yml", onPush).Commit("one")
	w.add("app", repo)
	first := w.mustRun(Request{Repository: "app"})
	q := w.state(first.Run).Request
	for _, digest := range []domain.Digest{q.Plan, q.Snapshot} {
		whole := w.object(digest)
		for _, bad := range []string{"cut", strings.Repeat("x", len(whole))} {
			key := blob.ObjectKey(tenant, digest)
			if err := errors.Join(w.blobs.Delete(t.Context(), key),
				w.blobs.Put(t.Context(), key, strings.NewReader(bad), int64(len(bad)))); err != nil {
				t.Fatal(err)
			}
			w.remembered = remembered{} // as after a restart: bytes of a known length are compared once
			again := w.state(w.mustRun(Request{Repository: "app"}).Run).Request
			if again.Snapshot != q.Snapshot || !bytes.Equal(w.object(digest), whole) {
				t.Errorf("the object %s is still %.20q", digest, w.object(digest))
			}
		}
	}
}

func TestInputs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	repo := scmtest.NewRepo(t)
	repo.Write(".fairlead/workflows/release.yml", onDispatch).Commit("release")
	w.add("app", repo)
	a := w.mustRun(Request{Repository: "app", Inputs: map[string]string{"dry": "true"}})
	s := w.frozen(a.Run)
	if got := string(w.object(w.state(a.Run).Request.Inputs)); got != `{"dry":true,"level":3}` {
		t.Errorf("inputs: %s", got)
	}
	if len(s.Given) != 1 || s.Given[0].Name != "dry" || len(s.Inputs) != 2 {
		t.Errorf("snapshot: %+v", s)
	}
	if !strings.Contains(string(s.Github), `"inputs":{"dry":"true","level":"3"}`) {
		t.Errorf("github: %s", s.Github)
	}
	given := map[string]string{"level": "high", "extra": "1"}
	r := w.refused(Request{Repository: "app", Inputs: given}, domain.CodeWorkflowInvalid)
	if len(r.Diagnostics) != 2 {
		t.Errorf("diagnostics: %v", r.Diagnostics)
	}
}

// TestNothingIsCreatedByARefusal: a broken workflow asked for by a person says all that
// is wrong and leaves no run behind.
// Promises: [RUN-15], [SRC-4].
func TestNothingIsCreatedByARefusal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	repo := scmtest.NewRepo(t)
	repo.Write("a", "1").Commit("nothing")
	w.add("app", repo)
	w.refused(Request{Repository: "app"}, domain.CodeWorkflowNotFound)
	repo.Write(".fairlead/workflows/ci.yml", broken).Commit("broken")
	for _, r := range []Request{{Repository: "app"}, {Repository: "app", Workflow: "ci"}} {
		refusal := w.refused(r, domain.CodeWorkflowInvalid)
		if len(refusal.Diagnostics) < 2 || refusal.Diagnostics[0].Pos.Line == 0 {
			t.Errorf("diagnostics: %v", refusal.Diagnostics)
		}
	}
	repo.Write(".fairlead/workflows/ci.yml", "on: [push\n").Commit("no YAML")
	r := w.refused(Request{Repository: "app"}, domain.CodeWorkflowInvalid)
	if !strings.Contains(r.Rejection.Message, "can't be read") {
		t.Errorf("got %v", r)
	}
	w.refused(Request{Repository: "app", Workflow: "ci.yml"}, domain.CodeWorkflowInvalid)
	repo.Write(".fairlead/workflows/ci.yml", "#"+strings.Repeat("x", filesBytesMax)).Commit("too large")
	w.refused(Request{Repository: "app"}, domain.CodeTooLarge)
	if runs := w.runs(); len(runs) != 0 {
		t.Errorf("runs: %+v", runs)
	}
}

// TestARunThatWouldBeWrongIsRefused: what compiles and is not run by this release starts nothing, and
// the refusal names the job, the step and the line.
func TestARunThatWouldBeWrongIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	repo := scmtest.NewRepo(t)
	repo.Write(".fairlead/workflows/ci.yml", "on: [push, workflow_dispatch]\njobs:\n  a:\n    runs-on: linux\n"+
		"    steps:\n"+
		"      - run: make\n      - uses: ./.github/setup\n").
		Write(".github/setup/action.yml", "runs: {using: node20, main: x.js}\n").Commit("an action")
	w.add("app", repo)
	r := w.refused(Request{Repository: "app"}, domain.CodeWorkflowInvalid)
	want := `.fairlead/workflows/ci.yml can't be executed: step "__self" of job "a" uses the action ` +
		`"./.github/setup", which is not run (line 7)`
	if r.Rejection.Message != want || len(r.Diagnostics) != 1 || r.Diagnostics[0].Code != "not_run_action" {
		t.Errorf("%s\n%v", r.Rejection.Message, r.Diagnostics)
	}
	if runs := w.runs(); len(runs) != 0 {
		t.Errorf("runs: %+v", runs)
	}
}

// TestLargeFileIsItsOwnProblem: a workflow file over the bound stops itself and no other.
func TestLargeFileIsItsOwnProblem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	repo := scmtest.NewRepo(t)
	repo.Write(".fairlead/workflows/ci.yml", onPush).
		Write(".fairlead/workflows/large.yml", "#"+strings.Repeat("x", 1<<20)).Commit("one is too large")
	w.add("app", repo)
	if got := w.mustRun(Request{Repository: "app"}); got.Workflow != ".fairlead/workflows/ci.yml" {
		t.Errorf("started %s", got.Workflow)
	}
	refusal := w.refused(Request{Repository: "app", Workflow: "large"}, domain.CodeWorkflowInvalid)
	if len(refusal.Diagnostics) != 1 || refusal.Diagnostics[0].Code != "source_too_large" {
		t.Errorf("diagnostics: %v", refusal.Diagnostics)
	}
}

func TestCapturedTrees(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	added, err := w.EnsureRepository(t.Context(), tenant, "laptop", person())
	if err != nil || added.Existed || added.Row.URL != "" || added.Row.DefaultBranch != "main" {
		t.Fatalf("ensure: %+v, %v", added, err)
	}
	again, err := w.EnsureRepository(t.Context(), tenant, "laptop", person())
	if err != nil || !again.Existed || again.Row.Repository != added.Row.Repository {
		t.Fatalf("ensure again: %+v, %v", again, err)
	}
	repo := scmtest.NewRepo(t)
	filtered := strings.Replace(onPush, "on: push", "on: {push: {branches: [main]}}", 1)
	tip := repo.Write(".fairlead/workflows/ci.yml", filtered).Commit("captured")
	w.refused(Request{Repository: "laptop", Commit: tip, Captured: true}, domain.CodeCommitNotFound)
	dir, err := w.mirrors.Dir(mirrorOf(added.Row))
	if err != nil {
		t.Fatal(err)
	}
	repo.Git("push", "-q", dir, tip+":refs/fairlead/captures/"+tip)
	a := w.mustRun(Request{Repository: "laptop", Commit: tip, Ref: "main", Captured: true})
	got := w.state(a.Run).Request
	// The branch counts for what starts, but the tree is on no branch, and never protected.
	if got.Source.Ref != "" || got.Tier != domain.TierTrusted || got.Class != domain.ClassInteractive {
		t.Errorf("request: %+v", got)
	}
	if s := w.frozen(a.Run); !s.Source.Captured || s.Source.Ref != "refs/heads/main" {
		t.Errorf("snapshot: %+v", s)
	}
	w.refused(Request{Repository: "laptop", Commit: tip, Ref: "topic", Captured: true}, domain.CodeWorkflowNotFound)
}

// Promises: [SRC-5].
func TestTiersAndClasses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		facts facts
		tier  domain.Tier
		class domain.Class
	}{
		{facts{mirrored: true, protected: true, event: "push", pushed: true}, domain.TierProtected, domain.ClassProtected},
		{facts{mirrored: true, protected: true, event: "push"}, domain.TierProtected, domain.ClassInteractive},
		{facts{mirrored: true, event: "push", pushed: true}, domain.TierTrusted, domain.ClassBatch},
		{facts{mirrored: true, event: "workflow_dispatch"}, domain.TierTrusted, domain.ClassInteractive},
		{facts{mirrored: true, protected: true, captured: true}, domain.TierTrusted, domain.ClassInteractive},
		{facts{protected: true}, domain.TierTrusted, domain.ClassInteractive},
	} {
		tier := tierOf(test.facts)
		if class := classOf(test.facts, tier); tier != test.tier || class != test.class {
			t.Errorf("%+v: got %s, %s; want %s, %s", test.facts, tier, class, test.tier, test.class)
		}
	}
}

package projection

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
)

// lived is a run that is driven by commands, with its history.
type lived struct {
	t      *testing.T
	s      *run.State
	now    time.Time
	events []engine.Recorded
}

func begin(t *testing.T, jobs ...run.JobSkeleton) *lived {
	t.Helper()
	l := &lived{t: t, s: run.New(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	for i := range jobs {
		jobs[i].Index, jobs[i].Name = i, jobs[i].Key
		jobs[i].TimeoutSeconds, jobs[i].QueueTimeoutSeconds = 3600, 86_400
		jobs[i].Retry = run.Retry{Max: 2, On: []domain.FailureClass{domain.FailureRunnerLost, domain.FailurePlatform},
			BackoffSeconds: 1}
	}
	l.do(run.RequestRun{Request: run.Request{Run: domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{1})),
		Tenant: "tnt_a", Tier: domain.TierTrusted, Class: domain.ClassInteractive, Skeleton: jobs}})
	return l
}

func (l *lived) do(c run.Command) {
	l.t.Helper()
	d, no := run.Decide(l.s, c, l.now)
	if no != nil {
		l.t.Fatalf("%s: %v", c.Name(), no)
	}
	for _, e := range d.Events {
		run.Evolve(l.s, e)
		l.events = append(l.events, engine.Recorded{Version: l.s.Version, Event: e})
	}
}

// attempt executes a job; what ends with platform_error is tried again after a wait.
func (l *lived) attempt(j int, outcome domain.Outcome, class domain.FailureClass, steps ...run.Step) {
	l.t.Helper()
	l.do(run.GrantLease{Job: l.s.JobID(j), Runner: "r", Pool: "p", Slot: domain.SlotToken(fmt.Sprint("r/0/", l.s.Version)),
		Tiers: []domain.Tier{domain.TierTrusted}, Until: l.now.Add(time.Minute), AbandonBy: l.now.Add(2 * time.Minute)})
	n := len(l.s.Jobs[j].Attempts)
	l.do(run.ReportResult{Attempt: l.s.AttemptID(j, n), Epoch: l.s.Jobs[j].Epoch, Digest: domain.DigestOf([]byte{byte(n)}),
		Outcome: outcome, Class: class, Effect: domain.EffectNone, Steps: steps,
		Outputs: []run.Output{{Name: "tag", Value: "v1"}}})
	if l.s.Jobs[j].State == run.StateHeld {
		l.now = l.s.Jobs[j].HeldUntil
		l.do(run.Wake{})
	}
}

func (l *lived) why(job string) *fairleadv1.Explanation {
	l.t.Helper()
	got, no := Why(l.s, engine.History{State: l.s, Events: l.events}, job, nil, func() (github, inputs json.RawMessage) {
		return json.RawMessage(`{"ref":"refs/heads/main","event":{}}`), json.RawMessage(`{"level":3}`)
	})
	if no != nil {
		l.t.Fatal(no)
	}
	return got[0]
}

func told(b *fairleadv1.Because, indent string) string {
	out := indent + b.GetText()
	for _, v := range b.GetValues() {
		out += fmt.Sprintf(" [%s %s %t]", v.GetPath(), v.GetValue(), v.GetKnown())
	}
	out += "\n"
	for _, c := range b.GetBecause() {
		out += told(c, indent+"  ")
	}
	return out
}

// Promises: [REPLAY-5].
func TestASkipIsFollowedToTheStepThatFailed(t *testing.T) {
	l := begin(t, run.JobSkeleton{Key: "test", Steps: []string{"a", "b", "npm test"}},
		run.JobSkeleton{Key: "build", Needs: []int{0}},
		run.JobSkeleton{Key: "deploy", Needs: []int{0, 1}, If: "always() && needs.test.result == 'success' && " +
			"github.ref == 'x' && github.event.none == null && inputs.level == 3 && needs.test.outputs.tag == 'v1'"})
	l.attempt(0, domain.OutcomeFailure, domain.FailurePlatform)
	l.attempt(0, domain.OutcomeFailure, domain.FailureUserCode, run.Step{Index: 2, Outcome: domain.OutcomeFailure,
		Conclusion: domain.OutcomeFailure, ExitCode: 1})
	asked := l.s.Jobs[2].Evaluation
	l.do(run.RecordEvaluation{Job: l.s.JobID(2), Expression: asked.Expression, InputDigest: asked.InputDigest})
	got := l.why("deploy")
	if !strings.HasPrefix(got.GetStory(), "deploy was skipped because its condition `always() && needs.test.result == ") ||
		!strings.HasSuffix(got.GetStory(), "was false: github.ref was 'refs/heads/main', github.event.none was null, "+
			"needs.test.result was 'failure', because step 3 'npm test' exited with 1 (attempt 2 of 2; attempt 1: "+
			"platform_error, retried by itself).") {
		t.Errorf("story %s", got.GetStory())
	}
	want := "build was skipped because it depends on test, which concluded failure\n" +
		"  test failed because step 3 'npm test' exited with 1 (attempt 2 of 2; attempt 1: platform_error, retried by " +
		"itself)\n" +
		"    attempt 1 ended as failure (platform_error) and was retried by itself: it failed (attempt 1)\n"
	if tree := told(l.why("build").GetBecause(), ""); tree != want {
		t.Errorf("tree\n%s", tree)
	}
	tree := told(got.GetBecause(), "")
	for _, part := range []string{"[needs.test.outputs.tag 'v1' true]", "[inputs.level 3 true]", "[always() true true]",
		"\n  test failed because", "\n  build was skipped because"} {
		if !strings.Contains(tree, part) {
			t.Errorf("no %q in\n%s", part, tree)
		}
	}
	if story := l.why("").GetStory(); !strings.Contains(story, "Not successful: test; test failed because step 3") {
		t.Errorf("the run: %s", story)
	}
	shown := Run(l.s, engine.History{State: l.s, Events: l.events}, "p")
	if story := shown.GetJobs()[1].GetStory(); story != "build was skipped because it depends on test, which concluded "+
		"failure, because step 3 'npm test' exited with 1 (attempt 2 of 2; attempt 1: platform_error, retried by itself)." {
		t.Errorf("the page: %s", story)
	}
}

// A chain of a thousand jobs, each of which needs all before it, stays within its bounds.
func TestALongChainIsCut(t *testing.T) {
	var jobs []run.JobSkeleton
	for i := range 300 {
		k := run.JobSkeleton{Key: fmt.Sprintf("j%d", i), If: "always() && needs.x.result == 'success'"}
		for n := max(i-30, 0); n < i; n++ {
			k.Needs = append(k.Needs, n)
		}
		jobs = append(jobs, k)
	}
	jobs[0].If = ""
	l := begin(t, jobs...)
	l.attempt(0, domain.OutcomeFailure, domain.FailureUserCode)
	for j := range jobs {
		if asked := l.s.Jobs[j].Evaluation; asked != nil {
			l.do(run.RecordEvaluation{Job: l.s.JobID(j), Expression: asked.Expression, InputDigest: asked.InputDigest})
		}
	}
	count := 0
	var walk func(b *fairleadv1.Because, depth int)
	walk = func(b *fairleadv1.Because, depth int) {
		if count++; depth > becauseDepth+2 {
			t.Fatalf("depth %d", depth)
		}
		for _, c := range b.GetBecause() {
			walk(c, depth+1)
		}
	}
	got := l.why("j299")
	walk(got.GetBecause(), 0)
	if count < 20 || count > 2*becauseMax || len(got.GetStory()) > 10_000 {
		t.Errorf("%d facts, a story of %d bytes", count, len(got.GetStory()))
	}
}

func TestAWaitIsFollowedToWhatItWaitsFor(t *testing.T) {
	l := begin(t, run.JobSkeleton{Key: "a"}, run.JobSkeleton{Key: "b", Needs: []int{0}})
	want := "b waits for a\n  a waits for a runner until "
	if tree := told(l.why("b").GetBecause(), ""); !strings.HasPrefix(tree, want) {
		t.Errorf("tree\n%s", tree)
	}
	l.do(run.RequestCancel{Cause: domain.Cause{Actor: domain.Actor{Kind: "user", ID: "ada"}}, Reason: "enough"})
	if story := l.why("b").GetStory(); story != "b was cancelled on request of user ada: enough." {
		t.Errorf("story %s", story)
	}
}

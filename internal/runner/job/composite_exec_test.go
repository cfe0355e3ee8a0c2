package job

import (
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/manifest"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// served makes a repository with the files of an action, and a server that gives it.
func (b *bench) served(files map[string]string) *bench {
	b.t.Helper()
	root := b.t.TempDir()
	dir := filepath.Join(root, "source", "x.git")
	git := func(args ...string) string {
		b.t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			b.t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	git("init", "-q", "-b", "main")
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	git("add", "-A")
	git("commit", "-q", "--allow-empty", "-m", "x")
	server := httptest.NewServer(&cgi.Handler{Path: filepath.Join(git("--exec-path"), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"}})
	b.t.Cleanup(server.Close)
	b.order.Server = server.URL
	b.order.Manifest.Components = []manifest.Component{{Component: "git:c:t", Path: "/source/x.git/.git",
		Commit: git("rev-parse", "HEAD")}}
	return b
}

// action is a step that uses a composite action with these steps.
func action(steps ...plan.Step) plan.Step {
	for i := range steps {
		steps[i].Index = i
		if steps[i].Uses == "" {
			steps[i].Uses = plan.UsesRun
		}
		steps[i].Name = steps[i].Script
	}
	return plan.Step{ID: "it", Uses: plan.UsesComposite, Action: "octo/greet/sub@v1", Component: "git:c:t",
		ActionPath: "sub", Steps: steps}
}

func TestStepsOfAnActionHaveScopesOfTheirOwn(t *testing.T) {
	outer := plan.Step{ID: "own", Script: "echo x=outer >> $GITHUB_OUTPUT"}
	it := action(
		plan.Step{ID: "a", Script: `file=$(cat $GITHUB_ACTION_PATH/f)
echo "${{ inputs.n }} ${{ steps.own.outputs.x }} $LEVEL $INPUT_N $file"
echo x=inner >> $GITHUB_OUTPUT; echo LATER=yes >> $GITHUB_ENV`},
		plan.Step{Script: `echo "$LATER ${{ env.LEVEL }} ${{ github.action_repository }} ${{ steps.a.outputs.x }}"`},
	)
	it.With = []plan.Binding{{Name: "n", Value: "${{ steps.own.outputs.x }}"}}
	it.Env = []plan.Binding{{Name: "LEVEL", Value: "step"}}
	it.Outputs = []plan.Binding{{Name: "o", Value: "<${{ steps.a.outputs.x }}>"}}
	b := newBench(t, outer, it, plan.Step{Script: `echo "${{ steps.it.outputs.o }} ${{ steps.a.outputs.x }}$LATER$LEVEL"`})
	b.served(map[string]string{"sub/f": "file"}).run().want(domain.OutcomeSuccess, "", "").
		log("outer  step  file\nyes step octo/greet inner\n<inner> yes\n")
}

func TestAFailureInAnActionIsOfTheWholeStep(t *testing.T) {
	it := action(plan.Step{Script: "exit 3"}, plan.Step{Script: "echo never"},
		plan.Step{Script: "echo failed", If: "failure()"})
	forgiven := it
	forgiven.ID, forgiven.SoftFail = "soft", true
	b := newBench(t, plan.Step{Script: "exit 1", SoftFail: true}, forgiven,
		plan.Step{Script: "echo ${{ steps.soft.outcome }} ${{ steps.soft.conclusion }}"}, it,
		action(plan.Step{Script: "echo no step of it failed", If: "success()"}))
	b.order.Manifest.Steps[4].If = "always()"
	b.served(nil).run().want(domain.OutcomeFailure, domain.FailureUserCode, "ended with exit code 3").
		steps("failure/success", "failure/success", "success/success", "failure/failure", "success/success").
		log("failed\nfailure success\nfailed\nno step of it failed\n")
}

func TestS18TheTimeLimitOfAnActionIsOneForAllItsSteps(t *testing.T) {
	it := action(plan.Step{Script: "sleep 0.7"}, plan.Step{Script: "sleep 20"},
		plan.Step{Script: "echo never", If: "always()"})
	it.TimeoutSeconds = 2
	begun := time.Now()
	newBench(t, it, plan.Step{Script: "echo tidy", Cleanup: true}).served(nil).run().
		want(domain.OutcomeTimedOut, domain.FailureTimeout, "timed out after 2s").
		steps("timed_out/timed_out", "success/success").log("tidy\n")
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestAnActionEndsWhenTheJobIsStopped(t *testing.T) {
	it := action(plan.Step{Script: "echo going; sleep 30"}, plan.Step{Script: "echo never", If: "always()"})
	b := newBench(t, it).served(nil)
	go func() {
		b.sink.until(t, "going")
		b.stops <- Stop{Reason: "cancelled", Grace: time.Second}
	}()
	b.run().want(domain.OutcomeCancelled, domain.FailureCancelled, "cancelled").steps("cancelled/cancelled")
}

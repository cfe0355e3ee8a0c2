package trigger

import (
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/scm/scmtest"
)

const wide = "on: [push, workflow_dispatch]\njobs:\n  a:\n    runs-on: x\n    steps: [{run: a}]\n" +
	"  b:\n    runs-on: x\n    steps: [{run: b}]\n"

// Beyond the bound of open jobs a request is refused and leaves nothing, not even an object. A push,
// whose answer nobody waits for, becomes a run that says so, and is that run for ever.
// Promises: [CMD-16].
func TestBeyondTheBoundOfOpenJobsNothingBegins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true, engine.Open{OfRepository: 3})
	repo := scmtest.NewRepo(t)
	repo.Write(".fairlead/workflows/ci.yml", wide).Commit("base")
	row := w.add("app", repo)
	first := w.mustRun(Request{Repository: "app", Event: "workflow_dispatch"})
	refusal := w.refused(Request{Repository: "app", Event: "workflow_dispatch"}, domain.CodeTooManyOpenJobs)
	if refusal.Rejection.RetryAfter <= 0 || !strings.Contains(refusal.Rejection.Message, "2 open jobs") {
		t.Errorf("refused with %+v", refusal.Rejection)
	}
	p := w.poller()
	w.look(p, row)
	repo.Write("a", "1").Commit("pushed")
	w.look(p, row)
	until(t, "the push has its run", func() bool { return len(w.runs()) == 2 })
	for _, r := range w.runs() {
		if r.Run == first.Run {
			continue
		}
		if why := w.state(r.Run).Request.Invalid; r.Outcome != domain.OutcomeInvalid || len(why) != 1 ||
			!strings.Contains(why[0], "not started") {
			t.Errorf("the push became %+v: %q", r, why)
		}
		pushed, err := w.Push(t.Context(), Push{Tenant: tenant, Repository: "app", Ref: "refs/heads/main", After: r.Commit,
			Cause: person()})
		if err != nil || len(pushed.Runs) != 1 || pushed.Runs[0].Run != r.Run {
			t.Errorf("a hook hears of %+v, %v; the run is %s", pushed, err, r.Run)
		}
	}
}

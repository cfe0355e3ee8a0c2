package trigger

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/repository"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/scm/scmtest"
)

// nameless are groups that have no value, and what is said of them.
var nameless = map[string]string{
	"${{ github.head_ref }}":              "the name of the concurrency group on line 1 is empty",
	"a-${{ fromJSON(github.ref) }}":       "group: ",
	"${{ format('{0}{1}', github.ref) }}": "group: ",
}

// TestAGroupWithoutValueIsAnInvalidRun: nobody waits for a push's answer, and what else it starts
// does not suffer.
// Promises: [RUN-11].
func TestAGroupWithoutValueIsAnInvalidRun(t *testing.T) {
	t.Parallel()
	for group, says := range nameless {
		w := newWorld(t, true)
		repo := scmtest.NewRepo(t)
		repo.Write("a", "1").Commit("base")
		row := w.add("app", repo)
		repo.Write(".fairlead/workflows/a.yml", "concurrency: "+group+"\n"+onPush)
		repo.Write(".fairlead/workflows/b.yml", onPush).Commit("workflows")
		w.look(w.poller(), row)
		until(t, "both runs are listed", func() bool { return len(w.runs()) == 2 })
		for _, got := range w.runs() {
			invalid := w.state(got.Run).Request.Invalid
			switch got.Workflow {
			case ".fairlead/workflows/a.yml":
				if got.Outcome != domain.OutcomeInvalid || len(invalid) != 1 || !strings.Contains(invalid[0], says) ||
					!strings.Contains(invalid[0], "line 1") {
					t.Errorf("%s: %+v says %q", group, got, invalid)
				}
			case ".fairlead/workflows/b.yml":
				if got.Outcome == domain.OutcomeInvalid {
					t.Errorf("%s: the other workflow is invalid: %q", group, invalid)
				}
			default:
				t.Errorf("%s: run of %s", group, got.Workflow)
			}
		}
		pushed, err := w.Push(t.Context(), Push{Tenant: tenant, Repository: "app", Ref: "refs/heads/main",
			After: w.runs()[0].Commit, Cause: person()})
		if err != nil || len(pushed.Runs) != 2 || len(w.runs()) != 2 {
			t.Errorf("%s: a hook hears of %+v, %v", group, pushed, err)
		}
	}
}

// Promises: [SRC-14].
func TestAnOccurrenceWhoseGroupHasNoValueIsSettled(t *testing.T) {
	t.Parallel()
	for group, says := range nameless {
		w, _, row := scheduledAgo(t, 72*time.Hour, "concurrency: "+group+"\n"+onSchedule("cron: '17 * * * *'"))
		before := w.schedules(row)
		w.ago.Add(-int64(time.Hour))
		w.step()
		one := w.schedules(row)[0]
		if one.Last == nil || one.Last.ID != before[0].NextID || one.Last.Outcome != repository.OccurrenceRefused ||
			!strings.Contains(one.Last.Message, says) || !one.NextAt.Equal(before[0].NextAt.Add(time.Hour)) {
			t.Errorf("%s: it is %+v, with %+v", group, one, one.Last)
		}
		if runs := w.runs(); len(runs) != 0 {
			t.Errorf("%s: runs %+v", group, runs)
		}
	}
}

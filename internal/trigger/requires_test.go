package trigger

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/scm/scmtest"
)

// TestAPushOfWhatIsNotRunIsAnInvalidRun: it compiles, nothing of it starts, and the run names the place.
// Promises: [RUN-11].
func TestAPushOfWhatIsNotRunIsAnInvalidRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	repo := scmtest.NewRepo(t)
	repo.Write("a", "1").Commit("base")
	row := w.add("app", repo)
	repo.Write(".fairlead/workflows/a.yml", "on: push\njobs:\n  a:\n    runs-on: linux\n    steps:\n"+
		"      - run: make\n      - run: echo ${{ secrets.KEY }}\n").Commit("a secret")
	w.look(w.poller(), row)
	until(t, "the run is listed", func() bool { return len(w.runs()) == 1 })
	got := w.runs()[0]
	s := w.state(got.Run)
	if invalid := strings.Join(s.Request.Invalid, " "); got.Outcome != domain.OutcomeInvalid || len(s.Jobs) != 0 ||
		!strings.Contains(invalid, "secrets") || !strings.Contains(invalid, ":7:") {
		t.Errorf("%+v with %d jobs says %q", got, len(s.Jobs), invalid)
	}
}

// TestAnOccurrenceOfWhatIsNotRunIsSettled: the schedule goes on, and says why nothing started.
// Promises: [SRC-14].
func TestAnOccurrenceOfWhatIsNotRunIsSettled(t *testing.T) {
	t.Parallel()
	w, _, row := scheduledAgo(t, 72*time.Hour, "env: {KEY: '${{ secrets.KEY }}'}\n"+onSchedule("cron: '17 * * * *'"))
	before := w.schedules(row)
	w.ago.Add(-int64(time.Hour))
	w.step()
	one := w.schedules(row)[0]
	if one.Last == nil || one.Last.ID != before[0].NextID || !one.NextAt.Equal(before[0].NextAt.Add(time.Hour)) {
		t.Fatalf("it is %+v, with %+v", one, one.Last)
	}
	runs := w.runs()
	if len(runs) != 1 || runs[0].Outcome != domain.OutcomeInvalid ||
		!strings.Contains(strings.Join(w.state(runs[0].Run).Request.Invalid, " "), "secrets") {
		t.Errorf("%+v of %+v", runs, one.Last)
	}
}

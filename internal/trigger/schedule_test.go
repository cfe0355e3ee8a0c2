package trigger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/repository"
	"github.com/fairlead-ci/fairlead/internal/scm/scmtest"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// onSchedule is a workflow with these entries of schedule.
func onSchedule(entries ...string) string {
	return "on:\n  schedule:\n" + "    - {" + strings.Join(entries, "}\n    - {") + "}\n" +
		"jobs:\n  a:\n    runs-on: linux\n    steps: [{run: 'echo ${{ github.event.schedule }}'}]\n"
}

// scheduledAgo registers a repository with a workflow, on a clock that is so far behind.
func scheduledAgo(t *testing.T, ago time.Duration, text string) (*world, *scmtest.Repo, store.RepositoryRow) {
	t.Helper()
	w := newWorld(t, false)
	w.ago.Store(int64(ago))
	repo := scmtest.NewRepo(t)
	repo.Write(".github/workflows/n.yml", text).Commit("base")
	row := w.add("app", repo)
	w.look(w.poller(), row)
	w.step()
	return w, repo, row
}

// step lets the scheduler do what there is to do.
func (w *world) step() time.Duration {
	w.t.Helper()
	var wait time.Duration
	for range 3 { // a definition, what is due, and what has become known with it
		wait = w.scheduler.Step(w.t.Context())
	}
	return wait
}

func (w *world) schedules(row store.RepositoryRow) []repository.Schedule {
	w.t.Helper()
	h, err := w.engine.Read(w.t.Context(), tenant, row.Repository.Stream(), false)
	if err != nil {
		w.t.Fatal(err)
	}
	return h.State.(*repository.State).Schedules
}

// Promises: [SRC-14].
func TestAnOccurrenceStartsOneRun(t *testing.T) {
	t.Parallel()
	w, _, row := scheduledAgo(t, 72*time.Hour, onSchedule("cron: '17 * * * *', timezone: Europe/Berlin",
		"cron: '17  *  * * *'"))
	all := w.schedules(row)
	if len(all) != 2 || all[0].Zone != "" || all[1].Zone != "Europe/Berlin" || all[0].Cron != all[1].Cron {
		t.Fatalf("schedules %+v", all)
	}
	if wait := w.step(); wait > time.Hour || len(w.runs()) != 0 {
		t.Fatalf("%d runs before anything is due; next in %v", len(w.runs()), wait)
	}
	w.ago.Add(-int64(time.Hour))
	w.step()
	other := w.NewScheduler(time.LoadLocation) // of a server that comes in between, and has not seen the end
	other.tables[row.Repository] = &timetable{partition: row.Partition, tenant: tenant, branch: "main",
		tip: w.tip(row), of: w.tip(row), schedules: all}
	other.Step(t.Context())
	runs := w.runs()
	if len(runs) != 2 || runs[0].Event != "schedule" || runs[0].Ref != "refs/heads/main" {
		t.Fatalf("runs %+v", runs)
	}
	for i, one := range w.schedules(row) {
		if one.Last == nil || one.Last.ID != all[i].NextID || one.Last.Outcome != repository.OccurrenceStarted ||
			!one.NextAt.Equal(all[i].NextAt.Add(time.Hour)) {
			t.Errorf("it is %+v, with %+v", one, one.Last)
		}
	}
	if got := string(w.frozen(runs[0].Run).Github); !strings.Contains(got, `"schedule":"17 * * * *"`) {
		t.Errorf("github context %s", got)
	}
}

func (w *world) tip(row store.RepositoryRow) string {
	h, err := w.engine.Read(w.t.Context(), tenant, row.Repository.Stream(), false)
	if err != nil {
		w.t.Fatal(err)
	}
	return h.State.(*repository.State).Tip("refs/heads/main")
}

// Promises: [SRC-14].
func TestCatchingUp(t *testing.T) {
	t.Parallel()
	w, _, row := scheduledAgo(t, 72*time.Hour, onSchedule("cron: '0 * * * *'", "cron: '1 * * * *', catch-up: all",
		"cron: '2 * * * *', catch-up: none"))
	before := w.schedules(row)
	w.ago.Add(-int64(5 * time.Hour)) // nobody looks for five hours
	for range 8 {
		w.step()
	}
	started := map[string]int{}
	for _, r := range w.runs() {
		h := string(w.frozen(r.Run).Github)
		for _, one := range before {
			if strings.Contains(h, fmt.Sprintf(`"schedule":%q`, one.Cron)) {
				started[one.CatchUp]++
			}
		}
	}
	if started["latest"] != 1 || started["all"] != 5 {
		t.Errorf("started %v", started)
	}
	for i, one := range w.schedules(row) {
		late := before[i].NextAt.Add(4 * time.Hour)
		if one.CatchUp == "latest" && (one.Last.Missed != 4 || !one.NextAt.Equal(late.Add(time.Hour))) {
			t.Errorf("latest: %+v, last %+v", one, one.Last)
		}
		if one.CatchUp == "none" && w.now().Sub(late) > lateMax && (one.Last.Outcome != repository.OccurrenceMissed ||
			one.Last.Message == "" || started["none"] != 0) {
			t.Errorf("none: %+v, last %+v", one, one.Last)
		}
	}
}

// What was missed may be ten thousand occurrences; the zone's file is read once for them.
func TestCatchingUpReadsTheZoneOnce(t *testing.T) {
	t.Parallel()
	loads := 0
	s := newWorld(t, false).NewScheduler(func(string) (*time.Location, error) { loads++; return time.UTC, nil })
	c, err := s.catchUp(repository.Schedule{Cron: "* * * * *", Zone: "Europe/Berlin", CatchUp: repository.CatchUpLatest,
		NextID: "2020-01-01T00:00", NextAt: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil || loads != 1 || c.Settled.Missed != catchUpMax ||
		c.Settled.Outcome != repository.OccurrenceMissed { // what is not the last one starts nothing
		t.Errorf("%d loads, %+v, %v", loads, c.Settled, err)
	}
}

// Clocks go back during the night: nothing of the hour that comes twice waits for anything.
// Promises: [SRC-14].
func TestEveryHalfHourGoesOnWhenClocksGoBack(t *testing.T) {
	t.Parallel()
	back := time.Date(2026, 10, 25, 0, 45, 0, 0, time.UTC)
	w, _, row := scheduledAgo(t, time.Since(back.Add(-50*time.Minute)), onSchedule(
		"cron: '*/30 * * * *', timezone: Europe/Berlin, catch-up: all"))
	w.ago.Store(int64(time.Since(back.Add(90 * time.Minute))))
	for range 8 {
		w.step()
	}
	if one := w.schedules(row)[0]; one.NextID != "2026-10-25T03:30" || len(w.runs()) != 5 {
		t.Errorf("%d runs, and it awaits %s; last %+v", len(w.runs()), one.NextID, one.Last)
	}
}

// One file that can't be kept among the schedules takes away no other.
func TestAScheduleThatCantBeKeptKeepsNoOtherAway(t *testing.T) {
	t.Parallel()
	w, repo, row := scheduledAgo(t, 72*time.Hour, onSchedule("cron: '30 * * * *'", "cron: '31 * * * *', catch-up: often"))
	repo.Write(".github/workflows/bad\x01\xff.yml", onSchedule("cron: '32 * * * *'")).Commit("hostile")
	w.look(w.poller(), row)
	w.step()
	all := w.schedules(row)
	if len(all) == 0 || all[0].Cron != "30 * * * *" || all[0].Workflow != ".github/workflows/n.yml" {
		t.Fatalf("schedules %+v", all)
	}
	repo.Write(".github/workflows/n.yml", onSchedule("cron: '33 * * * *'")).Commit("another time")
	w.look(w.poller(), row)
	w.step()
	if all := w.schedules(row); len(all) != 1 || all[0].Cron != "33 * * * *" {
		t.Errorf("schedules %+v", all)
	}
}

// A server dies after the run of an occurrence is there and before that is settled. The next
// one comes after the following occurrence, and takes none for missed.
// Promises: [SRC-14].
func TestARunThatWasStartedIsNotMissed(t *testing.T) {
	t.Parallel()
	w, _, row := scheduledAgo(t, 72*time.Hour, onSchedule("cron: '30 * * * *'"))
	one := w.schedules(row)[0]
	w.ago.Add(-int64(time.Hour))
	job := chore{row.Repository, timetable{tenant: tenant, branch: "main", tip: w.tip(row)}, &one}
	c, err := w.scheduler.catchUp(one)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.scheduler.start(t.Context(), row, job, c); err != nil {
		t.Fatal(err)
	}
	w.ago.Add(-int64(time.Hour))
	w.step()
	last := w.schedules(row)[0].Last
	if len(w.runs()) != 2 || last.Missed != 0 || last.Outcome != repository.OccurrenceStarted {
		t.Errorf("%d runs, last %+v", len(w.runs()), last)
	}
}

func TestSchedulesFollowTheDefaultBranch(t *testing.T) {
	t.Parallel()
	w, repo, row := scheduledAgo(t, 72*time.Hour, onSchedule("cron: '30 * * * *'"))
	one := w.schedules(row)[0]
	repo.Git("checkout", "-q", "-b", "topic")
	repo.Write(".github/workflows/n.yml", onSchedule("cron: '1 1 * * *'")).Commit("elsewhere")
	w.look(w.poller(), row)
	w.step()
	if got := w.schedules(row); len(got) != 1 || got[0].Cron != one.Cron {
		t.Errorf("after a commit on another branch: %+v", got)
	}
	repo.Git("checkout", "-q", "main")
	repo.Write(".github/workflows/n.yml", "on: push\njobs: {}\n").Commit("no schedule any more")
	w.look(w.poller(), row)
	w.ago.Add(-int64(time.Hour)) // it was due, too
	w.step()
	if got := w.schedules(row); len(got) != 0 || len(w.runs()) != 0 {
		t.Errorf("schedules %+v, %d runs", got, len(w.runs()))
	}
}

func TestAnOccurrenceThatCantStartSaysSo(t *testing.T) {
	t.Parallel()
	w, repo, row := scheduledAgo(t, 72*time.Hour, onSchedule("cron: '30 * * * *'"))
	one := w.schedules(row)[0]
	repo.Write(".github/workflows/n.yml", onSchedule("cron: '31 * * * *'")).Commit("another time")
	w.look(w.poller(), row)
	w.ago.Add(-int64(time.Hour))
	// A job that was found before the commit came: what it reads is the commit.
	job := chore{row.Repository, timetable{tenant: tenant, branch: "main", tip: w.tip(row)}, &one}
	if err := w.scheduler.work(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	last := w.schedules(row)[0].Last
	if last == nil || last.Outcome != repository.OccurrenceRefused || !strings.Contains(last.Message, "no schedule") {
		t.Errorf("last %+v", last)
	}
	// A broken workflow is a run that says what is wrong.
	broken := strings.Replace(onSchedule("cron: '31 * * * *'"), "runs-on", "run-on", 1)
	repo.Write(".github/workflows/n.yml", broken).Commit("broken")
	w.look(w.poller(), row)
	w.step()
	w.ago.Add(-int64(time.Hour))
	w.step()
	if runs := w.runs(); len(runs) != 1 || w.state(runs[0].Run).Request.Invalid == nil {
		t.Errorf("runs %+v", runs)
	}
}

// Promises: [SRC-15].
func TestFiltersOnFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	repo := scmtest.NewRepo(t)
	filtered := "on: {push: {paths: ['src/**', '!**.md']}}\njobs: {a: {runs-on: linux, steps: [{run: ':'}]}}\n"
	repo.Write(".fairlead/workflows/ci.yml", filtered).Commit("base")
	row := w.add("app", repo)
	p := w.poller()
	w.look(p, row)
	repo.Write("src/readme.md", "1", "docs/a", "1").Commit("words")
	w.look(p, row)
	repo.Write("src/a.go", "1").Commit("code")
	w.look(p, row)
	until(t, "the code has its run", func() bool { return len(w.runs()) > 0 })
	if runs := w.runs(); len(runs) != 1 || runs[0].Title != "code" {
		t.Errorf("runs %+v", runs)
	}
	repo.Git("tag", "v1", "HEAD~1") // S28: a tag is not asked for its files
	w.look(p, row)
	repo.Git("branch", "topic", "HEAD~1")
	w.look(p, row)
	until(t, "tag and new branch have theirs", func() bool { return len(w.runs()) == 3 })
}

// A tip whose workflows can't be read at all keeps the schedules from before; what is due says why it
// does not start.
func TestAnUnreadableTipKeepsTheSchedules(t *testing.T) {
	t.Parallel()
	w, repo, row := scheduledAgo(t, 72*time.Hour, onSchedule("cron: '30 * * * *'"))
	repo.Write(".github/workflows/big.yml", "#"+strings.Repeat("x", filesBytesMax)).Commit("too much")
	w.look(w.poller(), row)
	w.ago.Add(-int64(time.Hour))
	w.step()
	all := w.schedules(row)
	if len(all) != 1 || all[0].Last == nil || all[0].Last.Outcome != repository.OccurrenceRefused ||
		!strings.Contains(all[0].Last.Message, "over a limit") {
		t.Errorf("schedules %+v", all)
	}
	repo.Git("rm", "-q", ".github/workflows/big.yml")
	repo.Commit("less")
	w.look(w.poller(), row)
	w.ago.Add(-int64(time.Hour))
	w.step()
	if last := w.schedules(row)[0].Last; last.Outcome != repository.OccurrenceStarted {
		t.Errorf("last %+v", last)
	}
}

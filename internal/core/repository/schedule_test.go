package repository

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

const nightly = "night.yml"

// due is a schedule whose next occurrence is so many hours after the test's beginning.
func due(workflow, cron string, hours int) Schedule {
	at := start.Add(time.Duration(hours) * time.Hour)
	return Schedule{Workflow: workflow, Cron: cron, CatchUp: CatchUpLatest, NextID: at.Format("2006-01-02T15:04"),
		NextAt: at}
}

func defined(commit string, all ...Schedule) DefineSchedules {
	return DefineSchedules{Commit: strings.Repeat(commit, 40), Schedules: all}
}

func scheduled(t *testing.T) *world {
	w := newWorld(t)
	w.want(registration(), "RepositoryRegistered")
	w.want(polled("main:a"), "RefsRecorded")
	return w
}

// Promises: [SRC-14].
func TestAScheduleKeepsItsOccurrenceWhenItsFileChanges(t *testing.T) {
	w := scheduled(t)
	w.want(defined("b", due(nightly, "0 2 * * *", 2)), "nothing new") // main is not there (any more)
	w.want(defined("a", due(nightly, "0 2 * * *", 2)), "SchedulesDefined")
	w.want(defined("a", due(nightly, "0 2 * * *", 2)), "nothing new")
	// It has been due for an hour when another commit comes, with a second schedule. What that
	// commit's reader takes for the next occurrence does not count.
	w.want(pushed("main:b"), "heads/main a>b protected")
	w.want(defined("b", due("morning.yml", "0 9 * * *", 9), due(nightly, "0 2 * * *", 26)), "SchedulesDefined")
	if got := w.live.Schedules[1]; got.NextID != "2026-01-01T02:00" || !got.NextAt.Equal(start.Add(2*time.Hour)) {
		t.Errorf("it awaits %+v", got)
	}
	w.want(pushed("main:-"), "heads/main b>gone")
	w.want(DefineSchedules{}, "SchedulesDefined")
	if len(w.live.Schedules) != 0 {
		t.Error("schedules without a branch")
	}
}

// Promises: [SRC-14].
func TestAnOccurrenceIsSettledOnce(t *testing.T) {
	w := scheduled(t)
	one := due(nightly, "0 2 * * *", 0)
	w.want(defined("a", one), "SchedulesDefined")
	started := SettleOccurrence{Schedule: one, NextID: "2026-01-02T00:00", NextAt: start.Add(24 * time.Hour),
		Settled: Settled{ID: one.NextID, Outcome: OccurrenceStarted, Run: "run_1"}}
	for name, mend := range map[string]func(*SettleOccurrence){
		"the next is before it":           func(c *SettleOccurrence) { c.NextAt = start },
		"the next is the same":            func(c *SettleOccurrence) { c.NextID = one.NextID },
		"another occurrence":              func(c *SettleOccurrence) { c.Settled.ID = c.NextID },
		"an earlier one":                  func(c *SettleOccurrence) { c.Settled.ID = "2025-12-31T00:00" },
		"started without a run":           func(c *SettleOccurrence) { c.Settled.Run = "" },
		"missed with a run":               func(c *SettleOccurrence) { c.Settled.Outcome = OccurrenceMissed },
		"another outcome":                 func(c *SettleOccurrence) { c.Settled.Outcome, c.Settled.Run = "lost", "" },
		"one behind it, and none missed":  func(c *SettleOccurrence) { c.Settled.ID = "2026-01-01T12:00" },
		"the one that is due, as another": func(c *SettleOccurrence) { c.Settled.Missed = 1 },
		"less than none missed":           func(c *SettleOccurrence) { c.Settled.Missed = -1 },
	} {
		c := started
		mend(&c)
		if got, _ := w.do(c); got != string(domain.CodeInvalidArgument) {
			t.Errorf("%s: %s", name, got)
		}
	}
	w.want(started, "OccurrenceSettled")
	w.want(started, "nothing new")
	early := started
	early.Schedule.NextID, early.NextID, early.NextAt = started.NextID, "2026-01-03T00:00", start.Add(48*time.Hour)
	early.Settled.ID = started.NextID
	w.want(early, "invalid_argument")
	gone := started
	gone.Schedule.Cron = "0 3 * * *"
	w.want(gone, "nothing new")
	if last := w.live.Schedules[0].Last; last == nil || last.Run != "run_1" || last.ID != one.NextID {
		t.Errorf("last %+v", last)
	}
}

// When clocks go back, what is due every half hour is due at 02:00, 02:30 and then at 02:00 again.
// Promises: [SRC-14].
func TestTheSecondPassOfAnHourIsSettledLikeTheFirst(t *testing.T) {
	w := scheduled(t)
	one := due(nightly, "*/30 * * * *", 0)
	one.CatchUp, one.NextID = CatchUpAll, "2026-10-25T02:30"
	w.want(defined("a", one), "SchedulesDefined")
	w.want(SettleOccurrence{Schedule: one, NextID: "2026-10-25T02:00+", NextAt: start.Add(30 * time.Minute),
		Settled: Settled{ID: one.NextID, Outcome: OccurrenceMissed}}, "OccurrenceSettled")
}

func TestScheduleLimits(t *testing.T) {
	w := scheduled(t)
	good := due(nightly, "0 2 * * *", 1)
	for name, all := range map[string][]Schedule{
		"twice":         {good, good},
		"unsorted":      {good, due("a.yml", "0 2 * * *", 1)},
		"no occurrence": {{Workflow: nightly, Cron: "0 2 * * *", CatchUp: CatchUpAll}},
		"no policy":     {{Workflow: nightly, Cron: "0 2 * * *", NextID: "x", NextAt: start}},
		"long path":     {due(strings.Repeat("x", pathBytesMax+1), "0 2 * * *", 1)},
		"control":       {due("a\nb", "0 2 * * *", 1)},
	} {
		if got, _ := w.do(defined("a", all...)); got != string(domain.CodeInvalidArgument) {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got, _ := w.do(defined("a", make([]Schedule, SchedulesMax+1)...)); got != string(domain.CodeTooLarge) {
		t.Errorf("too many: %s", got)
	}
}

// Promises: [FORMAT-2].
func TestSchedulesWaitForTheLastOldServer(t *testing.T) {
	for _, e := range []Event{new(SchedulesDefined), new(OccurrenceSettled)} {
		if _, err := Lower(e, FormatSchedules-1); !errors.Is(err, codec.ErrFormat) {
			t.Errorf("%s has a form for old servers: %v", e.Name(), err)
		}
		if got, err := Lower(e, FormatSchedules); err != nil || got != e {
			t.Errorf("%s: %v", e.Name(), err)
		}
	}
	if e, err := Lower(new(RefMoved), 1); err != nil || e == nil {
		t.Error(err)
	}
}

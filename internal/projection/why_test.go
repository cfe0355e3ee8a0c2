package projection

import (
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/core/run"
)

func TestATimerIsNamedWithItsDay(t *testing.T) {
	at := time.Date(2026, 11, 30, 16, 51, 16, 0, time.UTC)
	got := endings(nil, run.Wait{EndedBy: []run.Ending{{Kind: run.EndsByTimer, At: at}}})
	if len(got) != 1 || got[0].GetText() != "the timer at 2026-11-30 16:51:16 UTC" {
		t.Errorf("got %v", got)
	}
}

func TestTheRunAsAWholeIsNamedWhereItsGroupHoldsAJob(t *testing.T) {
	got := endings(run.New(), run.Wait{Job: 0, EndedBy: []run.Ending{
		{Kind: run.EndsByEvent, What: "GroupAdmitted", Jobs: []int{group.Whole}}}})
	if len(got) != 1 || got[0].GetText() != "the event GroupAdmitted of the run" {
		t.Errorf("got %v", got)
	}
}

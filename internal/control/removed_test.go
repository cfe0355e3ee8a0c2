package control

import (
	"context"
	"strings"
	"testing"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/logs"
)

// archive is a source of logs of which some days were removed.
type archive struct {
	LogSource
	asked []string
}

func (a *archive) Removal(_ context.Context, object string) (*logs.Removal, error) {
	a.asked = append(a.asked, object)
	if !strings.Contains(object, "20260101") {
		return nil, nil
	}
	return &logs.Removal{Class: "batch", Days: 1, At: time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)}, nil
}

// A run says of which attempts the log was removed, and asks about each object once.
func TestARunSaysThatLogsWereRemoved(t *testing.T) {
	state, out := &run.State{}, &fairleadv1.Run{}
	objects := []string{
		"tnt_a/sealed-logs/batch/20260101/ab/one", "tnt_a/sealed-logs/batch/20260101/ab/one",
		"tnt_a/sealed-logs/batch/20260102/ab/two", "tnt_a/sealed-logs/batch/20260102/ab/three", "", "tnt_a/logs/x/y",
	}
	for _, object := range objects {
		state.Jobs = append(state.Jobs, &run.Job{Attempts: []run.Attempt{{Log: &run.Log{Object: object}}}})
		out.Jobs = append(out.Jobs, &fairleadv1.Job{Attempts: []*fairleadv1.Attempt{{Log: &fairleadv1.LogInfo{}}}})
	}
	source := &archive{}
	(&Runs{Logs: source}).removedLogs(t.Context(), state, out)
	for i, object := range objects {
		want := ""
		if i < 2 {
			want = "The log was removed on 2026-01-03: logs of class batch are kept for a day."
		}
		if got := out.GetJobs()[i].GetAttempts()[0].GetLog().GetRemoved(); got != want {
			t.Errorf("%q: %q", object, got)
		}
	}
	if len(source.asked) != 3 {
		t.Errorf("asked about %q", source.asked)
	}
}

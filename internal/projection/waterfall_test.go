package projection

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/engine"
)

// Time in a concurrency group is time that the job was held, and not that no runner was there.
func TestTimeInAGroupIsHeldTime(t *testing.T) {
	s := run.New()
	at := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	var history []engine.Recorded
	for _, e := range []run.Event{
		&run.RunRequested{Base: run.Base{At: at}, Request: run.Request{Run: "run_1", Skeleton: []run.JobSkeleton{
			{Key: "a"}, {Index: 1, Key: "b", Needs: []int{0}}}}},
		&run.GroupAsked{OfJob: run.OfJob{Base: run.Base{At: at}, Job: group.Whole}, Concurrency: run.Concurrency{Group: "g"}},
		&run.GroupAdmitted{OfJob: run.OfJob{Base: run.Base{At: at.Add(time.Second)}, Job: group.Whole}, Generation: 1},
		&run.GroupAsked{OfJob: run.OfJob{Base: run.Base{At: at.Add(time.Second)}}, Concurrency: run.Concurrency{Group: "h"}},
		&run.GroupAdmitted{OfJob: run.OfJob{Base: run.Base{At: at.Add(2 * time.Second)}}, Generation: 1},
		&run.JobReady{OfJob: run.OfJob{Base: run.Base{At: at.Add(2 * time.Second)}}},
	} {
		run.Evolve(s, e)
		history = append(history, engine.Recorded{Event: e})
	}
	want := []string{"no_runner held no_runner", "needs"}
	for i, bar := range waterfall(s, history) {
		var got []string
		for _, segment := range bar {
			got = append(got, segment.GetKind())
		}
		if strings.Join(got, " ") != want[i] {
			t.Errorf("job %d: %v", i, got)
		}
	}
}

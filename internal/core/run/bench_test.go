package run

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// live applies a command the way the engine does: decide, encode, evolve.
func live(b *testing.B, s *State, c Command, now time.Time) int {
	b.Helper()
	d, r := Decide(s, c, now)
	if r != nil {
		b.Fatalf("%s: %v", c.Name(), r)
	}
	if _, err := EncodeEvents(d.Events, codec.Format); err != nil {
		b.Fatal(err)
	}
	for _, e := range d.Events {
		Evolve(s, e)
	}
	return len(d.Events)
}

// execute takes every job of a run from ready to success.
func execute(b *testing.B, s *State) int {
	b.Helper()
	events := 0
	for now := start; !s.Concluded(); now = now.Add(time.Second) {
		for _, j := range ReadyJobs(s) {
			until := now.Add(time.Minute)
			events += live(b, s, GrantLease{
				Job: s.JobID(j), Runner: "m1", RunnerName: "m1", Pool: "default", Tiers: []domain.Tier{domain.TierTrusted},
				Slot: domain.SlotToken(fmt.Sprintf("m1/0/%d", j)), Until: until, AbandonBy: until,
			}, now)
			id := s.AttemptID(j, 1)
			events += live(b, s, ReportProgress{
				Attempt: id, Epoch: 1, Observed: domain.ObservedRunning, Steps: []Step{{Index: 0, Started: now}}, At: now,
			}, now)
			events += live(b, s, ReportResult{
				Attempt: id, Epoch: 1, Outcome: domain.OutcomeSuccess, Digest: domain.DigestOf(nil),
				Steps: []Step{{Index: 0, Outcome: domain.OutcomeSuccess, Started: now, Finished: now}},
			}, now)
			events += live(b, s, RecordLog{Attempt: id}, now)
		}
	}
	return events
}

// BenchmarkRun measures whole runs in the core, encoding included and storage excluded.
func BenchmarkRun(b *testing.B) {
	for _, jobs := range []int{1, 30, 1000} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			var skeleton []JobSkeleton
			for i := range jobs {
				k := JobSkeleton{Key: fmt.Sprintf("j%d", i), Steps: []string{"test"}}
				if i > 0 {
					k.Needs = []int{(i - 1) / 2}
				}
				skeleton = append(skeleton, k)
			}
			c := testRequest(skeleton...)
			events := 0
			for b.Loop() {
				s := New()
				events += live(b, s, c, start)
				events += execute(b, s)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
		})
	}
}

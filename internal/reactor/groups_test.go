package reactor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

// street is an engine whose runs join one group.
type street struct {
	t      *testing.T
	engine *engine.Engine
}

const streetRepository = domain.RepositoryID("rep_00000000000000000000000001")

func newStreet(t *testing.T) *street {
	t.Helper()
	e := engine.New(engine.Config{Store: memory.New(), Kinds: projection.Kinds(), Format: codec.Format, Owner: "test",
		Partitions: []domain.PartitionID{"p1"}, Clock: engine.NewClock(), Paranoid: true})
	e.React(&Groups{Engine: e, Read: e})
	if err := e.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return &street{t, e}
}

func (s *street) submit(id domain.StreamID, c any) {
	s.t.Helper()
	cause := domain.Cause{Actor: domain.Actor{Kind: "user", ID: "ann", Via: "test"}}
	if _, err := s.engine.Submit(s.t.Context(), engine.Envelope{Tenant: "tnt_a", Partition: "p1", Stream: id, Command: c,
		Cause: cause}); err != nil {
		s.t.Fatalf("%T: %v", c, err)
	}
}

func (s *street) run(n byte, c run.Concurrency) domain.RunID {
	s.t.Helper()
	id := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{1, 15: n}))
	s.submit(id.Stream(), run.RequestRun{Request: run.Request{Run: id, Tenant: "tnt_a", Repository: streetRepository,
		Number: uint64(n), Tier: domain.TierTrusted, Class: domain.ClassInteractive, Concurrency: &c,
		Skeleton: []run.JobSkeleton{{Key: "deploy", TimeoutSeconds: 60}}}})
	return id
}

func (s *street) state(id domain.RunID) *run.State {
	s.t.Helper()
	h, err := s.engine.Read(s.t.Context(), "tnt_a", id.Stream(), false)
	if err != nil {
		s.t.Fatal(err)
	}
	return h.State.(*run.State)
}

// until waits for what follows, for as long as a test may.
func (s *street) until(what string, is func() bool) {
	s.t.Helper()
	for range 2000 {
		if is() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	s.t.Fatalf("never: %s", what)
}

func (s *street) ready(id domain.RunID) bool { return len(run.ReadyJobs(s.state(id))) == 1 }
func (s *street) joined(id domain.RunID) bool {
	p := s.state(id).PlaceOf(group.Whole)
	return p != nil && p.Generation > 0
}

// finish executes the run's job.
func (s *street) finish(id domain.RunID) {
	s.t.Helper()
	now := s.engine.Now()
	s.submit(id.Stream(), run.GrantLease{Job: id.Job(0), Runner: "r", Pool: "p", Slot: domain.SlotToken(id),
		Tiers: []domain.Tier{domain.TierTrusted}, Until: now.Add(time.Minute), AbandonBy: now.Add(2 * time.Minute)})
	s.submit(id.Stream(), run.ReportResult{Attempt: id.Job(0).Attempt(1), Epoch: 1, Digest: domain.DigestOf(nil),
		Outcome: domain.OutcomeSuccess})
}

func TestS24ThePendingRunIsSupersededByTheNewerOne(t *testing.T) {
	s := newStreet(t)
	g := run.Concurrency{Group: "Deploy"}
	one := s.run(1, g)
	s.until("the first run is admitted", func() bool { return s.ready(one) })
	two := s.run(2, run.Concurrency{Group: "deploy"})
	s.until("the second waits", func() bool { return s.joined(two) })
	three := s.run(3, g)
	s.until("the second is superseded", func() bool { return s.state(two).Outcome == domain.OutcomeSuperseded })
	by := s.state(two).PlaceOf(group.Whole).By
	if by == nil || by.Run != three || by.Number != 3 {
		t.Errorf("its successor is %v", by)
	}
	if text := s.state(two).Sentence(s.state(two).Reason); !strings.Contains(text, "run #3 ("+string(three)+")") {
		t.Errorf("the reason is %q", text)
	}
	s.until("the third waits", func() bool { return s.joined(three) })
	if text := s.state(three).Sentence(s.state(three).Jobs[0].Reason); !strings.Contains(text, "behind "+string(one)) {
		t.Errorf("the third waits: %q", text)
	}
	if s.ready(three) {
		t.Error("two of a group may act")
	}
	s.finish(one)
	s.until("the third is admitted", func() bool { return s.ready(three) })
	s.finish(three)
	s.until("the group is empty", func() bool {
		h, err := s.engine.Read(t.Context(), "tnt_a", group.Stream(streetRepository, "deploy"), false)
		return err == nil && !group.Live(h.State.(*group.State)) && h.State.(*group.State).Generation == 3
	})
}

func TestS24AQueueOfAllKeepsEverybody(t *testing.T) {
	s := newStreet(t)
	var runs []domain.RunID
	for n := range byte(3) {
		runs = append(runs, s.run(n+1, run.Concurrency{Group: "deploy", Max: true}))
		s.until("it joins", func() bool { return s.joined(runs[n]) })
	}
	for n, id := range runs {
		s.until(fmt.Sprintf("run %d is admitted", n+1), func() bool { return s.ready(id) })
		for _, later := range runs[n+1:] {
			if s.ready(later) || s.state(later).Concluded() {
				t.Errorf("%s does not wait for %s", later, id)
			}
		}
		s.finish(id)
	}
}

// late joins a group for a run, as a server that lost the partition between reading and asking.
func (s *street) late(id domain.RunID, n uint64) {
	s.t.Helper()
	s.submit(group.Stream(streetRepository, "deploy"), group.Join{Repository: streetRepository, GroupName: "deploy",
		Member: group.Key{Run: id, Job: group.Whole, Round: 1}, Who: group.Successor{Run: id, Number: n}})
}

// Promises: [RUN-23].
func TestALateJoinHoldsNoGroup(t *testing.T) {
	s := newStreet(t)
	g := run.Concurrency{Group: "deploy"}
	empty := func() bool {
		h, err := s.engine.Read(t.Context(), "tnt_a", group.Stream(streetRepository, "deploy"), false)
		return err == nil && !group.Live(h.State.(*group.State))
	}
	one := s.run(1, g)
	s.until("the first run is admitted", func() bool { return s.ready(one) })
	s.finish(one)
	s.until("the group is empty", empty)
	s.late(one, 1)
	if !empty() {
		t.Error("who has left came again")
	}
	// A group that has forgotten it, or never knew: the run itself does not want the place.
	other := s.run(2, run.Concurrency{Group: "other"})
	s.until("a run of another group is admitted", func() bool { return s.ready(other) })
	s.finish(other)
	s.until("it has ended", func() bool { return s.state(other).Concluded() })
	s.late(other, 2)
	s.late(domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{9})), 9) // of a run that is no more
	three := s.run(3, g)
	s.until("the next one is admitted", func() bool { return s.ready(three) })
	s.finish(three)
	s.until("the group is empty again", empty)
}

func TestS25TheRunningRunIsCancelledForTheNewerOne(t *testing.T) {
	s := newStreet(t)
	g := run.Concurrency{Group: "pr-7", Cancel: true}
	one := s.run(1, g)
	s.until("the first run is admitted", func() bool { return s.ready(one) })
	now := s.engine.Now()
	s.submit(one.Stream(), run.GrantLease{Job: one.Job(0), Runner: "r", Pool: "p", Slot: "r/0/1",
		Tiers: []domain.Tier{domain.TierTrusted}, Until: now.Add(time.Minute), AbandonBy: now.Add(2 * time.Minute)})
	two := s.run(2, g)
	s.until("the first is asked to stop", func() bool { return s.state(one).Desired == domain.DesiredCancel })
	if s.ready(two) || !strings.Contains(s.state(one).Cancel.Reason, "run #2") {
		t.Errorf("the second goes on before the first has stopped, or %q names it not", s.state(one).Cancel.Reason)
	}
	s.submit(one.Stream(), run.ReportResult{Attempt: one.Job(0).Attempt(1), Epoch: 1, Digest: domain.DigestOf(nil),
		Outcome: domain.OutcomeCancelled})
	s.until("the second is admitted", func() bool { return s.ready(two) })
	if s.state(one).Outcome != domain.OutcomeCancelled {
		t.Errorf("the first run is %s", s.state(one).Outcome)
	}
}

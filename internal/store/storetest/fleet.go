package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

func (s *suite) fleetPromises() []promise {
	return []promise{
		{"ARenewalShowsTheWholeFleet", renewalShows},
		{"ALeaseRunsOutByTheStoresClock", leaseRunsOut},
		{"TheNameOfALiveSessionIsTaken", nameTaken},
		{"WhoLeftIsGoneAndOnlyItself", leaves},
		{"TheFormatIsWhatAllReadAndNeverFalls", formatFloor},
		{"AMemberWithoutNameSessionOrFormatIsRefused", namelessMember},
		{"TakeIsAcquireOnConditionOfTheEpoch", takes},
		{"OfManyWhoTakeAtOneEpochOneGets", manyTake},
		{"AReleasedPartitionHasNoOwnerAndKeepsItsEpoch", releases},
		{"TheShapeIsRecordedOnce", shapeOnce},
	}
}

func member(name string) store.Member {
	return store.Member{Name: name, Session: "session of " + name, Address: "http://" + name, Version: "v1", Format: 1}
}

// long is a lease that does not run out while a test runs.
const long = time.Hour

func (w *world) renew(t *testing.T, m store.Member, ttl time.Duration) store.Picture {
	t.Helper()
	return must[store.Picture](t)(w.store.Renew(t.Context(), m, ttl))
}

func renewalShows(t *testing.T, w *world) {
	b := member("b")
	b.Draining = true
	w.renew(t, b, long)
	w.append(t, func(b *store.Batch) { add(b, tenant, "run/a", 1, 1, "a") })
	p := w.renew(t, member("a"), long)
	if len(p.Members) != 2 {
		t.Fatalf("members %+v", p.Members)
	}
	for i, want := range []store.Member{member("a"), b} {
		got := p.Members[i]
		if left := got.Until.Sub(p.Now); !got.Live || left <= 0 || left > long {
			t.Errorf("%s is live %t for %v", got.Name, got.Live, left)
		}
		got.Live, got.Until = false, time.Time{}
		same(t, "member", got, want)
	}
	same(t, "partitions", p.Partitions, []store.Holding{{Ownership: w.own, Owner: "tester"}})
	read := must[store.Picture](t)(w.store.Picture(t.Context()))
	if read.Now.Before(p.Now) {
		t.Errorf("the clock went back from %v to %v", p.Now, read.Now)
	}
	read.Now = p.Now
	same(t, "the picture without a renewal", read, p)
}

// pass lets the store's own clock go on until the picture shows what done wants. It is
// bounded by the test's deadline.
func (w *world) pass(t *testing.T, done func(store.Picture) bool) {
	t.Helper()
	for {
		p := must[store.Picture](t)(w.store.Picture(t.Context()))
		if done(p) {
			return
		}
	}
}

// Promises: [FLEET-3].
func leaseRunsOut(t *testing.T, w *world) {
	p := w.renew(t, member("a"), 20*time.Millisecond)
	if !p.Members[0].Live {
		t.Error("dead at birth")
	}
	until := p.Members[0].Until
	w.pass(t, func(p store.Picture) bool { return !p.Members[0].Live })
	if now := must[store.Picture](t)(w.store.Picture(t.Context())).Now; now.Before(until) {
		t.Errorf("dead at %v, before the lease's end at %v", now, until)
	}
	if p := w.renew(t, member("a"), long); !p.Members[0].Live {
		t.Error("it can't come back")
	}
}

// Promises: [FLEET-4].
func nameTaken(t *testing.T, w *world) {
	w.renew(t, member("a"), long)
	thief := member("a")
	thief.Session = "another"
	thief.Address = "http://elsewhere"
	before := must[store.Picture](t)(w.store.Picture(t.Context())).Members
	if _, err := w.store.Renew(t.Context(), thief, long); !errors.Is(err, store.ErrNameTaken) {
		t.Errorf("the name of a live member: %v", err)
	}
	same(t, "members after the refusal", must[store.Picture](t)(w.store.Picture(t.Context())).Members, before)
	for _, wrong := range []store.Member{{Instead: "session of a", InsteadUntil: before[0].Until.Add(time.Microsecond)},
		{Instead: "another one", InsteadUntil: before[0].Until}} { // it was renewed since, or is not who was watched
		thief.Instead, thief.InsteadUntil = wrong.Instead, wrong.InsteadUntil
		if _, err := w.store.Renew(t.Context(), thief, long); !errors.Is(err, store.ErrNameTaken) {
			t.Errorf("instead of %s until %s: %v", wrong.Instead, wrong.InsteadUntil, err)
		}
	}
	heir := thief
	heir.Session, heir.Instead, heir.InsteadUntil = "heir", before[0].Session, before[0].Until
	if p := w.renew(t, heir, long); p.Members[0].Session != "heir" {
		t.Errorf("whoever watched the one before is not in its place: %+v", p.Members)
	}
	thief.Instead, thief.InsteadUntil = "", time.Time{}
	back := member("a")
	back.Instead, back.InsteadUntil = "heir", must[store.Picture](t)(w.store.Picture(t.Context())).Members[0].Until
	w.renew(t, back, long)
	w.renew(t, member("a"), time.Millisecond)
	w.pass(t, func(p store.Picture) bool { return !p.Members[0].Live })
	if p := w.renew(t, thief, long); p.Members[0].Session != "another" {
		t.Errorf("the name of a dead member: %+v", p.Members)
	}
	if _, err := w.store.Renew(t.Context(), member("a"), long); !errors.Is(err, store.ErrNameTaken) {
		t.Errorf("the one who was dead comes back: %v", err)
	}
}

func leaves(t *testing.T, w *world) {
	w.renew(t, member("a"), long)
	w.renew(t, member("b"), long)
	other := member("b")
	other.Session = "earlier"
	for _, m := range []store.Member{other, member("c"), member("a")} {
		if err := w.store.Leave(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	p := must[store.Picture](t)(w.store.Picture(t.Context()))
	if len(p.Members) != 1 || p.Members[0].Name != "b" {
		t.Errorf("members %+v", p.Members)
	}
}

// Promises: [FLEET-11].
func formatFloor(t *testing.T, w *world) {
	of := func(name string, format uint32) store.Member {
		m := member(name)
		m.Format = format
		return m
	}
	for _, step := range []struct {
		renew store.Member
		want  uint32
	}{{of("a", 2), 2}, {of("b", 3), 2}, {of("a", 4), 3}, {of("b", 5), 4}} {
		if p := w.renew(t, step.renew, long); p.Format != step.want {
			t.Errorf("after %s reads %d: %d may be written, want %d", step.renew.Name, step.renew.Format, p.Format, step.want)
		}
	}
	if _, err := w.store.Renew(t.Context(), of("old", 3), long); !errors.Is(err, store.ErrTooOld) {
		t.Errorf("a member that is too old: %v", err)
	}
	// Who died lately may be started again, and still counts.
	w.renew(t, of("a", 4), time.Millisecond)
	w.pass(t, func(p store.Picture) bool { return !p.Members[0].Live })
	if p := w.renew(t, of("b", 5), long); p.Format != 4 || len(p.Members) != 2 {
		t.Errorf("with one that died lately: %+v", p)
	}
	// Who left does not.
	if err := w.store.Leave(t.Context(), of("a", 4)); err != nil {
		t.Fatal(err)
	}
	if p := w.renew(t, of("b", 5), long); p.Format != 5 {
		t.Errorf("after the last old one left: %d", p.Format)
	}
	if p := must[store.Picture](t)(w.store.Picture(t.Context())); p.Format != 5 {
		t.Errorf("read: %d", p.Format)
	}
}

func namelessMember(t *testing.T, w *world) {
	for _, spoil := range []func(*store.Member){
		func(m *store.Member) { m.Name = "" }, func(m *store.Member) { m.Session = "" },
		func(m *store.Member) { m.Format = 0 }, func(m *store.Member) { m.Name = "a\x00" },
	} {
		m := member("a")
		spoil(&m)
		if _, err := w.store.Renew(t.Context(), m, long); err == nil {
			t.Errorf("%+v is a member", m)
		}
	}
	odd := member("a")
	odd.Address, odd.Version = "\xff", "a\x00b"
	if p := w.renew(t, odd, long); p.Members[0].Address != "\ufffd" || p.Members[0].Version != "a\ufffdb" {
		t.Errorf("what is only shown is cleaned: %+v", p.Members)
	}
}

// Promises: [FLEET-2].
func takes(t *testing.T, w *world) {
	w.append(t, func(b *store.Batch) { add(b, tenant, "run/a", 1, 1, "a") })
	want := w.own
	want.Epoch = 2
	for _, epoch := range []uint64{0, 2, 7} {
		if _, err := w.store.Take(t.Context(), part, "b", epoch); !errors.Is(err, store.ErrFenced) {
			t.Errorf("take at epoch %d: %v", epoch, err)
		}
	}
	same(t, "taken", must[store.Ownership](t)(w.store.Take(t.Context(), part, "b", 1)), want)
	p := must[store.Picture](t)(w.store.Picture(t.Context()))
	same(t, "the holding", p.Partitions, []store.Holding{{Ownership: want, Owner: "b"}})
	w.refused(t, full(w.own, 1), store.ErrFenced)
	w.own = want
	w.append(t, func(b *store.Batch) { add(b, tenant, "run/b", 1, 1, "b") })
	if _, err := w.store.Take(t.Context(), "p-two", "b", 1); !errors.Is(err, store.ErrFenced) {
		t.Errorf("take an unknown partition at epoch 1: %v", err)
	}
	first := must[store.Ownership](t)(w.store.Take(t.Context(), "p-two", "b", 0))
	same(t, "a first take", first, store.Ownership{Partition: "p-two", Epoch: 1})
	if _, err := w.store.Take(t.Context(), "p-two", "c", 0); !errors.Is(err, store.ErrFenced) {
		t.Errorf("a second first take: %v", err)
	}
}

// Promises: [FLEET-2].
func manyTake(t *testing.T, w *world) {
	for round, p := range []domain.PartitionID{part, "p-two"} {
		epoch := uint64(1 - round)
		got := make([]error, 6)
		var group sync.WaitGroup
		for i := range got {
			group.Go(func() { _, got[i] = w.store.Take(t.Context(), p, fmt.Sprint("m", i), epoch) })
		}
		group.Wait()
		winners := 0
		for _, err := range got {
			if err == nil {
				winners++
			} else if !errors.Is(err, store.ErrFenced) {
				t.Errorf("take %s: %v", p, err)
			}
		}
		if winners != 1 {
			t.Errorf("%d took %s at epoch %d", winners, p, epoch)
		}
	}
}

func releases(t *testing.T, w *world) {
	w.append(t, func(b *store.Batch) { add(b, tenant, "run/a", 1, 1, "a") })
	for _, epoch := range []uint64{0, 2} {
		if err := w.store.Release(t.Context(), part, epoch); !errors.Is(err, store.ErrFenced) {
			t.Errorf("release at epoch %d: %v", epoch, err)
		}
	}
	if err := w.store.Release(t.Context(), "p-two", 1); !errors.Is(err, store.ErrFenced) {
		t.Errorf("release an unknown partition: %v", err)
	}
	if err := w.store.Release(t.Context(), part, 1); err != nil {
		t.Fatal(err)
	}
	p := must[store.Picture](t)(w.store.Picture(t.Context()))
	same(t, "the holding", p.Partitions, []store.Holding{{Ownership: w.own}})
	// What was on its way when the owner released it still counts, and the next owner sees it.
	w.append(t, func(b *store.Batch) { add(b, tenant, "run/b", 1, 1, "b") })
	next := must[store.Ownership](t)(w.store.Take(t.Context(), part, "b", 1))
	if next.Epoch != 2 || next.Position != 2 {
		t.Errorf("the next owner starts from %+v", next)
	}
}

func shapeOnce(t *testing.T, w *world) {
	shape := func(want store.Shape) store.Shape {
		t.Helper()
		return must[store.Shape](t)(w.store.Shape(t.Context(), want))
	}
	if got := shape(store.Shape{}); got != (store.Shape{}) {
		t.Errorf("before anything was recorded: %+v", got)
	}
	w.renew(t, member("a"), long) // a membership alone records none
	want := store.Shape{Partitions: 8, Spread: store.SpreadRepository}
	for _, ask := range []store.Shape{want, {Partitions: 3, Spread: store.SpreadTenant}, {}} {
		if got := shape(ask); got != want {
			t.Errorf("asked for %+v, recorded %+v", ask, got)
		}
	}
	for _, bad := range []store.Shape{{Partitions: 8}, {Spread: store.SpreadTenant},
		{Partitions: store.PartitionsMax + 1, Spread: store.SpreadTenant}, {Partitions: -1, Spread: store.SpreadTenant}} {
		if _, err := w.store.Shape(t.Context(), bad); err == nil {
			t.Errorf("recorded %+v", bad)
		}
	}
	if p := w.renew(t, member("a"), long); p.Format != 1 {
		t.Errorf("the format beside the shape: %d", p.Format)
	}
}

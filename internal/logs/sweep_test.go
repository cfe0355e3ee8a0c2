package logs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/blob/file"
	"github.com/fairlead-ci/fairlead/internal/blob/memory"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// attic is a store with sealed logs, and a clock that a test sets.
type attic struct {
	t      *testing.T
	store  blob.Store
	now    time.Time
	holder *Holder
	said   strings.Builder
	// objects and bytes are what was removed, as metrics hear it.
	objects int
	bytes   int64
}

func newAttic(t *testing.T, store blob.Store) *attic {
	t.Helper()
	a := &attic{t: t, store: store, now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
	a.holder = NewHolder(store, Config{Now: func() time.Time { return a.now }})
	if err := a.holder.Hold(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.holder.Close() })
	return a
}

// seal makes a sealed log of a class at a time, which history knows.
func (a *attic) seal(n int, class domain.Class, at time.Time, text string) Ref {
	a.t.Helper()
	ref := a.sealUnrecorded(n, class, at, text)
	a.holder.Recorded(tenant, attempt(n), ref)
	return ref
}

func (a *attic) sealUnrecorded(n int, class domain.Class, at time.Time, text string) Ref {
	a.t.Helper()
	a.now = at
	if _, err := a.holder.Append(a.t.Context(), []Chunk{chunk(attempt(n), 1, text)}); err != nil {
		a.t.Fatal(err)
	}
	ref, err := a.holder.Seal(a.t.Context(), tenant, attempt(n), class, 1)
	if err != nil {
		a.t.Fatal(err)
	}
	return ref
}

func (a *attic) sweeper(keep Keep) *Sweeper {
	return NewSweeper(a.store, a.holder, SweepConfig{Keep: keep, Now: func() time.Time { return a.now },
		Log: slog.New(slog.NewTextHandler(&a.said, nil)), Removed: func(objects int, bytes int64) {
			a.objects, a.bytes = a.objects+objects, a.bytes+bytes
		}})
}

// sweep sweeps at a time, when the clock was seen for long enough.
func (a *attic) sweep(keep Keep, at time.Time) {
	a.t.Helper()
	s := a.sweeper(keep)
	for _, before := range []time.Duration{26 * time.Hour, 14 * time.Hour} {
		if _, err := s.clock(a.t.Context(), at.Add(-before)); err != nil {
			a.t.Fatal(err)
		}
	}
	a.now = at
	if err := s.Sweep(a.t.Context()); err != nil {
		a.t.Fatal(err)
	}
}

// read reads a log in a holder that has nothing in memory.
func (a *attic) read(n int, ref Ref) error {
	a.t.Helper()
	log, err := NewHolder(a.store, Config{}).Log(tenant, attempt(n), &ref)
	if err != nil {
		a.t.Fatal(err)
	}
	_, err = log.Totals(a.t.Context())
	return err
}

func onBlobs(t *testing.T, test func(t *testing.T, store blob.Store)) {
	t.Run("memory", func(t *testing.T) { test(t, memory.New()) })
	t.Run("file", func(t *testing.T) {
		store, err := file.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		test(t, store)
	})
}

func TestLogsAreRemovedByTheirClass(t *testing.T) {
	onBlobs(t, func(t *testing.T, store blob.Store) {
		a := newAttic(t, store)
		begin := a.now
		long := strings.Repeat("0123456789abcdef\n", sharedBytesMax/16)
		batch := a.seal(1, domain.ClassBatch, begin, "batch\n")
		alone := a.seal(2, domain.ClassBatch, begin, long)
		guarded := a.seal(3, domain.ClassProtected, begin, "protected\n")
		person := a.seal(4, domain.ClassInteractive, begin, "interactive\n")
		later := a.seal(5, domain.ClassBatch, begin.AddDate(0, 0, 1), "later\n")
		a.sweep(Keep{All: 60, Of: map[domain.Class]int{domain.ClassBatch: 14, domain.ClassProtected: 0}},
			begin.AddDate(0, 0, 15).Truncate(24*time.Hour))
		for n, ref := range map[int]Ref{1: batch, 2: alone} {
			r, ok := domain.AsRejection(a.read(n, ref))
			if !ok || r.Code != domain.CodeLogExpired ||
				r.Message != "The log was removed on 2026-11-16: logs of class batch are kept for 14 days." {
				t.Errorf("log %d: %v", n, r)
			}
		}
		for n, ref := range map[int]Ref{3: guarded, 4: person, 5: later} {
			if err := a.read(n, ref); err != nil {
				t.Errorf("log %d: %v", n, err)
			}
		}
		if a.objects != 2 || a.bytes != batch.Length+alone.Length || !strings.Contains(a.said.String(), "day=20261101") {
			t.Errorf("removed %d objects of %d bytes\n%s", a.objects, a.bytes, a.said.String())
		}
	})
}

// A day is removed once all of it is older than logs are kept, and not a moment before.
// Promises: [LOG-17].
func TestADayIsRemovedWhole(t *testing.T) {
	a := newAttic(t, memory.New())
	midnight := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	last := a.seal(1, domain.ClassBatch, midnight.Add(-time.Second), "last\n")
	first := a.seal(2, domain.ClassBatch, midnight, "first\n")
	a.sweep(Keep{All: 7}, midnight.AddDate(0, 0, 7).Add(-time.Second))
	if err := a.read(1, last); err != nil {
		t.Errorf("early: %v", err)
	}
	a.sweep(Keep{All: 7}, midnight.AddDate(0, 0, 7))
	if _, ok := domain.AsRejection(a.read(1, last)); !ok {
		t.Error("the last log of the day is still there")
	}
	if err := a.read(2, first); err != nil {
		t.Errorf("the first log of the next day: %v", err)
	}
}

// A server that has a removed log in memory does not show it.
func TestAnExpiredLogIsNotReadFromMemory(t *testing.T) {
	a := newAttic(t, memory.New())
	begin := a.now
	ref := a.seal(1, domain.ClassBatch, begin, "mine\n")
	log, err := a.holder.Log(tenant, attempt(1), &ref)
	if err != nil {
		t.Fatal(err)
	}
	if lines, err := log.Lines(t.Context(), 1, 10); err != nil || len(lines) != 1 {
		t.Fatal(lines, err)
	}
	a.sweep(Keep{All: 1}, begin.AddDate(0, 0, 3))
	if r, ok := domain.AsRejection(func() error { _, err := log.Lines(t.Context(), 1, 10); return err }()); !ok ||
		r.Code != domain.CodeLogExpired {
		t.Errorf("got %v", r)
	}
}

// Without a record a log that is gone is damage.
// Promises: [LOG-16].
func TestALostLogIsNotAnExpiredOne(t *testing.T) {
	a := newAttic(t, memory.New())
	ref := a.seal(1, domain.ClassBatch, a.now, "lost\n")
	if err := a.store.Delete(t.Context(), ref.Object); err != nil {
		t.Fatal(err)
	}
	if err := a.read(1, ref); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	key := RemovalKey(ref.Object)
	if err := a.store.Put(t.Context(), key, strings.NewReader("{}"), 2); err != nil {
		t.Fatal(err)
	}
	if err := a.read(1, ref); !errors.Is(err, ErrDamaged) {
		t.Errorf("with a broken record: %v", err)
	}
}

// Whatever fails in the middle, a log that is gone has a record, and the next sweep goes on.
// Promises: [LOG-16].
func TestARemovalIsRecordedBeforeItHappens(t *testing.T) {
	for fail := 1; ; fail++ {
		store := memory.New()
		a := newAttic(t, store)
		begin := a.now
		refs := []Ref{a.seal(1, domain.ClassBatch, begin, "a\n"), a.seal(2, domain.ClassBatch, begin, "b\n")}
		calls := 0
		store.SetHook(func(_ context.Context, c memory.Call) error {
			if c.After || c.Method != "Put" && c.Method != "Delete" || !strings.Contains(c.Key, "/batch/") {
				return nil
			}
			if calls++; calls == fail {
				return errors.New("the store is away")
			}
			return nil
		})
		s := a.sweeper(Keep{All: 1})
		_, _ = s.clock(t.Context(), begin.AddDate(0, 0, 3).Add(-26*time.Hour))
		_, _ = s.clock(t.Context(), begin.AddDate(0, 0, 3).Add(-13*time.Hour))
		a.now = begin.AddDate(0, 0, 3)
		err := s.Sweep(t.Context())
		store.SetHook(nil)
		for i, ref := range refs {
			if got := a.read(i+1, ref); got != nil {
				if r, ok := domain.AsRejection(got); !ok || r.Code != domain.CodeLogExpired {
					t.Fatalf("call %d failed: log %d: %v", fail, i+1, got)
				}
			}
		}
		if err == nil {
			if calls != 3 || fail != 4 {
				t.Fatalf("%d calls, of which the one numbered %d should have failed", calls, fail)
			}
			return
		}
		a.sweep(Keep{All: 1}, begin.AddDate(0, 0, 3))
		for i, ref := range refs {
			if _, ok := domain.AsRejection(a.read(i+1, ref)); !ok {
				t.Fatalf("call %d failed: the next sweep left log %d", fail, i+1)
			}
		}
	}
}

// A log that was sealed and that history does not know yet may still be referred to.
// Promises: [LOG-17].
func TestAnUnrecordedSealKeepsItsDay(t *testing.T) {
	a := newAttic(t, memory.New())
	begin := a.now
	other := a.seal(1, domain.ClassBatch, begin, "recorded\n")
	ref := a.sealUnrecorded(2, domain.ClassBatch, begin, "not recorded\n")
	a.sweep(Keep{All: 1}, begin.AddDate(0, 0, 5))
	for n, ref := range map[int]Ref{1: other, 2: ref} {
		if err := a.read(n, ref); err != nil {
			t.Errorf("log %d: %v", n, err)
		}
	}
	a.holder.Recorded(tenant, attempt(2), ref)
	a.sweep(Keep{All: 1}, begin.AddDate(0, 0, 5))
	if _, ok := domain.AsRejection(a.read(2, ref)); !ok {
		t.Error("the log is still there once history knows it")
	}
}

// A clock that was set forward removes nothing before it has gone on for a day.
// Promises: [LOG-17].
func TestAClockSetForwardRemovesNothingForADay(t *testing.T) {
	a := newAttic(t, memory.New())
	ref := a.seal(1, domain.ClassBatch, a.now, "mine\n")
	s := a.sweeper(Keep{All: 30})
	hour := func() {
		t.Helper()
		a.now = a.now.Add(time.Hour)
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 48 {
		hour()
	}
	right := a.now
	a.now = a.now.AddDate(1, 0, 0)
	for range 20 {
		hour()
		if err := a.read(1, ref); err != nil {
			t.Fatalf("at %s: %v", a.now, err)
		}
	}
	a.now = right // somebody noticed
	for range 48 {
		hour()
	}
	if err := a.read(1, ref); err != nil {
		t.Fatal(err)
	}
	a.now = a.now.AddDate(1, 0, 0) // nobody does
	for range 26 {
		hour()
	}
	if _, ok := domain.AsRejection(a.read(1, ref)); !ok {
		t.Error("the log is kept although the clock went on for a day")
	}
	notes, err := a.store.List(t.Context(), clockPrefix, "", clockNotesMax)
	if err != nil || len(notes) > 49 {
		t.Errorf("%d notes of the clock are left, %v", len(notes), err)
	}
}

// A long backlog goes day by day, a few days in one sweep.
func TestASweepRemovesAFewDays(t *testing.T) {
	a := newAttic(t, memory.New())
	begin := a.now
	for n := range sweepLots + 3 {
		a.seal(n+1, domain.ClassBatch, begin.AddDate(0, 0, n), fmt.Sprintln(n))
	}
	a.sweep(Keep{All: 1}, begin.AddDate(0, 0, 100))
	if a.objects != sweepLots {
		t.Errorf("the first sweep removed %d objects", a.objects)
	}
	a.sweep(Keep{All: 1}, begin.AddDate(0, 0, 100))
	if a.objects != sweepLots+3 {
		t.Errorf("two sweeps removed %d objects", a.objects)
	}
}

// Who does not hold the logs removes none.
func TestOnlyTheHolderRemoves(t *testing.T) {
	a := newAttic(t, memory.New())
	begin := a.now
	ref := a.seal(1, domain.ClassBatch, begin, "mine\n")
	a.holder.Drop()
	if a.holder.valid() {
		t.Error("valid without the logs")
	}
	s := a.sweeper(Keep{All: 1})
	_, _ = s.clock(t.Context(), begin.AddDate(0, 0, 3).Add(-26*time.Hour))
	_, _ = s.clock(t.Context(), begin.AddDate(0, 0, 3).Add(-13*time.Hour))
	a.now = begin.AddDate(0, 0, 3)
	_ = s.Sweep(t.Context())
	if err := a.read(1, ref); err != nil {
		t.Error(err)
	}
}

// Objects of earlier releases are found by their references, and retention leaves them alone.
func TestKeysOfEarlierReleases(t *testing.T) {
	digest := domain.DigestOf([]byte("x"))
	earlier := earlierBundleKey(string(tenant), digest)
	l := lotAt(tenant, domain.ClassBatch, time.Date(2026, 11, 30, 23, 59, 59, 0, time.UTC))
	for key, want := range map[string]domain.Digest{
		earlier: digest, l.bundleKey(digest): digest, l.aloneKey(attempt(1), 1): "", earlierKey(tenant, attempt(1)): "",
		"": "", "a": "", string(tenant) + "/objects/" + digest.Hex()[:2] + "/" + digest.Hex(): "",
	} {
		if got := BundleDigest(key); got != want {
			t.Errorf("%s is of %s", key, got)
		}
	}
	if RemovalKey(earlier) != "" || RemovalKey(earlierKey(tenant, attempt(1))) != "" {
		t.Error("retention would remove an object of an earlier release")
	}
	if got := l.prefix(); got != string(tenant)+"/sealed-logs/batch/20261130/" {
		t.Error(got)
	}
	if got := lotAt(tenant, "unheard-of", time.Unix(0, 0)).class; got != classless {
		t.Error(got)
	}
}

// The record of a removal is kept for ever, and read for ever.
// Promises: [FORMAT-14], [FORMAT-17].
func TestFrozenRemoval(t *testing.T) {
	form := goldenText("removal")
	store := memory.New()
	at := time.Date(2026, 12, 14, 13, 14, 15, 0, time.UTC)
	l := lotAt(tenant, domain.ClassBatch, at.AddDate(0, 0, -15))
	if err := l.record(t.Context(), store, 14, at); err != nil {
		t.Fatal(err)
	}
	const key = "log-removals/tnt_default/batch/20261129"
	size, err := store.Size(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	written, err := readRange(t.Context(), store, key, 0, size)
	if err != nil {
		t.Fatal(err)
	}
	form.Written(t, written)

	before := memory.New()
	put(t, before, key, form.Read(t, 1))
	want := Removal{"tnt_default", "batch", "20261129", 14, at}
	got, err := FindRemoval(t.Context(), before, "tnt_default/sealed-logs/batch/20261129/ab/c")
	if err != nil || got == nil || *got != want {
		t.Errorf("it is read as %+v, %v", got, err)
	}
}

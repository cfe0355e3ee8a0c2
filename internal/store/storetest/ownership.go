package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

func (s *suite) ownershipPromises() []promise {
	return []promise{
		{"AcquireCreatesAndRaises", acquireRaises},
		{"AnOldEpochChangesNothing", oldEpoch},
		{"AnEpochOfTheFutureChangesNothing", futureEpoch},
		{"NobodyOwnsAnUnknownPartition", unknownPartition},
		{"PartitionsAreIndependent", independent},
		{"OfManyOwnersOneWrites", manyOwners},
		{"AppendsAndAcquiresInterleave", interleaved},
	}
}

func acquireRaises(t *testing.T, w *world) {
	if w.own.Epoch != 1 || w.own.Position != 0 || w.own.Digest != "" || w.own.Partition != part {
		t.Errorf("a new partition is %+v", w.own)
	}
	w.append(t, func(b *store.Batch) { add(b, tenant, "run/a", 1, 1, "a") })
	second := acquire(t, w.store, part)
	want := w.own
	want.Epoch = 2
	same(t, "the second owner", second, want)
	same(t, "partitions", must[[]store.Ownership](t)(w.store.Partitions(t.Context())), []store.Ownership{want})
}

// full is a batch that touches every table.
func full(own store.Ownership, n int) store.Batch {
	return batch(own, func(b *store.Batch) {
		stream := domain.StreamID(fmt.Sprint("run/full-", n))
		add(b, tenant, stream, 2, 2, "ab")
		b.Checkpoints = []store.Checkpoint{
			{Tenant: tenant, Stream: stream, Version: 2, Encoding: encoding, State: []byte("s")},
		}
		b.Keys = []store.Key{{
			Tenant: tenant, Scope: "client/a/b", Key: fmt.Sprint(n), Body: "sha256:00", Reply: []byte("r"),
			Stream: stream, At: at,
		}}
		b.Counters = []store.Counter{{Tenant: tenant, Name: "runs", Value: uint64(n)}}
		b.Cursors = []store.Cursor{{Reactor: "dispatch", Position: store.Position(n)}}
		b.Runs = []store.RunRow{runRow(tenant, n)}
		b.Repositories = []store.RepositoryRow{repoRow(tenant, n)}
		b.Runners = []store.RunnerRow{runnerRow(tenant, n)}
	})
}

// Promises: [HIST-3].
func oldEpoch(t *testing.T, w *world) {
	first := full(w.own, 1)
	if err := w.store.Append(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	old := after(w.own, first)
	w.own = acquire(t, w.store, part)
	w.refused(t, full(old, 2), store.ErrFenced)
	w.refused(t, batch(old, func(b *store.Batch) {
		b.Cursors = []store.Cursor{{Reactor: "dispatch", Position: 99}}
	}), store.ErrFenced)
	// The new owner is not disturbed.
	if err := w.store.Append(t.Context(), full(w.own, 2)); err != nil {
		t.Errorf("the new owner: %v", err)
	}
}

func futureEpoch(t *testing.T, w *world) {
	future := w.own
	future.Epoch += 3
	w.refused(t, full(future, 1), store.ErrFenced)
}

func unknownPartition(t *testing.T, w *world) {
	w.refused(t, full(store.Ownership{Partition: "p-two", Epoch: 1}, 1), store.ErrFenced)
}

func independent(t *testing.T, w *world) {
	two := acquire(t, w.store, "p-two")
	w.append(t, func(b *store.Batch) { add(b, tenant, "run/a", 1, 1, "a") })
	b := batch(two, func(b *store.Batch) { add(b, tenant, "run/b", 1, 1, "b") })
	if err := w.store.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	// A stream belongs to the partition that began it.
	two = after(two, b)
	w.refused(t, batch(two, func(b *store.Batch) { add(b, tenant, "run/a", 2, 1, "c") }), store.ErrConflict)
	w.refused(t, batch(two, func(b *store.Batch) { add(b, tenant, "run/a", 1, 1, "c") }), store.ErrConflict)
	rows := must[[]store.Row](t)(w.store.Read(t.Context(), "p-two", 0, 10))
	if len(rows) != 1 || rows[0].Stream != "run/b" {
		t.Errorf("p-two holds %v", rows)
	}
}

// manyOwners lets several owners of different epochs append at once: only the last one
// can succeed.
// Promises: [HIST-3].
func manyOwners(t *testing.T, w *world) {
	owners := []store.Ownership{w.own}
	for range 4 {
		owners = append(owners, acquire(t, w.store, part))
	}
	errs := make([]error, len(owners))
	var group sync.WaitGroup
	for i, own := range owners {
		group.Go(func() { errs[i] = w.store.Append(t.Context(), full(own, i+1)) })
	}
	group.Wait()
	for i, err := range errs {
		if last := i == len(owners)-1; last && err != nil || !last && !errors.Is(err, store.ErrFenced) {
			t.Errorf("owner of epoch %d: %v", owners[i].Epoch, err)
		}
	}
	if rows := must[[]store.Row](t)(w.store.Read(t.Context(), part, 0, 10)); len(rows) != 1 {
		t.Errorf("%d rows", len(rows))
	}
}

// interleaved appends while others acquire: an acknowledged batch is there in full, and
// the position that an Acquire returns is where the log stays until the new owner writes.
func interleaved(t *testing.T, w *world) {
	var group sync.WaitGroup
	acknowledged := make([]int, 3)
	for writer := range acknowledged {
		group.Go(func() {
			for round := range 5 {
				own, err := w.store.Acquire(t.Context(), part, "rival")
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				for i := range 3 {
					b := batch(own, func(b *store.Batch) {
						add(b, tenant, domain.StreamID(fmt.Sprintf("run/%d-%d-%d", writer, round, i)), 1, 1, "x")
					})
					err := w.store.Append(t.Context(), b)
					if errors.Is(err, store.ErrFenced) {
						break
					}
					if err != nil {
						t.Errorf("append of epoch %d: %v", own.Epoch, err)
						return
					}
					acknowledged[writer]++
					own = after(own, b)
				}
			}
		})
	}
	group.Wait()
	rows := must[[]store.Row](t)(w.store.Read(t.Context(), part, 0, 1000))
	if want := acknowledged[0] + acknowledged[1] + acknowledged[2]; len(rows) != want {
		t.Errorf("%d rows, %d acknowledged", len(rows), want)
	}
	var prev domain.Digest
	for _, r := range rows {
		stored, _, err := w.store.BatchAt(t.Context(), part, r.Position)
		if prev = store.BatchDigest(prev, []store.Row{r}); err != nil || stored != prev {
			t.Fatal(cmp.Diff(prev, stored), err)
		}
	}
}

// Package storetest is the meaning of the store port: one named test per promise, run
// against every adapter.
//
// It is deliberately without knowledge of any adapter: what a database does in its own
// way (error codes, locks, files) is tested beside that adapter.
//
// Invariants: every test opens a store of its own or works in a partition and a tenant
// of its own; nothing is skipped; a new adapter is finished when this package passes.
//
// Read next: internal/store/storetest/log.go, internal/store/storetest/model.go
package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Option extends what Run can examine.
type Option func(*suite)

// WithReopen adds the tests of durability: reopen closes the store that open returned
// last and opens what it left behind.
func WithReopen(reopen func(t *testing.T, s store.Store) store.Store) Option {
	return func(s *suite) { s.reopen = reopen }
}

// WithDump lets "nothing was changed" be examined below the port: dump writes out every
// table in full.
func WithDump(dump func(t *testing.T, s store.Store) string) Option {
	return func(s *suite) { s.dump = dump }
}

type suite struct {
	open   func(t *testing.T) store.Store
	reopen func(t *testing.T, s store.Store) store.Store
	dump   func(t *testing.T, s store.Store) string
}

// Run runs all promises. open returns an empty store that is closed by its test.
func Run(t *testing.T, open func(t *testing.T) store.Store, opts ...Option) {
	s := &suite{open: open}
	for _, opt := range opts {
		opt(s)
	}
	for _, group := range []struct {
		name  string
		tests []promise
	}{
		{"Log", s.logPromises()},
		{"Ownership", s.ownershipPromises()},
		{"Fleet", s.fleetPromises()},
		{"Streams", s.streamPromises()},
		{"Records", s.recordPromises()},
		{"Views", s.viewPromises()},
		{"Tenants", s.tenantPromises()},
		{"Load", s.loadPromises()},
		{"Losses", s.lossPromises()},
		{"Ranges", s.rangePromises()},
		{"Durability", s.durabilityPromises()},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, p := range group.tests {
				t.Run(p.name, func(t *testing.T) { p.test(t, s.begin(t)) })
			}
		})
	}
	t.Run("Model", s.model)
}

type promise struct {
	name string
	test func(t *testing.T, w *world)
}

// Names used all over the suite.
const (
	part   domain.PartitionID = "p-one"
	tenant domain.TenantID    = "tnt_one"
	other  domain.TenantID    = "tnt_two"
)

// at is a time with microseconds; the suite reads no clock.
var at = time.Date(2026, 11, 29, 12, 30, 15, 123456000, time.UTC)

// world is one store with an owner of one partition.
type world struct {
	suite *suite
	store store.Store
	own   store.Ownership
}

func (s *suite) begin(t *testing.T) *world {
	t.Helper()
	w := &world{suite: s, store: s.open(t)}
	t.Cleanup(func() {
		if err := w.store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	w.own = acquire(t, w.store, part)
	return w
}

func acquire(t *testing.T, s store.Store, p domain.PartitionID) store.Ownership {
	t.Helper()
	own, err := s.Acquire(t.Context(), p, "tester")
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return own
}

// batch chains rows and extras onto what the owner knows.
func batch(own store.Ownership, change func(*store.Batch)) store.Batch {
	b := store.Batch{
		Partition: own.Partition, Epoch: own.Epoch, Prev: own.Position, PrevDigest: own.Digest, At: at,
	}
	if change != nil {
		change(&b)
	}
	seal(&b)
	return b
}

// seal numbers the rows and computes the digest.
func seal(b *store.Batch) {
	for i := range b.Rows {
		b.Rows[i].Position = b.Prev + store.Position(i) + 1
	}
	b.Digest = b.PrevDigest
	if len(b.Rows) > 0 {
		b.Digest = store.BatchDigest(b.PrevDigest, b.Rows)
	}
}

// add appends events to a stream: a row of count events that ends at version.
//
// tidy:long one row of a table as one line of a test
func add(b *store.Batch, tenant domain.TenantID, stream domain.StreamID, version uint64, count uint32, events string) {
	b.Rows = append(b.Rows, store.Row{
		Tenant: tenant, Stream: stream, Version: version, Count: count, Events: []byte(events), At: at,
	})
	b.Heads = append(b.Heads, store.Head{Tenant: tenant, Stream: stream, Version: version, Live: true})
}

// after is what the owner knows once the batch is there.
func after(own store.Ownership, b store.Batch) store.Ownership {
	own.Position += store.Position(len(b.Rows))
	own.Digest = b.Digest
	return own
}

// append makes a batch and appends it, and moves the owner on.
func (w *world) append(t *testing.T, change func(*store.Batch)) store.Batch {
	t.Helper()
	b := batch(w.own, change)
	if err := w.store.Append(t.Context(), b); err != nil {
		t.Fatalf("append: %v", err)
	}
	w.own = after(w.own, b)
	return b
}

// refused appends a batch that must fail with want and must change nothing at all.
func (w *world) refused(t *testing.T, b store.Batch, want error) {
	t.Helper()
	before := w.everything(t)
	err := w.store.Append(t.Context(), b)
	if !errors.Is(err, want) {
		t.Errorf("append: got %v, want %v", err, want)
	}
	if diff := cmp.Diff(before, w.everything(t)); diff != "" {
		t.Errorf("a refused batch changed something (-before +after):\n%s", diff)
	}
}

// everything reads all that the port shows of the suite's names, and all tables where
// the adapter can show them.
func (w *world) everything(t *testing.T) image {
	t.Helper()
	img := imageOf(t, w.store, []domain.PartitionID{part, "p-two"}, []domain.TenantID{tenant, other})
	if w.suite.dump != nil {
		img.Tables = w.suite.dump(t, w.store)
	}
	return img
}

// image is what the port shows.
type image struct {
	Partitions []store.Ownership
	Logs       map[domain.PartitionID][]store.Row
	Batches    map[string]string
	Live       map[domain.PartitionID][]store.Head
	Cursors    map[domain.PartitionID][]store.Cursor
	Histories  map[string]store.History
	Runs       map[domain.TenantID][]store.RunRow
	Repos      map[domain.TenantID][]store.RepositoryRow
	Runners    map[domain.TenantID][]store.RunnerRow
	Archives   map[domain.PartitionID][]store.ArchivedRange
	Tables     string
}

func imageOf(t testing.TB, s store.Store, parts []domain.PartitionID, tenants []domain.TenantID) image {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	img := image{
		Logs: map[domain.PartitionID][]store.Row{}, Batches: map[string]string{},
		Live: map[domain.PartitionID][]store.Head{}, Cursors: map[domain.PartitionID][]store.Cursor{},
		Histories: map[string]store.History{}, Runs: map[domain.TenantID][]store.RunRow{},
		Repos: map[domain.TenantID][]store.RepositoryRow{}, Runners: map[domain.TenantID][]store.RunnerRow{},
		Archives: map[domain.PartitionID][]store.ArchivedRange{},
	}
	var errs []error
	all, err := s.Partitions(ctx)
	errs = append(errs, err)
	for _, p := range all {
		for _, mine := range parts {
			if p.Partition == mine {
				img.Partitions = append(img.Partitions, p)
			}
		}
	}
	for _, p := range parts {
		img.Logs[p], err = s.Read(ctx, p, 0, 100_000)
		errs = append(errs, err)
		for _, r := range img.Logs[p] {
			if digest, epoch, err := s.BatchAt(ctx, p, r.Position); err == nil {
				img.Batches[fmt.Sprintf("%s/%d", p, r.Position)] = fmt.Sprintf("%s of epoch %d", digest, epoch)
			}
			h, err := s.Load(ctx, r.Tenant, r.Stream, true, encoding)
			errs = append(errs, err)
			img.Histories[string(r.Tenant)+" "+string(r.Stream)] = h
		}
		img.Live[p], err = s.Live(ctx, p)
		errs = append(errs, err)
		img.Cursors[p], err = s.Cursors(ctx, p)
		errs = append(errs, err)
		img.Archives[p], err = s.ArchivedRanges(ctx, p, 0, 1000)
		errs = append(errs, err)
	}
	for _, id := range tenants {
		img.Runs[id], err = s.Runs(ctx, store.RunQuery{Tenant: id, Limit: store.QueryLimitMax})
		errs = append(errs, err)
		img.Repos[id], err = s.Repositories(ctx, id)
		errs = append(errs, err)
		img.Runners[id], err = s.Runners(ctx, id)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("read everything: %v", err)
	}
	return img
}

// same compares what was read with what was expected.
func same[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// must unwraps a result that can't fail here.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

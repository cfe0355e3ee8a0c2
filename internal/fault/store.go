package fault

import (
	"context"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Store stands before a store. A lost reply is store.ErrUnknown, as databases have it; only
// an append can find no space or break the store. Close never fails.
type Store struct {
	store.Store
	gate gate
}

// NewStore wraps a store.
func NewStore(s store.Store, plan *Plan) *Store {
	return &Store{s, gate{plan, PortStore, func(_ string, how How) error {
		switch how {
		case After:
			return store.ErrUnknown
		case Full:
			return store.ErrFull
		case Broken:
			return store.ErrBroken
		}
		return nil
	}}}
}

var _ store.Store = (*Store)(nil)

// Acquire implements store.Log.
func (s *Store) Acquire(ctx context.Context, p domain.PartitionID, owner string) (store.Ownership, error) {
	return ask(s.gate, writes("acquire"), func() (store.Ownership, error) { return s.Store.Acquire(ctx, p, owner) })
}

// Append implements store.Log.
func (s *Store) Append(ctx context.Context, b store.Batch) error {
	return s.gate.do(Call{"append", []How{Before, After, Full, Broken}}, func() error { return s.Store.Append(ctx, b) })
}

// Load implements store.Log.
func (s *Store) Load(ctx context.Context, tenant domain.TenantID, id domain.StreamID, checkpoint bool, encoding uint32,
) (store.History, error) {
	return ask(s.gate, reads("load"), func() (store.History, error) {
		return s.Store.Load(ctx, tenant, id, checkpoint, encoding)
	})
}

// Live implements store.Log.
func (s *Store) Live(ctx context.Context, p domain.PartitionID) ([]store.Head, error) {
	return ask(s.gate, reads("live"), func() ([]store.Head, error) { return s.Store.Live(ctx, p) })
}

// Read implements store.Log.
func (s *Store) Read(ctx context.Context, p domain.PartitionID, after store.Position, limit int) ([]store.Row, error) {
	return ask(s.gate, reads("read"), func() ([]store.Row, error) { return s.Store.Read(ctx, p, after, limit) })
}

// BatchAt implements store.Log.
func (s *Store) BatchAt(ctx context.Context, p domain.PartitionID, at store.Position) (domain.Digest, uint64, error) {
	var epoch uint64
	digest, err := ask(s.gate, reads("batch_at"), func() (digest domain.Digest, err error) {
		digest, epoch, err = s.Store.BatchAt(ctx, p, at)
		return digest, err
	})
	return digest, epoch, err
}

// Key implements store.Log.
func (s *Store) Key(ctx context.Context, tenant domain.TenantID, scope, key string) (store.Key, error) {
	return ask(s.gate, reads("key"), func() (store.Key, error) { return s.Store.Key(ctx, tenant, scope, key) })
}

// Counter implements store.Log.
func (s *Store) Counter(ctx context.Context, tenant domain.TenantID, name string) (uint64, error) {
	return ask(s.gate, reads("counter"), func() (uint64, error) { return s.Store.Counter(ctx, tenant, name) })
}

// Cursors implements store.Log.
func (s *Store) Cursors(ctx context.Context, p domain.PartitionID) ([]store.Cursor, error) {
	return ask(s.gate, reads("cursors"), func() ([]store.Cursor, error) { return s.Store.Cursors(ctx, p) })
}

// ExpireKeys implements store.Log.
func (s *Store) ExpireKeys(ctx context.Context, before time.Time, limit int) (int, error) {
	return ask(s.gate, writes("expire_keys"), func() (int, error) { return s.Store.ExpireKeys(ctx, before, limit) })
}

// Runs implements store.Views.
func (s *Store) Runs(ctx context.Context, q store.RunQuery) ([]store.RunRow, error) {
	return ask(s.gate, reads("runs"), func() ([]store.RunRow, error) { return s.Store.Runs(ctx, q) })
}

// Run implements store.Views.
func (s *Store) Run(ctx context.Context, tenant domain.TenantID, id domain.RunID) (store.RunRow, error) {
	return ask(s.gate, reads("run"), func() (store.RunRow, error) { return s.Store.Run(ctx, tenant, id) })
}

// Repositories implements store.Views.
func (s *Store) Repositories(ctx context.Context, tenant domain.TenantID) ([]store.RepositoryRow, error) {
	return ask(s.gate, reads("repositories"), func() ([]store.RepositoryRow, error) {
		return s.Store.Repositories(ctx, tenant)
	})
}

// Repository implements store.Views.
func (s *Store) Repository(ctx context.Context, tenant domain.TenantID, name string) (store.RepositoryRow, error) {
	return ask(s.gate, reads("repository"), func() (store.RepositoryRow, error) {
		return s.Store.Repository(ctx, tenant, name)
	})
}

// Runners implements store.Views.
func (s *Store) Runners(ctx context.Context, tenant domain.TenantID) ([]store.RunnerRow, error) {
	return ask(s.gate, reads("runners"), func() ([]store.RunnerRow, error) { return s.Store.Runners(ctx, tenant) })
}

// Partitions implements store.Views.
func (s *Store) Partitions(ctx context.Context) ([]store.Ownership, error) {
	return ask(s.gate, reads("partitions"), func() ([]store.Ownership, error) { return s.Store.Partitions(ctx) })
}

// Ping implements store.Store.
func (s *Store) Ping(ctx context.Context) error {
	return s.gate.do(reads("ping"), func() error { return s.Store.Ping(ctx) })
}

// Renew implements store.Fleet.
func (s *Store) Renew(ctx context.Context, m store.Member, ttl time.Duration) (store.Picture, error) {
	return ask(s.gate, writes("renew"), func() (store.Picture, error) { return s.Store.Renew(ctx, m, ttl) })
}

// Leave implements store.Fleet.
func (s *Store) Leave(ctx context.Context, m store.Member) error {
	return s.gate.do(writes("leave"), func() error { return s.Store.Leave(ctx, m) })
}

// Picture implements store.Fleet.
func (s *Store) Picture(ctx context.Context) (store.Picture, error) {
	return ask(s.gate, reads("picture"), func() (store.Picture, error) { return s.Store.Picture(ctx) })
}

// Take implements store.Fleet.
func (s *Store) Take(ctx context.Context, p domain.PartitionID, owner string, epoch uint64) (store.Ownership, error) {
	return ask(s.gate, writes("take"), func() (store.Ownership, error) { return s.Store.Take(ctx, p, owner, epoch) })
}

// Release implements store.Fleet.
func (s *Store) Release(ctx context.Context, p domain.PartitionID, epoch uint64) error {
	return s.gate.do(writes("release"), func() error { return s.Store.Release(ctx, p, epoch) })
}

// Shape implements store.Fleet.
func (s *Store) Shape(ctx context.Context, want store.Shape) (store.Shape, error) {
	return ask(s.gate, writes("shape"), func() (store.Shape, error) { return s.Store.Shape(ctx, want) })
}

// ArchiveRange implements store.Ranges.
func (s *Store) ArchiveRange(
	ctx context.Context, epoch uint64, r store.ArchivedRange, streams []store.ArchivedStream,
) error {
	return s.gate.do(writes("archive_range"), func() error { return s.Store.ArchiveRange(ctx, epoch, r, streams) })
}

// Prune implements store.Ranges.
func (s *Store) Prune(ctx context.Context, p domain.PartitionID, after store.Position, limit int,
) (store.Position, error) {
	return ask(s.gate, writes("prune"), func() (store.Position, error) { return s.Store.Prune(ctx, p, after, limit) })
}

// ArchivedRanges implements store.Ranges.
func (s *Store) ArchivedRanges(ctx context.Context, p domain.PartitionID, after store.Position, limit int,
) ([]store.ArchivedRange, error) {
	return ask(s.gate, reads("archived_ranges"), func() ([]store.ArchivedRange, error) {
		return s.Store.ArchivedRanges(ctx, p, after, limit)
	})
}

// ArchivedOf implements store.Ranges.
func (s *Store) ArchivedOf(ctx context.Context, tenant domain.TenantID, id domain.StreamID,
) ([]store.ArchivedRange, error) {
	return ask(s.gate, reads("archived_of"), func() ([]store.ArchivedRange, error) {
		return s.Store.ArchivedOf(ctx, tenant, id)
	})
}

// Batches implements store.Ranges.
func (s *Store) Batches(ctx context.Context, p domain.PartitionID, after store.Position, limit int,
) ([]store.BatchMark, error) {
	return ask(s.gate, reads("batches"), func() ([]store.BatchMark, error) {
		return s.Store.Batches(ctx, p, after, limit)
	})
}

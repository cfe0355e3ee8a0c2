package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/sqlstore"
)

// clock is the server's clock at the statement, not at the transaction's begin.
const clock = `CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)`

var renewal = sqlstore.NewRenewal(clock)

// Renew implements store.Fleet. The three statements go in one round trip and one
// transaction; what they change besides the member's own row changes rarely.
func (s *Store) Renew(ctx context.Context, m store.Member, ttl time.Duration) (store.Picture, error) {
	if err := m.Check(); err != nil {
		return store.Picture{}, fmt.Errorf("renew membership: %w", err)
	}
	joined, err := s.renew(ctx, &m, ttl)
	if err != nil {
		return store.Picture{}, fmt.Errorf("renew membership of %s: %w", m.Name, asStoreError(err))
	}
	picture, err := s.shown(ctx)
	if err == nil && !joined {
		err = sqlstore.NotJoined(&picture, &m)
	}
	if err != nil {
		return store.Picture{}, fmt.Errorf("renew membership of %s: %w", m.Name, err)
	}
	return picture, nil
}

// shown is Picture over the connections for memberships.
func (s *Store) shown(ctx context.Context) (store.Picture, error) {
	return sqlstore.Reader{Querier: querier{s.leases}, Clock: clock}.Picture(ctx)
}

func (s *Store) renew(ctx context.Context, m *store.Member, ttl time.Duration) (joined bool, err error) {
	var batch pgx.Batch
	batch.Queue(renewal.Join, sqlstore.JoinArgs(m, ttl)...)
	batch.Queue(renewal.Raise)
	batch.Queue(renewal.Prune)
	results := s.leases.SendBatch(ctx, &batch)
	tag, err := results.Exec()
	if err := errors.Join(err, results.Close()); err != nil {
		return false, err
	}
	return tag.RowsAffected() == 1, nil
}

// Leave implements store.Fleet.
func (s *Store) Leave(ctx context.Context, m store.Member) error {
	if _, err := s.pool.Exec(ctx, sqlstore.Leave, m.Name, m.Session); err != nil {
		return fmt.Errorf("end membership of %s: %w", m.Name, asStoreError(err))
	}
	return nil
}

// Take implements store.Fleet. Like Acquire it waits for the lock of an append's row.
func (s *Store) Take(
	ctx context.Context, id domain.PartitionID, owner string, epoch uint64,
) (store.Ownership, error) {
	if id == "" || !store.ValidText(string(id)) {
		return store.Ownership{}, fmt.Errorf("take partition %q: not a name", id)
	}
	text, args := sqlstore.Take, []any{string(id), store.CleanText(owner), sqlstore.Micros(time.Now()), int64(epoch)}
	if epoch == 0 {
		text, args = sqlstore.TakeFirst, args[:3]
	}
	got := store.Ownership{Partition: id}
	var next, position int64
	err := s.pool.QueryRow(ctx, text, args...).Scan(&next, &position, &got.Digest)
	if errors.Is(err, pgx.ErrNoRows) {
		err = store.ErrFenced
	}
	if err != nil {
		return store.Ownership{}, fmt.Errorf("take partition %s at epoch %d: %w", id, epoch, asStoreError(err))
	}
	got.Epoch, got.Position = uint64(next), store.Position(position)
	return got, nil
}

// Release implements store.Fleet.
func (s *Store) Release(ctx context.Context, id domain.PartitionID, epoch uint64) error {
	tag, err := s.pool.Exec(ctx, sqlstore.Release, string(id), int64(epoch))
	if err == nil && tag.RowsAffected() != 1 {
		err = store.ErrFenced
	}
	if err != nil {
		return fmt.Errorf("release partition %s at epoch %d: %w", id, epoch, asStoreError(err))
	}
	return nil
}

// Shape implements store.Fleet.
func (s *Store) Shape(ctx context.Context, want store.Shape) (store.Shape, error) {
	if want != (store.Shape{}) {
		if err := want.Check(); err != nil {
			return store.Shape{}, fmt.Errorf("record shape: %w", err)
		}
		if _, err := s.pool.Exec(ctx, sqlstore.RecordShape, int64(want.Partitions), want.Spread); err != nil {
			return store.Shape{}, fmt.Errorf("record shape: %w", asStoreError(err))
		}
	}
	return s.RecordedShape(ctx)
}

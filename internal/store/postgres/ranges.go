package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/sqlstore"
)

// ArchiveRange implements store.Ranges. The partition's row, which appends need too, is
// locked only for the last look.
func (s *Store) ArchiveRange(
	ctx context.Context, epoch uint64, r store.ArchivedRange, streams []store.ArchivedStream,
) error {
	if err := r.Check(streams); err != nil {
		return err
	}
	err := s.rewriting(ctx, func(w *rewriter) error {
		return sqlstore.RecordRange(ctx, w, func() error {
			_, err := w.tx.Exec(ctx, "SELECT 1 FROM partitions WHERE partition = $1 FOR UPDATE", string(r.Partition))
			return asStoreError(err)
		}, epoch, &r, streams)
	})
	if err != nil {
		return fmt.Errorf("archive range %d-%d of partition %s: %w", r.From, r.To, r.Partition, err)
	}
	return nil
}

// Prune implements store.Ranges. It locks nothing that an append waits for.
func (s *Store) Prune(
	ctx context.Context, partition domain.PartitionID, after store.Position, limit int,
) (at store.Position, err error) {
	err = s.rewriting(ctx, func(w *rewriter) (err error) {
		if _, err := w.tx.Exec(ctx, customPlans); err != nil {
			return asStoreError(err)
		}
		at, err = sqlstore.Prune(ctx, w.Reader, func(ctx context.Context, text string, args ...any) error {
			_, err := w.tx.Exec(ctx, text, args...)
			return asStoreError(err)
		}, partition, after, limit)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("prune archived rows of partition %s after %d: %w", partition, after, err)
	}
	return at, nil
}

// customPlans makes the database plan for the few rows between two positions, and not once
// for any two: that plan would read all streams.
const customPlans = "SET LOCAL plan_cache_mode = force_custom_plan"

// rewriting is a transaction over whole tables that locks what it touches and no more.
func (s *Store) rewriting(ctx context.Context, work func(*rewriter) error) error {
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return asStoreError(err)
	}
	if err := work(&rewriter{sqlstore.Image{Reader: sqlstore.Reader{Querier: transaction{tx}}}, tx}); err != nil {
		return errors.Join(err, tx.Rollback(context.WithoutCancel(ctx)))
	}
	commit, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	return asCommitError(tx.Commit(commit))
}

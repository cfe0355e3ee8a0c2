package sqlite

import (
	"context"
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/sqlstore"
)

// ArchiveRange implements store.Ranges. It takes the writer's turn, as an append does.
func (s *Store) ArchiveRange(
	ctx context.Context, epoch uint64, r store.ArchivedRange, streams []store.ArchivedStream,
) error {
	if err := r.Check(streams); err != nil {
		return err
	}
	err := s.writer.rewriting(ctx, func(w *rewriter) error { return archiveRange(ctx, w, epoch, &r, streams) })
	s.writer.wrote(commitBytes + int64(len(streams))*256)
	return ofRange(&r, err)
}

// ArchiveRange implements store.Ranges.
func (b *Beside) ArchiveRange(
	ctx context.Context, epoch uint64, r store.ArchivedRange, streams []store.ArchivedStream,
) error {
	if err := r.Check(streams); err != nil {
		return err
	}
	return ofRange(&r, rewrite(ctx, b.dir, func(w store.Rewriter) error {
		return archiveRange(ctx, w, epoch, &r, streams)
	}))
}

func archiveRange(
	ctx context.Context, w store.Rewriter, epoch uint64, r *store.ArchivedRange, streams []store.ArchivedStream,
) error {
	// BEGIN IMMEDIATE has locked everything already.
	return sqlstore.RecordRange(ctx, w, func() error { return nil }, epoch, r, streams)
}

func ofRange(r *store.ArchivedRange, err error) error {
	if err != nil {
		return fmt.Errorf("archive range %d-%d of partition %s: %w", r.From, r.To, r.Partition, err)
	}
	return nil
}

// Prune implements store.Ranges. The pages that it frees are filled again by later rows.
func (s *Store) Prune(
	ctx context.Context, partition domain.PartitionID, after store.Position, limit int,
) (at store.Position, err error) {
	err = s.writer.rewriting(ctx, func(w *rewriter) (err error) {
		at, err = prune(ctx, w, partition, after, limit)
		return err
	})
	s.writer.wrote(commitBytes + int64(limit)*1024)
	return at, ofPrune(partition, after, err)
}

// Prune implements store.Ranges.
func (b *Beside) Prune(
	ctx context.Context, partition domain.PartitionID, after store.Position, limit int,
) (at store.Position, err error) {
	err = rewrite(ctx, b.dir, func(w store.Rewriter) (err error) {
		at, err = prune(ctx, w.(*rewriter), partition, after, limit)
		return err
	})
	return at, ofPrune(partition, after, err)
}

func prune(
	ctx context.Context, w *rewriter, partition domain.PartitionID, after store.Position, limit int,
) (store.Position, error) {
	return sqlstore.Prune(ctx, w.Reader, func(ctx context.Context, text string, args ...any) error {
		_, err := w.conn.ExecContext(ctx, text, args...)
		return asStoreError(err)
	}, partition, after, limit)
}

func ofPrune(partition domain.PartitionID, after store.Position, err error) error {
	if err != nil {
		return fmt.Errorf("prune archived rows of partition %s after %d: %w", partition, after, err)
	}
	return nil
}

// rewriting is a transaction of the writer over whole tables.
func (w *writer) rewriting(ctx context.Context, work func(*rewriter) error) error {
	return w.transaction(ctx, func() error {
		return work(&rewriter{sqlstore.Image{Reader: sqlstore.Reader{Querier: connection{w.conn}}}, w.conn})
	})
}

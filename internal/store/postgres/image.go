package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/sqlstore"
)

var _ store.Archive = (*Store)(nil)

// unhurried lifts the limits that protect short transactions: an image lives as long as
// the backup that reads it.
const unhurried = `SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0`

// image is a repeatable-read transaction.
type image struct {
	sqlstore.Image
	done func() error
}

// Image implements store.Archive.
func (s *Store) Image(ctx context.Context) (store.Image, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("open image: %w", asStoreError(err))
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err == nil {
		_, err = tx.Exec(ctx, unhurried)
	}
	if err == nil {
		// The first read is what fixes the moment.
		_, err = tx.Exec(ctx, "SELECT 1 FROM partitions LIMIT 1")
	}
	if err != nil {
		conn.Release()
		return nil, fmt.Errorf("open image: %w", asStoreError(err))
	}
	return &image{sqlstore.Image{Reader: sqlstore.Reader{Querier: transaction{tx}}}, func() error {
		defer conn.Release()
		return tx.Rollback(context.WithoutCancel(ctx))
	}}, nil
}

// Close implements store.Image.
func (i *image) Close() error { return i.done() }

// transaction reads inside one transaction.
type transaction struct{ tx pgx.Tx }

// Query implements sqlstore.Querier.
func (t transaction) Query(ctx context.Context, query string, each func(sqlstore.Row) error, args ...any) error {
	rows, err := t.tx.Query(ctx, query, args...)
	return eachRow(rows, err, each)
}

type rewriter struct {
	sqlstore.Image
	tx pgx.Tx
}

// Rewrite implements store.Archive. It locks the row of every partition, which appends
// need too: one that is under way is waited for, and later ones wait.
func (s *Store) Rewrite(ctx context.Context, work func(store.Rewriter) error) error {
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return fmt.Errorf("rewrite store: %w", asStoreError(err))
	}
	undo := func(err error) error {
		return errors.Join(err, tx.Rollback(context.WithoutCancel(ctx)))
	}
	if _, err := tx.Exec(ctx, unhurried); err != nil {
		return undo(fmt.Errorf("rewrite store: %w", asStoreError(err)))
	}
	if _, err := tx.Exec(ctx, "SELECT 1 FROM partitions ORDER BY partition FOR UPDATE"); err != nil {
		return undo(fmt.Errorf("rewrite store: %w", asStoreError(err)))
	}
	if err := work(&rewriter{sqlstore.Image{Reader: sqlstore.Reader{Querier: transaction{tx}}}, tx}); err != nil {
		return undo(err)
	}
	commit, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	if err := tx.Commit(commit); err != nil {
		return fmt.Errorf("rewrite store: %w", asCommitError(err))
	}
	return nil
}

// Put implements store.Rewriter.
func (w *rewriter) Put(ctx context.Context, table string, rows [][]any) error {
	t, ok := store.TableNamed(table)
	if !ok {
		return fmt.Errorf("put rows of %q: %w", table, store.ErrInvalid)
	}
	if len(rows) == 0 {
		return nil
	}
	for _, row := range rows {
		if err := t.Fits(row); err != nil {
			return err
		}
	}
	if _, err := w.tx.Exec(ctx, sqlstore.PutMany(&t), sqlstore.Arrays(&t, rows)...); err != nil {
		return fmt.Errorf("put rows of %s: %w", table, asStoreError(err))
	}
	return nil
}

// Delete implements store.Rewriter.
func (w *rewriter) Delete(ctx context.Context, table string, keys [][]any) error {
	t, ok := store.TableNamed(table)
	if !ok {
		return fmt.Errorf("delete rows of %q: %w", table, store.ErrInvalid)
	}
	var batch pgx.Batch
	for _, key := range keys {
		batch.Queue(sqlstore.DeleteOne(&t), key...)
	}
	if err := w.tx.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("delete rows of %s: %w", table, asStoreError(err))
	}
	return nil
}

// RecordLoss implements store.Losses.
func (s *Store) RecordLoss(ctx context.Context, loss store.Loss) (store.Loss, error) {
	err := s.Rewrite(ctx, func(w store.Rewriter) (err error) {
		loss, err = sqlstore.RecordLoss(ctx, w, loss)
		return err
	})
	return loss, err
}

// Examine implements store.Archive: every index and heap page of our tables is checked by
// PostgreSQL's own amcheck where it is installed. Without it damage below shows only in
// what is read.
func (s *Store) Examine(ctx context.Context) ([]string, error) {
	var installed bool
	err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'amcheck')`).Scan(&installed)
	if err != nil || !installed {
		return nil, asStoreError(err)
	}
	var found []string
	for _, table := range sqlstore.Tables() {
		rows, err := s.pool.Query(ctx, `SELECT format('table %s: block %s, offset %s: %s', $1::text, blkno, offnum, msg)
FROM verify_heapam($1::regclass)`, table)
		if err != nil {
			return found, fmt.Errorf("examine table %s: %w", table, asStoreError(err))
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return found, fmt.Errorf("examine table %s: %w", table, asStoreError(err))
		}
		found = append(found, lines...)
	}
	return found, nil
}

// Size implements store.Sizer.
func (s *Store) Size(ctx context.Context) (bytes int64, err error) {
	if err := s.pool.QueryRow(ctx, "SELECT pg_database_size(current_database())").Scan(&bytes); err != nil {
		return 0, fmt.Errorf("read the size of the store: %w", asStoreError(err))
	}
	return bytes, nil
}

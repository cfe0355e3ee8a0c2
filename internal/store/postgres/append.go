package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/sqlstore"
)

type preparedWrite struct {
	*sqlstore.Write
	text string
}

// Append implements store.Log in three round trips: the fence, the records, the commit.
// They are apart so that nothing is sent unless the fence held: an owner that was
// replaced takes no locks that could stand in the way of the new one.
func (s *Store) Append(ctx context.Context, batch store.Batch) error {
	plan, err := sqlstore.NewPlan(&batch)
	if err != nil {
		return err
	}
	if err := s.append(ctx, plan); err != nil {
		return fmt.Errorf("append partition %s after %d: %w", batch.Partition, batch.Prev, err)
	}
	return nil
}

func (s *Store) append(ctx context.Context, plan *sqlstore.Plan) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return asStoreError(err)
	}
	// Release drops a connection whose transaction is still open, which rolls it back.
	defer conn.Release()
	if err := s.fence(ctx, conn, plan); err != nil {
		rollback(ctx, conn)
		return err
	}
	if err := s.write(ctx, conn, plan); err != nil {
		rollback(ctx, conn)
		return err
	}
	return commit(ctx, conn)
}

// fence begins the transaction and locks the partition's row.
func (s *Store) fence(ctx context.Context, conn *pgxpool.Conn, plan *sqlstore.Plan) error {
	b := plan.Batch
	var batch pgx.Batch
	batch.Queue("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
	batch.Queue(sqlstore.Fence, string(b.Partition), int64(b.Epoch), int64(b.Prev), string(b.PrevDigest),
		int64(plan.Position()), string(b.Digest))
	results := conn.SendBatch(ctx, &batch)
	_, err := results.Exec()
	var fenced pgconn.CommandTag
	if err == nil {
		fenced, err = results.Exec()
	}
	if err := errors.Join(err, results.Close()); err != nil {
		return asStoreError(err)
	}
	if fenced.RowsAffected() == 1 {
		return nil
	}
	var epoch int64
	err = conn.QueryRow(ctx, sqlstore.Epoch, string(b.Partition)).Scan(&epoch)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return store.ErrFenced
	case err != nil:
		return asStoreError(err)
	case uint64(epoch) != b.Epoch:
		return store.ErrFenced
	}
	return fmt.Errorf("the log is not at %d: %w", b.Prev, store.ErrConflict)
}

// write sends one statement per table that the batch touches, all in one round trip.
func (s *Store) write(ctx context.Context, conn *pgxpool.Conn, plan *sqlstore.Plan) error {
	var batch pgx.Batch
	var sent []*sqlstore.Write
	for _, w := range s.writes {
		n := w.Len(plan)
		if n == 0 {
			continue
		}
		arrays := make([]any, len(w.Columns))
		for i := range w.Columns {
			arrays[i] = w.Columns[i].Values(plan, n)
		}
		batch.Queue(w.text, arrays...)
		sent = append(sent, w.Write)
	}
	if len(sent) == 0 {
		return nil
	}
	results := conn.SendBatch(ctx, &batch)
	var failed error
	for _, w := range sent {
		tag, err := results.Exec()
		if err != nil {
			failed = fmt.Errorf("write %s: %w", w.Table, asStoreError(err))
			break
		}
		if w.Exact && int(tag.RowsAffected()) != w.Len(plan) {
			failed = fmt.Errorf("write %s: %d of %d fit: %w", w.Table, tag.RowsAffected(), w.Len(plan), store.ErrConflict)
			break
		}
	}
	if err := results.Close(); failed == nil && err != nil {
		return asStoreError(err)
	}
	return failed
}

// commit asks for the commit and waits for the answer, even when the caller has gone:
// a caller that leaves must not turn a known outcome into an unknown one.
func commit(ctx context.Context, conn *pgxpool.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	tag, err := conn.Exec(ctx, "COMMIT")
	if err != nil {
		return asCommitError(err)
	}
	if tag.String() != "COMMIT" {
		return fmt.Errorf("commit: the server answered %s", tag)
	}
	return nil
}

// rollback gives the connection back to the pool in order; where it can't, Release
// drops the connection.
func rollback(ctx context.Context, conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_, _ = conn.Exec(ctx, "ROLLBACK")
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/sqlstore"
)

// writer owns the one connection that writes. Statements are parsed once and run at the
// driver, below database/sql, whose bookkeeping would cost as much as the statements.
type writer struct {
	// turn is held by whoever uses what is below it. A channel, so that waiting for it
	// ends with the caller's context.
	turn       chan struct{}
	db         *sql.DB
	conn       *sql.Conn
	statements map[string]*statement
	parsed     []driver.Stmt // all of them, to be closed before the connection
	writes     []preparedWrite

	broken  atomic.Pointer[error] // set once: why the store can't be trusted
	pending atomic.Int64          // estimated bytes of write-ahead log since the last tending
	tend    chan struct{}         // capacity 1: wakes the tender
}

type statement struct {
	driver.StmtExecContext
	driver.StmtQueryContext
}

type preparedWrite struct {
	*sqlstore.Write
	statement *statement
	args      []driver.NamedValue // reused for every record
}

const (
	begin    = "BEGIN IMMEDIATE"
	commit   = "COMMIT"
	rollback = "ROLLBACK"
)

// openWriter connects, lets first work on the file (schema and examination), and prepares
// every statement.
func openWriter(ctx context.Context, source string, first func(*sql.DB) error) (*writer, error) {
	db, err := sql.Open("sqlite", source)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if err := first(db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(asStoreError(err), db.Close())
	}
	w := &writer{
		turn: make(chan struct{}, 1), db: db, conn: conn,
		statements: map[string]*statement{}, tend: make(chan struct{}, 1),
	}
	if err := conn.Raw(func(c any) error { return w.prepare(ctx, c) }); err != nil {
		return nil, errors.Join(asStoreError(err), w.close())
	}
	return w, nil
}

func (w *writer) prepare(ctx context.Context, raw any) error {
	conn, ok := raw.(driver.ConnPrepareContext)
	if !ok {
		return fmt.Errorf("the SQLite driver's connection %T prepares no statements", raw)
	}
	add := func(text string) (*statement, error) {
		stmt, err := conn.PrepareContext(ctx, text)
		if err != nil {
			return nil, fmt.Errorf("prepare %q: %w", text, err)
		}
		w.parsed = append(w.parsed, stmt)
		exec, ok1 := stmt.(driver.StmtExecContext)
		query, ok2 := stmt.(driver.StmtQueryContext)
		if !ok1 || !ok2 {
			return nil, fmt.Errorf("the SQLite driver's statement %T can't be run", stmt)
		}
		w.statements[text] = &statement{exec, query}
		return w.statements[text], nil
	}
	for _, text := range []string{
		begin, commit, rollback, sqlstore.Fence, sqlstore.Acquire, sqlstore.Epoch, sqlstore.ExpireKeys, sqlstore.Beat,
		sqlstore.Take, sqlstore.TakeFirst, sqlstore.Release, sqlstore.Leave, sqlstore.RecordShape,
		renewal.Join, renewal.Raise, renewal.Prune, checkpoint,
	} {
		if _, err := add(text); err != nil {
			return err
		}
	}
	for _, write := range sqlstore.Writes() {
		stmt, err := add(write.One())
		if err != nil {
			return err
		}
		args := make([]driver.NamedValue, len(write.Columns))
		for i := range args {
			args[i].Ordinal = i + 1
		}
		w.writes = append(w.writes, preparedWrite{write, stmt, args})
	}
	return nil
}

func (w *writer) close() error {
	w.turn <- struct{}{}
	var errs []error
	for _, stmt := range w.parsed {
		// A connection with open statements would live on, with its locks.
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, w.conn.Close(), w.db.Close())...)
}

// transaction runs work between BEGIN IMMEDIATE and COMMIT. Once it has begun it does
// not listen to ctx any more: a batch is short, and so is all or nothing for its caller.
func (w *writer) transaction(ctx context.Context, work func() error) error {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if why := w.broken.Load(); why != nil {
		return *why
	}
	if _, err := w.exec(begin); err != nil {
		return w.judge(asStoreError(err))
	}
	if err := work(); err != nil {
		return errors.Join(w.judge(asStoreError(err)), w.rollback())
	}
	if _, err := w.exec(commit); err != nil {
		return errors.Join(w.judge(asCommitError(err)), w.rollback())
	}
	return nil
}

// rollback ends the transaction. After some errors SQLite has done so by itself, and
// says that there is none: that is no error here.
func (w *writer) rollback() error {
	_, err := w.exec(rollback)
	if err = asStoreError(err); errors.Is(err, store.ErrBroken) {
		return w.judge(err)
	}
	return nil
}

// judge remembers that the store is broken. On a full disk it wakes the tender: copying
// the write-ahead log back makes its space usable again.
func (w *writer) judge(err error) error {
	if errors.Is(err, store.ErrFull) {
		w.wakeTender()
	}
	if errors.Is(err, store.ErrBroken) {
		w.broken.CompareAndSwap(nil, &err)
	}
	return err
}

func (w *writer) exec(text string, values ...any) (int, error) {
	result, err := w.statements[text].ExecContext(context.Background(), named(values))
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// row reads the one row of a statement into dest; io.EOF says that there is none.
func (w *writer) row(text string, dest []driver.Value, values ...any) error {
	rows, err := w.statements[text].QueryContext(context.Background(), named(values))
	if err != nil {
		return err
	}
	err = rows.Next(dest)
	return errors.Join(err, rows.Close())
}

func named(values []any) []driver.NamedValue {
	args := make([]driver.NamedValue, len(values))
	for i, v := range values {
		args[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return args
}

// change is a transaction of one statement; it says how many rows changed.
func (w *writer) change(ctx context.Context, text string, values ...any) (n int, err error) {
	err = w.transaction(ctx, func() (err error) {
		n, err = w.exec(text, values...)
		return err
	})
	w.wrote(commitBytes)
	return n, err
}

// Acquire implements store.Log. The writer's turn is what makes it wait for an append.
func (s *Store) Acquire(ctx context.Context, id domain.PartitionID, owner string) (store.Ownership, error) {
	if id == "" || !store.ValidText(string(id)) {
		return store.Ownership{}, fmt.Errorf("acquire partition %q: not a name", id)
	}
	own, err := s.seize(ctx, id, sqlstore.Acquire, string(id), store.CleanText(owner), sqlstore.Micros(time.Now()))
	if err != nil {
		return store.Ownership{}, fmt.Errorf("acquire partition %s: %w", id, err)
	}
	return own, nil
}

// Append implements store.Log.
func (s *Store) Append(ctx context.Context, batch store.Batch) error {
	plan, err := sqlstore.NewPlan(&batch)
	if err != nil {
		return err
	}
	if err := s.writer.transaction(ctx, func() error { return s.writer.write(plan) }); err != nil {
		return fmt.Errorf("append partition %s after %d: %w", batch.Partition, batch.Prev, err)
	}
	s.writer.wrote(estimate(&batch))
	return nil
}

func (w *writer) write(plan *sqlstore.Plan) error {
	b := plan.Batch
	n, err := w.exec(sqlstore.Fence, string(b.Partition), int64(b.Epoch), int64(b.Prev), string(b.PrevDigest),
		int64(plan.Position()), string(b.Digest))
	if err != nil {
		return err
	}
	if n != 1 {
		return w.refused(b)
	}
	for i := range w.writes {
		if err := w.writes[i].run(plan); err != nil {
			return fmt.Errorf("write %s: %w", w.writes[i].Table, err)
		}
	}
	return nil
}

// refused says why the fence did not hold.
func (w *writer) refused(b *store.Batch) error {
	dest := make([]driver.Value, 1)
	err := w.row(sqlstore.Epoch, dest, string(b.Partition))
	switch {
	case errors.Is(err, io.EOF):
		return store.ErrFenced
	case err != nil:
		return err
	case dest[0] != int64(b.Epoch):
		return store.ErrFenced
	}
	return fmt.Errorf("the log is not at %d: %w", b.Prev, store.ErrConflict)
}

func (w *preparedWrite) run(plan *sqlstore.Plan) error {
	for i := range w.Len(plan) {
		for c := range w.Columns {
			w.args[c].Value = w.Columns[c].Value(plan, i)
		}
		result, err := w.statement.ExecContext(context.Background(), w.args)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || (w.Exact && n != 1) {
			return errors.Join(err, store.ErrConflict)
		}
	}
	return nil
}

// commitBytes is about what one small commit adds to the write-ahead log: a page for
// each of the trees that it touches.
const commitBytes = 40 << 10

// estimate guesses what a batch adds to the write-ahead log. It only decides when the
// tender looks; the tender measures.
func estimate(b *store.Batch) int64 {
	bytes := int64(commitBytes)
	for i := range b.Rows {
		bytes += 512 + int64(len(b.Rows[i].Events))
	}
	for i := range b.Checkpoints {
		bytes += 256 + int64(len(b.Checkpoints[i].State))
	}
	return bytes + 512*int64(len(b.Keys)+len(b.Runs))
}

func (w *writer) wrote(bytes int64) {
	if w.pending.Add(bytes) >= tendBytes {
		w.wakeTender()
	}
}

func (w *writer) wakeTender() {
	select {
	case w.tend <- struct{}{}:
	default:
	}
}

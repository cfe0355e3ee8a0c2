package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/sqlstore"
)

// Beside is the database of a data folder, opened next to the server that uses the folder,
// or where none does: for backups, verification and an operator's decisions. It takes no
// lock on the folder and changes nothing by being opened; a damaged file opens too.
type Beside struct {
	sqlstore.Reader
	dir     string
	readers *pool
}

var (
	_ store.Archive = (*Beside)(nil)
	_ store.Archive = (*Store)(nil)
)

// OpenBeside opens what is there; a folder without a database is store.ErrNotFound.
func OpenBeside(_ context.Context, dir string) (*Beside, error) {
	path := filepath.Join(dir, File)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open store in %s: no %s there: %w", dir, File, store.ErrNotFound)
	}
	readers, err := openPool(dataSource(path, readerPragmas), 1)
	if err != nil {
		return nil, fmt.Errorf("open store in %s: %w", dir, err)
	}
	return &Beside{Reader: sqlstore.Reader{Querier: readers}, dir: dir, readers: readers}, nil
}

// Close lets the file go.
func (b *Beside) Close() error { return b.readers.close() }

// Image implements store.Archive.
func (b *Beside) Image(ctx context.Context) (store.Image, error) { return openImage(ctx, b.dir) }

// Examine implements store.Archive.
func (b *Beside) Examine(ctx context.Context) ([]string, error) {
	found, err := damage(ctx, b.readers.db, findingsMax)
	return texts(found), err
}

// Size implements store.Sizer.
func (b *Beside) Size(ctx context.Context) (int64, error) { return size(ctx, b.readers.db) }

// Free is how much of Size later rows fill before the file grows.
func (b *Beside) Free(ctx context.Context) (bytes int64, err error) {
	err = b.readers.db.QueryRowContext(ctx,
		"SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size").Scan(&bytes)
	if err != nil {
		return 0, fmt.Errorf("read the free pages of the store: %w", asStoreError(err))
	}
	return bytes, nil
}

// Rewrite implements store.Archive. Beside a running server it waits for the server's
// commit, and holds its next ones back while it works.
func (b *Beside) Rewrite(ctx context.Context, work func(store.Rewriter) error) error {
	return rewrite(ctx, b.dir, work)
}

// RecordLoss implements store.Losses.
func (b *Beside) RecordLoss(ctx context.Context, loss store.Loss) (store.Loss, error) {
	err := rewrite(ctx, b.dir, func(w store.Rewriter) (err error) {
		loss, err = sqlstore.RecordLoss(ctx, w, loss)
		return err
	})
	return loss, err
}

// Image implements store.Archive.
func (s *Store) Image(ctx context.Context) (store.Image, error) { return openImage(ctx, s.dir) }

// Examine implements store.Archive.
func (s *Store) Examine(ctx context.Context) ([]string, error) {
	found, err := damage(ctx, s.readers.db, findingsMax)
	return texts(found), err
}

// Size implements store.Sizer.
func (s *Store) Size(ctx context.Context) (int64, error) { return size(ctx, s.readers.db) }

func size(ctx context.Context, db *sql.DB) (bytes int64, err error) {
	err = db.QueryRowContext(ctx, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").Scan(&bytes)
	if err != nil {
		return 0, fmt.Errorf("read the size of the store: %w", asStoreError(err))
	}
	return bytes, nil
}

// Rewrite implements store.Archive.
func (s *Store) Rewrite(ctx context.Context, work func(store.Rewriter) error) error {
	return rewrite(ctx, s.dir, work)
}

// RecordLoss implements store.Losses.
func (s *Store) RecordLoss(ctx context.Context, loss store.Loss) (store.Loss, error) {
	err := rewrite(ctx, s.dir, func(w store.Rewriter) (err error) {
		loss, err = sqlstore.RecordLoss(ctx, w, loss)
		return err
	})
	return loss, err
}

// image is a read transaction on a connection of its own.
type image struct {
	sqlstore.Image
	db   *sql.DB
	conn *sql.Conn
}

func openImage(ctx context.Context, dir string) (store.Image, error) {
	db, err := sql.Open("sqlite", dataSource(filepath.Join(dir, File), readerPragmas))
	if err != nil {
		return nil, fmt.Errorf("open image: %w", err)
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err == nil {
		// The first read is what fixes the moment.
		_, err = conn.ExecContext(ctx, "BEGIN; SELECT count(*) FROM sqlite_schema")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open image: %w", asStoreError(err)), db.Close())
	}
	return &image{sqlstore.Image{Reader: sqlstore.Reader{Querier: connection{conn}}}, db, conn}, nil
}

// Close implements store.Image.
func (i *image) Close() error {
	_, err := i.conn.ExecContext(context.Background(), rollback)
	return errors.Join(err, i.conn.Close(), i.db.Close())
}

// connection reads on one connection.
type connection struct{ conn *sql.Conn }

// Query implements sqlstore.Querier.
func (c connection) Query(ctx context.Context, query string, each func(sqlstore.Row) error, args ...any) error {
	rows, err := c.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return asStoreError(err)
	}
	for rows.Next() {
		if err := each(rows); err != nil {
			_ = rows.Close()
			return asStoreError(err)
		}
	}
	err = rows.Err()
	return asStoreError(errors.Join(err, rows.Close()))
}

// rewriter is a write transaction on a connection of its own. The driver's one writing
// connection of a server stays out of it: SQLite lets one of them write at a time.
type rewriter struct {
	sqlstore.Image
	conn *sql.Conn
}

func rewrite(ctx context.Context, dir string, work func(store.Rewriter) error) (err error) {
	db, err := sql.Open("sqlite", dataSource(filepath.Join(dir, File), writerPragmas))
	if err != nil {
		return fmt.Errorf("rewrite store: %w", err)
	}
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("rewrite store: %w", asStoreError(err))
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, begin); err != nil {
		return fmt.Errorf("rewrite store: %w", asStoreError(err))
	}
	if err := work(&rewriter{sqlstore.Image{Reader: sqlstore.Reader{Querier: connection{conn}}}, conn}); err != nil {
		_, undo := conn.ExecContext(context.WithoutCancel(ctx), rollback)
		return errors.Join(err, undo)
	}
	if _, err := conn.ExecContext(context.WithoutCancel(ctx), commit); err != nil {
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
	return w.each(ctx, sqlstore.PutOne(&t), rows, t.Fits)
}

// Delete implements store.Rewriter.
func (w *rewriter) Delete(ctx context.Context, table string, keys [][]any) error {
	t, ok := store.TableNamed(table)
	if !ok {
		return fmt.Errorf("delete rows of %q: %w", table, store.ErrInvalid)
	}
	return w.each(ctx, sqlstore.DeleteOne(&t), keys, nil)
}

func (w *rewriter) each(ctx context.Context, text string, rows [][]any, fits func([]any) error) error {
	if len(rows) == 0 {
		return nil
	}
	stmt, err := w.conn.PrepareContext(ctx, text)
	if err != nil {
		return asStoreError(err)
	}
	for _, row := range rows {
		if fits != nil {
			err = fits(row)
		}
		if err == nil {
			_, err = stmt.ExecContext(ctx, row...)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("%.40s: %w", text, asStoreError(err)), stmt.Close())
		}
	}
	return stmt.Close()
}

// Hold takes a data folder as a server does, without opening anything in it: no server can
// start there until release is called. ErrInUse names who has it.
func Hold(dir string) (release func() error, err error) {
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	return lock.release, nil
}

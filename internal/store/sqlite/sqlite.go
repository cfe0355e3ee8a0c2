// Package sqlite is the store port on SQLite, in one file of the data folder: the
// default of a server on one machine.
//
// It is deliberately for one process: a lock on the folder refuses a second server, so
// there is no retry loop, no lease and no polling here. It has no pool of writers
// either; the one writer is fed whole batches.
//
// Invariants: a batch is one transaction that begins with the fence and ends with a
// synced commit; a full disk leaves nothing of the batch and may be retried; after any
// other error of a write or a sync the store answers ErrBroken for ever, because what
// the disk holds is no longer known, and the process must end; a database whose log does
// not end where its ownership rows say is not opened.
//
// Read next: internal/store/sqlite/writer.go, internal/store/sqlstore/tables.go
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pressly/goose/v3"
	moderncsqlite "modernc.org/sqlite"

	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/sqlstore"
)

//go:embed migrations/*.sql
var migrations embed.FS

// File is the database's name in the data folder.
const File = "fairlead.db"

// Options tune an opened store. The zero Options are right for a server.
type Options struct {
	// Readers bounds the connections that read at the same time; 0 means readersMax.
	Readers int
	// CheckBytesMax is the size up to which Open examines the whole file; 0 means
	// checkBytesMax. Larger files get the examination of their tail only.
	CheckBytesMax int64
	// Damaged is told of damage that the server can live with, each in one line: pages in
	// the middle of the log, whose streams can't be read any more. Nil: nobody is told.
	Damaged func(what string)
}

// Store is the port on one SQLite file.
type Store struct {
	sqlstore.Reader
	dir     string
	lock    *folderLock
	readers *pool
	writer  *writer
	tender  *tender
}

var _ store.Store = (*Store)(nil)

// fdatasync makes SQLite sync as it does wherever it is built for Linux: data and size,
// without the time stamps. It is a switch of the process, and the same for durability.
var fdatasync = sync.OnceFunc(func() {
	// Where there is no such call, fsync stays: slower, and as durable.
	_, _ = moderncsqlite.Fdatasync(true)
})

// Open takes the data folder, which it creates if need be, brings the schema up to date
// and examines what is there. A folder in use is refused with the process that uses it.
func Open(ctx context.Context, dir string, opts Options) (store.Store, error) {
	s, err := open(ctx, dir, opts)
	if err != nil {
		return nil, fmt.Errorf("open store in %s: %w", dir, err)
	}
	return s, nil
}

func open(ctx context.Context, dir string, opts Options) (_ *Store, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	fdatasync()
	s := &Store{dir: dir}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	if s.lock, err = lockFolder(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, File)
	examined := func(db *sql.DB) error { return prepare(ctx, db, path, opts) }
	if s.writer, err = openWriter(ctx, dataSource(path, writerPragmas), examined); err != nil {
		return nil, err
	}
	if s.readers, err = openPool(dataSource(path, readerPragmas), opts.Readers); err != nil {
		return nil, err
	}
	s.Reader = sqlstore.Reader{Querier: s.readers, Clock: clock}
	if err := s.VerifyTail(ctx); err != nil {
		return nil, err
	}
	s.tender = startTender(s.writer, s.readers)
	return s, nil
}

// Pragmas of every connection. Automatic checkpoints are off because SQLite swallows
// their errors; tender.go makes them instead. Caches are small because an idle server
// should cost little; the operating system caches the file anyway.
var commonPragmas = []string{
	"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "trusted_schema(0)",
	"cell_size_check(1)", "wal_autocheckpoint(0)", fmt.Sprintf("journal_size_limit(%d)", journalBytesMax),
}

var (
	writerPragmas = append([]string{"cache_size(-4096)"}, commonPragmas...)
	readerPragmas = append([]string{"cache_size(-512)", "query_only(1)"}, commonPragmas...)
)

func dataSource(path string, pragmas []string) string {
	query := url.Values{"_pragma": pragmas}
	if path, err := filepath.Abs(path); err == nil {
		return (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String()
	}
	return "file:" + url.PathEscape(path) + "?" + query.Encode()
}

// prepare examines the file and migrates it.
func prepare(ctx context.Context, db *sql.DB, path string, opts Options) error {
	if err := examine(ctx, db, path, opts); err != nil {
		return err
	}
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	if err := sqlstore.Migrate(ctx, goose.DialectSQLite3, db, sub); err != nil {
		return asStoreError(err)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if err := os.Chmod(name, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return syncFolder(filepath.Dir(path))
}

// examine refuses a file that is not what synced commits would have left.
func examine(ctx context.Context, db *sql.DB, path string, opts Options) error {
	var mode string
	if err := db.QueryRowContext(ctx, `PRAGMA journal_mode`).Scan(&mode); err != nil {
		return asStoreError(err)
	}
	if mode != "wal" {
		return fmt.Errorf("the file system allows no write-ahead log (journal mode %s): use a local disk", mode)
	}
	limit := opts.CheckBytesMax
	if limit == 0 {
		limit = checkBytesMax
	}
	if stat, err := os.Stat(path); err != nil || stat.Size() > limit {
		return err
	}
	found, err := damage(ctx, db, findingsMax)
	if err != nil || len(found) == 0 {
		return err
	}
	if !bearable(found) {
		return fmt.Errorf("the database file is damaged where it must be written (%s): "+
			"see what with fairlead admin verify, then restore a backup: %w", strings.Join(texts(found), "; "), store.ErrBroken)
	}
	for _, f := range found {
		if opts.Damaged != nil {
			opts.Damaged(f.text)
		}
	}
	return nil
}

// Close implements store.Store.
func (s *Store) Close() error {
	var errs []error
	if s.tender != nil {
		s.tender.stop()
	}
	if s.readers != nil {
		errs = append(errs, s.readers.close())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.release())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// ExpireKeys implements store.Log.
func (s *Store) ExpireKeys(ctx context.Context, before time.Time, limit int) (int, error) {
	if limit < 1 {
		return 0, nil
	}
	n, err := s.writer.change(ctx, sqlstore.ExpireKeys, sqlstore.ExpireArgs(before, limit)...)
	if err != nil {
		return 0, fmt.Errorf("expire keys: %w", err)
	}
	return n, nil
}

// Ping implements store.Store: it commits a row, so a full or failing disk shows.
func (s *Store) Ping(ctx context.Context) error {
	if _, err := s.writer.change(ctx, sqlstore.Beat, sqlstore.Micros(time.Now())); err != nil {
		return fmt.Errorf("ping store: %w", err)
	}
	return nil
}

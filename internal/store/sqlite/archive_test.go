package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/storetest"
)

func TestArchive(t *testing.T) {
	storetest.RunArchive(t, func(t *testing.T) storetest.ArchiveStore { return mustOpen(t, fastDir(t)) })
}

// A store that a server has open, seen and changed from beside it.
func TestArchiveBesideAServer(t *testing.T) {
	storetest.RunArchive(t, func(t *testing.T) storetest.ArchiveStore {
		dir := fastDir(t)
		s := mustOpen(t, dir)
		b, err := OpenBeside(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return &beside{s, b}
	})
}

// beside appends by the server and does everything else from outside.
type beside struct {
	*Store
	b *Beside
}

func (b *beside) Image(ctx context.Context) (store.Image, error) { return b.b.Image(ctx) }
func (b *beside) Rewrite(ctx context.Context, work func(store.Rewriter) error) error {
	return b.b.Rewrite(ctx, work)
}
func (b *beside) RecordLoss(ctx context.Context, l store.Loss) (store.Loss, error) {
	return b.b.RecordLoss(ctx, l)
}
func (b *beside) Examine(ctx context.Context) ([]string, error) { return b.b.Examine(ctx) }
func (b *beside) Size(ctx context.Context) (int64, error)       { return b.b.Size(ctx) }
func (b *beside) Close() error {
	if err := b.b.Close(); err != nil {
		return err
	}
	return b.Store.Close()
}

// ofProcesses are tables that no copy has: they speak of processes, or are the schema's own.
var ofProcesses = []string{"beat", "goose_db_version", "sqlite_sequence", "members"}

// A column that the copies do not know would be lost by every restore.
// Promises: [BACKUP-6].
func TestTheSchemaOfCopiesIsThatOfTheDatabase(t *testing.T) {
	s := mustOpen(t, fastDir(t))
	defer func() { _ = s.Close() }()
	rows, err := s.readers.db.QueryContext(t.Context(), `SELECT t.name, c.name, c.type FROM sqlite_schema t
JOIN pragma_table_info(t.name) c WHERE t.type = 'table' ORDER BY t.name, c.cid`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	have := map[string][]string{}
	for rows.Next() {
		var table, column, kind string
		if err := rows.Scan(&table, &column, &kind); err != nil {
			t.Fatal(err)
		}
		have[table] = append(have[table], column)
	}
	for _, table := range store.Schema() {
		var want []string
		for _, c := range table.Columns {
			want = append(want, c.Name)
		}
		if !slices.Equal(have[table.Name], want) {
			t.Errorf("%s has columns %v, its copies %v", table.Name, have[table.Name], want)
		}
		delete(have, table.Name)
	}
	for _, name := range ofProcesses {
		delete(have, name)
	}
	if len(have) > 0 {
		t.Errorf("no copy has %v", have)
	}
}

func TestAFolderWithoutADatabaseIsNotFound(t *testing.T) {
	if _, err := OpenBeside(t.Context(), fastDir(t)); err == nil || !strings.Contains(err.Error(), File) {
		t.Errorf("opened: %v", err)
	}
}

func TestAFolderThatIsHeldHasNoServer(t *testing.T) {
	dir := fastDir(t)
	release, err := Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), dir, Options{}); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(),
		fmt.Sprint(os.Getpid())) {
		t.Errorf("a server starts in a folder that is held: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, dir)
	defer func() { _ = s.Close() }()
	if _, err := Hold(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("a server's folder can be held: %v", err)
	}
}

// damagePageOf overwrites the header of a leaf page in the middle of a table.
func damagePageOf(t *testing.T, dir, table string) {
	t.Helper()
	b, err := OpenBeside(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var pages []int64
	rows, err := b.readers.db.QueryContext(t.Context(),
		`SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path`, table)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var page int64
		if err := rows.Scan(&page); err != nil {
			t.Fatal(err)
		}
		pages = append(pages, page)
	}
	if err := b.Close(); err != nil || len(pages) < 5 {
		t.Fatalf("%d leaf pages (%v)", len(pages), err)
	}
	file, err := os.OpenFile(filepath.Join(dir, File), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte("\xde\xad\xbe\xef garbage"), (pages[len(pages)/2]-1)*4096); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// A broken page in the middle of the log costs the rows on it, and nothing else: the server
// starts, is told, and appends.
func TestABrokenPageOfTheLogIsBorneAndTold(t *testing.T) {
	dir := fastDir(t)
	s := mustOpen(t, dir)
	own := acquire(t, s)
	for range 10 {
		own = appendTo(t, s, own, rows(own, 50, strings.Repeat("x", 300)))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	damagePageOf(t, dir, "log")
	var told []string
	opened, err := Open(t.Context(), dir, Options{Damaged: func(what string) { told = append(told, what) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(told) == 0 || !strings.Contains(told[0], "table log") {
		t.Errorf("told %q", told)
	}
	s = opened.(*Store)
	defer func() { _ = s.Close() }()
	own = acquire(t, s)
	own = appendTo(t, s, own, rows(own, 50, "after the damage"))
	broken := 0
	for at := range own.Position {
		if _, err := s.Read(t.Context(), "p", at, 1); err != nil {
			broken++
		}
	}
	if broken == 0 || broken > 30 {
		t.Errorf("%d of %d rows can't be read", broken, own.Position)
	}
	if found, err := s.Examine(t.Context()); err != nil || len(found) == 0 {
		t.Errorf("found %v, %v", found, err)
	}
}

func TestABrokenPageElsewhereKeepsTheServerFromWriting(t *testing.T) {
	dir := fastDir(t)
	s := mustOpen(t, dir)
	own := acquire(t, s)
	for range 10 {
		own = appendTo(t, s, own, rows(own, 50, "x"))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	damagePageOf(t, dir, "streams")
	if _, err := Open(t.Context(), dir, Options{}); err == nil || !strings.Contains(err.Error(), "streams") ||
		!strings.Contains(err.Error(), "fairlead admin verify") {
		t.Errorf("opened: %v", err)
	}
	b, err := OpenBeside(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	if found, err := b.Examine(t.Context()); err != nil || len(found) == 0 {
		t.Errorf("found %v, %v", found, err)
	}
}

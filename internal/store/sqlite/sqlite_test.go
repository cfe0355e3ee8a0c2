package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/sqlstore"
	"github.com/fairlead-ci/fairlead/internal/store/storetest"
)

// fastDir is a folder in memory where there is one: these tests prove what is written,
// not how long a disk takes.
func fastDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "fairlead-sqlite-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func mustOpen(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s.(*Store)
}

func TestConformance(t *testing.T) {
	dirs := map[store.Store]string{}
	storetest.Run(t,
		func(t *testing.T) store.Store {
			dir := fastDir(t)
			s := mustOpen(t, dir)
			dirs[s] = dir
			return s
		},
		storetest.WithReopen(func(t *testing.T, s store.Store) store.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return mustOpen(t, dirs[s])
		}),
		storetest.WithDump(func(t *testing.T, s store.Store) string { return dump(t, s.(*Store)) }))
}

// dump writes out every row of every table.
func dump(t testing.TB, s *Store) string {
	t.Helper()
	var out strings.Builder
	for _, table := range sqlstore.Tables() {
		rows, err := s.readers.db.QueryContext(t.Context(), "SELECT * FROM "+table+" ORDER BY 1, 2")
		if err != nil {
			t.Fatal(err)
		}
		columns, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			values, dest := make([]any, len(columns)), make([]any, len(columns))
			for i := range values {
				dest[i] = &values[i]
			}
			if err := rows.Scan(dest...); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&out, table, values)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// rows is a batch of n new streams.
func rows(own store.Ownership, n int, payload string) store.Batch {
	b := store.Batch{Partition: own.Partition, Epoch: own.Epoch, Prev: own.Position, PrevDigest: own.Digest}
	for i := range n {
		position := own.Position + store.Position(i) + 1
		row := store.Row{
			Position: position, Tenant: "tnt_one", Version: 1, Count: 1, Events: []byte(payload),
		}
		row.Stream = "run/run_01jd" + streamSuffix(uint64(position))
		b.Rows = append(b.Rows, row)
		b.Heads = append(b.Heads, store.Head{Tenant: row.Tenant, Stream: row.Stream, Version: 1, Live: true})
	}
	b.Digest = store.BatchDigest(b.PrevDigest, b.Rows)
	return b
}

func appendTo(t testing.TB, s store.Store, own store.Ownership, b store.Batch) store.Ownership {
	t.Helper()
	if err := s.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	own.Position, own.Digest = own.Position+store.Position(len(b.Rows)), b.Digest
	return own
}

func acquire(t testing.TB, s store.Store) store.Ownership {
	t.Helper()
	own, err := s.Acquire(t.Context(), "p", "me")
	if err != nil {
		t.Fatal(err)
	}
	return own
}

// onWriter runs a statement on the writing connection, in its turn.
func onWriter(t testing.TB, s *Store, query string, dest ...any) {
	t.Helper()
	s.writer.turn <- struct{}{}
	defer func() { <-s.writer.turn }()
	if len(dest) == 0 {
		if _, err := s.writer.conn.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := s.writer.conn.QueryRowContext(t.Context(), query).Scan(dest...); err != nil {
		t.Fatal(err)
	}
}

// Promises: [HIST-17].
func TestASecondServerOnTheFolderIsRefusedByName(t *testing.T) {
	dir := fastDir(t)
	first := mustOpen(t, dir)
	_, err := Open(t.Context(), dir, Options{})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("second server: %v", err)
	}
	acquire(t, first) // and the first one is not disturbed
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := mustOpen(t, dir)
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

func TestSessionsAreDurableAndPrivate(t *testing.T) {
	dir := fastDir(t)
	s := mustOpen(t, dir)
	defer func() { _ = s.Close() }()
	for pragma, want := range map[string]string{
		"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "wal_autocheckpoint": "0",
	} {
		var got string
		if onWriter(t, s, "PRAGMA "+pragma, &got); got != want {
			t.Errorf("writer: %s is %q, want %q", pragma, got, want)
		}
		if err := s.readers.db.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("reader: %s is %q (%v), want %q", pragma, got, err, want)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 3 {
		t.Fatalf("files %v: %v", files, err)
	}
	for _, file := range files {
		if stat, err := os.Stat(file); err != nil || stat.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", file, stat.Mode(), err)
		}
	}
}

// The image of the files right after an acknowledgement, without closing anything, is
// what a killed process leaves behind.
// Promises: [HIST-4].
func TestAnAcknowledgedBatchIsInTheFilesOfAKilledServer(t *testing.T) {
	dir := fastDir(t)
	s := mustOpen(t, dir)
	defer func() { _ = s.Close() }()
	own := acquire(t, s)
	for i := range 5 {
		own = appendTo(t, s, own, rows(own, i+1, "payload"))
		image := fastDir(t)
		for _, name := range []string{File, File + "-wal"} {
			content, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(image, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		revived := mustOpen(t, image)
		if got := acquire(t, revived); got.Position != own.Position || got.Digest != own.Digest {
			t.Errorf("the image ends at %d, acknowledged was %d", got.Position, own.Position)
		}
		if err := revived.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Promises: [CMD-9].
func TestAFullDiskLeavesNothingAndIsOverWhenThereIsSpace(t *testing.T) {
	s := mustOpen(t, fastDir(t))
	defer func() { _ = s.Close() }()
	own := acquire(t, s)
	own = appendTo(t, s, own, rows(own, 10, "payload"))
	var pages int
	onWriter(t, s, "PRAGMA page_count", &pages)
	limit := func(n int) {
		var now int
		if onWriter(t, s, fmt.Sprintf("PRAGMA max_page_count = %d", n), &now); now != n {
			t.Fatalf("page limit %d", now)
		}
	}
	limit(pages + 2)
	before := dump(t, s)
	big := rows(own, 200, strings.Repeat("x", 1000))
	for range 2 {
		if err := s.Append(t.Context(), big); !errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrBroken) {
			t.Fatalf("append on a full disk: %v", err)
		}
		if dump(t, s) != before {
			t.Fatal("the refused batch left something")
		}
	}
	limit(1 << 20)
	appendTo(t, s, own, big)
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// A limit on the size of files makes the write of a commit fail in a way that is not "no
// space": what the file holds is then unknown, and the store must not go on.
// Promises: [HIST-13].
func TestAfterAnErrorOfTheDiskNothingIsAcknowledgedEverAgain(t *testing.T) {
	dir := fastDir(t)
	s := mustOpen(t, dir)
	own := acquire(t, s)
	own = appendTo(t, s, own, rows(own, 10, "payload"))
	limitFileSize(t, filepath.Join(dir, File+"-wal"), func() {
		err := s.Append(t.Context(), rows(own, 100, strings.Repeat("x", 1000)))
		if !errors.Is(err, store.ErrBroken) {
			t.Errorf("append over a failing disk: %v", err)
		}
	})
	if err := s.Append(t.Context(), rows(own, 1, "x")); !errors.Is(err, store.ErrBroken) {
		t.Errorf("append: %v", err)
	}
	if _, err := s.Acquire(t.Context(), "p", "me"); !errors.Is(err, store.ErrBroken) {
		t.Errorf("acquire: %v", err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, store.ErrBroken) {
		t.Errorf("ping: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	// The next start finds everything that was acknowledged.
	s = mustOpen(t, dir)
	if got := acquire(t, s); got.Position != own.Position || got.Digest != own.Digest {
		t.Errorf("after a restart the log ends at %d, acknowledged was %d", got.Position, own.Position)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// limitFileSize lets no file of this process grow beyond the one at path while during
// runs. Tests of this package run one after another.
func limitFileSize(t *testing.T, path string, during func()) {
	t.Helper()
	stat, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	limit := syscall.Rlimit{Cur: uint64(stat.Size()), Max: before.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
	}()
	during()
}

// Promises: [HIST-16].
func TestADatabaseThatLostItsTailIsNotOpened(t *testing.T) {
	for name, damage := range map[string]string{
		"a lost batch":      "DELETE FROM log WHERE position > 2",
		"another payload":   "UPDATE log SET events = X'00' WHERE position = 4",
		"a lost batch mark": "DELETE FROM batches WHERE position = 4",
		"an older position": "UPDATE partitions SET position = 2",
		"another digest":    "UPDATE partitions SET digest = 'sha256:00'",
	} {
		t.Run(name, func(t *testing.T) {
			dir := fastDir(t)
			s := mustOpen(t, dir)
			own := acquire(t, s)
			own = appendTo(t, s, own, rows(own, 2, "first"))
			appendTo(t, s, own, rows(own, 2, "second"))
			onWriter(t, s, damage)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(t.Context(), dir, Options{}); !errors.Is(err, store.ErrBroken) {
				t.Errorf("opened: %v", err)
			}
			// The refused start left the folder free.
			if _, err := Open(t.Context(), dir, Options{}); errors.Is(err, ErrInUse) {
				t.Errorf("the refused start keeps the folder: %v", err)
			}
		})
	}
}

// Promises: [HIST-16].
func TestADamagedFileIsNotOpened(t *testing.T) {
	dir := fastDir(t)
	s := mustOpen(t, dir)
	own := acquire(t, s)
	appendTo(t, s, own, rows(own, 500, strings.Repeat("x", 300)))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, File+"-*")); err != nil || len(left) != 0 {
		t.Fatalf("a closed store leaves %v (%v): some connection is still open", left, err)
	}
	path := filepath.Join(dir, File)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	stat, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for offset := int64(8192); offset < stat.Size(); offset += 4096 {
		if _, err := file.WriteAt([]byte("garbage where a page header was"), offset); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), dir, Options{}); !errors.Is(err, store.ErrBroken) {
		t.Errorf("opened: %v", err)
	}
}

// The write-ahead log is copied back while appends go on, and does not grow with them.
func TestTheTenderKeepsTheWriteAheadLogShort(t *testing.T) {
	dir := fastDir(t)
	s := mustOpen(t, dir)
	defer func() { _ = s.Close() }()
	own := acquire(t, s)
	payload := strings.Repeat("x", 2000)
	for range 60 {
		own = appendTo(t, s, own, rows(own, 500, payload))
	}
	stat, err := os.Stat(filepath.Join(dir, File+"-wal"))
	if err != nil {
		t.Fatal(err)
	}
	if total := int64(own.Position) * 2000; stat.Size() > total*2/3 {
		t.Errorf("after %d bytes of payload the write-ahead log has %d", total, stat.Size())
	}
	if why := s.writer.broken.Load(); why != nil {
		t.Error(*why)
	}
}

func TestWaitingForTheWriterEndsWithTheCaller(t *testing.T) {
	s := mustOpen(t, fastDir(t))
	defer func() { _ = s.Close() }()
	own := acquire(t, s)
	s.writer.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() { answer <- s.Append(ctx, rows(own, 1, "x")) }()
	cancel()
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Errorf("append: %v", err)
	}
	<-s.writer.turn
	appendTo(t, s, own, rows(own, 1, "x"))
}

package archive

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-ci/fairlead/internal/blob"
	blobmemory "github.com/fairlead-ci/fairlead/internal/blob/memory"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

var update = flag.Bool("update", false, "write the golden object anew")

const home domain.PartitionID = "home"

var began = time.Date(2026, 3, 1, 12, 0, 0, 123000, time.UTC)

// world is a store with history, and a copy of it that nothing is ever archived of.
type world struct {
	t     *testing.T
	store *memory.Store
	plain *memory.Store
	blobs *blobmemory.Store
	whole *Store
	own   store.Ownership
	at    map[domain.StreamID]uint64
}

func newWorld(t *testing.T, batches int) *world {
	w := &world{t: t, store: memory.New(), blobs: blobmemory.New(), at: map[domain.StreamID]uint64{}}
	w.whole = Over(w.store, NewReader(w.blobs))
	var err error
	if w.own, err = w.store.Acquire(t.Context(), home, "me"); err != nil {
		t.Fatal(err)
	}
	for n := range batches {
		w.append(n)
	}
	w.plain = w.store.Clone()
	return w
}

// append adds the batch n: rows of a run that is over, of the pool, and now and then of
// another tenant.
func (w *world) append(n int) {
	w.t.Helper()
	b := store.Batch{Partition: home, Epoch: w.own.Epoch, Prev: w.own.Position, PrevDigest: w.own.Digest,
		At: began.Add(time.Duration(n) * time.Minute)}
	add := func(tenant domain.TenantID, stream domain.StreamID, live bool) {
		count := uint32(n%3 + 1)
		w.at[stream] += uint64(count)
		b.Rows = append(b.Rows, store.Row{Position: b.Prev + store.Position(len(b.Rows)) + 1, Tenant: tenant,
			Stream: stream, Version: w.at[stream], Count: count, At: b.At,
			Events: []byte(strings.Repeat(fmt.Sprintf("event %d of %s; ", n, stream), n%4))})
		b.Heads = append(b.Heads, store.Head{Tenant: tenant, Stream: stream, Version: w.at[stream], Live: live})
	}
	add("tnt_one", domain.StreamID(fmt.Sprintf("run/%03d", n/7)), false)
	add("tnt_one", "pool/default", true)
	if n%5 == 0 {
		add("tnt_two", "run/theirs", false)
	}
	b.Digest = store.BatchDigest(b.PrevDigest, b.Rows)
	if err := w.store.Append(w.t.Context(), b); err != nil {
		w.t.Fatal(err)
	}
	w.own.Position, w.own.Digest = w.own.Position+store.Position(len(b.Rows)), b.Digest
}

// archiver archives what is older than the batch n.
func (w *world) archiver(n int) *Archiver {
	return New(Config{Log: w.store, Blobs: w.blobs, OlderThan: time.Hour, All: true,
		Now: func() time.Time { return began.Add(time.Duration(n)*time.Minute + time.Hour - 1) }})
}

func (w *world) archive(n int) {
	w.t.Helper()
	if err := w.archiver(n).Partition(w.t.Context(), home, w.own.Epoch); err != nil {
		w.t.Fatal(err)
	}
}

// same compares everything that the port reads with the plain copy.
func (w *world) same() {
	w.t.Helper()
	ctx := w.t.Context()
	for _, limit := range []int{1, 7, 1000} {
		for after := store.Position(0); after <= w.own.Position; after += 3 {
			want, _ := w.plain.Read(ctx, home, after, limit)
			got, err := w.whole.Read(ctx, home, after, limit)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				w.t.Fatalf("read %d rows after %d: %v\n%s", limit, after, err, diff)
			}
		}
	}
	for _, s := range []struct {
		tenant domain.TenantID
		stream domain.StreamID
	}{{"tnt_one", "run/000"}, {"tnt_one", "run/003"}, {"tnt_one", "pool/default"}, {"tnt_two", "run/theirs"},
		{"tnt_two", "run/000"}, {"tnt_one", "run/none"}} {
		for _, checkpoint := range []bool{false, true} {
			want, _ := w.plain.Load(ctx, s.tenant, s.stream, checkpoint, 1)
			got, err := w.whole.Load(ctx, s.tenant, s.stream, checkpoint, 1)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				w.t.Errorf("load %s of %s: %v\n%s", s.stream, s.tenant, err, diff)
			}
		}
	}
	for at := store.Position(0); at <= w.own.Position+1; at++ {
		d1, e1, err1 := w.plain.BatchAt(ctx, home, at)
		d2, e2, err2 := w.whole.BatchAt(ctx, home, at)
		if d1 != d2 || e1 != e2 || (err1 == nil) != (err2 == nil) || err2 != nil && !errors.Is(err2, store.ErrNotFound) {
			w.t.Errorf("batch at %d: %s %d %v, want %s %d %v", at, d2, e2, err2, d1, e1, err1)
		}
	}
}

// Promises: [ARCHIVE-1].
func TestWhatIsArchivedReadsAsBefore(t *testing.T) {
	w := newWorld(t, 60)
	w.same()
	for _, n := range []int{10, 30, 31, 59, 60, 100} {
		w.archive(n)
		w.same()
	}
	rows, err := w.store.Read(t.Context(), home, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Stream != "pool/default" && r.At.Before(began.Add(58*time.Minute)) {
			t.Errorf("row %d of %s is still in the store", r.Position, r.Stream)
		}
	}
}

// Whatever moment a crash picks, nothing is lost, and the next archiver goes on.
func TestACrashBetweenTheStepsLosesNothing(t *testing.T) {
	for step := range 12 {
		w := newWorld(t, 40)
		crash, calls := errors.New("crash"), 0
		fail := func(write bool) error {
			if write {
				if calls++; calls > step {
					return crash
				}
			}
			return nil
		}
		w.store.SetHooks(memory.Hooks{Before: func(c memory.Call) error {
			return fail(c.Op == "archive" || c.Op == "prune")
		}})
		w.blobs.SetHook(func(_ context.Context, c blobmemory.Call) error { return fail(c.Method == "Put") })
		_ = w.archiver(30).Partition(t.Context(), home, w.own.Epoch)
		w.store.SetHooks(memory.Hooks{})
		w.blobs.SetHook(nil)
		w.same()
		w.archive(35)
		w.same()
	}
}

func TestAStaleOwnerArchivesNothing(t *testing.T) {
	w := newWorld(t, 20)
	if _, err := w.store.Acquire(t.Context(), home, "other"); err != nil {
		t.Fatal(err)
	}
	if err := w.archiver(10).Partition(t.Context(), home, w.own.Epoch); !errors.Is(err, store.ErrFenced) {
		t.Errorf("archived: %v", err)
	}
	w.same()
}

// A range that is recorded and pruned while a stream is read is read from its objects.
func TestARangeIsArchivedInTheMiddleOfARead(t *testing.T) {
	w := newWorld(t, 40)
	var once bool
	w.store.SetHooks(memory.Hooks{Before: func(c memory.Call) error {
		if c.Op == "ranges_of" && !once {
			once = true
			w.archive(30)
		}
		return nil
	}})
	w.archive(10)
	got, err := w.whole.Load(t.Context(), "tnt_one", "run/001", false, 1)
	want, _ := w.plain.Load(t.Context(), "tnt_one", "run/001", false, 1)
	if diff := cmp.Diff(want, got); err != nil || diff != "" || !once {
		t.Errorf("%v\n%s", err, diff)
	}
}

// Promises: [ARCHIVE-3].
func TestAMissingOrDamagedObjectIsAnErrorThatSaysSo(t *testing.T) {
	for what, damage := range map[string]func(w *world, key string){
		"missing": func(w *world, key string) { _ = w.blobs.Delete(context.Background(), key) },
		"damaged": func(w *world, key string) { flip(w, key, -3) },
		"cut":     func(w *world, key string) { rewrite(w, key, func(b []byte) []byte { return b[:len(b)-9] }) },
		"index":   func(w *world, key string) { flip(w, key, 20) },
	} {
		w := newWorld(t, 40)
		w.archive(30)
		ranges, err := w.store.ArchivedRanges(t.Context(), home, 0, 10)
		if err != nil || len(ranges) != 1 {
			t.Fatal(ranges, err)
		}
		key := ranges[0].Objects[0].Object
		damage(w, key)
		_, err = w.whole.Load(t.Context(), "tnt_one", "run/003", false, 1)
		var told *Damaged
		if !errors.As(err, &told) || told.Object != key || told.Missing != (what == "missing") ||
			!errors.Is(err, store.ErrBroken) || !strings.Contains(err.Error(), "backup") {
			t.Errorf("%s: load: %v", what, err)
		}
		if _, err := w.whole.Read(t.Context(), home, 0, 100); !errors.Is(err, store.ErrBroken) {
			t.Errorf("%s: read: %v", what, err)
		}
		if _, err := w.whole.Load(t.Context(), "tnt_two", "run/theirs", false, 1); err != nil {
			t.Errorf("%s: another tenant's: %v", what, err)
		}
		if h, err := w.whole.Load(t.Context(), "tnt_one", "pool/default", true, 1); err != nil || !whole(&h) {
			t.Errorf("%s: a live stream needs the archive: %v", what, err)
		}
	}
}

func flip(w *world, key string, at int) {
	rewrite(w, key, func(b []byte) []byte {
		if at < 0 {
			at += len(b)
		}
		b[at] ^= 0x40
		return b
	})
}

func rewrite(w *world, key string, change func([]byte) []byte) {
	w.t.Helper()
	data, err := NewReader(w.blobs).bytes(w.t.Context(), key, 0, -1)
	if err == nil {
		err = w.blobs.Delete(w.t.Context(), key)
	}
	if err == nil {
		err = w.blobs.Put(w.t.Context(), key, strings.NewReader(string(change(slices.Clone(data)))), -1)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// What does not digest to what was committed is never archived, and so never removed.
func TestDamagedHistoryStaysWhereItIs(t *testing.T) {
	w := newWorld(t, 40)
	log := &changed{Store: w.store}
	a := w.archiver(30)
	a.Log = log
	if err := a.Partition(t.Context(), home, w.own.Epoch); !errors.Is(err, store.ErrBroken) {
		t.Errorf("archived: %v", err)
	}
	w.same()
	if list, err := w.blobs.List(t.Context(), "", "", 10); err != nil || len(list) != 0 {
		t.Errorf("objects %v, %v", list, err)
	}
}

type changed struct{ *memory.Store }

func (c *changed) Read(ctx context.Context, p domain.PartitionID, after store.Position, n int) ([]store.Row, error) {
	rows, err := c.Store.Read(ctx, p, after, n)
	rows[3].Events = []byte("something else")
	return rows, err
}

func TestRangesAreBounded(t *testing.T) {
	w := newWorld(t, 9)
	marks, _ := w.store.Batches(t.Context(), home, 0, 100)
	rows, _ := w.store.Read(t.Context(), home, 0, int(marks[5].Position)-1)
	rows, marks = bounded(rows, marks)
	if len(marks) != 5 || rows[len(rows)-1].Position != marks[4].Position {
		t.Errorf("%d marks, %d rows", len(marks), len(rows))
	}
	a := w.archiver(100)
	a.All = false
	if r, err := a.next(t.Context(), home, w.own.Epoch); r != nil || err != nil {
		t.Errorf("a few rows are archived: %v, %v", r, err)
	}
}

func golden() []byte {
	h := head{partition: home, tenant: "tnt_one", from: 7, to: 12, before: digestOf(make([]byte, 32)),
		digest: digestOf([]byte(strings.Repeat("\x07", 32)))}
	row := func(position store.Position, stream domain.StreamID, version uint64, count uint32, events string) store.Row {
		return store.Row{Position: position, Tenant: "tnt_one", Stream: stream, Version: version, Count: count,
			Events: []byte(events), At: began.Add(time.Duration(position) * time.Second)}
	}
	return encodeRows(h, []store.Row{row(8, "run/b", 4, 4, "four events"), row(9, "pool/default", 90, 1, ""),
		row(10, "run/a", 2, 1, "second"), row(11, "run/b", 6, 2, "two more"), row(12, "pool/default", 91, 1, "\x00\xff")})
}

func goldenMarks() []byte {
	h := head{partition: home, from: 7, to: 12, before: digestOf(make([]byte, 32)),
		digest: digestOf([]byte(strings.Repeat("\x07", 32)))}
	mark := func(position store.Position, epoch uint64, fill string) store.BatchMark {
		return store.BatchMark{Partition: home, Position: position, Epoch: epoch,
			Digest: digestOf([]byte(strings.Repeat(fill, 32))), At: began.Add(time.Duration(position) * time.Second)}
	}
	return encodeMarks(h, []store.BatchMark{mark(8, 1, "\x05"), mark(11, 1, "\x06"), mark(12, 3, "\x07")})
}

// Objects are read for as long as anybody keeps them: their form never changes.
func TestTheFormOfObjectsIsFixed(t *testing.T) {
	for name, data := range map[string][]byte{"rows-1.hex": golden(), "marks-1.hex": goldenMarks()} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, []byte(hex.Dump(data)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), hex.Dump(data)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	rows, err := DecodeRows(golden())
	if err != nil || len(rows) != 5 || rows[0].Stream != "pool/default" || rows[0].Events != nil || rows[4].Version != 6 ||
		rows[4].Position != 11 || !rows[4].At.Equal(began.Add(11*time.Second)) || string(rows[1].Events) != "\x00\xff" {
		t.Errorf("rows %+v, %v", rows, err)
	}
	marks, err := DecodeMarks(goldenMarks())
	if err != nil || len(marks) != 3 || marks[2].Epoch != 3 || marks[1].Position != 11 {
		t.Errorf("marks %+v, %v", marks, err)
	}
	later := golden()
	later[4]++
	if _, err := DecodeRows(later); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("a later version: %v", err)
	}
	if _, err := DecodeRows(goldenMarks()); !errors.Is(err, ErrFormat) {
		t.Errorf("marks as rows: %v", err)
	}
}

func FuzzObject(f *testing.F) {
	f.Add(golden())
	f.Add(goldenMarks())
	f.Add([]byte("FLAR\x01r\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if rows, err := DecodeRows(data); err != nil && !errors.Is(err, ErrFormat) || err == nil && len(rows) == 0 {
			t.Errorf("%d rows, %v", len(rows), err)
		}
		if _, err := DecodeMarks(data); err != nil && !errors.Is(err, ErrFormat) {
			t.Error(err)
		}
		// Past the digests, what is in frames is parsed as well.
		h := &head{tenant: "t", from: 0, to: 1 << 40}
		_, _ = h.rows(data)
		_, _ = h.marks(data)
		if n, err := headLength(data); err == nil && n <= len(data) {
			_, _ = decodeHead(data, int64(len(data)))
		}
	})
}

var _ blob.Store = (*blobmemory.Store)(nil)

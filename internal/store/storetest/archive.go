package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// ArchiveStore is a database with the side that operators use.
type ArchiveStore interface {
	store.Store
	store.Archive
}

// RunArchive runs the promises of store.Archive. open gives an empty store
// that is closed by its test.
func RunArchive(t *testing.T, open func(t *testing.T) ArchiveStore) {
	for _, p := range []struct {
		name string
		test func(t *testing.T, w *archiveWorld)
	}{
		{"ATableHasWhatWasAppended", scanned},
		{"PagesOfAnySizeGiveTheSameRows", paged},
		{"AnImageStaysAtItsMoment", imageStays},
		{"ARewriteIsAllOrNothing", rewriteWhole},
		{"ARewriteHoldsAppendsBack", rewriteAlone},
		{"RowsThatDoNotFitAreRefused", misfits},
		{"ACopyIsTheStore", copied},
		{"AnUndamagedStoreHasNothingToTell", undamaged},
	} {
		t.Run(p.name, func(t *testing.T) {
			w := &archiveWorld{world: world{suite: &suite{}}, open: open}
			w.archive = open(t)
			w.store = w.archive
			t.Cleanup(func() {
				if err := w.archive.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			w.own = acquire(t, w.store, part)
			p.test(t, w)
		})
	}
}

type archiveWorld struct {
	world
	archive ArchiveStore
	open    func(t *testing.T) ArchiveStore
}

// fill appends something into every table.
func (w *archiveWorld) fill(t *testing.T) store.Batch {
	t.Helper()
	w.append(t, func(b *store.Batch) { add(b, tenant, "run/a", 1, 1, "first") })
	return w.append(t, func(b *store.Batch) {
		add(b, tenant, "run/a", 3, 2, "second")
		add(b, other, "run/b\u00e4", 1, 1, "")
		b.Heads[1].Live, b.Heads[0].NextWake = false, at.Add(time.Hour)
		b.Checkpoints = []store.Checkpoint{{Tenant: tenant, Stream: "run/a", Version: 3, Encoding: 7, State: []byte{0, 1,
			255}}}
		b.Keys = []store.Key{key("client/me", "k", at)}
		b.Counters = []store.Counter{{Tenant: tenant, Name: "runs", Value: 4}}
		b.Cursors = []store.Cursor{{Reactor: "notify", Position: 2}}
		b.Runs = []store.RunRow{{Tenant: tenant, Partition: part, Run: "run_1", Number: 4, Repository: "rep_1",
			RepositoryName: "app", Workflow: "ci.yml", WorkflowName: "CI", Event: "push", Ref: "refs/heads/main",
			Commit: "abc", Title: "bad \xff title", Actor: "me", State: "running", Desired: "run", Round: 2, Created: at}}
		b.Repositories = []store.RepositoryRow{{Tenant: tenant, Partition: part, Repository: "rep_1", Name: "app",
			URL: "https://example.com/a", DefaultBranch: "main", Registered: at, Poll: true}}
		b.Runners = []store.RunnerRow{{Tenant: tenant, Pool: "default", Runner: "rnr_1", Name: "n", Labels: []string{"x",
			"y"},
			Capacity: 3, Isolation: "oci", Version: "v", Registered: at}}
	})
}

// everyRow reads all tables of an image.
func everyRow(t *testing.T, from store.Image, limit int) map[string][][]any {
	t.Helper()
	out := map[string][][]any{}
	for _, table := range store.Schema() {
		var key []any
		for {
			rows := must[[][]any](t)(from.Scan(t.Context(), table.Name, store.Page{From: key, Limit: limit}))
			for _, row := range rows {
				if err := table.Fits(row); err != nil {
					t.Errorf("%s: %v", table.Name, err)
				}
			}
			out[table.Name] = append(out[table.Name], rows...)
			if len(rows) < limit {
				break
			}
			key = rows[len(rows)-1][:table.Key]
		}
	}
	return out
}

func (w *archiveWorld) image(t *testing.T) store.Image {
	t.Helper()
	return must[store.Image](t)(w.archive.Image(t.Context()))
}

func closeImage(t *testing.T, i store.Image) {
	t.Helper()
	if err := i.Close(); err != nil {
		t.Errorf("close image: %v", err)
	}
}

func scanned(t *testing.T, w *archiveWorld) {
	b := w.fill(t)
	img := w.image(t)
	defer closeImage(t, img)
	rows := everyRow(t, img, 100)
	same(t, "runs", rows[store.TableRuns], [][]any{store.RunValues(&b.Runs[0])})
	same(t, "repositories", rows[store.TableRepositories], [][]any{store.RepositoryValues(&b.Repositories[0])})
	same(t, "runners", rows[store.TableRunners], [][]any{store.RunnerValues(&b.Runners[0])})
	same(t, "heads", rows[store.TableStreams],
		[][]any{store.HeadRow(part, b.Heads[0]), store.HeadRow(part, b.Heads[1])})
	p, row := store.LogOf(rows[store.TableLog][1])
	same(t, "a row of the log", row, b.Rows[0])
	same(t, "its partition", p, part)
	same(t, "the mark of a batch", store.BatchOf(rows[store.TableBatches][1]),
		store.BatchMark{Partition: part, Position: 3, Epoch: w.own.Epoch, Digest: b.Digest, At: at})
	same(t, "the partition", store.PartitionOf(rows[store.TablePartitions][0]), w.own)
	for name, want := range map[string]int{store.TableCheckpoints: 1, store.TableKeys: 1, store.TableCounters: 1,
		store.TableCursors: 1, store.TableLog: 3} {
		if len(rows[name]) != want {
			t.Errorf("%s has rows %v", name, rows[name])
		}
	}
	got := must[[]any](t)(img.Get(t.Context(), store.TableCounters, []any{string(tenant), "runs"}))
	same(t, "a counter", got, []any{string(tenant), "runs", int64(4)})
	if _, err := img.Get(t.Context(), store.TableCounters, []any{string(other), "runs"}); !errors.Is(err,
		store.ErrNotFound) {
		t.Errorf("a row that is not there: %v", err)
	}
	h := must[store.History](t)(img.Load(t.Context(), tenant, "run/a", false, 7))
	if len(h.Rows) != 2 || h.Head.Version != 3 {
		t.Errorf("history %+v", h)
	}
}

func paged(t *testing.T, w *archiveWorld) {
	w.fill(t)
	for i := range 5 {
		w.append(t, func(b *store.Batch) {
			add(b, tenant, domain.StreamID(fmt.Sprintf("run/%c", 'Z'-i)), 1, 1, "x")
			add(b, other, domain.StreamID(fmt.Sprintf("run/a%d", i)), 1, 1, "x")
		})
	}
	img := w.image(t)
	defer closeImage(t, img)
	want := everyRow(t, img, 100)
	for _, limit := range []int{1, 2, 3} {
		same(t, fmt.Sprintf("pages of %d", limit), everyRow(t, img, limit), want)
	}
	var back [][]any
	var from []any
	for {
		rows := must[[][]any](t)(img.Scan(t.Context(), store.TableLog, store.Page{From: from, Back: true, Limit: 2}))
		back = append(back, rows...)
		if len(rows) < 2 {
			break
		}
		from = rows[1][:2]
	}
	slices.Reverse(back)
	same(t, "the log from its end", back, want[store.TableLog])
	for _, page := range []store.Page{{}, {Limit: 1, From: []any{"only one"}}} {
		if _, err := img.Scan(t.Context(), store.TableLog, page); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("page %+v: %v", page, err)
		}
	}
	if _, err := img.Scan(t.Context(), "log; DROP TABLE log", store.Page{Limit: 1}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a table of no schema: %v", err)
	}
}

// Promises: [BACKUP-5].
func imageStays(t *testing.T, w *archiveWorld) {
	w.fill(t)
	img := w.image(t)
	defer closeImage(t, img)
	w.append(t, func(b *store.Batch) {
		add(b, tenant, "run/later", 1, 1, "x")
		b.Counters = []store.Counter{{Tenant: tenant, Name: "runs", Value: 9}}
	})
	before := everyRow(t, img, 100)
	if n := len(before[store.TableLog]); n != 3 {
		t.Errorf("the image has %d rows", n)
	}
	later := w.image(t)
	defer closeImage(t, later)
	if n := len(everyRow(t, later, 100)[store.TableLog]); n != 4 {
		t.Errorf("an image that is opened later has %d rows", n)
	}
}

// Promises: [BACKUP-8].
func rewriteWhole(t *testing.T, w *archiveWorld) {
	w.fill(t)
	wrong := errors.New("no")
	change := func(r store.Rewriter, fail error) error {
		row := must[[]any](t)(r.Get(t.Context(), store.TableCounters, []any{string(tenant), "runs"}))
		row[2] = int64(70)
		return errors.Join(
			r.Put(t.Context(), store.TableCounters, [][]any{row, {string(tenant), "new", int64(1)}}),
			r.Delete(t.Context(), store.TableCheckpoints, [][]any{{string(tenant), "run/a"}, {string(tenant), "run/none"}}),
			fail)
	}
	img := w.image(t)
	before := everyRow(t, img, 100)
	closeImage(t, img)
	if err := w.archive.Rewrite(t.Context(), func(r store.Rewriter) error { return change(r, wrong) }); !errors.Is(err,
		wrong) {
		t.Errorf("rewrite: %v", err)
	}
	img = w.image(t)
	same(t, "after a rewrite that failed", everyRow(t, img, 100), before)
	closeImage(t, img)
	if err := w.archive.Rewrite(t.Context(), func(r store.Rewriter) error { return change(r, nil) }); err != nil {
		t.Fatal(err)
	}
	img = w.image(t)
	defer closeImage(t, img)
	before[store.TableCheckpoints] = nil
	before[store.TableCounters] = [][]any{{string(tenant), "new", int64(1)}, {string(tenant), "runs", int64(70)}}
	same(t, "after a rewrite", everyRow(t, img, 100), before)
}

// Promises: [BACKUP-8].
func rewriteAlone(t *testing.T, w *archiveWorld) {
	w.fill(t)
	inside, appended := make(chan struct{}), make(chan error, 1)
	b := batch(w.own, func(b *store.Batch) { add(b, tenant, "run/next", 1, 1, "x") })
	go func() {
		<-inside
		appended <- w.store.Append(t.Context(), b)
	}()
	err := w.archive.Rewrite(t.Context(), func(r store.Rewriter) error {
		close(inside)
		// The append can't get in between: what is read here stays what it is.
		for range 20 {
			rows := must[[][]any](t)(r.Scan(t.Context(), store.TableLog, store.Page{Limit: 10}))
			if len(rows) != 3 {
				t.Errorf("the log has %d rows inside of the rewrite", len(rows))
			}
		}
		select {
		case err := <-appended:
			t.Errorf("an append came to its end inside of a rewrite: %v", err)
		default:
		}
		return r.Put(t.Context(), store.TableCounters, [][]any{{string(tenant), "runs", int64(8)}})
	})
	if err = errors.Join(err, <-appended); err != nil {
		t.Fatal(err)
	}
	if n := must[uint64](t)(w.store.Counter(t.Context(), tenant, "runs")); n != 8 {
		t.Errorf("the counter is %d", n)
	}
}

func misfits(t *testing.T, w *archiveWorld) {
	for _, row := range [][]any{{}, {string(tenant), "n"}, {string(tenant), "n", "1"}, {string(tenant), "n\x00", int64(1)},
		{string(tenant), "\xff", int64(1)}, {nil, "n", int64(1)}, {string(tenant), "n", 1}} {
		err := w.archive.Rewrite(t.Context(), func(r store.Rewriter) error {
			return r.Put(t.Context(), store.TableCounters, [][]any{row})
		})
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("row %v: %v", row, err)
		}
	}
}

// Promises: [BACKUP-6].
func copied(t *testing.T, w *archiveWorld) {
	w.fill(t)
	must[store.Loss](t)(w.archive.RecordLoss(t.Context(),
		store.Loss{Partition: part, Kind: store.LossAccepted, Through: 9, Actor: "me", Note: "n\u00f6te", At: at}))
	img := w.image(t)
	rows := everyRow(t, img, 2)
	closeImage(t, img)
	second := w.open(t)
	defer func() { _ = second.Close() }()
	err := second.Rewrite(t.Context(), func(r store.Rewriter) error {
		for _, table := range store.Schema() {
			if err := r.Put(t.Context(), table.Name, rows[table.Name]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	copy := must[store.Image](t)(second.Image(t.Context()))
	defer closeImage(t, copy)
	if diff := cmp.Diff(rows, everyRow(t, copy, 100)); diff != "" {
		t.Errorf("the copy differs (-want +got):\n%s", diff)
	}
}

// Promises: [BACKUP-3].
func undamaged(t *testing.T, w *archiveWorld) {
	w.fill(t)
	if bytes := must[int64](t)(w.archive.(store.Sizer).Size(t.Context())); bytes < 4096 {
		t.Errorf("the store takes %d bytes", bytes)
	}
	if found := must[[]string](t)(w.archive.Examine(t.Context())); len(found) != 0 {
		t.Errorf("found %s", strings.Join(found, "; "))
	}
}

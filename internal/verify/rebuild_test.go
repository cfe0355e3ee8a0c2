package verify

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/store"
)

func (w *world) rebuild(change func(*RebuildConfig)) *Rebuilt {
	w.T.Helper()
	cfg := RebuildConfig{Archive: w.Store, Kinds: projection.Kinds()}
	if change != nil {
		change(&cfg)
	}
	r, err := Rebuild(w.T.Context(), cfg)
	if err != nil {
		w.T.Fatal(err)
	}
	return r
}

// derived empties every table that is made from events.
func (w *world) emptyDerived() {
	w.T.Helper()
	w.change(func(r store.Rewriter) error {
		for _, table := range store.Schema() {
			if !table.Derived {
				continue
			}
			rows, err := r.Scan(w.T.Context(), table.Name, store.Page{Limit: 10_000})
			if err != nil {
				return err
			}
			for i := range rows {
				rows[i] = rows[i][:table.Key]
			}
			if err := r.Delete(w.T.Context(), table.Name, rows); err != nil {
				return err
			}
		}
		return nil
	})
}

// Promises: [BACKUP-4].
func TestEverythingDerivedIsMadeAnew(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		for range 70 { // more than one page of streams
			w.Whole()
		}
		w.Lease(w.Request(), 1)
		before := w.dump()
		if r := w.rebuild(nil); r.Changed() || r.Damaged() || r.Streams != 73 {
			t.Errorf("a store that is right was changed: %+v", r)
		}
		w.Stop()
		w.emptyDerived()
		if r := w.rebuild(nil); r.Damaged() || r.Heads == 0 || r.Lists[store.TableRuns] != 71 {
			t.Errorf("rebuilt %+v", r)
		}
		expect(t, w.verify(nil))
		if after := w.dump(); after != before {
			t.Errorf("before\n%s\nafter\n%s", before, after)
		}
		// The server goes on from what was made anew.
		w.Begin()
		w.Whole()
		expect(t, w.verify(nil))
	})
}

// dump is every derived row.
func (w *world) dump() (out string) {
	w.T.Helper()
	image, err := w.Store.Image(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	for _, table := range store.Schema() {
		if !table.Derived {
			continue
		}
		rows, scanned := image.Scan(w.T.Context(), table.Name, store.Page{Limit: 10_000})
		err = errors.Join(err, scanned)
		for _, row := range rows {
			out += table.Name + " " + fmt.Sprint(row) + "\n"
		}
	}
	if err := errors.Join(err, image.Close()); err != nil {
		w.T.Fatal(err)
	}
	return out
}

// Promises: [BACKUP-4].
func TestDamagedHistoryChangesNothingOfItsStream(t *testing.T) {
	onSQLite(t, func(t *testing.T, w *world) {
		for range 3 {
			w.Whole()
		}
		w.edit(store.TableLog, []any{string(home), w.positionOf(w.Runs[1].Stream(), 2)}, "events", []byte("garbage"))
		w.edit(store.TableRuns, []any{string(tenant), string(w.Runs[0])}, "outcome", "failure")
		row := w.dump()
		r := w.rebuild(nil)
		if len(r.Findings) != 1 || r.Findings[0].Stream != w.Runs[1].Stream() || r.Lists[store.TableRuns] != 1 {
			t.Errorf("rebuilt %+v", r)
		}
		if w.dump() == row {
			t.Error("the list row that lied is as it was")
		}
		expect(t, w.verify(nil), BatchWrong, StreamUnreadable)
	})
}

func TestOneStreamIsMadeAnewAlone(t *testing.T) {
	onSQLite(t, func(t *testing.T, w *world) {
		for range 2 {
			w.Whole()
			w.edit(store.TableRuns, []any{string(tenant), string(w.Runs[len(w.Runs)-1])}, "outcome", "failure")
		}
		if r := w.rebuild(func(c *RebuildConfig) { c.Stream = w.Runs[1].Stream() }); r.Streams != 1 ||
			r.Lists[store.TableRuns] != 1 {
			t.Errorf("rebuilt %+v", r)
		}
		expect(t, w.verify(nil), ListRowWrong)
		if _, err := Rebuild(t.Context(), RebuildConfig{Archive: w.Store, Stream: "run/none"}); !errors.Is(err,
			store.ErrNotFound) {
			t.Errorf("a stream of nothing: %v", err)
		}
	})
}

// A server that appends meanwhile loses nothing and is not stopped.
func TestMakingAnewBesideAServer(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		for range 70 {
			w.Whole()
		}
		w.edit(store.TableRuns, []any{string(tenant), string(w.Runs[3])}, "outcome", "failure")
		r := w.rebuild(func(c *RebuildConfig) { c.Progress = func(string, int64, int64) { w.Whole() } })
		if r.Lists[store.TableRuns] != 1 || r.Heads != 0 || r.Orphans != 0 {
			t.Errorf("rebuilt %+v", r)
		}
		expect(t, w.verify(nil))
	})
}

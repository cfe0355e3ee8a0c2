package verify

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/testkit/yard"
)

const (
	home   = yard.Home
	tenant = yard.Tenant
	rep    = yard.Repo
)

// world is a yard that is examined.
type world struct{ *yard.World }

func onBoth(t *testing.T, test func(t *testing.T, w *world)) {
	yard.OnBoth(t, func(t *testing.T, w *yard.World) { test(t, &world{w}) })
}

func onSQLite(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	yard.OnSQLite(t, func(t *testing.T, w *yard.World) { test(t, &world{w}) })
}

func onPostgres(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	yard.OnPostgres(t, func(t *testing.T, w *yard.World) { test(t, &world{w}) })
}

// verify examines everything.
func (w *world) verify(change func(*Config)) *Report {
	w.T.Helper()
	cfg := Config{Archive: w.Store, Kinds: projection.Kinds(), Blobs: w.Blobs}
	if change != nil {
		change(&cfg)
	}
	report, err := Run(w.T.Context(), cfg)
	if err != nil {
		w.T.Fatal(err)
	}
	return report
}

// expect compares the codes of a report's findings.
func expect(t *testing.T, r *Report, codes ...Code) {
	t.Helper()
	var got []Code
	for _, f := range r.Findings {
		got = append(got, f.Code)
	}
	want := fmt.Sprint(codes)
	if len(codes) == 0 {
		want = "[]"
	}
	if fmt.Sprint(got) != want {
		var text bytes.Buffer
		for _, f := range r.Findings {
			fmt.Fprintf(&text, "\n%s %s: %s", f.Code, f.Place(), f.Text)
		}
		t.Errorf("found %v, want %v:%s", got, codes, text.Bytes())
	}
}

// change edits tables below everything that keeps them in order.
func (w *world) change(work func(r store.Rewriter) error) {
	w.T.Helper()
	if err := w.Store.Rewrite(w.T.Context(), work); err != nil {
		w.T.Fatal(err)
	}
}

// edit changes one column of a row.
func (w *world) edit(table string, key []any, column string, value any) {
	w.T.Helper()
	t, _ := store.TableNamed(table)
	w.change(func(r store.Rewriter) error {
		row, err := r.Get(w.T.Context(), table, key)
		if err != nil {
			return err
		}
		for i, c := range t.Columns {
			if c.Name == column {
				row[i] = value
			}
		}
		return r.Put(w.T.Context(), table, [][]any{row})
	})
}

// positionOf finds where the log has a stream's version.
func (w *world) positionOf(id domain.StreamID, version uint64) int64 {
	w.T.Helper()
	rows, err := w.Store.Read(w.T.Context(), home, 0, 10_000)
	if err != nil {
		w.T.Fatal(err)
	}
	for _, r := range rows {
		if r.Stream == id && version > r.Version-uint64(r.Count) && version <= r.Version {
			return int64(r.Position)
		}
	}
	w.T.Fatalf("%s has no version %d", id, version)
	return 0
}

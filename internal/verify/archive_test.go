package verify

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Promises: [ARCHIVE-4].
func TestAnArchivedStoreHasNothingToTell(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		for range 4 {
			w.Whole()
		}
		before := w.verify(nil)
		if len(w.Archive()) == 0 {
			t.Fatal("nothing was archived")
		}
		w.Whole()
		w.Lease(w.Request(), 2)
		w.Archive()
		r := w.verify(nil)
		expect(t, r)
		if r.Streams != before.Streams+2 || r.Rows <= before.Rows || r.Logs != 5 || len(r.NotExamined) > 0 {
			t.Errorf("report %+v, before %+v", r, before)
		}
		for seed := range uint64(5) {
			expect(t, w.verify(func(c *Config) { c.Percent, c.Seed = 40, seed }))
		}
		r = w.verify(func(c *Config) { c.Blobs = nil })
		expect(t, r)
		if !strings.Contains(strings.Join(r.NotExamined, "\n"), "archived history") {
			t.Errorf("without objects: %v", r.NotExamined)
		}
		out, err := Rebuild(t.Context(), RebuildConfig{Archive: w.Store, Kinds: projection.Kinds(), Blobs: w.Blobs})
		if err != nil || out.Changed() || out.Damaged() {
			t.Errorf("rebuilt %+v, %v", out, err)
		}
	})
}

// Promises: [ARCHIVE-3], [ARCHIVE-4].
func TestDamageOfTheArchiveIsTold(t *testing.T) {
	type damage struct {
		do    func(w *world, r *store.ArchivedRange)
		codes []Code
	}
	path := func(w *world, key string) string {
		parts := strings.Split(key, "/")
		for i := range len(parts) - 1 {
			parts[i] += "+"
		}
		return filepath.Join(append([]string{w.Objects, "objects"}, parts...)...)
	}
	for name, d := range map[string]damage{
		"missing rows": {func(w *world, r *store.ArchivedRange) { remove(w.T, path(w, r.Objects[0].Object)) },
			[]Code{ArchiveMissing}},
		"missing marks": {func(w *world, r *store.ArchivedRange) { remove(w.T, path(w, r.Marks.Object)) },
			[]Code{ArchiveMissing}},
		"damaged rows": {func(w *world, r *store.ArchivedRange) { flip(w.T, path(w, r.Objects[0].Object), 400) },
			[]Code{ArchiveDamaged}},
		"another digest": {func(w *world, r *store.ArchivedRange) {
			w.edit(store.TableArchives, []any{string(r.Partition), int64(r.To)}, "digest", "sha256:00")
		}, []Code{ArchiveDamaged, BatchWrong}},
		"another beginning": {func(w *world, r *store.ArchivedRange) {
			w.edit(store.TableArchives, []any{string(r.Partition), int64(r.To)}, "before", "sha256:00")
		}, []Code{ArchiveGap, ArchiveDamaged}},
	} {
		t.Run(name, func(t *testing.T) {
			onSQLite(t, func(t *testing.T, w *world) {
				for range 3 {
					w.Whole()
				}
				var range0 store.ArchivedRange
				for _, r := range w.Archive() {
					if r.Partition == home {
						range0 = r
					}
				}
				w.Whole()
				d.do(w, &range0)
				r := w.verify(nil)
				expect(t, r, d.codes...)
				for _, f := range r.Findings {
					if f.Place() == "" || f.Text == "" || f.Fix == "" {
						t.Errorf("finding without place, words or a way out: %+v", f)
					}
				}
				if name != "missing rows" && name != "damaged rows" {
					return
				}
				_, err := w.Engine.Read(t.Context(), tenant, w.Runs[0].Stream(), true)
				told, ok := domain.AsRejection(err)
				if !ok || told.Code != domain.CodeStreamQuarantined || !strings.Contains(told.Message, range0.Objects[0].Object) {
					t.Errorf("the archived run: %v", err)
				}
				if _, err := w.Engine.Read(t.Context(), tenant, w.Runs[3].Stream(), true); err != nil {
					t.Errorf("the run beside it: %v", err)
				}
				_, err = w.Engine.Read(t.Context(), tenant, "run/none", true)
				if told, _ := domain.AsRejection(err); told == nil || told.Code != domain.CodeNotFound ||
					errors.Is(err, store.ErrBroken) {
					t.Errorf("no run at all: %v", err)
				}
			})
		})
	}
}

// A server starts with its archive out of reach: owners need none of it.
// Promises: [ARCHIVE-2].
func TestAServerStartsWithoutItsArchive(t *testing.T) {
	onSQLite(t, func(t *testing.T, w *world) {
		w.Whole()
		w.Lease(w.Request(), 1)
		ranges := w.Archive()
		w.Stop()
		for i := range ranges {
			for _, o := range append(ranges[i].Objects, ranges[i].Marks) {
				if err := w.Blobs.Delete(t.Context(), o.Object); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.Begin()
		for _, p := range w.Engine.Status() {
			if p.Stopped != nil || len(p.Problems) > 0 {
				t.Errorf("partition %s: %v, %v", p.Partition, p.Stopped, p.Problems)
			}
		}
		w.Whole()
	})
}

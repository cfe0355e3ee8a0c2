package verify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/logs"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Promises: [BACKUP-3].
func TestAWholeStoreHasNothingToTell(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		for range 5 {
			w.Whole()
		}
		w.Lease(w.Request(), 2)
		r := w.verify(nil)
		expect(t, r)
		if r.Rows == 0 || r.Streams != 8 || r.Logs != 5 || r.Objects < 20 || r.Events < r.Rows || r.Keys != 6 ||
			len(r.NotExamined) > 0 {
			t.Errorf("report %+v", r)
		}
		var rows int64
		for _, p := range r.Partitions {
			rows += int64(p.Position)
		}
		if rows != r.Rows {
			t.Errorf("%d rows of %d", r.Rows, rows)
		}
	})
}

// Damage of every kind, one at a time: it is told with its place, and nothing else is.
//
// tidy:long a table of damage
// Promises: [HIST-5], [BACKUP-1].
func TestEveryDamageIsToldWithItsPlace(t *testing.T) {
	type damage struct {
		do    func(w *world)
		codes []Code
	}
	streamOf := func(w *world, i int) domain.StreamID { return w.Runs[i].Stream() }
	key := func(w *world, i int) []any { return []any{string(tenant), string(streamOf(w, i))} }
	runKey := func(w *world, i int) []any { return []any{string(tenant), string(w.Runs[i])} }
	object := func(w *world, part string) string {
		found, err := filepath.Glob(filepath.Join(w.Objects, "objects", part))
		if err != nil || len(found) == 0 {
			w.T.Fatalf("no object at %s (%v)", part, err)
		}
		return found[0]
	}
	for name, d := range map[string]damage{
		"another payload": {func(w *world) {
			at := w.positionOf(streamOf(w, 1), 1)
			_, row := w.rowAt(at)
			changed := strings.Replace(string(row.Events), "change 2", "change 9", 1)
			w.edit(store.TableLog, []any{string(home), at}, "events", []byte(changed))
		}, []Code{BatchWrong, ListRowWrong}},
		"garbage for a payload": {func(w *world) {
			w.edit(store.TableLog, []any{string(home), w.positionOf(streamOf(w, 1), 2)}, "events", []byte("\x00garbage"))
		}, []Code{BatchWrong, StreamUnreadable}},
		"a lost row": {func(w *world) {
			w.change(func(r store.Rewriter) error {
				return r.Delete(w.T.Context(), store.TableLog, [][]any{{string(home), w.positionOf(streamOf(w, 2), 2)}})
			})
		}, []Code{PositionGap, StreamUnreadable}},
		"another digest of a batch": {func(w *world) {
			w.edit(store.TableBatches, []any{string(home), w.positionOf(streamOf(w, 1), 1)}, "digest", "sha256:00")
		}, []Code{BatchWrong, BatchWrong}},
		"a partition that claims more": {func(w *world) {
			w.edit(store.TablePartitions, []any{string(home)}, "digest", "sha256:00")
		}, []Code{TailWrong}},
		"a head that lies": {func(w *world) { w.edit(store.TableStreams, key(w, 0), "live", true) }, []Code{HeadWrong}},
		"a head behind its history": {func(w *world) {
			w.edit(store.TableStreams, key(w, 0), "version", int64(2))
		}, []Code{HeadWrong}},
		"a head before its history": {func(w *world) {
			w.edit(store.TableStreams, key(w, 0), "version", int64(200))
		}, []Code{StreamUnreadable}},
		"a lost head": {func(w *world) {
			w.change(func(r store.Rewriter) error { return r.Delete(w.T.Context(), store.TableStreams, [][]any{key(w, 1)}) })
		}, []Code{HeadMissing, ListRowOrphaned, KeyOrphaned}},
		"a saved state of something else": {func(w *world) {
			w.change(func(r store.Rewriter) error {
				row := append(key(w, 0), int64(2), int64(run.StateEncoding), []byte(`{}`))
				return r.Put(w.T.Context(), store.TableCheckpoints, [][]any{row})
			})
		}, []Code{CheckpointWrong}},
		"a saved state of no version": {func(w *world) {
			w.change(func(r store.Rewriter) error {
				row := append(key(w, 0), int64(999), int64(run.StateEncoding), []byte(`{}`))
				return r.Put(w.T.Context(), store.TableCheckpoints, [][]any{row})
			})
		}, []Code{CheckpointWrong}},
		"a list row that lies": {func(w *world) {
			w.edit(store.TableRuns, runKey(w, 1), "outcome", "failure")
		}, []Code{ListRowWrong}},
		"a lost list row": {func(w *world) {
			w.change(func(r store.Rewriter) error { return r.Delete(w.T.Context(), store.TableRuns, [][]any{runKey(w, 1)}) })
		}, []Code{ListRowWrong}},
		"a list row of nothing": {func(w *world) {
			w.change(func(r store.Rewriter) error {
				row, err := r.Get(w.T.Context(), store.TableRuns, runKey(w, 1))
				if err != nil {
					return err
				}
				row[1] = "run_none"
				return r.Put(w.T.Context(), store.TableRuns, [][]any{row})
			})
		}, []Code{ListRowOrphaned}},
		"a counter that fell back": {func(w *world) {
			w.edit(store.TableCounters, []any{string(tenant), "runs/" + string(rep) + "/ci.yml"}, "value", int64(1))
		}, []Code{CounterLow}},
		"a key of nothing": {func(w *world) {
			w.edit(store.TableKeys, []any{string(tenant), "client/ann/run", string(w.Runs[0])}, "stream", "run/run_none")
		}, []Code{KeyOrphaned}},
		"two cursors beyond the end": {func(w *world) {
			w.change(func(r store.Rewriter) error {
				return r.Put(w.T.Context(), store.TableCursors,
					[][]any{{string(home), "sealer", int64(10_000)}, {string(home), "gone", int64(10_000)}})
			})
		}, []Code{CursorAhead, CursorAhead}},
		"a lost plan": {func(w *world) {
			remove(w.T, w.pathOf("plan 2"))
		}, []Code{ObjectMissing}},
		"a plan with other bytes": {func(w *world) {
			write(w.T, w.pathOf("plan 2"), "plan 3")
		}, []Code{ObjectDamaged}},
		"a truncated object that a snapshot names": {func(w *world) {
			truncate(w.T, w.pathOf("on: push # 2"), 3)
		}, []Code{ObjectDamaged}},
		"a lost log": {func(w *world) {
			remove(w.T, object(w, string(tenant)+"+/sealed-logs+/*/*/*/*"))
		}, []Code{ObjectMissing}},
		"a log with a flipped byte": {func(w *world) {
			flip(w.T, object(w, string(tenant)+"+/sealed-logs+/*/*/*/*"), 40)
		}, []Code{LogDamaged}},
		"a truncated log": {func(w *world) { truncate(w.T, object(w, string(tenant)+"+/sealed-logs+/*/*/*/*"), 50) },
			[]Code{LogDamaged}},
		"a lost segment": {func(w *world) {
			w.Report(w.Lease(w.Request(), 3), 3)
			remove(w.T, object(w, "segments+/"+string(tenant)+"+/*"))
		}, []Code{LogIncomplete}},
		"a segment with a flipped byte": {func(w *world) {
			w.Lease(w.Request(), 3)
			flip(w.T, object(w, "segments+/"+string(tenant)+"+/*"), 20)
		}, []Code{SegmentDamaged}},
	} {
		t.Run(name, func(t *testing.T) {
			onSQLite(t, func(t *testing.T, w *world) {
				for range 3 {
					w.Whole()
				}
				expect(t, w.verify(nil))
				d.do(w)
				r := w.verify(nil)
				expect(t, r, d.codes...)
				for _, f := range r.Findings {
					if f.Place() == "" && f.Table == "" || f.Text == "" || f.Fix == "" {
						t.Errorf("finding without place, words or a way out: %+v", f)
					}
				}
			})
		})
	}
}

// Damage in the database is found on PostgreSQL by the same examination.
// Promises: [BACKUP-1].
func TestDamageIsFoundOnPostgreSQLToo(t *testing.T) {
	onPostgres(t, func(t *testing.T, w *world) {
		for range 3 {
			w.Whole()
		}
		at := w.positionOf(w.Runs[1].Stream(), 2)
		w.edit(store.TableLog, []any{string(home), at}, "events", []byte("garbage"))
		w.edit(store.TableRuns, []any{string(tenant), string(w.Runs[0])}, "outcome", "failure")
		r := w.verify(nil)
		expect(t, r, BatchWrong, ListRowWrong, StreamUnreadable)
		if f := r.Findings[0]; f.Position != store.Position(at) || f.Partition != home || f.Stream != w.Runs[1].Stream() {
			t.Errorf("the place %+v", f)
		}
	})
}

func TestOneStreamAlone(t *testing.T) {
	onSQLite(t, func(t *testing.T, w *world) {
		for range 3 {
			w.Whole()
		}
		w.edit(store.TableRuns, []any{string(tenant), string(w.Runs[0])}, "outcome", "failure")
		r := w.verify(func(c *Config) { c.Stream = w.Runs[1].Stream() })
		expect(t, r)
		if r.Streams != 1 || len(r.NotExamined) == 0 {
			t.Errorf("report %+v", r)
		}
		expect(t, w.verify(func(c *Config) { c.Stream = w.Runs[0].Stream() }), ListRowWrong)
		if _, err := Run(t.Context(), Config{Archive: w.Store, Stream: "run/none"}); err == nil {
			t.Error("a stream that is not there was examined")
		}
	})
}

// Samples together see everything: what one seed leaves out, another takes.
func TestSamplesTogetherSeeEverything(t *testing.T) {
	onSQLite(t, func(t *testing.T, w *world) {
		for range 12 {
			w.Whole()
		}
		w.edit(store.TableRuns, []any{string(tenant), string(w.Runs[5])}, "outcome", "failure")
		seen, streams := 0, int64(0)
		for seed := range uint64(10) {
			r := w.verify(func(c *Config) { c.Percent, c.Seed = 10, seed*10 })
			streams += r.Streams
			if r.Streams > 10 || len(r.NotExamined) == 0 || r.Sampled != 10 {
				t.Errorf("a sample of 10 %% has %+v", r)
			}
			if r.Damaged() {
				expect(t, r, ListRowWrong)
				seen++
			}
		}
		if seen != 1 || streams != 14 {
			t.Errorf("ten samples saw %d streams, and the damage %d times", streams, seen)
		}
	})
}

// A window of a sample examines every batch that ends in it, also the first.
func TestAWindowTakesItsFirstBatch(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		for range 3 {
			w.Whole()
		}
		w.edit(store.TableBatches, []any{string(home), w.positionOf(w.Runs[1].Stream(), 1)}, "digest", "sha256:00")
		wrong := store.Position(w.positionOf(w.Runs[1].Stream(), 1))
		c := &check{Config: Config{Progress: func(string, int64, int64) {}}, report: &Report{}, told: map[string]bool{}}
		var err error
		if c.image, err = w.Store.Image(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.image.Close() }()
		own := store.Ownership{Partition: home, Epoch: 1 << 30, Position: wrong + 1}
		if err := (&chain{check: c, own: own, done: new(int64)}).window(t.Context(), wrong-1, wrong); err != nil {
			t.Fatal(err)
		}
		expect(t, c.report, BatchWrong)
	})
}

// The examination sees one moment: what is appended meanwhile neither confuses it nor waits.
// Promises: [BACKUP-3].
func TestAppendsGoOnMeanwhile(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		for range 3 {
			w.Whole()
		}
		meanwhile := 0
		r := w.verify(func(c *Config) {
			c.Progress = func(string, int64, int64) {
				if meanwhile < 4 {
					meanwhile++
					w.Whole()
				}
			}
		})
		expect(t, r)
		if meanwhile == 0 {
			t.Error("nothing happened meanwhile")
		}
	})
}

func TestRangesOfMissingChunks(t *testing.T) {
	held := func(sequences ...uint64) (out []logs.ChunkFound) {
		for _, s := range sequences {
			out = append(out, logs.ChunkFound{Sequence: s})
		}
		return out
	}
	for _, c := range []struct {
		end  uint64
		held []logs.ChunkFound
		want string
	}{
		{0, nil, ""}, {3, held(1, 2, 3), ""}, {3, held(3, 2, 1, 1), ""}, {3, nil, " 1-3"}, {3, held(2), " 1-1 3-3"},
		{3, held(1, 2, 3, 9), ""}, {3, held(9), " 1-3"}, {12, held(2, 4, 6, 8, 10), " 1-1 3-3 5-5 7-7 …"},
		{5, []logs.ChunkFound{{Sequence: 4, Gap: true}, {Sequence: 5}}, ""},
	} {
		if got := missingOf(c.end, c.held); got != c.want {
			t.Errorf("of %d with %v missing is %q, want %q", c.end, c.held, got, c.want)
		}
	}
}

// pathOf is the file of an object with that content.
func (w *world) pathOf(content string) string {
	hex := domain.DigestOf([]byte(content)).Hex()
	return filepath.Join(w.Objects, "objects", string(tenant)+"+", "objects+", hex[:2]+"+", hex)
}

func (w *world) rowAt(at int64) (domain.PartitionID, store.Row) {
	w.T.Helper()
	rows, err := w.Store.Read(w.T.Context(), home, store.Position(at-1), 1)
	if err != nil || len(rows) == 0 {
		w.T.Fatalf("no row at %d (%v)", at, err)
	}
	return home, rows[0]
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

// flip turns one bit of a file.
func flip(t *testing.T, path string, offset int64) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[offset] ^= 0x10
	write(t, path, string(content))
}

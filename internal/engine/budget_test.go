package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/sqlite"
)

// budget is what a job of a run of ten may cost in the engine and its store. Nothing is timed:
// the figures are counts, and the same on every machine up to a few per cent. They have a fifth
// of room above what was counted when they were set. Who needs more says why in the commit.
var budget = struct {
	events, rows, allocations, bytes, eventBytes, stored float64
}{
	events:      6.5,    // that are committed
	rows:        4.5,    // of the log
	allocations: 640,    // in the engine and SQLite's driver
	bytes:       56_000, // allocated
	eventBytes:  500,    // of encoded events
	stored:      1_500,  // in the database file, its schema included
}

// sizing counts what is handed to the store.
type sizing struct {
	store.Store
	mu               sync.Mutex
	rows, eventBytes int
}

// Append implements store.Store.
func (s *sizing) Append(ctx context.Context, b store.Batch) error {
	s.mu.Lock()
	s.rows += len(b.Rows)
	for i := range b.Rows {
		s.eventBytes += len(b.Rows[i].Events)
	}
	s.mu.Unlock()
	return s.Store.Append(ctx, b)
}

// A job costs what it costs: more events, rows, bytes or allocations for it are found here, not
// in production.
func TestAJobStaysWithinItsBudget(t *testing.T) {
	const warm, side = 20, 16
	runs, extra := 200, 1.0
	if testing.Short() { // under the race detector, which allocates too
		runs, extra = 60, 1.4
	}
	folder := t.TempDir()
	st, err := sqlite.Open(t.Context(), folder, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sized, events := &sizing{Store: st}, &eventCounter{}
	e := engine.New(engine.Config{Store: sized, Kinds: projection.Kinds(), Format: codec.Format,
		Partitions: []domain.PartitionID{"main-0"},
		Owner:      "budget", Fatal: func(err error) { t.Error(err) }})
	e.Observe(events)
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	drive := func(first, last int) {
		next := make(chan int64, last-first)
		for n := first; n < last; n++ {
			next <- int64(n)
		}
		close(next)
		var all sync.WaitGroup
		for range side {
			all.Go(func() {
				s := &submitter{engine: e, partition: "main-0"}
				for n := range next {
					if err := s.drive(t.Context(), n); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	}
	drive(1, 1+warm)
	beginEvents := events.events.Load()
	sized.mu.Lock()
	beginRows, beginBytes := sized.rows, sized.eventBytes
	sized.mu.Unlock()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	drive(1+warm, 1+warm+runs)
	runtime.ReadMemStats(&after)
	e.Close()
	if err := st.Close(); err != nil { // what is committed moves to its place
		t.Fatal(err)
	}
	jobs := float64(runs * benchJobs)
	for _, c := range []struct {
		what      string
		got, most float64
	}{
		{"events", float64(events.events.Load()-beginEvents) / jobs, budget.events},
		{"rows of the log", float64(sized.rows-beginRows) / jobs, budget.rows},
		{"allocations", float64(after.Mallocs-before.Mallocs) / jobs, extra * budget.allocations},
		{"bytes allocated", float64(after.TotalAlloc-before.TotalAlloc) / jobs, extra * budget.bytes},
		{"bytes of events", float64(sized.eventBytes-beginBytes) / jobs, budget.eventBytes},
		{"bytes stored", float64(folderBytes(t, folder)) / float64((warm+runs)*benchJobs), extra * budget.stored},
	} {
		t.Logf("%-16s %8.1f of %8.1f", c.what, c.got, c.most)
		if c.got > c.most {
			t.Errorf("%s for a job: %.1f, and the budget is %.1f", c.what, c.got, c.most)
		}
		if c.got < c.most/2 {
			t.Errorf("%s for a job: %.1f, half the budget of %.1f: lower the budget", c.what, c.got, c.most)
		}
	}
}

func folderBytes(t *testing.T, folder string) (sum int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	return sum
}

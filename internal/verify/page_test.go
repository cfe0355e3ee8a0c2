package verify

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/sqlite"
	"github.com/fairlead-ci/fairlead/internal/testkit/yard"
)

// A page of the database file with the events of one run is overwritten. The run is told
// and quarantined; all others are whole, and the server starts and goes on.
// Promises: [BACKUP-2].
func TestADamagedPageCostsTheStreamsOnIt(t *testing.T) {
	onSQLite(t, func(t *testing.T, w *world) {
		for range 40 {
			w.Whole()
		}
		victim := w.Request()
		w.Report(w.Lease(victim, 0), 0)
		for range 40 {
			w.Whole()
		}
		w.Stop()
		if err := w.Store.Close(); err != nil {
			t.Fatal(err)
		}
		w.overwritePageWith("\x29change 41") // as events have it: a packed string of nine bytes
		beside, err := sqlite.OpenBeside(t.Context(), w.Folder)
		if err != nil {
			t.Fatal(err)
		}
		report, err := Run(t.Context(), Config{Archive: beside, Kinds: projection.Kinds(), Blobs: w.Blobs})
		if err != nil {
			t.Fatal(err)
		}
		streams := map[string]bool{}
		for _, f := range report.Findings {
			if f.Code == StreamUnreadable {
				streams[string(f.Stream)] = true
			}
		}
		if !report.Has(StorageDamaged) || !report.Has(RowUnreadable) || !streams[string(victim.Stream())] ||
			len(streams) > 8 {
			t.Errorf("found %+v", report.Findings)
		}
		if report.Streams != 83 {
			t.Errorf("%d of 83 streams were examined", report.Streams)
		}
		if err := beside.Close(); err != nil {
			t.Fatal(err)
		}
		told := 0
		reopened, err := sqlite.Open(t.Context(), w.Folder, sqlite.Options{Damaged: func(string) { told++ }})
		if err != nil {
			t.Fatal(err)
		}
		w.Store = reopened.(yard.Database)
		w.Begin()
		w.Whole()
		if told == 0 {
			t.Error("the server was told of nothing")
		}
	})
}

// overwritePageWith destroys the header of the page that holds a text.
func (w *world) overwritePageWith(text string) {
	w.T.Helper()
	path := filepath.Join(w.Folder, sqlite.File)
	content, err := os.ReadFile(path)
	if err != nil {
		w.T.Fatal(err)
	}
	at := bytes.Index(content, []byte(text))
	if at < 0 {
		w.T.Fatalf("no page holds %s", text)
	}
	copy(content[at/4096*4096:], strings.Repeat("\xff", 8))
	write(w.T, path, string(content))
}

// A live stream that can't be read is quarantined and shown; the partition starts, and its
// other streams go on.
// Promises: [HIST-9], [BACKUP-2].
func TestAPartitionStartsAroundADamagedStream(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		sick, well := w.Request(), w.Request()
		at := w.positionOf(sick.Stream(), 1)
		w.Whole()
		w.Stop()
		w.edit(store.TableLog, []any{string(home), at}, "events", []byte("garbage"))
		w.Begin()
		_, err := w.Engine.Submit(t.Context(), engine.Envelope{Tenant: tenant, Partition: home, Stream: sick.Stream(),
			Cause: w.Cause(), Command: run.RequestCancel{Cause: w.Cause()}})
		if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeStreamQuarantined {
			t.Errorf("a command to the damaged stream: %v", err)
		}
		_, err = w.Engine.Read(t.Context(), tenant, sick.Stream(), true)
		if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeStreamQuarantined {
			t.Errorf("reading the damaged stream: %v", err)
		}
		w.Report(w.Lease(well, 1), 1)
		status := w.status()
		if len(status.Problems) != 1 || !strings.Contains(status.Problems[0], string(sick)) || status.Stopped != nil {
			t.Errorf("status %+v", status)
		}
	})
}

func (w *world) status() engine.PartitionStatus {
	w.T.Helper()
	for _, s := range w.Engine.Status() {
		if s.Partition == home {
			return s
		}
	}
	w.T.Fatal("the partition is not there")
	return engine.PartitionStatus{}
}

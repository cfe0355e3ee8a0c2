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
)

// A page of the database file with the events of one run is overwritten. The run is told
// and quarantined; all others are whole, and the server starts and goes on.
func TestADamagedPageCostsTheStreamsOnIt(t *testing.T) {
	onSQLite(t, func(t *testing.T, w *world) {
		for range 40 {
			w.whole()
		}
		victim := w.request()
		w.report(w.lease(victim, 0), 0)
		for range 40 {
			w.whole()
		}
		w.stop()
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		w.overwritePageWith(`"title":"change 41"`)
		beside, err := sqlite.OpenBeside(t.Context(), w.folder)
		if err != nil {
			t.Fatal(err)
		}
		report, err := Run(t.Context(), Config{Archive: beside, Kinds: projection.Kinds(), Blobs: w.blobs})
		if err != nil {
			t.Fatal(err)
		}
		streams := map[string]bool{}
		for _, f := range report.Findings {
			if f.Code == StreamUnreadable {
				streams[string(f.Stream)] = true
			}
		}
		if !report.Has(StorageDamaged) || !report.Has(RowUnreadable) || !streams[string(victim.Stream())] || len(streams) > 4 {
			t.Errorf("found %+v", report.Findings)
		}
		if report.Streams != 83 {
			t.Errorf("%d of 83 streams were examined", report.Streams)
		}
		if err := beside.Close(); err != nil {
			t.Fatal(err)
		}
		told := 0
		reopened, err := sqlite.Open(t.Context(), w.folder, sqlite.Options{Damaged: func(string) { told++ }})
		if err != nil {
			t.Fatal(err)
		}
		w.store = reopened.(database)
		w.begin()
		w.whole()
		if told == 0 {
			t.Error("the server was told of nothing")
		}
	})
}

// overwritePageWith destroys the header of the page that holds a text.
func (w *world) overwritePageWith(text string) {
	w.t.Helper()
	path := filepath.Join(w.folder, sqlite.File)
	content, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	at := bytes.Index(content, []byte(text))
	if at < 0 {
		w.t.Fatalf("no page holds %s", text)
	}
	copy(content[at/4096*4096:], strings.Repeat("\xff", 8))
	write(w.t, path, string(content))
}

// A live stream that can't be read is quarantined and shown; the partition starts, and its
// other streams go on.
func TestAPartitionStartsAroundADamagedStream(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		sick, well := w.request(), w.request()
		at := w.positionOf(sick.Stream(), 1)
		w.whole()
		w.stop()
		w.edit(store.TableLog, []any{string(home), at}, "events", []byte("garbage"))
		w.begin()
		_, err := w.engine.Submit(t.Context(), engine.Envelope{Tenant: tenant, Partition: home, Stream: sick.Stream(),
			Cause: w.cause(), Command: run.RequestCancel{Cause: w.cause()}})
		if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeStreamQuarantined {
			t.Errorf("a command to the damaged stream: %v", err)
		}
		_, err = w.engine.Read(t.Context(), tenant, sick.Stream(), true)
		if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeStreamQuarantined {
			t.Errorf("reading the damaged stream: %v", err)
		}
		w.report(w.lease(well, 1), 1)
		status := w.status()
		if len(status.Problems) != 1 || !strings.Contains(status.Problems[0], string(sick)) || status.Stopped != nil {
			t.Errorf("status %+v", status)
		}
	})
}

func (w *world) status() engine.PartitionStatus {
	w.t.Helper()
	for _, s := range w.engine.Status() {
		if s.Partition == home {
			return s
		}
	}
	w.t.Fatal("the partition is not there")
	return engine.PartitionStatus{}
}

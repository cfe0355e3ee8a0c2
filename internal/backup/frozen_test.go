package backup

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/logs"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/testkit/pg"
	"github.com/fairlead-ci/fairlead/internal/testkit/yard"
)

var rewrite = flag.Bool("rewrite", false, "write golden files that don't exist yet")

// frozenForm is the backup that the first frozen release made: two runs that ended, with their
// logs; one that is under way; a mirror with a commit; keys.
const (
	frozenForm    = "testdata/frozen/1"
	frozenAttempt = "att_01000000000000000000000003_0_1" // under way, with three chunks
)

// makeFrozen writes it. Its bytes are of their moment and of a compressor, so only reading it is
// fixed.
func makeFrozen(t *testing.T) {
	yard.OnSQLite(t, func(t *testing.T, w *yard.World) {
		k := newKeep(t, w)
		k.Whole()
		k.Whole()
		k.Lease(k.Request(), 3)
		k.push()
		made, _ := k.backup(func(o *Options) { o.WithSecrets, o.Version = true, "frozen" })
		if err := os.CopyFS(frozenForm, os.DirFS(made)); err != nil {
			t.Fatal(err)
		}
	})
}

// A backup outlives the release that made it: whatever comes, this one is examined and restored on
// either database, with every run, log, commit and key in it.
// Promises: [FORMAT-16].
func TestTheFrozenBackupIsRestored(t *testing.T) {
	if _, err := os.Stat(frozenForm); os.IsNotExist(err) && *rewrite {
		makeFrozen(t)
	}
	t.Run("SQLite", func(t *testing.T) { restoresFrozen(t, "") })
	t.Run("PostgreSQL", func(t *testing.T) { restoresFrozen(t, pg.Start(t)) })
}

func restoresFrozen(t *testing.T, url string) {
	m, err := Check(t.Context(), frozenForm, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.Format != 1 || m.Version != "frozen" || m.Counts.Mirrors != 1 || m.Counts.Secrets != 2 || len(m.Partitions) != 2 {
		t.Errorf("it is described as %+v", m)
	}
	r, err := restore(t, frozenForm, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.out.Report.Damaged() {
		t.Errorf("found %+v", r.out.Report.Findings)
	}
	raised(t, r, m)
	if text, err := os.ReadFile(filepath.Join(r.folder, "keys", "manifest-1.key")); err != nil || string(text) != "sign" {
		t.Errorf("the key is %q, %v", text, err)
	}
	if pins, err := r.mirrors.Pins(t.Context(), repo); err != nil || len(pins) != 1 {
		t.Errorf("pins %v, %v", pins, err)
	}
	runs, err := r.store.Runs(t.Context(), store.RunQuery{Tenant: yard.Tenant, Limit: 10})
	if err != nil || len(runs) != 3 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	ended := 0
	for _, one := range runs {
		if one.Outcome == domain.OutcomeSuccess {
			ended++
		}
	}
	if ended != 2 {
		t.Errorf("%d runs have ended: %+v", ended, runs)
	}
	// The open log goes on where it was.
	g, err := logs.Open(t.Context(), r.blobs, logs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	data := []byte("line 4\n")
	acks, err := g.Append(t.Context(), []logs.Chunk{{Tenant: yard.Tenant, Attempt: frozenAttempt, Epoch: 1, Sequence: 4,
		Stream: logs.StreamOut, Data: data, Checksum: domain.Checksum(data)}})
	if err != nil || acks[0].Through != 4 {
		t.Errorf("the open log: %+v, %v", acks, err)
	}
	l, err := g.Log(yard.Tenant, frozenAttempt, nil)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if _, err := l.Raw(t.Context(), &text, 0, -1); err != nil || text.String() != "line 1 of "+frozenAttempt+
		"\nline 2 of "+frozenAttempt+"\nline 3 of "+frozenAttempt+"\nline 4\n" {
		t.Errorf("the open log is %q, %v", text.String(), err)
	}
}

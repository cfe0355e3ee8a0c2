package backup

import (
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/archive"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/testkit/yard"
	"github.com/fairlead-ci/fairlead/internal/verify"
)

// Archived history is in a backup and comes back with it, on either database: the restored
// server has the same ranges, objects and runs, and what is derived is made of them.
// Promises: [ARCHIVE-5].
func TestABackupHoldsArchivedHistory(t *testing.T) {
	crossings(t, func(t *testing.T, k *keep, to string) {
		for range 6 {
			k.Whole()
		}
		open := k.Lease(k.Request(), 2)
		ranges := k.Archive()
		k.Whole()
		folder, m := k.backup(nil)
		if len(m.Damage) > 0 {
			t.Errorf("damage %+v", m.Damage)
		}
		r, err := restore(t, folder, to, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.out.Report.Damaged() || r.out.Derived.Damaged() {
			t.Errorf("found %+v, %+v", r.out.Report.Findings, r.out.Derived.Findings)
		}
		if got, want := tables(t, r.store), tables(t, k.Store); got != want {
			t.Errorf("the tables differ:\n%s\nwant\n%s", got, want)
		}
		whole := archive.Over(r.store, archive.NewReader(r.blobs))
		for _, run := range k.Runs {
			h, err := whole.Load(t.Context(), yard.Tenant, run.Stream(), false, 0)
			if err != nil || len(h.Rows) == 0 {
				t.Errorf("run %s: %d rows, %v", run, len(h.Rows), err)
			}
		}
		list, err := r.store.ArchivedRanges(t.Context(), ranges[0].Partition, 0, 10)
		if err != nil || len(list) == 0 {
			t.Errorf("ranges %v, %v", list, err)
		}
		if open == "" {
			t.Error("no log is open")
		}
	})
}

// An archive that is damaged in the server is told by the backup, and the rest is saved.
func TestABackupTellsOfADamagedArchive(t *testing.T) {
	crossings(t, func(t *testing.T, k *keep, _ string) {
		k.Whole()
		k.Whole()
		var lost store.ArchivedRange
		for _, r := range k.Archive() {
			lost = r
		}
		if err := k.Blobs.Delete(t.Context(), lost.Objects[0].Object); err != nil {
			t.Fatal(err)
		}
		_, m := k.backup(nil)
		if len(m.Damage) != 1 || m.Damage[0].Code != verify.ObjectMissing ||
			!strings.Contains(m.Damage[0].Text, "archive") || m.Damage[0].Object != lost.Objects[0].Object {
			t.Errorf("damage %+v", m.Damage)
		}
	})
}

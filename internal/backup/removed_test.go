package backup

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/logs"
	"github.com/fairlead-ci/fairlead/internal/testkit/yard"
)

// What retention removed is not in a backup, and that is no damage of it; nor is it one of
// the server that is made of it.
func TestRemovedLogsAreNoDamageOfABackup(t *testing.T) {
	yard.OnSQLite(t, func(t *testing.T, w *yard.World) {
		k := newKeep(t, w)
		_, ref := k.Whole()
		before, _ := k.backup(nil)
		k.Expire(k.Blobs, 7, time.Now().AddDate(0, 0, 9))
		after, m := k.backup(func(o *Options) { o.Base = before })
		if m.Counts.RemovedLogs != 1 || len(m.Damage) > 0 {
			t.Errorf("%d logs were removed; damage %+v", m.Counts.RemovedLogs, m.Damage)
		}
		r, err := restore(t, after, "", nil)
		if err != nil || r.out.Report.Removed != 1 || r.out.Report.Damaged() {
			t.Fatalf("restore: %v, %+v", err, r.out)
		}

		// An earlier backup has the log. The next sweep removes it again.
		if r, err = restore(t, before, "", nil); err != nil || r.out.Report.Removed != 0 {
			t.Fatalf("restore: %v, %+v", err, r.out)
		}
		if _, err := r.blobs.Size(t.Context(), ref.Object); err != nil {
			t.Fatal(err)
		}
		k.Expire(r.blobs, 7, time.Now().AddDate(0, 0, 9))
		if _, err := r.blobs.Size(t.Context(), ref.Object); err == nil {
			t.Error("the restored log outlives the next sweep")
		}
	})
}

// Retention that removes logs while a backup is made leaves its record in it, although the
// names of records sort before those of logs.
// Promises: [LOG-16].
func TestLogsThatAreRemovedDuringABackup(t *testing.T) {
	yard.OnSQLite(t, func(t *testing.T, w *yard.World) {
		k := newKeep(t, w)
		id, ref := k.Whole()
		src := k.source()
		src.Blobs = &parting{Store: k.Blobs, do: func() {
			k.Expire(k.Blobs, 7, time.Now().AddDate(0, 0, 9))
		}}
		folder := filepath.Join(t.TempDir(), "backup")
		m, err := Make(t.Context(), src, Options{Folder: folder})
		if err != nil || m.Counts.RemovedLogs != 1 || len(m.Damage) > 0 {
			t.Fatalf("%v, %+v", err, m)
		}
		r, err := restore(t, folder, "", nil)
		if err != nil || r.out.Report.Removed != 1 || r.out.Report.Damaged() {
			t.Fatalf("restore: %v, %+v", err, r.out)
		}
		log, err := logs.NewHolder(r.blobs, logs.Config{}).Log(yard.Tenant, id.Job(0).Attempt(1), &ref)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = log.Totals(t.Context()); err == nil {
			t.Fatal("the log can be read")
		}
		if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeLogExpired {
			t.Errorf("reading it says %v", err)
		}
	})
}

// parting is a store in which something happens after the first object was listed.
type parting struct {
	blob.Store
	do func()
}

func (p *parting) List(ctx context.Context, prefix, after string, _ int) ([]blob.Entry, error) {
	if do := p.do; after != "" && do != nil {
		p.do = nil
		do()
	}
	return p.Store.List(ctx, prefix, after, 1)
}

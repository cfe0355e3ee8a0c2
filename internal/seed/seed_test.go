package seed

import (
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/testkit/yard"
	"github.com/fairlead-ci/fairlead/internal/verify"
)

func runs() *engine.Kind {
	for _, k := range projection.Kinds() {
		if k.Name == "run" {
			return k
		}
	}
	return nil
}

// What is written passes the same examination as what happened, and servers go on behind it.
func TestASeedIsHistoryLikeAnyOther(t *testing.T) {
	yard.OnSQLite(t, func(t *testing.T, w *yard.World) {
		like, _ := w.Whole()
		w.Stop()
		r, err := Run(t.Context(), Config{Store: w.Store, Kind: runs(), Tenant: yard.Tenant, Like: like, Jobs: 600,
			Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		if r.Runs != 600 || r.Jobs != 600 || r.Rows < 3*600 || r.Events < r.Rows || len(r.Names) == 0 {
			t.Errorf("wrote %+v", r)
		}
		w.Begin()
		w.Whole()
		report, err := verify.Run(t.Context(), verify.Config{Archive: w.Store, Kinds: projection.Kinds()})
		if err != nil || report.Damaged() || report.Streams < 602 {
			t.Errorf("%v: %d streams, %+v", err, report.Streams, report.Findings)
		}
		h, err := w.Engine.Read(t.Context(), yard.Tenant, r.Names[0].Stream(), true)
		if err != nil || len(h.Events) == 0 {
			t.Errorf("run %s: %v", r.Names[0], err)
		}
	})
}

func TestARunThatIsNotOverIsNoPattern(t *testing.T) {
	yard.OnSQLite(t, func(t *testing.T, w *yard.World) {
		open := w.Request()
		w.Stop()
		for _, like := range []domain.RunID{open, "run_none"} {
			if _, err := Run(t.Context(), Config{Store: w.Store, Kind: runs(), Tenant: yard.Tenant, Like: like, Jobs: 1,
				Now: time.Now}); err == nil {
				t.Errorf("seeded like %s", like)
			}
		}
	})
}

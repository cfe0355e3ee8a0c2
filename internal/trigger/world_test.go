package trigger

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/google/uuid"

	"github.com/fairlead-ci/fairlead/internal/blob"
	blobmemory "github.com/fairlead-ci/fairlead/internal/blob/memory"
	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/scm/git"
	"github.com/fairlead-ci/fairlead/internal/scm/scmtest"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

const tenant = domain.DefaultTenant

// world is the room with everything real around it: engine, core, git, and a store and
// objects in memory.
type world struct {
	t       testing.TB
	engine  *engine.Engine
	store   *memory.Store
	blobs   blob.Store
	mirrors *git.Mirrors
	*Triggers

	scheduler *Scheduler
	ago       atomic.Int64 // how far the clock is behind, in nanoseconds
}

func (w *world) now() time.Time { return time.Now().Add(-time.Duration(w.ago.Load())) }

func newWorld(t testing.TB, reactor bool, bounds ...engine.Open) *world {
	t.Helper()
	w := &world{t: t, store: memory.New(), blobs: blobmemory.New()}
	var err error
	w.mirrors, err = git.New(t.Context(), git.Config{Root: filepath.Join(t.TempDir(), "git")})
	if err != nil {
		t.Fatal(err)
	}
	var open engine.Open
	if len(bounds) > 0 {
		open = bounds[0]
	}
	w.engine = engine.New(engine.Config{Open: open, Store: w.store, Kinds: projection.Kinds(),
		Format: codec.Format, Owner: "test",
		Partitions: []domain.PartitionID{"p1"}, Clock: engine.NewClock(), Paranoid: true})
	w.Triggers = New(Config{Engine: w.engine, Views: w.store, Blobs: w.blobs, Source: w.mirrors,
		NewID: func() [16]byte { return uuid.Must(uuid.NewV7()) }, Now: w.now, ServerURL: "http://127.0.0.1:7000"})
	w.scheduler = w.NewScheduler(time.LoadLocation)
	w.engine.Observe(w.scheduler)
	if reactor {
		w.engine.React(w.Reactor())
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := w.engine.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.engine.Close(); cancel() })
	return w
}

func person() domain.Cause {
	return domain.Cause{Actor: domain.Actor{Kind: "user", ID: "ada", Via: "admin_token"}}
}

// add registers a path, as an administrator.
func (w *world) add(name string, repo *scmtest.Repo) store.RepositoryRow {
	w.t.Helper()
	added, err := w.AddRepository(w.t.Context(), Registration{Tenant: tenant, Name: name, URL: repo.Dir, Poll: true,
		Administrator: true, Cause: person()})
	if err != nil {
		w.t.Fatal(err)
	}
	return added.Row
}

func (w *world) mustRun(r Request) Accepted {
	w.t.Helper()
	r.Tenant, r.Cause = tenant, person()
	accepted, err := w.Run(w.t.Context(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return accepted
}

// refused asks for a run that must be refused with that code.
func (w *world) refused(r Request, code domain.Code) *Refusal {
	w.t.Helper()
	r.Tenant, r.Cause = tenant, person()
	_, err := w.Run(w.t.Context(), r)
	rejection, ok := domain.AsRejection(err)
	if !ok || rejection.Code != code {
		w.t.Fatalf("got %v, want the refusal %s", err, code)
	}
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		refusal = &Refusal{Rejection: rejection}
	}
	return refusal
}

func (w *world) state(id domain.RunID) *run.State {
	w.t.Helper()
	history, err := w.engine.Read(w.t.Context(), tenant, id.Stream(), false)
	if err != nil {
		w.t.Fatal(err)
	}
	return history.State.(*run.State)
}

func (w *world) object(digest domain.Digest) []byte {
	w.t.Helper()
	reader, err := w.blobs.Open(w.t.Context(), blob.ObjectKey(tenant, digest), 0, -1)
	if err != nil {
		w.t.Fatal(err)
	}
	defer reader.Close()
	data, err := io.ReadAll(reader)
	if err != nil || domain.DigestOf(data) != digest {
		w.t.Fatalf("object %s: %v", digest, err)
	}
	return data
}

func (w *world) frozen(id domain.RunID) *snapshot.Snapshot {
	w.t.Helper()
	s, err := snapshot.Decode(w.object(w.state(id).Request.Snapshot))
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) plan(id domain.RunID) *plan.Plan {
	w.t.Helper()
	p, err := plan.Decode(w.object(w.state(id).Request.Plan))
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) runs() []store.RunRow {
	w.t.Helper()
	rows, err := w.store.Runs(w.t.Context(), store.RunQuery{Tenant: tenant, Limit: 100})
	if err != nil {
		w.t.Fatal(err)
	}
	return rows
}

// until polls for something that another goroutine brings about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("in 20 s never: %s", what)
		}
	}
}

const (
	onPush     = "on: push\njobs:\n  test:\n    runs-on: linux\n    steps:\n      - checkout\n      - run: make test\n"
	onDispatch = "name: Release\non:\n  workflow_dispatch:\n    inputs:\n      level:\n" +
		"        type: number\n        default: 3\n      dry:\n        type: boolean\n" +
		"jobs:\n  release:\n    runs-on: linux\n" +
		"    steps:\n      - run: echo ${{ inputs.level }}\n"
	broken = "on: push\njobs:\n  test:\n    runs-on: linux\n    needs: [nobody]\n" +
		"    steps:\n      - run: x\n        unknown: y\n"
)

// Package yard is a small server without a network, for tests of what servers keep: real
// kinds of streams, a real store, real objects and logs.
//
// It is deliberately not a simulation: it has a clock of the machine and one runner that
// does what the test says.
//
// Invariants: everything that it writes goes the way that a server's writes go.
//
// Read next: internal/verify/verify_test.go
package yard

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/archive"
	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/blob/file"
	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/core/pool"
	"github.com/fairlead-ci/fairlead/internal/core/repository"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/logs"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/postgres"
	"github.com/fairlead-ci/fairlead/internal/store/sqlite"
	"github.com/fairlead-ci/fairlead/internal/testkit/pg"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
)

// Names that everything in a yard has.
const (
	Home   = domain.PartitionID("main-0")
	Pools  = domain.PartitionID("pool-default")
	Tenant = domain.DefaultTenant
	Repo   = domain.RepositoryID("rep_00000000000000000000000001")
)

// Database is a store with the side that operators use.
type Database interface {
	store.Store
	store.Archive
	store.Sizer
}

// World is a small server without a network: real kinds, a real store, real objects.
type World struct {
	T       *testing.T
	Store   Database
	Folder  string // of SQLite
	Blobs   *file.Store
	Objects string // the folder of Blobs
	Engine  *engine.Engine
	Logs    *logs.Gateway
	Runs    []domain.RunID
}

// OnBoth runs a test on SQLite and on PostgreSQL.
func OnBoth(t *testing.T, test func(t *testing.T, w *World)) {
	t.Run("SQLite", func(t *testing.T) { OnSQLite(t, test) })
	t.Run("PostgreSQL", func(t *testing.T) { OnPostgres(t, test) })
}

// OnSQLite runs a test on SQLite.
func OnSQLite(t *testing.T, test func(t *testing.T, w *World)) {
	t.Helper()
	folder := t.TempDir()
	s, err := sqlite.Open(t.Context(), folder, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := New(t, s.(Database))
	w.Folder = folder
	test(t, w)
}

// OnPostgres runs a test on PostgreSQL.
func OnPostgres(t *testing.T, test func(t *testing.T, w *World)) {
	t.Helper()
	s, err := postgres.Open(t.Context(), pg.Start(t), postgres.Options{ConnsMax: 6})
	if err != nil {
		t.Fatal(err)
	}
	test(t, New(t, s.(Database)))
}

// New makes a yard over an empty store, which it closes at the end of the test.
func New(t *testing.T, s Database) *World {
	t.Helper()
	w := &World{T: t, Store: s, Objects: t.TempDir()}
	var err error
	if w.Blobs, err = file.Open(w.Objects); err != nil {
		t.Fatal(err)
	}
	w.Begin()
	t.Cleanup(func() {
		w.Stop()
		if err := w.Store.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	w.Submit(Pools, domain.PoolID("default").Stream(), pool.CreatePool{Cause: w.Cause(), Tenant: Tenant, Pool: "default",
		Config: pool.DefaultConfig()})
	w.Submit(Home, Repo.Stream(), repository.Register{Cause: w.Cause(), Tenant: Tenant, Repository: Repo, RepoName: "app",
		DefaultBranch: "main"})
	return w
}

// Begin starts what a server starts.
func (w *World) Begin() {
	w.T.Helper()
	w.Engine = engine.New(engine.Config{Store: archive.Over(w.Store, archive.NewReader(w.Blobs)),
		Kinds: projection.Kinds(), Format: codec.Format, Partitions: []domain.PartitionID{Home},
		Pools: []domain.PartitionID{Pools}, Owner: "test", Paranoid: true, Fatal: func(err error) { w.T.Error(err) }})
	if err := w.Engine.Start(context.WithoutCancel(w.T.Context())); err != nil {
		w.T.Fatal(err)
	}
	var err error
	if w.Logs, err = logs.Open(w.T.Context(), w.Blobs, logs.Config{Now: time.Now}); err != nil {
		w.T.Fatal(err)
	}
}

// Stop ends it; Begin starts it again.
func (w *World) Stop() {
	if w.Engine != nil {
		w.Engine.Close()
		_ = w.Logs.Close()
		w.Engine = nil
	}
}

// Cause is the cause of every command.
func (w *World) Cause() domain.Cause {
	return domain.Cause{Actor: domain.Actor{Kind: "user", ID: "ann", Via: "test"}}
}

// Submit hands a command to a stream and waits for the commit.
func (w *World) Submit(p domain.PartitionID, id domain.StreamID, command any) engine.Ack {
	w.T.Helper()
	return w.Send(engine.Envelope{Tenant: Tenant, Partition: p, Stream: id, Command: command, Cause: w.Cause()})
}

// Send is Submit with a whole envelope.
func (w *World) Send(env engine.Envelope) engine.Ack {
	w.T.Helper()
	ack, err := w.Engine.Submit(w.T.Context(), env)
	if err != nil {
		w.T.Fatalf("submit %T: %v", env.Command, err)
	}
	return ack
}

// Put stores an object under its digest.
func (w *World) Put(data string) domain.Digest {
	w.T.Helper()
	digest := domain.DigestOf([]byte(data))
	err := w.Blobs.Put(w.T.Context(), blob.ObjectKey(Tenant, digest), strings.NewReader(data), int64(len(data)))
	if err != nil && !strings.Contains(err.Error(), blob.ErrExists.Error()) {
		w.T.Fatal(err)
	}
	return digest
}

// Request asks for a run of one job, with everything that it rests on.
func (w *World) Request() domain.RunID {
	w.T.Helper()
	n := len(w.Runs) + 1
	id := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{1, 15: byte(n), 14: byte(n >> 8)}))
	w.Runs = append(w.Runs, id)
	s := snapshot.Snapshot{Version: snapshot.VersionTwo, Tenant: Tenant, Repository: Repo, RepositoryName: "app",
		Source:   snapshot.Source{Commit: strings.Repeat("a", 40)},
		Workflow: snapshot.Workflow{Path: "ci.yml", Name: "CI", Digest: w.Put(fmt.Sprintf("on: push # %d", n))},
		Github:   json.RawMessage(fmt.Sprintf(`{"run":%d}`, n))}
	w.Send(engine.Envelope{Tenant: Tenant, Partition: Home, Stream: id.Stream(), Cause: w.Cause(),
		Counter: "runs/" + string(Repo) + "/ci.yml", Key: &engine.Key{Scope: "client/ann/run", Key: string(id),
			Body: "sha256:00"},
		Command: run.RequestRun{Cause: w.Cause(), Request: run.Request{Run: id, Tenant: Tenant, Repository: Repo,
			RepositoryName: "app", WorkflowPath: "ci.yml", WorkflowName: "CI",
			Trigger: run.Trigger{Event: "push", Key: string(id), Actor: w.Cause().Actor},
			Source:  run.Source{Commit: strings.Repeat("a", 40), Ref: "refs/heads/main", Title: fmt.Sprintf("change %d", n)},
			Plan:    w.Put(fmt.Sprintf("plan %d", n)), Inputs: w.Put("{}"), Snapshot: w.Put(string(s.Encode())),
			Tier: domain.TierTrusted, Class: domain.ClassInteractive,
			Skeleton: []run.JobSkeleton{{Key: "a", Name: "a", RunsOn: []string{"default"}, TimeoutSeconds: 600,
				QueueTimeoutSeconds: 600, Steps: []string{"one"}}}}}})
	return id
}

// Lease gives the run's job to a runner and lets it print chunks.
func (w *World) Lease(id domain.RunID, chunks int) domain.AttemptID {
	w.T.Helper()
	now := w.Engine.Now()
	ack := w.Submit(Home, id.Stream(), run.GrantLease{Cause: w.Cause(), Job: id.Job(0), Runner: "rnr_1", RunnerName: "r",
		Pool: "default", Tiers: []domain.Tier{domain.TierTrusted}, Slot: domain.SlotToken("rnr_1/0/" + string(id)),
		Until: now.Add(time.Hour), AbandonBy: now.Add(2 * time.Hour)})
	reply := ack.Reply.(run.LeaseReply)
	for i := range chunks {
		data := []byte(fmt.Sprintf("line %d of %s\n", i+1, reply.Attempt))
		_, err := w.Logs.Append(w.T.Context(), []logs.Chunk{{Tenant: Tenant, Attempt: reply.Attempt, Epoch: reply.Epoch,
			Sequence: uint64(i + 1), Stream: logs.StreamOut, At: now, Data: data, Checksum: domain.Checksum(data)}})
		if err != nil {
			w.T.Fatal(err)
		}
	}
	return reply.Attempt
}

// Report ends the attempt with success.
func (w *World) Report(a domain.AttemptID, chunks int) {
	w.T.Helper()
	w.Submit(Home, a.Run().Stream(), run.ReportResult{Cause: domain.Cause{Actor: domain.Actor{Kind: "runner", ID: "rnr_1",
		Via: "test"}}, Attempt: a, Epoch: 1, Digest: "sha256:" + domain.Digest(strings.Repeat("1", 64)),
		Outcome: domain.OutcomeSuccess, LogEnd: uint64(chunks), Effect: domain.EffectNone})
}

// Seal closes the attempt's log.
func (w *World) Seal(a domain.AttemptID, chunks int) logs.Ref {
	w.T.Helper()
	ref, err := w.Logs.Seal(w.T.Context(), Tenant, a, domain.ClassInteractive, uint64(chunks))
	if err != nil {
		w.T.Fatal(err)
	}
	w.Submit(Home, a.Run().Stream(), run.RecordLog{Cause: w.Cause(), Attempt: a, Log: run.Log{Object: ref.Object,
		Offset: ref.Offset, Length: ref.Length, Digest: ref.Digest, Bytes: ref.Bytes, Lines: ref.Lines,
		Truncated: ref.Truncated, Gaps: ref.Gaps}})
	w.Logs.Recorded(Tenant, a, ref)
	return ref
}

// Expire removes the sealed logs that are older than so many days at a time, as a server does
// whose clock has gone on for a day.
func (w *World) Expire(blobs blob.Store, days int, at time.Time) {
	w.T.Helper()
	holder := logs.NewHolder(blobs, logs.Config{})
	if err := holder.Hold(w.T.Context(), 0, nil); err != nil {
		w.T.Fatal(err)
	}
	defer func() { _ = holder.Close() }()
	for _, before := range []time.Duration{28 * time.Hour, 14 * time.Hour, 0} {
		sweeper := logs.NewSweeper(blobs, holder, logs.SweepConfig{Keep: logs.Keep{All: days},
			Now: func() time.Time { return at.Add(-before) }, Log: slog.New(slog.DiscardHandler)})
		if err := sweeper.Sweep(w.T.Context()); err != nil {
			w.T.Fatal(err)
		}
	}
}

// Whole is a run from request to sealed log.
func (w *World) Whole() (domain.RunID, logs.Ref) {
	w.T.Helper()
	id := w.Request()
	a := w.Lease(id, 3)
	w.Report(a, 3)
	return id, w.Seal(a, 3)
}

// Archive moves all history but the last batches into objects, and gives the ranges.
func (w *World) Archive() []store.ArchivedRange {
	w.T.Helper()
	var out []store.ArchivedRange
	partitions, err := w.Store.Partitions(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	a := archive.New(archive.Config{Log: w.Store, Blobs: w.Blobs, OlderThan: -time.Hour, All: true,
		Did: func(r *store.ArchivedRange) { out = append(out, *r) }})
	for _, p := range partitions {
		if err := a.Partition(w.T.Context(), p.Partition, p.Epoch); err != nil {
			w.T.Fatal(err)
		}
	}
	return out
}

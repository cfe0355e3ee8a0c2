package verify

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/blob/file"
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

const (
	home   = domain.PartitionID("main-0")
	pools  = domain.PartitionID("pool-default")
	tenant = domain.DefaultTenant
	rep    = domain.RepositoryID("rep_00000000000000000000000001")
)

// database is a store with the side that operators use.
type database interface {
	store.Store
	store.Archive
}

// world is a small server without a network: real kinds, a real store, real objects.
type world struct {
	t       *testing.T
	store   database
	folder  string // of SQLite
	blobs   *file.Store
	objects string // the folder
	engine  *engine.Engine
	logs    *logs.Gateway
	runs    []domain.RunID
}

// onBoth runs a test on SQLite and on PostgreSQL.
func onBoth(t *testing.T, test func(t *testing.T, w *world)) {
	t.Run("SQLite", func(t *testing.T) { onSQLite(t, test) })
	t.Run("PostgreSQL", func(t *testing.T) { onPostgres(t, test) })
}

func onSQLite(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	folder := t.TempDir()
	s, err := sqlite.Open(t.Context(), folder, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, s.(database))
	w.folder = folder
	test(t, w)
}

func onPostgres(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	s, err := postgres.Open(t.Context(), pg.Start(t), postgres.Options{ConnsMax: 6})
	if err != nil {
		t.Fatal(err)
	}
	test(t, newWorld(t, s.(database)))
}

func newWorld(t *testing.T, s database) *world {
	t.Helper()
	w := &world{t: t, store: s, objects: t.TempDir()}
	var err error
	if w.blobs, err = file.Open(w.objects); err != nil {
		t.Fatal(err)
	}
	w.begin()
	t.Cleanup(func() {
		w.stop()
		if err := w.store.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	w.submit(pools, domain.PoolID("default").Stream(), pool.CreatePool{Cause: w.cause(), Tenant: tenant, Pool: "default",
		Config: pool.DefaultConfig()})
	w.submit(home, rep.Stream(), repository.Register{Cause: w.cause(), Tenant: tenant, Repository: rep, RepoName: "app",
		DefaultBranch: "main"})
	return w
}

// begin starts what a server starts.
func (w *world) begin() {
	w.t.Helper()
	w.engine = engine.New(engine.Config{Store: w.store, Kinds: projection.Kinds(), Partitions: []domain.PartitionID{home},
		Pools: []domain.PartitionID{pools}, Owner: "test", Paranoid: true, Fatal: func(err error) { w.t.Error(err) }})
	if err := w.engine.Start(context.WithoutCancel(w.t.Context())); err != nil {
		w.t.Fatal(err)
	}
	var err error
	if w.logs, err = logs.Open(w.t.Context(), w.blobs, logs.Config{Now: time.Now}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) stop() {
	if w.engine != nil {
		w.engine.Close()
		_ = w.logs.Close()
		w.engine = nil
	}
}

func (w *world) cause() domain.Cause {
	return domain.Cause{Actor: domain.Actor{Kind: "user", ID: "ann", Via: "test"}}
}

func (w *world) submit(p domain.PartitionID, id domain.StreamID, command any) engine.Ack {
	w.t.Helper()
	return w.send(engine.Envelope{Tenant: tenant, Partition: p, Stream: id, Command: command, Cause: w.cause()})
}

func (w *world) send(env engine.Envelope) engine.Ack {
	w.t.Helper()
	ack, err := w.engine.Submit(w.t.Context(), env)
	if err != nil {
		w.t.Fatalf("submit %T: %v", env.Command, err)
	}
	return ack
}

func (w *world) put(data string) domain.Digest {
	w.t.Helper()
	digest := domain.DigestOf([]byte(data))
	err := w.blobs.Put(w.t.Context(), blob.ObjectKey(tenant, digest), strings.NewReader(data), int64(len(data)))
	if err != nil && !strings.Contains(err.Error(), blob.ErrExists.Error()) {
		w.t.Fatal(err)
	}
	return digest
}

// request asks for a run of one job, with everything that it rests on.
func (w *world) request() domain.RunID {
	w.t.Helper()
	n := len(w.runs) + 1
	id := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{1, 15: byte(n), 14: byte(n >> 8)}))
	w.runs = append(w.runs, id)
	s := snapshot.Snapshot{Version: snapshot.Version, Tenant: tenant, Repository: rep, RepositoryName: "app",
		Source:   snapshot.Source{Commit: strings.Repeat("a", 40)},
		Workflow: snapshot.Workflow{Path: "ci.yml", Name: "CI", Digest: w.put("on: push")},
		Github:   w.put(fmt.Sprintf(`{"run":%d}`, n))}
	w.send(engine.Envelope{Tenant: tenant, Partition: home, Stream: id.Stream(), Cause: w.cause(),
		Counter: "runs/" + string(rep) + "/ci.yml", Key: &engine.Key{Scope: "client/ann/run", Key: string(id), Body: "sha256:00"},
		Command: run.RequestRun{Cause: w.cause(), Request: run.Request{Run: id, Tenant: tenant, Repository: rep,
			RepositoryName: "app", WorkflowPath: "ci.yml", WorkflowName: "CI",
			Trigger: run.Trigger{Event: "push", Key: string(id), Actor: w.cause().Actor},
			Source:  run.Source{Commit: strings.Repeat("a", 40), Ref: "refs/heads/main", Title: fmt.Sprintf("change %d", n)},
			Plan:    w.put(fmt.Sprintf("plan %d", n)), Inputs: w.put("{}"), Snapshot: w.put(string(s.Encode())),
			Tier: domain.TierTrusted, Class: domain.ClassInteractive,
			Skeleton: []run.JobSkeleton{{Key: "a", Name: "a", RunsOn: []string{"default"}, TimeoutSeconds: 600,
				QueueTimeoutSeconds: 600, Steps: []string{"one"}}}}}})
	return id
}

// lease gives the run's job to a runner and lets it print chunks.
func (w *world) lease(id domain.RunID, chunks int) domain.AttemptID {
	w.t.Helper()
	now := w.engine.Now()
	ack := w.submit(home, id.Stream(), run.GrantLease{Cause: w.cause(), Job: id.Job(0), Runner: "rnr_1", RunnerName: "r",
		Pool: "default", Tiers: []domain.Tier{domain.TierTrusted}, Slot: domain.SlotToken("rnr_1/0/" + string(id)),
		Until: now.Add(time.Hour), AbandonBy: now.Add(2 * time.Hour)})
	reply := ack.Reply.(run.LeaseReply)
	for i := range chunks {
		data := []byte(fmt.Sprintf("line %d of %s\n", i+1, reply.Attempt))
		_, err := w.logs.Append(w.t.Context(), []logs.Chunk{{Tenant: tenant, Attempt: reply.Attempt, Epoch: reply.Epoch,
			Sequence: uint64(i + 1), Stream: logs.StreamOut, At: now, Data: data, Checksum: domain.Checksum(data)}})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return reply.Attempt
}

// report ends the attempt.
func (w *world) report(a domain.AttemptID, chunks int) {
	w.t.Helper()
	w.submit(home, a.Run().Stream(), run.ReportResult{Cause: domain.Cause{Actor: domain.Actor{Kind: "runner", ID: "rnr_1",
		Via: "test"}}, Attempt: a, Epoch: 1, Digest: "sha256:" + domain.Digest(strings.Repeat("1", 64)),
		Outcome: domain.OutcomeSuccess, LogEnd: uint64(chunks), Effect: domain.EffectNone})
}

// seal closes the attempt's log.
func (w *world) seal(a domain.AttemptID, chunks int) logs.Ref {
	w.t.Helper()
	ref, err := w.logs.Seal(w.t.Context(), tenant, a, uint64(chunks))
	if err != nil {
		w.t.Fatal(err)
	}
	w.submit(home, a.Run().Stream(), run.RecordLog{Cause: w.cause(), Attempt: a, Log: run.Log{Object: ref.Object,
		Offset: ref.Offset, Length: ref.Length, Digest: ref.Digest, Bytes: ref.Bytes, Lines: ref.Lines,
		Truncated: ref.Truncated, Gaps: ref.Gaps}})
	return ref
}

// whole is a run from request to sealed log.
func (w *world) whole() (domain.RunID, logs.Ref) {
	w.t.Helper()
	id := w.request()
	a := w.lease(id, 3)
	w.report(a, 3)
	return id, w.seal(a, 3)
}

// verify examines everything.
func (w *world) verify(change func(*Config)) *Report {
	w.t.Helper()
	cfg := Config{Archive: w.store, Kinds: projection.Kinds(), Blobs: w.blobs}
	if change != nil {
		change(&cfg)
	}
	report, err := Run(w.t.Context(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

// expect compares the codes of a report's findings.
func expect(t *testing.T, r *Report, codes ...Code) {
	t.Helper()
	var got []Code
	for _, f := range r.Findings {
		got = append(got, f.Code)
	}
	want := fmt.Sprint(codes)
	if len(codes) == 0 {
		want = "[]"
	}
	if fmt.Sprint(got) != want {
		var text bytes.Buffer
		for _, f := range r.Findings {
			fmt.Fprintf(&text, "\n%s %s: %s", f.Code, f.Place(), f.Text)
		}
		t.Errorf("found %v, want %v:%s", got, codes, text.Bytes())
	}
}

// change edits tables below everything that keeps them in order.
func (w *world) change(work func(r store.Rewriter) error) {
	w.t.Helper()
	if err := w.store.Rewrite(w.t.Context(), work); err != nil {
		w.t.Fatal(err)
	}
}

// edit changes one column of a row.
func (w *world) edit(table string, key []any, column string, value any) {
	w.t.Helper()
	t, _ := store.TableNamed(table)
	w.change(func(r store.Rewriter) error {
		row, err := r.Get(w.t.Context(), table, key)
		if err != nil {
			return err
		}
		for i, c := range t.Columns {
			if c.Name == column {
				row[i] = value
			}
		}
		return r.Put(w.t.Context(), table, [][]any{row})
	})
}

// positionOf finds where the log has a stream's version.
func (w *world) positionOf(id domain.StreamID, version uint64) int64 {
	w.t.Helper()
	rows, err := w.store.Read(w.t.Context(), home, 0, 10_000)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range rows {
		if r.Stream == id && version > r.Version-uint64(r.Count) && version <= r.Version {
			return int64(r.Position)
		}
	}
	w.t.Fatalf("%s has no version %d", id, version)
	return 0
}

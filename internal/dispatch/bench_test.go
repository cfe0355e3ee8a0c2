package dispatch_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/blob/file"
	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/core/pool"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/dispatch"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/logs"
	"github.com/fairlead-ci/fairlead/internal/manifest"
	"github.com/fairlead-ci/fairlead/internal/order"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/store/sqlite"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

const (
	benchHome   = domain.PartitionID("main-0")
	benchTenant = domain.TenantID("tnt_bench")
	benchPool   = domain.PoolID("default")
)

// BenchmarkReadyToManifest is the way of a job from ready to a runner that holds its signed
// and verified manifest: engine, SQLite with every commit synced, placement, manifest from
// stored plan and contexts, signature; all in one process, without a transport.
//
// Runners wait in their polls. One operation is one run of one job, reported and concluded
// before the next begins on that runner. heads is how many other jobs wait meanwhile for a
// runner that is not there: what placement looks at every time.
func BenchmarkReadyToManifest(b *testing.B) {
	for _, c := range []struct{ runners, heads int }{{1, 0}, {16, 0}, {256, 0}, {16, 1000}, {16, 10_000}} {
		b.Run(fmt.Sprintf("runners=%d/heads=%d", c.runners, c.heads), func(b *testing.B) {
			benchDispatch(b, c.runners, c.heads)
		})
	}
}

// hall is a server's middle: everything between the API and the runner's transport.
type hall struct {
	b        *testing.B
	engine   *engine.Engine
	dispatch *dispatch.Dispatcher
	signer   *credential.Signer
	blobs    blob.Store
	keys     manifest.Keyring
	request  run.Request
	minted   atomic.Uint64

	mu    sync.Mutex
	ready map[domain.JobID]time.Time // by the batch's own time: before its commit
}

func benchDispatch(b *testing.B, runners, heads int) {
	h := newHall(b)
	h.backlog(heads)
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	agents := make([]*agent, runners)
	asked := make(chan struct{}, 1) // one run at a time is under way: latency, not throughput
	var left atomic.Int64
	left.Store(int64(b.N))
	for i := range runners {
		agents[i] = h.register(fmt.Sprint("agent-", i))
	}
	for _, a := range agents {
		work.Go(func() { a.serve(ctx, asked, &left) })
	}
	b.ResetTimer()
	for range b.N {
		asked <- struct{}{}
		h.requestRun(1, nil)
	}
	asked <- struct{}{} // the last one was reported
	b.StopTimer()
	cancel()
	work.Wait()
	var ready, told []time.Duration
	for _, a := range agents {
		ready, told = append(ready, a.ready...), append(told, a.told...)
	}
	if len(ready) != b.N {
		b.Fatalf("%d manifests for %d jobs", len(ready), b.N)
	}
	percentiles(b, "ready-to-manifest", ready)
	percentiles(b, "result-to-ack", told)
	percentiles(b, "fsync", syncTimes(b))
}

func newHall(b *testing.B) *hall {
	b.Helper()
	h := &hall{b: b, keys: manifest.Keyring{}, ready: map[domain.JobID]time.Time{}}
	dir := b.TempDir()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	st, err := sqlite.Open(b.Context(), dir, sqlite.Options{})
	must(err)
	h.blobs, err = file.Open(dir + "/objects")
	must(err)
	gateway, err := logs.Open(b.Context(), h.blobs, logs.Config{})
	must(err)
	clock := engine.NewClock()
	now := func() time.Time { t, _ := clock.Now(); return t }
	h.signer, err = credential.OpenSigner(dir, now)
	must(err)
	tokens, err := credential.OpenAttemptTokens(dir, now)
	must(err)
	for _, k := range h.signer.PublicKeys() {
		must(h.keys.Add(k.ID, k.Key))
	}
	h.engine = engine.New(engine.Config{Store: st, Kinds: projection.Kinds(), Format: codec.Format,
		Partitions: []domain.PartitionID{benchHome},
		Pools:      []domain.PartitionID{benchPool.Partition()}, Clock: clock, Hold: time.Minute})
	h.dispatch = dispatch.New(dispatch.Config{Engine: h.engine, Signer: h.signer, Logs: gateway, Clock: clock,
		Log: slog.New(slog.DiscardHandler), Partitions: 2, Grace: 10 * time.Second,
		Manifests: &order.Writer{Blobs: h.blobs, Contexts: &order.Frozen{Blobs: h.blobs}, Now: now,
			Token: func(t domain.TenantID, a domain.AttemptID, epoch uint64) domain.Secret {
				return tokens.Mint(credential.AttemptClaim{Tenant: t, Attempt: a, Epoch: epoch})
			},
			GitPath: func(t domain.TenantID, r domain.RepositoryID) string { return "/git/" + string(t) + "/" + string(r) }},
		Keys: func() (out []dispatch.Key) {
			for _, k := range h.signer.PublicKeys() {
				out = append(out, dispatch.Key{ID: k.ID, Public: k.Key})
			}
			return out
		},
		TokenDigest: func(s string) (domain.Digest, bool) { return domain.DigestOf([]byte(s)), s != "" },
		Timing:      dispatch.Timing{Poll: 45 * time.Second, Lease: 45 * time.Second, Abandon: 90 * time.Second},
		Locate: func(context.Context, domain.TenantID, domain.RunID) (domain.PartitionID, error) {
			return benchHome, nil
		},
		Mint: h.mint})
	h.engine.Observe(h)
	h.engine.Observe(h.dispatch)
	must(h.engine.Start(b.Context()))
	work, stop := context.WithCancel(context.Background())
	h.dispatch.Start(work)
	b.Cleanup(func() {
		stop()
		<-h.dispatch.Done()
		h.engine.Close()
		_ = gateway.Close()
		_ = st.Close()
	})
	h.command(benchPool.Partition(), benchPool.Stream(),
		pool.CreatePool{Tenant: benchTenant, Pool: benchPool, Config: pool.DefaultConfig()})
	h.store()
	return h
}

func (h *hall) mint(prefix string) string {
	n := h.minted.Add(1)
	return domain.EncodeID(prefix, [16]byte{0: 1, 12: byte(n >> 24), 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)})
}

func (h *hall) command(p domain.PartitionID, s domain.StreamID, c any) any {
	h.b.Helper()
	ack, err := h.engine.Submit(
		context.Background(),
		engine.Envelope{Tenant: benchTenant, Partition: p, Stream: s, Command: c},
	)
	if err != nil {
		h.b.Errorf("%T: %v", c, err)
	}
	return ack.Reply
}

// store puts what a manifest is made from where a trigger would.
func (h *hall) store() {
	h.b.Helper()
	put := func(content []byte) domain.Digest {
		digest := domain.DigestOf(content)
		err := h.blobs.Put(
			context.Background(),
			blob.ObjectKey(benchTenant, digest),
			bytes.NewReader(content),
			int64(len(content)),
		)
		if err != nil {
			h.b.Fatal(err)
		}
		return digest
	}
	p := plan.Plan{Evaluator: plan.Evaluator, Name: "ci", Path: "ci.yml", Event: "push"}
	for i := range 10 {
		p.Jobs = append(
			p.Jobs,
			plan.Job{Index: i, Key: fmt.Sprint("job-", i), Name: fmt.Sprint("Job ", i), TimeoutSeconds: 3600,
				Steps: []plan.Step{{ID: "__0", Name: "Checkout", Uses: plan.UsesCheckout, Line: 9},
					{Index: 1, ID: "__1", Name: "Test", Uses: plan.UsesRun, Script: "make test", Line: 10}}},
		)
	}
	github := []byte(`{"event_name":"push","ref":"refs/heads/main","sha":"` + strings.Repeat("a", 40) + `"}`)
	frozen := snapshot.Snapshot{Version: snapshot.Version, Evaluator: plan.Evaluator, Tenant: benchTenant,
		Repository: "rep_bench", RepositoryName: "bench", Tier: domain.TierTrusted, Class: domain.ClassInteractive,
		Github: github}
	h.request = run.Request{Tenant: benchTenant, Repository: "rep_bench", RepositoryName: "bench", WorkflowPath: "ci.yml",
		Source: run.Source{Commit: strings.Repeat("a", 40), Ref: "refs/heads/main"}, Tier: domain.TierTrusted,
		Class: domain.ClassInteractive, Plan: put(p.Encode()), Snapshot: put(frozen.Encode())}
}

// requestRun asks for a run of n jobs without needs.
func (h *hall) requestRun(n int, runsOn []string) {
	id := domain.RunID(h.mint(domain.PrefixRun))
	q := h.request
	q.Run, q.Number, q.Trigger = id, h.minted.Load(), run.Trigger{Event: "push", Key: string(id), ReceivedAt: time.Now()}
	for i := range n {
		q.Skeleton = append(
			q.Skeleton,
			run.JobSkeleton{Index: i, Key: fmt.Sprint("job-", i), Name: "Job", TimeoutSeconds: 3600,
				QueueTimeoutSeconds: 86_400, RunsOn: runsOn, Steps: []string{"Checkout", "Test"}},
		)
	}
	h.command(benchHome, id.Stream(), run.RequestRun{Request: q})
}

// backlog makes jobs that wait for a runner with a label that nobody has.
func (h *hall) backlog(heads int) {
	for range heads / 100 {
		h.requestRun(100, []string{"absent"})
	}
}

// Committed notes when jobs became ready.
func (h *hall) Committed(rows []engine.Committed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range rows {
		for _, e := range rows[i].Events {
			if e, ok := e.(*run.JobReady); ok {
				h.ready[domain.RunID(rows[i].Stream.ID()).Job(e.Job)] = rows[i].At
			}
		}
	}
}

func (h *hall) Loaded(engine.Live)             {}
func (h *hall) Ready(domain.PartitionID, bool) {}
func (h *hall) Lost(domain.PartitionID)        {}

// agent is a runner's side of the protocol.
type agent struct {
	hall                    *hall
	runner, session, secret string
	offer                   uint64
	ready, told             []time.Duration
}

func (h *hall) register(name string) *agent {
	h.b.Helper()
	a := &agent{hall: h, secret: "secret-" + name}
	h.command(benchPool.Partition(), benchPool.Stream(), pool.IssueRegistrationToken{
		Token: domain.DigestOf([]byte("token-" + name)), Expires: time.Now().Add(time.Hour)})
	res, err := h.dispatch.Register(context.Background(), &runnerv1.RegisterRequest{Protocol: dispatch.Protocol,
		Token: "token-" + name, Name: name, Capacity: 1, Isolation: "process", Os: "linux", Arch: "amd64",
		ResumeDigest: domain.DigestOf([]byte(a.secret)).Hex()})
	if err != nil {
		h.b.Fatal(err)
	}
	a.runner, a.session = res.GetRunner(), res.GetSession()
	return a
}

func (a *agent) exchange(ctx context.Context, req *runnerv1.ExchangeRequest) *runnerv1.ExchangeResponse {
	a.offer++
	req.Session, req.Resume, req.Sequence = a.session, a.secret, a.offer
	res, err := a.hall.dispatch.Exchange(ctx, req)
	if err != nil && ctx.Err() == nil {
		a.hall.b.Error(err)
	}
	return res
}

// serve polls, takes what comes, and reports at once.
func (a *agent) serve(ctx context.Context, asked <-chan struct{}, left *atomic.Int64) {
	for ctx.Err() == nil && left.Load() > 0 {
		res := a.exchange(
			ctx,
			&runnerv1.ExchangeRequest{WaitMs: 40_000, Offers: []string{fmt.Sprintf("%s/0/%d", a.runner, a.offer)}},
		)
		for _, l := range res.GetLeases() {
			m, err := manifest.Open(l.GetManifest(), l.GetKeyId(), l.GetSignature(), map[string]ed25519.PublicKey(a.hall.keys))
			if err != nil {
				a.hall.b.Error(err)
				return
			}
			got := time.Now()
			a.hall.mu.Lock()
			a.ready = append(a.ready, got.Sub(a.hall.ready[m.Job]))
			a.hall.mu.Unlock()
			ack := a.exchange(
				ctx,
				&runnerv1.ExchangeRequest{Results: []*runnerv1.Result{{Attempt: l.GetAttempt(), Epoch: l.GetEpoch(),
					Outcome: string(domain.OutcomeSuccess), Digest: string(domain.DigestOf(l.GetManifest())), Effect: "none"}}},
			)
			if len(ack.GetAcks()) != 1 || !ack.GetAcks()[0].GetResult() {
				a.hall.b.Errorf("result not acknowledged: %v", ack)
			}
			a.told = append(a.told, time.Since(got))
			left.Add(-1)
			<-asked
		}
	}
}

// syncTimes is the disk's own figure: appended blocks of 4 KiB, each synced.
func syncTimes(b *testing.B) []time.Duration {
	b.Helper()
	probe, err := os.Create(b.TempDir() + "/fsync")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = probe.Close() }()
	var took []time.Duration
	for range 200 {
		begun := time.Now()
		if _, err := probe.Write(make([]byte, 4096)); err != nil {
			b.Fatal(err)
		}
		if err := probe.Sync(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begun))
	}
	return took
}

func percentiles(b *testing.B, what string, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), what+"-p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), what+"-p99-µs")
}

package engine_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
	"github.com/fairlead-ci/fairlead/internal/store/postgres"
	"github.com/fairlead-ci/fairlead/internal/store/sqlite"
	"github.com/fairlead-ci/fairlead/internal/testkit/pg"
)

const (
	benchTenant = domain.TenantID("tnt_bench")
	benchJobs   = 10 // jobs of a run: one, eight beside each other that need it, one that needs those
)

// BenchmarkRuns drives whole runs of ten jobs through the engine, with the real kind of
// stream, its list rows and its codec: each submitter has one run under way and sends its
// next command when the one before is durable. One operation is one run (41 commands).
//
// The store is the one that a server has. Every commit is synced to the disk of the
// temporary folder; the time of a bare write and sync of 4 KiB there, before and after,
// stands beside the result. "memory" shows what is left without any database.
func BenchmarkRuns(b *testing.B) {
	for _, c := range []struct {
		name       string
		open       func(*testing.B) (store.Store, string)
		partitions int
		submitters []int
	}{
		{"memory", openMemory, 1, []int{256}},
		{"sqlite", openSQLite, 1, []int{1, 32, 256}},
		{"postgres", openPostgres, 1, []int{1, 32, 256}},
		{"postgres", openPostgres, 4, []int{256}},
	} {
		for _, submitters := range c.submitters {
			b.Run(fmt.Sprintf("%s/partitions=%d/submitters=%d", c.name, c.partitions, submitters), func(b *testing.B) {
				benchRuns(b, c.open, c.partitions, submitters)
			})
		}
	}
}

func openMemory(*testing.B) (store.Store, string) { return memory.New(), "" }

func openSQLite(b *testing.B) (store.Store, string) {
	dir := b.TempDir()
	st, err := sqlite.Open(b.Context(), dir, sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return st, dir
}

func openPostgres(b *testing.B) (store.Store, string) {
	st, err := postgres.Open(b.Context(), pg.StartDurable(b), postgres.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return st, b.TempDir() // the cluster's folder is on the same disk
}

// counting counts what goes through the store; it changes nothing.
type counting struct {
	store.Store
	batches, rows atomic.Int64
	mu            sync.Mutex
	took          []time.Duration
}

// Append implements store.Store.
func (c *counting) Append(ctx context.Context, b store.Batch) error {
	begun := time.Now()
	err := c.Store.Append(ctx, b)
	took := time.Since(begun)
	c.batches.Add(1)
	c.rows.Add(int64(len(b.Rows)))
	c.mu.Lock()
	c.took = append(c.took, took)
	c.mu.Unlock()
	return err
}

// eventCounter counts committed events.
type eventCounter struct{ events atomic.Int64 }

func (c *eventCounter) Loaded(engine.Live)             {}
func (c *eventCounter) Ready(domain.PartitionID, bool) {}
func (c *eventCounter) Lost(domain.PartitionID)        {}
func (c *eventCounter) Committed(rows []engine.Committed) {
	for i := range rows {
		c.events.Add(int64(len(rows[i].Events)))
	}
}

func benchRuns(b *testing.B, open func(*testing.B) (store.Store, string), partitions, submitters int) {
	st, disk := open(b)
	counted := &counting{Store: st}
	events := &eventCounter{}
	var names []domain.PartitionID
	for i := range partitions {
		names = append(names, domain.PartitionID(fmt.Sprint("main-", i)))
	}
	e := engine.New(engine.Config{Store: counted, Kinds: projection.Kinds(), Format: codec.Format,
		Partitions: names, Owner: "bench",
		Fatal: func(err error) { b.Error(err) }})
	e.Observe(events)
	if err := e.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	before := syncTimes(b, disk)
	latencies := make([][]time.Duration, submitters)
	var next atomic.Int64
	var before1, after1 runtime.MemStats
	runtime.ReadMemStats(&before1)
	cpu := cpuUsed(b)
	b.ResetTimer()
	var all sync.WaitGroup
	for i := range submitters {
		all.Go(func() {
			s := &submitter{engine: e, partition: names[i%partitions]}
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				if err := s.drive(b.Context(), n); err != nil {
					b.Error(err)
					return
				}
			}
			latencies[i] = s.took
		})
	}
	all.Wait()
	b.StopTimer()
	cpu = cpuUsed(b) - cpu
	runtime.ReadMemStats(&after1)
	e.Close()
	after := syncTimes(b, disk)
	answers := slices.Concat(latencies...)
	seconds, count := b.Elapsed().Seconds(), float64(events.events.Load())
	b.ReportMetric(float64(len(answers))/seconds, "commands/s")
	b.ReportMetric(count/seconds, "events/s")
	b.ReportMetric(float64(len(answers))/float64(counted.batches.Load()), "commands/batch")
	b.ReportMetric(float64(counted.rows.Load())/float64(counted.batches.Load()), "rows/batch")
	b.ReportMetric(float64(cpu.Microseconds())/count, "cpu-µs/event")
	b.ReportMetric(float64(after1.Mallocs-before1.Mallocs)/count, "allocs/event")
	b.ReportMetric(float64(after1.TotalAlloc-before1.TotalAlloc)/count, "B/event")
	report(b, "answer", answers)
	report(b, "commit", counted.took)
	if disk != "" {
		report(b, "fsync", append(before, after...))
	}
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
}

// submitter drives runs, one command after the other.
type submitter struct {
	engine    *engine.Engine
	partition domain.PartitionID
	took      []time.Duration
}

func (s *submitter) send(ctx context.Context, id domain.RunID, env engine.Envelope, c run.Command) (any, error) {
	env.Tenant, env.Partition, env.Stream, env.Command = benchTenant, s.partition, id.Stream(), c
	begun := time.Now()
	ack, err := s.engine.Submit(ctx, env)
	s.took = append(s.took, time.Since(begun))
	if err == nil && ack.Refusal != nil {
		err = ack.Refusal
	}
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", c.Name(), id, err)
	}
	return ack.Reply, nil
}

// drive takes one run from its request to its end.
func (s *submitter) drive(ctx context.Context, n int64) error {
	id := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{1, 8: byte(n >> 56), 9: byte(n >> 48), 10: byte(n >> 40),
		11: byte(n >> 32), 12: byte(n >> 24), 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)}))
	request := engine.Envelope{Counter: "runs/rep_bench/ci.yml", Key: &engine.Key{
		Scope: engine.ClientScope("bench", "CreateRun"), Key: string(id), Body: domain.DigestOf([]byte(id))}}
	if _, err := s.send(ctx, id, request, run.RequestRun{Request: requestOf(id)}); err != nil {
		return err
	}
	for j := range benchJobs {
		if err := s.job(ctx, id, j); err != nil {
			return err
		}
	}
	return nil
}

func (s *submitter) job(ctx context.Context, id domain.RunID, j int) error {
	now := time.Now()
	reply, err := s.send(
		ctx,
		id,
		engine.Envelope{},
		run.GrantLease{Job: id.Job(j), Runner: "rnr_bench", RunnerName: "bench",
			Session: "ses_bench", Pool: "default", Tiers: []domain.Tier{domain.TierTrusted}, Until: now.Add(time.Hour),
			AbandonBy: now.Add(2 * time.Hour), Slot: domain.SlotToken(fmt.Sprintf("rnr_bench/%d/1", j))},
	)
	if err != nil {
		return err
	}
	lease := reply.(run.LeaseReply)
	steps := []run.Step{{Index: 0, Started: now}}
	if _, err := s.send(ctx, id, engine.Envelope{}, run.ReportProgress{Attempt: lease.Attempt, Epoch: lease.Epoch,
		Observed: domain.ObservedRunning, Steps: steps, At: now}); err != nil {
		return err
	}
	steps = []run.Step{
		{Index: 0, Outcome: domain.OutcomeSuccess, Conclusion: domain.OutcomeSuccess, Started: now, Finished: now},
	}
	if _, err := s.send(ctx, id, engine.Envelope{}, run.ReportResult{Attempt: lease.Attempt, Epoch: lease.Epoch,
		Digest: domain.DigestOf([]byte(lease.Attempt)), Outcome: domain.OutcomeSuccess, Steps: steps, LogEnd: 3,
		Effect: domain.EffectNone}); err != nil {
		return err
	}
	_, err = s.send(ctx, id, engine.Envelope{}, run.RecordLog{Attempt: lease.Attempt, Log: run.Log{
		Object: "logs/sealed/" + string(
			lease.Attempt,
		), Length: 900, Digest: domain.DigestOf([]byte("log")), Bytes: 4000, Lines: 60}})
	return err
}

func requestOf(id domain.RunID) run.Request {
	q := run.Request{
		Run:            id,
		Tenant:         benchTenant,
		Repository:     "rep_bench",
		RepositoryName: "bench",
		WorkflowPath:   "ci.yml",
		WorkflowName:   "ci",
		Tier:           domain.TierTrusted,
		Class:          domain.ClassInteractive,
		Trigger: run.Trigger{
			Event:      "push",
			Key:        string(id),
			Actor:      domain.Actor{Kind: "user", ID: "dev"},
			ReceivedAt: time.Now(),
		},
		Source:   run.Source{Commit: strings.Repeat("a", 40), Ref: "refs/heads/main", Title: "Make the parser twice as fast"},
		Snapshot: domain.DigestOf([]byte("snapshot")),
		Plan:     domain.DigestOf([]byte("plan")),
	}
	for i := range benchJobs {
		k := run.JobSkeleton{Index: i, Key: fmt.Sprint("job-", i), Name: fmt.Sprint("Job ", i), TimeoutSeconds: 3600,
			RunsOn: []string{"ubuntu-latest"}, Steps: []string{"checkout", "test"},
			Retry: run.Retry{Max: 2, On: []domain.FailureClass{domain.FailureRunnerLost}, BackoffSeconds: 10}}
		switch {
		case i == benchJobs-1:
			for need := 1; need < i; need++ {
				k.Needs = append(k.Needs, need)
			}
		case i > 0:
			k.Needs = []int{0}
		}
		q.Skeleton = append(q.Skeleton, k)
	}
	return q
}

// syncTimes is the disk's own figure: 200 appended blocks of 4 KiB, each synced.
func syncTimes(b *testing.B, dir string) []time.Duration {
	b.Helper()
	if dir == "" {
		return nil
	}
	file, err := os.Create(filepath.Join(dir, "fsync.probe"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}()
	block := make([]byte, 4096)
	var took []time.Duration
	for range 200 {
		begun := time.Now()
		if _, err := file.Write(block); err != nil {
			b.Fatal(err)
		}
		if err := file.Sync(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begun))
	}
	return took
}

// cpuUsed is the processor time of this process, PostgreSQL's not included.
func cpuUsed(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func report(b *testing.B, what string, took []time.Duration) {
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), what+"-p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), what+"-p99-µs")
}

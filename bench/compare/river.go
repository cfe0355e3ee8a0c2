package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"golang.org/x/sync/errgroup"
)

// Tuning are the settings of a River client that its speed depends on. How it completes jobs
// is not among them: it collects what is completed and writes it in batches.
type Tuning struct {
	Workers  int           // of the queue: MaxWorkers
	Cooldown time.Duration // FetchCooldown; 0: River's default, 100 ms
	Poll     time.Duration // FetchPollInterval; 0: River's default, a second
}

// tuned are the settings with which River's authors measure it (cmd/river/riverbench).
var tuned = Tuning{Workers: 2000, Cooldown: 2 * time.Millisecond, Poll: 20 * time.Millisecond}

const (
	// riverPatience is how long jobs may take without one being completed.
	riverPatience = time.Minute
	// insertedAtOnce are jobs that wait, by one InsertManyFast.
	insertedAtOnce = 5000
	// eventsMax is more than what is completed before it is looked at: River drops what is beyond.
	eventsMax = 1 << 18
)

// riverVersion is that of River in this program.
func riverVersion() string {
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if module.Path == "github.com/riverqueue/river" {
				return module.Version
			}
		}
	}
	return "unknown"
}

// args are those of a job that does nothing.
type args struct {
	Asked int64 `json:"asked"` // when its insertion began, in microseconds
}

// Kind implements river.JobArgs.
func (args) Kind() string { return "nothing" }

// worker executes nothing, and keeps book.
type worker struct {
	river.WorkerDefaults[args]
	book *book
}

// Work implements river.Worker.
func (w *worker) Work(_ context.Context, job *river.Job[args]) error {
	w.book.executed(job.ID, job.Args.Asked)
	return nil
}

// queue is a River client on a database of its own, with what was seen of its jobs.
type queue struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	words  *words
	book   *book
	events <-chan *river.Event
}

// openQueue makes River's tables and a client that is not started.
func openQueue(ctx context.Context, database string, conns int, t Tuning) (_ *queue, err error) {
	cfg, err := pgxpool.ParseConfig(database)
	if err != nil {
		return nil, fmt.Errorf("read URL of the database: %w", err)
	}
	cfg.MaxConns, cfg.MinConns = int32(conns), int32(conns)
	q := &queue{book: newBook(), words: &words{}}
	if q.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("connect River: %w", err)
	}
	defer func() {
		if err != nil {
			q.pool.Close()
		}
	}()
	driver := riverpgxv5.New(q.pool)
	logger := slog.New(slog.NewTextHandler(q.words, &slog.HandlerOptions{Level: slog.LevelWarn}))
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		return nil, fmt.Errorf("make River's tables: %w", err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, fmt.Errorf("make River's tables: %w", err)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{book: q.book})
	q.client, err = river.NewClient(driver, &river.Config{FetchCooldown: t.Cooldown, FetchPollInterval: t.Poll,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: t.Workers}}, Workers: workers, Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("make River client: %w", err)
	}
	q.events, _ = q.client.SubscribeConfig(&river.SubscribeConfig{ChanSize: eventsMax, Kinds: []river.EventKind{
		river.EventKindJobCompleted, river.EventKindJobFailed, river.EventKindJobCancelled, river.EventKindJobSnoozed}})
	return q, nil
}

// start lets the client work. Events come when their batch was committed.
func (q *queue) start(ctx context.Context, group *errgroup.Group) error {
	if err := q.client.Start(ctx); err != nil {
		return fmt.Errorf("start River: %w", err)
	}
	group.Go(func() error {
		for event := range q.events {
			if event.Kind != river.EventKindJobCompleted {
				return fmt.Errorf("job %d of River: %s", event.Job.ID, event.Kind)
			}
			q.book.completed(event.Job.ID)
		}
		return nil
	})
	return nil
}

// stop lets the client finish, which ends its events, and closes the pool.
func (q *queue) stop(ctx context.Context) error {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), riverPatience)
	defer cancel()
	if err := q.client.Stop(late); err != nil {
		return fmt.Errorf("stop River: %w", err)
	}
	return nil
}

// closedLoop has so many jobs under way that each producer waits for its own before it inserts
// the next; batch of them in one transaction.
func (c *comparison) closedLoop(t Tuning, producers, batch int) func(context.Context, string) (Row, error) {
	return func(ctx context.Context, database string) (Row, error) {
		q, err := openQueue(ctx, database, c.Conns, t)
		if err != nil {
			return Row{}, err
		}
		defer q.pool.Close()
		group, work := errgroup.WithContext(ctx)
		asking, done := context.WithCancel(work)
		defer done()
		if err := q.start(ctx, group); err != nil {
			return Row{}, err
		}
		produce := errgroup.Group{}
		for range producers {
			produce.Go(func() error { return q.produce(work, asking, batch) })
		}
		pause(asking, c.Warm)
		q.book.openWindow()
		pause(asking, c.Duration)
		q.book.closeWindow()
		done()
		err = produce.Wait()
		if err = errors.Join(err, q.stop(ctx), group.Wait()); err != nil {
			return Row{}, fmt.Errorf("%w\n%s", err, q.words)
		}
		return q.tell(ctx, c.settings(t, map[string]any{"producers": producers, "jobs_of_a_transaction": batch}))
	}
}

// produce inserts, waits until that is completed, and goes on until the asking ends.
func (q *queue) produce(ctx, asking context.Context, batch int) error {
	jobs, ids := make([]river.InsertManyParams, batch), make([]int64, batch)
	for asking.Err() == nil {
		asked := time.Now().UnixMicro()
		if batch == 1 {
			answer, err := q.client.Insert(ctx, args{asked}, nil)
			if err != nil {
				return fmt.Errorf("insert job of River: %w", err)
			}
			ids[0] = answer.Job.ID
		} else {
			for i := range jobs {
				jobs[i].Args = args{asked}
			}
			answers, err := q.client.InsertMany(ctx, jobs)
			if err != nil {
				return fmt.Errorf("insert jobs of River: %w", err)
			}
			for i, answer := range answers {
				ids[i] = answer.Job.ID
			}
		}
		for _, id := range ids {
			if err := q.book.wait(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// drainRiver lets jobs wait before the client is started.
func (c *comparison) drainRiver(t Tuning) func(context.Context, string) (Row, error) {
	return func(ctx context.Context, database string) (Row, error) {
		q, err := openQueue(ctx, database, c.Conns, t)
		if err != nil {
			return Row{}, err
		}
		defer q.pool.Close()
		begun := time.Now()
		for left := c.Drain; left > 0; left -= insertedAtOnce {
			jobs := make([]river.InsertManyParams, min(left, insertedAtOnce))
			for i := range jobs {
				jobs[i].Args = args{time.Now().UnixMicro()}
			}
			if _, err := q.client.InsertManyFast(ctx, jobs); err != nil {
				return Row{}, fmt.Errorf("insert jobs of River: %w", err)
			}
		}
		inserted := float64(c.Drain) / time.Since(begun).Seconds()
		group, work := errgroup.WithContext(ctx)
		q.book.openWindow()
		if err := q.start(ctx, group); err != nil {
			return Row{}, err
		}
		err = q.book.all(work, c.Drain)
		if err = errors.Join(err, q.stop(ctx), group.Wait()); err != nil {
			return Row{}, fmt.Errorf("%w\n%s", err, q.words)
		}
		q.book.closeDrain()
		return q.tell(ctx, c.settings(t, map[string]any{"drain": c.Drain, "inserted_jobs_per_second": inserted}))
	}
}

func (c *comparison) settings(t Tuning, further map[string]any) map[string]any {
	further["max_workers"], further["pool"], further["fetch_cooldown"], further["fetch_poll_interval"] =
		t.Workers, c.Conns, cmp.Or(t.Cooldown, river.FetchCooldownDefault).String(),
		cmp.Or(t.Poll, river.FetchPollIntervalDefault).String()
	return further
}

// tell holds the table against the book, and makes the row.
func (q *queue) tell(ctx context.Context, settings map[string]any) (Row, error) {
	rows, err := q.pool.Query(ctx, "SELECT id, state::text, attempt FROM river_job")
	if err != nil {
		return Row{}, fmt.Errorf("read River's jobs: %w", err)
	}
	var id int64
	var state string
	var attempt int
	seen := 0
	_, err = pgx.ForEachRow(rows, []any{&id, &state, &attempt}, func() error {
		seen++
		return q.book.check(id, state, attempt)
	})
	if err != nil {
		return Row{}, fmt.Errorf("count River's jobs: %w", err)
	}
	if err := q.book.checkCount(seen); err != nil {
		return Row{}, fmt.Errorf("count River's jobs: %w", err)
	}
	if text := q.words.String(); text != "" {
		return Row{}, fmt.Errorf("warnings of River:\n%s", text)
	}
	return q.book.row(settings), nil
}

// words collects what River logs: warnings and errors, of which there should be none.
type words struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

// String implements fmt.Stringer.
func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(w.text.String())
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

const (
	// askersMax bounds the requests for runs that wait for their answers at once.
	askersMax = 64
	// endPatience is how long the last of what is under way may take without any result, beyond
	// the jobs' own time.
	endPatience = 2 * time.Minute
	endLook     = 100 * time.Millisecond
	sampleEvery = time.Second
)

// Words of the book, as `fairlead admin tally` reads them.
const (
	bookRun, bookAsked, bookGot, bookAcked = "run", "asked", "got", "ack"
	entryMax                               = 128
)

// tracked is a run under way.
type tracked struct {
	left     int  // jobs without an acknowledged result
	answered bool // its request was: a first job may be quicker
	touched  bool // one failed or it was cancelled: not all of its jobs will come
	over     bool // and the server said that it has its outcome
}

// traffic is a measurement with many runners.
type traffic struct {
	*stage
	of    FleetOptions
	name  string   // tells its agents from those of another load
	first accepted // the run that introduced the repository, and what further ones are asked for with

	writing sync.Mutex
	book    *os.File
	pages   []byte // of the book, not written yet
	broken  error

	mu           sync.Mutex
	tracked      map[string]*tracked // runs that were asked for and are not done
	free         chan struct{}       // closed loop: a run may begin
	inWindow     bool
	from, to     time.Time
	answered     *times                         // request due until answered, in the window
	acknowledged *times                         // result sent until acknowledged, in the window
	acks         int64                          // results acknowledged, ever
	lastAck      time.Time                      // when the last of them came
	whole        int                            // tracked runs of which all jobs will come
	waiting      int64                          // jobs that waited for the first runner
	unasked      int64                          // requests that were due in the window, and that nobody was free to ask
	exchanges    atomic.Int64                   // calls of runners, in the window
	onGot        func(run string, at time.Time) // a manifest was verified; may be nil
	onAck        func(took time.Duration)       // a result was acknowledged; may be nil
	samples      []Sample
}

// Sample is how things stood in one second of the window.
type Sample struct {
	At       float64 `json:"at_seconds"` // since the window opened
	Jobs     float64 `json:"jobs_per_second"`
	CPU      float64 `json:"server_cpu_percent"` // of one core
	Loader   float64 `json:"generator_cpu_percent"`
	RSS      int64   `json:"server_rss_bytes"`
	Underway int     `json:"runs_under_way"` // of which no job failed and that were not cancelled
}

// write puts a line into the book. The book is what the server is held to, so a line that
// can't be written ends the measurement.
func (l *traffic) write(word, name string, at time.Time) {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.pages = append(append(append(l.pages, word...), ' '), name...)
	if !at.IsZero() {
		l.pages = strconv.AppendInt(append(l.pages, ' '), at.UnixMicro(), 10)
	}
	l.pages = append(l.pages, '\n')
	if len(l.pages) > 1<<16-entryMax {
		l.flush()
	}
}

// flush writes what is waiting. writing is held.
func (l *traffic) flush() {
	_, err := l.book.Write(l.pages)
	l.pages, l.broken = l.pages[:0], errors.Join(l.broken, err)
}

func (l *traffic) openWindow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inWindow, l.from = true, time.Now()
}

func (l *traffic) closeWindow(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inWindow, l.to = false, at
}

// demand asks for runs: so many in a second, or as fast as they are done.
func (l *traffic) demand(ctx context.Context) error {
	asks, ctx := errgroup.WithContext(ctx)
	asks.SetLimit(askersMax)
	ask := func(due time.Time) {
		asks.Go(func() error { return l.askOne(ctx, due) })
	}
	if l.of.Rate > 0 {
		every := time.Duration(float64(time.Second) * float64(l.of.Jobs) / l.of.Rate)
		for due := time.Now(); ctx.Err() == nil; due = due.Add(every) {
			pause(ctx, time.Until(due))
			if ctx.Err() == nil {
				ask(due) // later than due when all askers wait: that is part of the time
				continue
			}
			l.mu.Lock()
			l.unasked = max(int64(l.to.Sub(due)/every), 0)
			l.mu.Unlock()
		}
		return asks.Wait()
	}
	l.mu.Lock()
	l.free = make(chan struct{}, l.of.Ahead)
	free := l.free
	l.mu.Unlock()
	for range l.of.Ahead {
		free <- struct{}{}
	}
	for {
		select {
		case <-free:
			ask(time.Now())
		case <-ctx.Done():
			return asks.Wait()
		}
	}
}

// askOne asks for a run that was due at a time. A request whose answer is waited for when the
// asking ends is finished all the same: its run may exist.
func (l *traffic) askOne(ctx context.Context, due time.Time) error {
	ctx = context.WithoutCancel(ctx)
	run, err := l.ask(ctx, l.first, fleetJob)
	if err != nil {
		return err
	}
	l.write(bookRun, run.GetRun(), time.Time{})
	l.mu.Lock()
	t := l.track(run.GetRun())
	t.answered = true
	if l.within(due) {
		err = l.answered.add(gap(due, time.Now()))
	}
	cancel := rand.IntN(100) < l.of.Cancel
	if cancel {
		l.touch(t)
	}
	l.settle(run.GetRun(), t)
	l.mu.Unlock()
	if cancel {
		_, failed := l.server.client.Runs.CancelRun(ctx, &fairleadv1.CancelRunRequest{Run: run.GetRun(), Reason: "measured"})
		err = errors.Join(err, failed)
	}
	return err
}

// within says whether a moment is in the window. mu is held.
func (l *traffic) within(at time.Time) bool {
	return !l.from.IsZero() && !at.Before(l.from) && (l.to.IsZero() || at.Before(l.to))
}

// track finds a run. mu is held.
func (l *traffic) track(run string) *tracked {
	t := l.tracked[run]
	if t == nil {
		t = &tracked{left: l.of.Jobs}
		l.tracked[run] = t
		l.whole++
	}
	return t
}

// touch notes that not all jobs of a run will come: only the server knows its end. mu is held.
func (l *traffic) touch(t *tracked) {
	if !t.touched {
		t.touched = true
		l.whole--
		l.next()
	}
}

// settle forgets a run that is done. mu is held.
func (l *traffic) settle(run string, t *tracked) {
	if t.answered && t.left == 0 && !t.over {
		delete(l.tracked, run)
		if !t.touched {
			l.whole--
			l.next()
		}
	}
}

// next lets another run begin. mu is held.
func (l *traffic) next() {
	if l.free != nil {
		select {
		case l.free <- struct{}{}:
		default:
		}
	}
}

// done takes an acknowledged result.
func (l *traffic) done(of taken, outcome domain.Outcome, sent, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acks++
	l.lastAck = now
	if l.onAck != nil {
		l.onAck(gap(sent, now))
	}
	var err error
	if l.inWindow {
		err = l.acknowledged.add(gap(sent, now))
	}
	if of.run == l.first.Run {
		return err
	}
	t := l.track(of.run)
	t.left--
	if outcome != domain.OutcomeSuccess {
		l.touch(t)
	}
	l.settle(of.run, t)
	return err
}

// counting says whether the window is open.
func (l *traffic) counting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inWindow
}

// sample looks at the processes once in a second, until the context of the window ends.
func (l *traffic) sample(ctx context.Context) {
	begun := time.Now()
	last, lastAcks := begun, int64(0)
	server, own := l.before, l.own
	l.mu.Lock()
	lastAcks = l.acks
	l.mu.Unlock()
	for ctx.Err() == nil {
		pause(ctx, sampleEvery)
		now := time.Now()
		s, err := usageOf(l.server.pid())
		o, failed := usageOf(os.Getpid())
		took := now.Sub(last).Seconds()
		if err != nil || failed != nil || took <= 0 {
			continue // the server's end is told by whoever asks it
		}
		l.mu.Lock()
		l.samples = append(l.samples, Sample{At: now.Sub(begun).Seconds(), Jobs: float64(l.acks-lastAcks) / took,
			CPU: 100 * (s.CPU - server.CPU) / took, Loader: 100 * (o.CPU - own.CPU) / took, RSS: s.RSS,
			Underway: l.whole})
		last, lastAcks, server, own = now, l.acks, s, o
		l.mu.Unlock()
	}
}

// finishAll waits until everything that was asked for is done.
func (l *traffic) finishAll(ctx context.Context) error {
	l.progress("finishing what is under way")
	patience := endPatience + time.Duration(l.of.Jobs)*l.of.JobTime
	deadline, last := time.Now().Add(patience), int64(0)
	for {
		waits, touched, acks := l.underway()
		for _, run := range touched {
			answer, err := l.server.client.Runs.GetRun(ctx, &fairleadv1.GetRunRequest{Run: run})
			if err != nil {
				return fmt.Errorf("read %s: %w", run, err)
			}
			if answer.GetRun().GetOutcome() == "" {
				waits++
				continue
			}
			l.mu.Lock()
			l.tracked[run].over = true // the acknowledgement of its last result may still come
			l.mu.Unlock()
		}
		if waits == 0 {
			return nil
		}
		if acks > last {
			deadline, last = time.Now().Add(patience), acks
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("%d runs were not done in time", waits), ctx.Err())
		}
		pause(ctx, endLook)
	}
}

// underway counts the runs whose jobs will all come, and lists the others.
func (l *traffic) underway() (waits int, touched []string, acks int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for run, t := range l.tracked {
		switch {
		case t.over:
		case t.touched:
			touched = append(touched, run)
		default:
			waits++
		}
	}
	return waits, touched, l.acks
}

// tallied is what `fairlead admin tally --json` says.
type tallied struct {
	Open       int64    `json:"runs_open"`
	Attempts   int64    `json:"attempts"`
	Jobs       int64    `json:"jobs"`
	InWindow   int64    `json:"jobs_in_window"`
	Events     int64    `json:"events"`
	Rows       int64    `json:"rows"`
	Bytes      int64    `json:"store_bytes"`
	Leased     Wait     `json:"ready_to_lease_ms"`
	Got        Wait     `json:"ready_to_manifest_ms"`
	Lost       int64    `json:"lost"`
	Duplicated int64    `json:"duplicated"`
	Names      []string `json:"names"`
}

// tally lets another process count, from the store.
func (l *traffic) tally(ctx context.Context) (t tallied, err error) {
	l.writing.Lock()
	l.flush()
	broken := l.broken
	l.writing.Unlock()
	if broken != nil {
		return t, fmt.Errorf("write book: %w", broken)
	}
	args := []string{"admin", "tally", "--data", l.server.data, "--json", "--book", l.book.Name(),
		"--from", l.from.UTC().Format(time.RFC3339Nano), "--to", l.to.UTC().Format(time.RFC3339Nano)}
	if l.options.Store != "" {
		args = append(args, "--store", l.options.Store)
	}
	l.progress("counting what history holds")
	c, err := l.server.call(ctx, l.options, l.folder, args...)
	if bad := json.Unmarshal(c.out, &t); bad != nil {
		return t, errors.Join(fmt.Errorf("read the count: %w", bad), err)
	}
	if err != nil && t.Lost+t.Duplicated == 0 {
		return t, err
	}
	return t, nil // what is wrong is in what it said
}

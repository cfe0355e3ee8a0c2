package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// FleetOptions are those of Fleet.
type FleetOptions struct {
	Runners  int // each with a registration and connections of its own
	Slots    int // of each runner
	Warm     time.Duration
	Duration time.Duration // of the steady window

	Shape string  // of a run's graph: fan, chain or wide
	Jobs  int     // of a run
	Rate  float64 // jobs asked for in a second; 0: a closed loop
	Ahead int     // runs under way in a closed loop; 0: enough for all slots, twice

	JobTime  time.Duration // from the manifest to the result
	LogBytes int           // of a job, in one chunk
	Fail     int           // percent of jobs that fail
	Decline  int           // percent of leases that are declined: another attempt follows
	Cancel   int           // percent of runs that are cancelled at once

	// Drain is how many jobs wait before the first runner comes, in whole runs. The window is then
	// from that moment until all of them have concluded, and nothing else is asked for: Warm, Rate,
	// Ahead, Fail and Cancel mean nothing, and Duration is that of the profile alone.
	Drain   int
	Backlog int // jobs that wait all the time, in runs of ten, for a runner that is not there
}

// jobs in the window that are still worth a figure.
const fleetLeast = 10

// enlistAtOnce runners register beside each other.
const enlistAtOnce = 8

// Fleet measures a server under the load of many runners: first it warms up, then there is a
// steady window, then everything that was asked for is finished. Or many jobs wait, then the
// runners come. What was committed in the window, and whether anything was lost or executed
// twice, is counted by a process of its own from the store's history, against a book of what
// was answered and acknowledged.
func Fleet(ctx context.Context, o Options, of FleetOptions) (*Report, error) {
	settings := map[string]any{"runners": of.Runners, "slots": of.Slots, "warm": of.Warm.String(),
		"duration": of.Duration.String(), "shape": of.Shape, "jobs_of_a_run": of.Jobs, "rate": of.Rate,
		"job_time": of.JobTime.String(), "log_bytes": of.LogBytes, "fail": of.Fail, "decline": of.Decline,
		"cancel": of.Cancel, "backlog": of.Backlog}
	if of.Drain > 0 {
		settings = map[string]any{"runners": of.Runners, "slots": of.Slots, "drain": of.Drain, "shape": of.Shape,
			"jobs_of_a_run": of.Jobs, "job_time": of.JobTime.String(), "log_bytes": of.LogBytes, "decline": of.Decline}
	}
	if of.Ahead == 0 {
		of.Ahead = max(2*of.Runners*of.Slots/of.Jobs, 2)
	}
	if of.Backlog > 0 {
		o.Flags = append(o.Flags, unbounded...)
	}
	if of.Rate == 0 && of.Drain == 0 {
		settings["runs_ahead"] = of.Ahead
	}
	return measure(ctx, "fleet", o, "server", settings, func(ctx context.Context, s *stage) (err error) {
		l := &traffic{stage: s, of: of, tracked: map[string]*tracked{}, answered: newTimes(), acknowledged: newTimes()}
		if l.book, err = os.Create(filepath.Join(s.folder, "book")); err != nil {
			return fmt.Errorf("make book: %w", err)
		}
		defer func() { err = errors.Join(err, l.book.Close()) }()
		l.first, err = s.introduce(ctx, map[string]string{fleetJob: shapeText(of.Shape, of.Jobs),
			backlogJob: strings.ReplaceAll(workflowText(jobsMany, false), "ubuntu-latest", "nobody-has-this")})
		if err != nil {
			return err
		}
		if err := s.pile(ctx, l.first, backlogJob, of.Backlog); err != nil {
			return err
		}
		return l.run(ctx)
	})
}

// run measures and tells.
func (l *traffic) run(ctx context.Context) error {
	if err := l.serve(ctx); err != nil {
		return err
	}
	return l.tell(ctx)
}

// serve goes through the phases.
func (l *traffic) serve(ctx context.Context) error {
	group, work := errgroup.WithContext(ctx)
	work, stop := context.WithCancel(work)
	defer stop()
	if l.of.Drain > 0 {
		if err := l.pileUp(ctx); err != nil {
			return err
		}
	}
	l.progress("enlisting %d runners", l.of.Runners)
	begun := time.Now()
	if err := l.enlistAll(ctx, work, group); err != nil {
		stop()
		return errors.Join(err, group.Wait())
	}
	l.report.value("registration", "token and identity, one runner after the other in eight lines",
		float64(l.of.Runners)/time.Since(begun).Seconds(), "runners/s")
	group.Go(func() error {
		defer stop() // agents end with the last phase
		if l.of.Drain > 0 {
			return l.drained(work)
		}
		return l.phases(work)
	})
	err := group.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// enlistAll registers the runners and starts them. Where jobs wait for them, that is when the
// window opens.
func (l *traffic) enlistAll(ctx, work context.Context, group *errgroup.Group) error {
	agents := make([]*agent, l.of.Runners)
	enlist, enlisting := errgroup.WithContext(ctx)
	enlist.SetLimit(enlistAtOnce)
	for i := range agents {
		enlist.Go(func() (err error) {
			agents[i], err = l.enlist(enlisting, fmt.Sprint("agent-", l.name, i), l.of.Slots)
			return err
		})
	}
	if err := enlist.Wait(); err != nil {
		return err
	}
	if l.of.Drain > 0 {
		if err := l.begin(); err != nil {
			return err
		}
		l.openWindow()
	}
	for i, a := range agents {
		group.Go(func() error { return newHand(l, a, uint64(i)).serve(work) })
	}
	return nil
}

// phases asks for runs until the window is over, then waits for what is under way.
func (l *traffic) phases(ctx context.Context) error {
	asking, done := context.WithCancel(ctx)
	defer done()
	asks, asking := errgroup.WithContext(asking) // ends at once when a request fails
	asks.Go(func() error { return l.demand(asking) })
	l.progress("warming up for %s", l.of.Warm)
	pause(asking, l.of.Warm)
	if err := l.begin(); err != nil {
		return err
	}
	l.progress("steady for %s", l.of.Duration)
	l.openWindow()
	profile := errgroup.Group{}
	if l.options.Profile != "" {
		profile.Go(func() error { return l.profile(asking, l.of.Duration) })
	}
	window, shut := context.WithTimeout(asking, l.of.Duration)
	l.sample(window)
	shut()
	l.closeWindow(time.Now())
	if err := l.end(); err != nil {
		return err
	}
	taken := profile.Wait()
	done()
	if err := errors.Join(asks.Wait(), taken); err != nil {
		return err
	}
	return l.finishAll(ctx)
}

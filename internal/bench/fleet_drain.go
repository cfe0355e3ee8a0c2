package bench

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// pileUp asks for the runs whose jobs are to wait, before there is a runner.
func (l *traffic) pileUp(ctx context.Context) error {
	runs := (l.of.Drain + l.of.Jobs - 1) / l.of.Jobs
	l.progress("asking for %d runs, %d jobs in all", runs, runs*l.of.Jobs)
	begun := time.Now()
	group, asking := errgroup.WithContext(ctx)
	group.SetLimit(askersMax)
	for range runs {
		if asking.Err() != nil {
			break
		}
		group.Go(func() error { return l.askOne(asking, time.Now()) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	l.waiting = int64(runs * l.of.Jobs)
	l.report.value("jobs asked for", "each run durable before it is answered",
		float64(l.waiting)/time.Since(begun).Seconds(), "jobs/s")
	return ctx.Err()
}

// drained waits until the jobs have concluded, and ends the window with the last of their results.
func (l *traffic) drained(ctx context.Context) error {
	window, shut := context.WithCancel(ctx)
	defer shut()
	watch := errgroup.Group{}
	watch.Go(func() error { l.sample(window); return nil })
	if l.options.Profile != "" {
		watch.Go(func() error { return l.profile(ctx, l.of.Duration) })
	}
	if err := l.finishAll(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	last := l.lastAck
	l.mu.Unlock()
	l.closeWindow(last)
	if err := l.end(); err != nil {
		return err
	}
	shut()
	return watch.Wait()
}

// checkDrained wants every job that waited to be in the window, by history.
func (l *traffic) checkDrained(t *tallied) error {
	if t.InWindow < l.waiting {
		return fmt.Errorf("%d jobs waited, and only %d were concluded between the first runner and the last result",
			l.waiting, t.InWindow)
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// book is what was seen of River's jobs from outside of its table.
type book struct {
	mu        sync.Mutex
	jobs      map[int64]*seen
	done      int       // completed, ever
	last      time.Time // when the last of them was
	awaited   int       // all is called when so many are done
	enough    chan struct{}
	from, to  time.Time
	inWindow  int
	waits     []time.Duration // from the insertion to the start, of those that started in the window
	unplanned error
}

// seen is one job.
type seen struct {
	executed  int
	completed bool
	over      chan struct{} // closed when it is; made by whoever comes first
}

func newBook() *book { return &book{jobs: map[int64]*seen{}, enough: make(chan struct{})} }

// job finds a job. mu is held.
func (b *book) job(id int64) *seen {
	s := b.jobs[id]
	if s == nil {
		s = &seen{over: make(chan struct{})}
		b.jobs[id] = s
	}
	return s
}

// open says whether the window is. mu is held.
func (b *book) open() bool { return !b.from.IsZero() && b.to.IsZero() }

// executed notes that a worker has a job that was asked for at a time in microseconds.
func (b *book) executed(id, asked int64) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.job(id).executed++
	if b.open() {
		b.waits = append(b.waits, now.Sub(time.UnixMicro(asked)))
	}
}

// completed notes that the completion of a job was committed.
func (b *book) completed(id int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.job(id)
	if s.completed {
		b.unplanned = fmt.Errorf("job %d was completed twice", id)
		return
	}
	s.completed = true
	close(s.over)
	b.done, b.last = b.done+1, time.Now()
	if b.open() {
		b.inWindow++
	}
	if b.done == b.awaited {
		close(b.enough)
	}
}

// wait returns when a job was completed.
func (b *book) wait(ctx context.Context, id int64) error {
	b.mu.Lock()
	over := b.job(id).over
	b.mu.Unlock()
	timer := time.NewTimer(riverPatience)
	defer timer.Stop()
	select {
	case <-over:
		return nil
	case <-timer.C:
		return fmt.Errorf("job %d was not completed within %s", id, riverPatience)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// all returns when so many jobs were completed. It is called before the first is.
func (b *book) all(ctx context.Context, jobs int) error {
	b.mu.Lock()
	b.awaited = jobs
	if b.done >= jobs {
		close(b.enough)
	}
	b.mu.Unlock()
	look := time.NewTicker(riverPatience)
	defer look.Stop()
	for before := -1; ; {
		select {
		case <-b.enough:
			return nil
		case <-look.C:
			b.mu.Lock()
			done := b.done
			b.mu.Unlock()
			if done == before {
				return fmt.Errorf("%d of %d jobs were completed, and none within %s", done, jobs, riverPatience)
			}
			before = done
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *book) openWindow() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.from = time.Now()
}

func (b *book) closeWindow() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.to = time.Now()
}

// closeDrain ends the window with the last job.
func (b *book) closeDrain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.to = b.last
}

// check wants a job of the table to have been completed, by one execution.
func (b *book) check(id int64, state string, attempt int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.job(id)
	if state != "completed" || attempt != 1 || s.executed != 1 || !s.completed {
		return fmt.Errorf("job %d is %s after %d attempts; it was executed %d times, and its completion was told: %v",
			id, state, attempt, s.executed, s.completed)
	}
	return nil
}

// checkCount wants as many jobs in the table as were seen.
func (b *book) checkCount(rows int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if rows != len(b.jobs) || rows != b.done {
		err = fmt.Errorf("%d are in the table, %d were seen and %d completed", rows, len(b.jobs), b.done)
	}
	if b.inWindow == 0 {
		err = errors.Join(err, errors.New("none was completed in the window: it is too short for a figure"))
	}
	return errors.Join(err, b.unplanned)
}

func (b *book) row(settings map[string]any) Row {
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.Sort(b.waits)
	at := func(percent int) float64 {
		if len(b.waits) == 0 {
			return 0
		}
		return float64(b.waits[(len(b.waits)-1)*percent/100].Microseconds()) / 1000
	}
	return Row{JobsPerSecond: float64(b.inWindow) / b.to.Sub(b.from).Seconds(), Jobs: int64(b.inWindow),
		Settings: settings, Wait: &Wait{P50: at(50), P99: at(99)}}
}

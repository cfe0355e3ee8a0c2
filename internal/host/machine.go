package host

import (
	"context"
	"sync"
	"time"
)

// Machine is the host of a real process.
func Machine() Host { return machine{} }

type machine struct{}

// began is when the process did; Elapsed counts from it.
var began = sync.OnceValue(time.Now)

// Go implements Host.
func (machine) Go(f func()) { go f() }

// After implements Host.
func (machine) After(d time.Duration, f func()) { time.AfterFunc(d, f) }

// Elapsed implements Host.
func (machine) Elapsed() time.Duration { return time.Since(began()) }

// Wait implements Host.
func (machine) Wait(ctx context.Context, w For) Woken {
	// What has happened already counts in a fixed order; a select would choose at random.
	select {
	case <-w.News:
		return News
	default:
	}
	select {
	case <-w.End:
		return End
	default:
	}
	switch {
	case ctx.Err() != nil:
		return Ended
	case w.Limit <= 0:
		return Late
	case w.Limit == Forever:
		return wait(ctx, w, nil)
	}
	timer := time.NewTimer(w.Limit)
	defer timer.Stop()
	return wait(ctx, w, timer.C)
}

func wait(ctx context.Context, w For, late <-chan time.Time) Woken {
	select {
	case <-w.News:
		return News
	case <-w.End:
		return End
	case <-late:
		return Late
	case <-ctx.Done():
		return Ended
	}
}

// Package host is what the shell's code runs on: it starts work beside its caller, waits,
// and reads a clock that only grows.
//
// It deliberately is no scheduler and no framework of actors: on a machine a Host is
// goroutines, channels and timers, one line each. It exists because a simulation has another
// one, which runs one thing at a time in an order that a seed decides, so that the drivers
// of the server run there and not copies of them.
//
// Invariants: work that waits does it by Wait, and never while it holds a mutex; nothing of
// the shell sleeps, starts a goroutine or reads the machine's monotonic clock by itself.
//
// Read next: internal/host/machine.go
package host

import (
	"context"
	"math"
	"time"
)

// Forever is a Limit that is never reached.
const Forever = time.Duration(math.MaxInt64)

// Woken says why a Wait ended.
type Woken int

// Why a Wait ended.
const (
	News  Woken = iota + 1 // something came
	End                    // the other channel was closed: what was waited for won't come
	Late                   // the limit passed
	Ended                  // the context ended
)

// For says what a Wait is for. Nil channels never give anything.
type For struct {
	News <-chan struct{} // receives one value, or is closed
	End  <-chan struct{} // is closed when nothing will come any more
	// Limit is how long to wait at most; 0 or less looks once. Use Forever for no limit.
	Limit time.Duration
}

// Host runs work. All methods may be called from everywhere.
type Host interface {
	// Go runs f beside its caller.
	Go(f func())
	// Wait blocks its caller until one of the things that w names happens. When several
	// have happened already, the first of News, End, the context's end, the limit counts.
	Wait(ctx context.Context, w For) Woken
	// After runs f once d has passed. f must not wait.
	After(d time.Duration, f func())
	// Elapsed is a clock that only grows. Only differences mean something.
	Elapsed() time.Duration
}

// Pause waits for d. It reports false when ctx ended before.
func Pause(ctx context.Context, h Host, d time.Duration) bool {
	return h.Wait(ctx, For{Limit: d}) == Late
}

// Or gives h, or the machine where h is nil.
func Or(h Host) Host {
	if h == nil {
		return Machine()
	}
	return h
}

// Within gives a context that ends after d, and a function that lets go of it before.
func Within(ctx context.Context, h Host, d time.Duration) (context.Context, context.CancelFunc) {
	if _, real := h.(machine); real {
		return context.WithTimeout(ctx, d)
	}
	within, cancel := context.WithCancelCause(ctx)
	h.After(d, func() { cancel(context.DeadlineExceeded) })
	return within, func() { cancel(context.Canceled) }
}

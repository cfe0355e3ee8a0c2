package main

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// holdWithin is how long a read waits for the pool's next leader before its caller hears
	// that there is none: a hand-over takes less, and a caller that asks again at once costs
	// more than one that waits here.
	holdWithin = 250 * time.Millisecond
	// holdersMax bounds how many reads wait at once. A fleet without its leader must not turn
	// every request into one that sits here.
	holdersMax = 256
)

// waitingRoom is where requests wait for something that is about to change.
type waitingRoom struct {
	taken atomic.Int64
}

// until waits until look says yes, and says whether it did. look also gives what is closed
// when looking again is worth it; nil, or nothing for a while, is looked at anyway. It gives
// up after holdWithin, with ctx, and at once when the room is full.
func (w *waitingRoom) until(ctx context.Context, look func() (ok bool, changed <-chan struct{})) bool {
	ok, changed := look()
	if ok || ctx.Err() != nil {
		return ok
	}
	defer w.taken.Add(-1)
	if w.taken.Add(1) > holdersMax {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, holdWithin)
	defer cancel()
	for !ok {
		select {
		case <-changed:
		case <-time.After(leaderLook):
		case <-ctx.Done():
			return false
		}
		ok, changed = look()
	}
	return true
}

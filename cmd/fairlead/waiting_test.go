package main

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// never is what is looked for in vain.
func never() (bool, <-chan struct{}) { return false, nil }

func TestARequestWaitsForTheNextLeaderAndNotForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var room waitingRoom
		began := time.Now()
		if room.until(t.Context(), never) || time.Since(began) != holdWithin {
			t.Errorf("waited %s for nothing", time.Since(began))
		}

		// It is heard of at once when the change is told, and soon when it is not.
		changed := make(chan struct{})
		var led atomic.Bool
		told := time.AfterFunc(time.Millisecond, func() { led.Store(true); close(changed) })
		defer told.Stop()
		began = time.Now()
		if !room.until(t.Context(), func() (bool, <-chan struct{}) { return led.Load(), changed }) ||
			time.Since(began) != time.Millisecond {
			t.Errorf("waited %s for what was told", time.Since(began))
		}
		began = time.Now()
		if !room.until(t.Context(), func() (bool, <-chan struct{}) { return time.Since(began) > 15*time.Millisecond, nil }) ||
			time.Since(began) != 2*leaderLook {
			t.Errorf("waited %s for what nobody told", time.Since(began))
		}

		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		began = time.Now()
		if room.until(ctx, never) || time.Since(began) != 5*time.Millisecond {
			t.Errorf("waited %s beyond the request", time.Since(began))
		}
		if n := room.taken.Load(); n != 0 {
			t.Errorf("%d seats are taken by nobody", n)
		}
	})
}

func TestAFullWaitingRoomTurnsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var room waitingRoom
		var waiting sync.WaitGroup
		for range holdersMax {
			waiting.Go(func() { room.until(t.Context(), never) })
		}
		synctest.Wait()
		began := time.Now()
		if room.until(t.Context(), never) || time.Since(began) != 0 {
			t.Errorf("one too many waited %s", time.Since(began))
		}
		if !room.until(t.Context(), func() (bool, <-chan struct{}) { return true, nil }) {
			t.Error("who need not wait was turned away")
		}
		waiting.Wait()
		began = time.Now()
		if room.until(t.Context(), never) || time.Since(began) != holdWithin {
			t.Errorf("an emptied room lets wait for %s", time.Since(began))
		}
	})
}

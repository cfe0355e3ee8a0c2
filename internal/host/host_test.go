package host_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-ci/fairlead/internal/host"
)

func TestWhatHappenedAlreadyCountsInAFixedOrder(t *testing.T) {
	h := host.Machine()
	closed := make(chan struct{})
	close(closed)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		w    host.For
		want host.Woken
	}{
		{ended, host.For{News: closed, End: closed}, host.News},
		{ended, host.For{End: closed}, host.End},
		{ended, host.For{}, host.Ended},
		{t.Context(), host.For{}, host.Late},
	} {
		for range 100 {
			if got := h.Wait(c.ctx, c.w); got != c.want {
				t.Fatalf("%+v: woken by %d, want %d", c.w, got, c.want)
			}
		}
	}
}

func TestAWaitEndsWithWhatComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := host.Machine()
		news, end := make(chan struct{}, 1), make(chan struct{})
		h.After(time.Second, func() { news <- struct{}{} })
		h.After(3*time.Second, func() { close(end) })
		w := host.For{News: news, End: end, Limit: 10 * time.Second}
		if got := h.Wait(t.Context(), w); got != host.News {
			t.Errorf("first: %d", got)
		}
		if got := h.Wait(t.Context(), host.For{News: news, Limit: time.Second}); got != host.Late {
			t.Errorf("second: %d", got)
		}
		if got := h.Wait(t.Context(), w); got != host.End {
			t.Errorf("third: %d", got)
		}
		if !host.Pause(t.Context(), h, time.Minute) {
			t.Error("a pause ended early")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := h.Wait(ctx, host.For{Limit: host.Forever}); got != host.Ended {
			t.Errorf("last: %d", got)
		}
	})
}

func TestSeatsBoundHowManyAreBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := host.Machine()
		seats := host.NewSeats(h, 3)
		var busy, most, done atomic.Int32
		for range 20 {
			h.Go(func() {
				if !seats.Take(t.Context()) {
					return
				}
				most.Store(max(most.Load(), busy.Add(1)))
				host.Pause(t.Context(), h, time.Second)
				busy.Add(-1)
				done.Add(1)
				seats.Leave()
			})
		}
		begin := time.Now()
		host.Pause(t.Context(), h, time.Minute)
		synctest.Wait()
		if most.Load() != 3 || done.Load() != 20 {
			t.Errorf("%d at once, %d done, after %s", most.Load(), done.Load(), time.Since(begin))
		}
		full := host.NewSeats(h, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if full.Take(ctx) {
			t.Error("a seat where there is none")
		}
	})
}

func TestEachEndsWithTheFirstError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := host.Machine()
		boom := errors.New("boom")
		var began atomic.Int32
		err := host.Each(t.Context(), h, 100, 4, func(ctx context.Context, i int) error {
			began.Add(1)
			if i == 5 {
				return boom
			}
			host.Pause(ctx, h, time.Second)
			return ctx.Err()
		})
		if !errors.Is(err, boom) || began.Load() > 8 {
			t.Errorf("%v after %d", err, began.Load())
		}
		began.Store(0)
		err = host.Each(t.Context(), h, 100, 4, func(context.Context, int) error { began.Add(1); return nil })
		if err != nil || began.Load() != 100 {
			t.Errorf("%v after %d", err, began.Load())
		}
	})
}

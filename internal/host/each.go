package host

import (
	"context"
	"sync"
)

// Each does f for 0 to n-1, at most width of them at once, and returns once all that began
// have ended. After the first error, which it returns, no further one begins and the context
// that the others got is cancelled.
func Each(ctx context.Context, h Host, n, width int, f func(ctx context.Context, i int) error) error {
	if n == 0 {
		return nil
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	next, working := 0, min(n, max(width, 1))
	var first error
	done := make(chan struct{})
	take := func(err error) (i int, more bool) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil && first == nil {
			first = err
			cancel()
		}
		if first == nil && next < n {
			next++
			return next - 1, true
		}
		if working--; working == 0 {
			close(done)
		}
		return 0, false
	}
	for range working {
		h.Go(func() {
			var err error
			for {
				i, more := take(err)
				if !more {
					return
				}
				err = f(inner, i)
			}
		})
	}
	h.Wait(context.WithoutCancel(ctx), For{News: done, Limit: Forever})
	mu.Lock()
	defer mu.Unlock()
	return first
}

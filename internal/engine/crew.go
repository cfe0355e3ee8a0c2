package engine

import (
	"context"
	"sync"

	"github.com/fairlead-ci/fairlead/internal/host"
)

// crew is work that runs on a host beside its caller, and can be waited for.
type crew struct {
	host host.Host

	mu      sync.Mutex
	closed  bool // nothing new is started
	working int
	idle    []chan struct{} // closed when nobody works any more
}

func newCrew(h host.Host) *crew { return &crew{host: h} }

// Go starts f. It reports false, and starts nothing, once the crew was closed.
func (c *crew) Go(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.working++
	c.host.Go(func() {
		defer c.leave()
		f()
	})
	return true
}

func (c *crew) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.working--; c.working > 0 {
		return
	}
	for _, idle := range c.idle {
		close(idle)
	}
	c.idle = nil
}

// Close lets nothing new start.
func (c *crew) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// Wait returns when nobody works. It does not close.
func (c *crew) Wait() {
	c.mu.Lock()
	if c.working == 0 {
		c.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	c.idle = append(c.idle, idle)
	c.mu.Unlock()
	c.host.Wait(context.Background(), host.For{News: idle, Limit: host.Forever})
}

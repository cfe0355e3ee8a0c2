package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/logs"
)

// seat is what goes with the pool's partition: who owns it leads the pool, holds the logs
// and seals them. It is an observer of the engine, registered behind the dispatcher.
type seat struct {
	server    *server
	partition domain.PartitionID

	mu   sync.Mutex
	term context.CancelFunc // of the time that the partition is owned here; nil: it is not
}

// Ready implements engine.Observer.
func (t *seat) Ready(p domain.PartitionID, owned bool) {
	if p != t.partition || !owned {
		return
	}
	ctx, cancel := context.WithCancel(t.server.life)
	t.mu.Lock()
	before := t.term
	t.term = cancel
	t.mu.Unlock()
	if before != nil {
		before()
	}
	t.server.dispatch.Lead(p, true)
	go t.hold(ctx)
}

// Lost implements engine.Observer.
func (t *seat) Lost(p domain.PartitionID) {
	if p != t.partition {
		return
	}
	t.mu.Lock()
	cancel := t.term
	t.term = nil
	t.mu.Unlock()
	if cancel == nil {
		return // it was followed
	}
	cancel()
	t.server.dispatch.Lead(p, false)
	t.server.sealer.Hold(false)
	t.server.logs.Drop()
}

// hold opens the logs under the epoch of the partition, and tries again while that lasts.
func (t *seat) hold(ctx context.Context) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		epoch, owned := t.server.engine.Holds()[t.partition]
		if !owned || ctx.Err() != nil {
			return
		}
		err := t.server.logs.Hold(ctx, epoch, t.server.valid)
		t.mu.Lock()
		over := ctx.Err() != nil
		if err == nil && !over {
			t.server.sealer.Hold(true)
		}
		t.mu.Unlock()
		switch {
		case err == nil && over:
			t.server.logs.Drop() // lost in the meantime
			return
		case err == nil:
			t.server.log.Info("this server leads the pool and holds the logs", "partition", t.partition, "epoch", epoch)
			return
		case ctx.Err() != nil:
			return
		case errors.Is(err, logs.ErrNotHeld):
			t.server.log.Warn("the logs were opened under a later epoch", "epoch", epoch, "error", err)
		default:
			t.server.log.Error("the logs can't be opened; jobs go on and keep what they print", "error", err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// Loaded implements engine.Observer.
func (t *seat) Loaded(engine.Live) {}

// Committed implements engine.Observer.
func (t *seat) Committed([]engine.Committed) {}

var _ engine.Observer = (*seat)(nil)

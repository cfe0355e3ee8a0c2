package reactor

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/logs"
)

// SeatConfig is what goes with a pool's partition, where servers take turns.
type SeatConfig struct {
	Partition domain.PartitionID
	// Holds lists the partitions that are owned here, with their epochs.
	Holds func() map[domain.PartitionID]uint64
	// Lead tells dispatch that this server leads the pools of the partition, or not any more.
	Lead func(pools domain.PartitionID, on bool)
	Logs interface {
		Hold(ctx context.Context, era uint64, valid func() bool) error
		Drop()
	}
	Sealer *Sealer
	// Valid reports whether this server may still promise something from memory.
	Valid func() bool
	Host  host.Host // nil is the machine
	Log   *slog.Logger
}

// Seat follows the ownership of a pool's partition: who owns it leads the pool, holds the
// logs and seals them. It is an observer of the engine, registered behind the dispatcher.
type Seat struct {
	cfg  SeatConfig
	life context.Context // ends when the server does

	mu   sync.Mutex
	term context.CancelFunc // of the time that the partition is owned here; nil: it is not
}

// NewSeat makes a seat. Nothing is held after life has ended.
func NewSeat(life context.Context, cfg SeatConfig) *Seat {
	cfg.Host = host.Or(cfg.Host)
	return &Seat{cfg: cfg, life: life}
}

// Ready implements engine.Observer.
func (t *Seat) Ready(p domain.PartitionID, owned bool) {
	if p != t.cfg.Partition || !owned {
		return
	}
	ctx, cancel := context.WithCancel(t.life)
	t.mu.Lock()
	before := t.term
	t.term = cancel
	t.mu.Unlock()
	if before != nil {
		before()
	}
	t.cfg.Lead(p, true)
	t.cfg.Host.Go(func() { t.hold(ctx) })
}

// Lost implements engine.Observer.
func (t *Seat) Lost(p domain.PartitionID) {
	if p != t.cfg.Partition {
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
	t.cfg.Lead(p, false)
	t.cfg.Sealer.Hold(false)
	t.cfg.Logs.Drop()
}

// hold opens the logs under the epoch of the partition, and tries again while that lasts.
func (t *Seat) hold(ctx context.Context) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		epoch, owned := t.cfg.Holds()[t.cfg.Partition]
		if !owned || ctx.Err() != nil {
			return
		}
		err := t.cfg.Logs.Hold(ctx, epoch, t.cfg.Valid)
		t.mu.Lock()
		over := ctx.Err() != nil
		if err == nil && !over {
			t.cfg.Sealer.Hold(true)
		}
		t.mu.Unlock()
		switch {
		case err == nil && over:
			return // Lost has dropped them
		case err == nil:
			t.cfg.Log.Info("this server leads the pool and holds the logs", "partition", t.cfg.Partition, "epoch", epoch)
			return
		case ctx.Err() != nil:
			return
		case errors.Is(err, logs.ErrNotHeld):
			t.cfg.Log.Warn("the logs were opened under a later epoch", "epoch", epoch, "error", err)
		default:
			t.cfg.Log.Error("the logs can't be opened; jobs go on and keep what they print", "error", err)
		}
		if !host.Pause(ctx, t.cfg.Host, wait) {
			return
		}
	}
}

// Loaded implements engine.Observer.
func (t *Seat) Loaded(engine.Live) {}

// Committed implements engine.Observer.
func (t *Seat) Committed([]engine.Committed) {}

var _ engine.Observer = (*Seat)(nil)

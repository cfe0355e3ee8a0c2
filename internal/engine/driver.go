package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/store"
)

const (
	inboxSize = 4096 // inputs waiting for the owner; senders wait above it
	lookupMax = 8    // store reads under way at once per partition
	cursorLag = time.Second
	sweepMax  = 4096 // live streams that one sweep shows again
)

// driver gives an owner its goroutine, its store and its timers. It decides nothing.
type driver struct {
	engine *Engine
	owner  *owner
	inbox  chan any
	knock  chan struct{} // something was put into inbox
	ended  chan struct{}
	reads  *host.Seats // of lookups
	tails  []*tail
	jumps  uint64 // of the clock, that the owner knows of

	mu       sync.Mutex
	status   PartitionStatus
	verified domain.Token // the highest token that was compared with the store
}

func newDriver(e *Engine, o *owner) *driver {
	_, jumps := e.cfg.Clock.Now()
	return &driver{engine: e, owner: o, inbox: make(chan any, inboxSize), knock: make(chan struct{}, 1),
		ended: make(chan struct{}), reads: host.NewSeats(e.cfg.Host, lookupMax), jumps: jumps}
}

// start loads live streams and begins to work. Nothing is decided on a stream before it
// is loaded, so commands may come at once.
func (d *driver) start(ctx context.Context, heads []store.Head, reactors []Reactor) {
	for _, r := range reactors {
		d.tails = append(d.tails, newTail(d, r))
	}
	d.publish()
	d.engine.begin(func() { d.loop(ctx, heads) })
	for _, t := range d.tails {
		d.engine.begin(func() { t.loop(ctx) })
	}
}

var errStopping = domain.Reject(domain.CodeNotOwner, "This server is stopping; try again.")

// send hands an input to the owner.
func (d *driver) send(ctx context.Context, in any) error {
	select {
	case <-d.ended:
		return errStopping
	default:
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case d.inbox <- in:
	case <-d.ended:
		return errStopping
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case d.knock <- struct{}{}:
	default:
	}
	return nil
}

// loop is the owner's goroutine: take what waits, step, flush, carry out the effects.
func (d *driver) loop(ctx context.Context, heads []store.Head) {
	defer close(d.ended)
	d.carry(ctx, d.owner.begin(heads))
	h := d.engine.cfg.Host
	sweep, cursor := h.Elapsed()+d.engine.cfg.Sweep, h.Elapsed()+cursorLag
	for {
		limit := min(sweep, cursor) - h.Elapsed()
		if at, ok := d.owner.wakeAt(); ok {
			now, _ := d.engine.cfg.Clock.Now()
			limit = min(limit, max(at.Sub(now), time.Millisecond))
		}
		woken := h.Wait(ctx, host.For{News: d.knock, Limit: limit})
		if woken == host.Ended || ctx.Err() != nil {
			return
		}
		ins := []any{inTick{}}
		if now := h.Elapsed(); now >= sweep {
			ins, sweep = append(ins, inSweep{limit: sweepMax}), now+d.engine.cfg.Sweep
		}
		if now := h.Elapsed(); now >= cursor {
			ins, cursor = append(ins, inCursors{}), now+cursorLag
		}
		d.work(ctx, ins)
	}
}

// work takes the inputs of time and everything that waits already, then flushes once.
func (d *driver) work(ctx context.Context, ins []any) {
	now, jumps := d.engine.cfg.Clock.Now()
	if jumps != d.jumps {
		d.jumps = jumps
		d.carry(ctx, d.owner.step(inJump{d.engine.cfg.Hold}, now))
	}
	for _, in := range ins {
		d.take(ctx, in, now)
	}
	for range inboxSize {
		select {
		case in := <-d.inbox:
			d.take(ctx, in, now)
			continue
		default:
		}
		break
	}
	for {
		effects := d.owner.flush(now)
		d.carry(ctx, effects)
		if len(effects) == 0 || d.owner.flying != nil {
			break
		}
	}
	d.publish()
	for _, t := range d.tails {
		t.reach(d.owner.position)
	}
}

// ask wants to know the position now. It goes through the inbox, so every answer that was
// given before it is covered.
type ask struct {
	position *store.Position // set before answered is closed
	answered chan struct{}
}

func (d *driver) take(ctx context.Context, in any, now time.Time) {
	if a, ok := in.(ask); ok {
		*a.position = d.owner.position
		close(a.answered)
		return
	}
	d.carry(ctx, d.owner.step(in, now))
}

// carry carries out effects; slow ones on goroutines of their own that answer by inbox.
func (d *driver) carry(ctx context.Context, effects []any) {
	for _, eff := range effects {
		switch eff := eff.(type) {
		case effLoad:
			d.load(ctx, eff.key)
		case effKey:
			d.lookup(ctx, func() any {
				k, err := d.engine.cfg.Store.Key(ctx, eff.item.env.Tenant, eff.item.env.Key.Scope, eff.item.env.Key.Key)
				if errors.Is(err, store.ErrNotFound) {
					return inKey{item: eff.item}
				}
				return inKey{eff.item, &k, err}
			})
		case effCounter:
			d.lookup(ctx, func() any {
				n, err := d.engine.cfg.Store.Counter(ctx, eff.tenant, eff.name)
				return inCounter{eff.tenant, eff.name, n, err}
			})
		case effAppend:
			d.background(ctx, func() any { return inAppended{d.engine.cfg.Store.Append(ctx, eff.batch)} })
		case effReacquire:
			d.background(ctx, func() any { return d.settle(ctx, eff.batch) })
		case effAnswer:
			if eff.item.answer != nil {
				eff.item.answer(eff.ack, eff.err)
			}
		case effCommitted:
			for _, o := range d.engine.observers {
				o.Committed(eff.rows)
			}
			for i := range eff.rows {
				eff.rows[i].State = nil // the owner's own again
			}
			for _, t := range d.tails {
				t.offer(eff.rows)
			}
		case effLoaded:
			for _, o := range d.engine.observers {
				o.Loaded(eff.live)
			}
		case effReady:
			for _, o := range d.engine.observers {
				o.Ready(d.owner.partition)
			}
		case effProblem:
			d.engine.cfg.Log.Error("stream quarantined", "partition", d.owner.partition,
				"stream", eff.stream, "problem", eff.text)
		case effFatal:
			d.engine.cfg.Fatal(fmt.Errorf("append to partition %s: %w", d.owner.partition, eff.err))
		case effLost:
			d.engine.cfg.Log.Error("partition stopped", "partition", d.owner.partition, "reason", d.owner.stopped)
			for _, o := range d.engine.observers {
				o.Lost(d.owner.partition)
			}
		default:
			panic(fmt.Sprintf("driver of %s got an effect of type %T", d.owner.partition, eff))
		}
	}
}

func (d *driver) load(ctx context.Context, key streamKey) {
	d.lookup(ctx, func() any {
		s, err := d.read(ctx, key)
		if err != nil {
			host.Pause(ctx, d.engine.cfg.Host, 200*time.Millisecond) // a store that is away is not asked in a tight loop
		}
		return inLoaded{key, s, err}
	})
}

// read builds a stream's state from the store. A checkpoint that can't be decoded is
// derived data: the whole history is read instead.
func (d *driver) read(ctx context.Context, key streamKey) (*stream, error) {
	kind := d.engine.kinds[key.id.Kind()]
	if kind == nil {
		return nil, fmt.Errorf("load stream %s: no such kind", key.id)
	}
	var state any
	var version, saved uint64
	for _, checkpoint := range []bool{true, false} {
		h, err := d.engine.cfg.Store.Load(ctx, key.tenant, key.id, checkpoint, kind.Encoding)
		if err != nil {
			return nil, fmt.Errorf("load stream %s: %w", key.id, err)
		}
		if state, version, err = kind.rebuild(h); err == nil {
			if h.Checkpoint != nil {
				saved = h.Checkpoint.Version
			}
			break
		} else if h.Checkpoint == nil {
			return nil, err
		}
	}
	return &stream{key: key, kind: kind, state: state, version: version, saved: saved, stored: version > 0}, nil
}

// lookup runs a store read in the background, a bounded number at once.
func (d *driver) lookup(ctx context.Context, read func() any) {
	d.engine.begin(func() {
		if !d.reads.Take(ctx) {
			return
		}
		defer d.reads.Leave()
		_ = d.send(ctx, read()) // fails only when the owner has ended: nobody waits any more
	})
}

func (d *driver) background(ctx context.Context, act func() any) {
	d.engine.begin(func() { _ = d.send(ctx, act()) })
}

// settle finds out what became of an append: raising the epoch waits for the old
// transaction, then the position tells. It goes on until the store answers.
func (d *driver) settle(ctx context.Context, b store.Batch) any {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		own, err := d.engine.cfg.Store.Acquire(ctx, b.Partition, d.engine.cfg.Owner)
		if err == nil {
			last := b.Prev + store.Position(len(b.Rows))
			arrived := len(b.Rows) > 0 && own.Position == last && own.Digest == b.Digest
			return inReacquired{own: own, arrived: arrived}
		}
		if ctx.Err() != nil {
			return inAppended{store.ErrFenced}
		}
		d.engine.cfg.Log.Warn("store does not answer; the batch in flight is not settled yet",
			"partition", b.Partition, "error", err)
		if !host.Pause(ctx, d.engine.cfg.Host, pause) {
			return inAppended{store.ErrFenced}
		}
	}
}

// publish copies what operators see; it runs on the owner's goroutine.
func (d *driver) publish() {
	o := d.owner
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status.Partition, d.status.Epoch, d.status.Position = o.partition, o.epoch, o.position
	d.status.Stopped, d.status.Live = o.stopped, len(o.streams)
	if len(d.status.Problems) != len(o.sick) {
		d.status.Problems = nil
		for _, key := range sortedSick(o.sick) {
			d.status.Problems = append(d.status.Problems, fmt.Sprintf("%s: %s", key.id, o.sick[key]))
		}
	}
}

func (d *driver) snapshot() PartitionStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.status
}

// present compares a token with what this owner holds.
func (d *driver) present(ctx context.Context, token domain.Token) error {
	d.mu.Lock()
	status, verified := d.status, d.verified
	d.mu.Unlock()
	if status.Stopped != nil {
		return status.Stopped
	}
	if token.Position <= verified.Position && token.Epoch <= verified.Epoch {
		return nil
	}
	held := status.Position
	if token.Position > uint64(held) {
		// What is published lags behind what was answered a moment ago: ask the owner.
		a := ask{new(store.Position), make(chan struct{})}
		if err := d.send(ctx, a); err != nil {
			return err
		}
		switch d.engine.cfg.Host.Wait(ctx, host.For{News: a.answered, End: d.ended, Limit: host.Forever}) {
		case host.End:
			return errStopping
		case host.Ended:
			return ctx.Err()
		}
		held = *a.position
	}
	lost := domain.Reject(domain.CodeHistoryLost, fmt.Sprintf(
		"Somebody holds an acknowledgement of position %d of partition %s, and this server holds %d: "+
			"acknowledged history is missing. The partition is stopped; see the operations guide.",
		token.Position, token.Partition, held))
	if token.Position <= uint64(held) {
		digest, _, err := d.engine.cfg.Store.BatchAt(ctx, token.Partition, store.Position(token.Position))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("check token of %s: %w", token.Partition, err)
		}
		if err == nil && digest == token.Digest {
			d.mu.Lock()
			if token.Position > d.verified.Position {
				d.verified = token
			}
			d.mu.Unlock()
			return nil
		}
	}
	if err := d.send(ctx, inStop{lost}); err != nil {
		return err
	}
	return lost
}

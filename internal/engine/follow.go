package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// chase gives a follower its goroutine and its reads. It decides nothing.
type chase struct {
	engine   *Engine
	follower *follower
	gen      int            // of the follower: answers to an earlier one are dropped
	knock    chan struct{}  // capacity 1: there is an answer, or heard has grown
	heard    atomic.Uint64  // the highest position that anybody told of
	told     store.Position // the part of it that the follower knows
	halted   atomic.Bool    // the store went back: what follows is not to be shown
	cancel   context.CancelFunc
	ended    chan struct{}
	reads    *host.Seats
	working  *crew
	shown    bool // observers were shown something

	mu      sync.Mutex
	inbox   []answered
	status  PartitionStatus
	ready   bool
	waiters []waiter
	over    bool
}

// waiter wants to know when observers were shown everything up to a position.
type waiter struct {
	at      store.Position
	reached chan struct{}
}

// answered is what a job found out for the follower that asked.
type answered struct {
	gen int
	in  any
}

// follow begins to follow a partition; turn is held, or nothing else runs yet.
func (e *Engine) follow(s *seat) {
	if !e.fleet() {
		return
	}
	h := e.cfg.Host
	c := &chase{engine: e, follower: newFollower(s.partition, e.kinds, e.cfg.Paranoid), knock: make(chan struct{}, 1),
		ended: make(chan struct{}), reads: host.NewSeats(h, lookupMax), working: newCrew(h),
		status: PartitionStatus{Partition: s.partition}}
	ctx, cancel := context.WithCancel(e.run)
	c.cancel = cancel
	if e.done.Go(func() { c.loop(ctx) }) {
		s.chase.Store(c)
	}
}

// unfollow ends a chase and gives what it knew. Observers are told that it is over.
func (e *Engine) unfollow(s *seat) map[streamKey]*stream {
	c := s.chase.Swap(nil)
	if c == nil {
		return nil
	}
	c.cancel()
	e.cfg.Host.Wait(context.Background(), host.For{News: c.ended, Limit: host.Forever})
	if c.shown {
		for _, o := range e.observers {
			o.Lost(s.partition)
		}
	}
	if c.halted.Load() {
		return nil
	}
	return c.follower.streams
}

// watch looks up the positions of all partitions now and then, for followers whose news
// did not come.
func (e *Engine) watch() {
	for host.Pause(e.run, e.cfg.Host, e.cfg.Poll) {
		list, err := e.cfg.Store.Partitions(e.run)
		if err != nil && e.run.Err() == nil {
			e.cfg.Log.Warn("positions of followed partitions can't be read", "error", err)
		}
		for _, own := range list {
			e.News(own.Partition, own.Position)
		}
	}
}

// news notes how far the log has come; it never blocks.
func (c *chase) news(at store.Position) {
	for {
		before := c.heard.Load()
		if uint64(at) <= before {
			return
		}
		if c.heard.CompareAndSwap(before, uint64(at)) {
			break
		}
	}
	c.tell()
}

func (c *chase) tell() {
	select {
	case c.knock <- struct{}{}:
	default:
	}
}

// await returns when observers were shown everything up to a position, when there is
// nothing to wait for any more, when ctx ends, or after catchUpTimeout. It reports whether
// they were shown it.
func (c *chase) await(ctx context.Context, at store.Position) bool {
	c.news(at)
	c.mu.Lock()
	if c.over || !c.ready || c.status.Position >= at {
		defer c.mu.Unlock()
		return c.there(at)
	}
	w := waiter{at, make(chan struct{})}
	c.waiters = append(c.waiters, w)
	c.mu.Unlock()
	c.engine.cfg.Host.Wait(ctx, host.For{News: w.reached, Limit: catchUpTimeout})
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.there(at)
}

// there reports whether observers were shown everything up to a position; mu is held.
func (c *chase) there(at store.Position) bool {
	return !c.over && c.ready && !c.halted.Load() && c.status.Position >= at
}

func (c *chase) loop(ctx context.Context) {
	defer c.finish()
	h := c.engine.cfg.Host
	sweep := h.Elapsed() + c.engine.cfg.Sweep
	c.take(ctx, inBegin{})
	for {
		woken := h.Wait(ctx, host.For{News: c.knock, Limit: sweep - h.Elapsed()})
		if woken == host.Ended || ctx.Err() != nil {
			return
		}
		c.mu.Lock()
		inbox := c.inbox
		c.inbox = nil
		c.mu.Unlock()
		for _, a := range inbox {
			if a.gen == c.gen {
				c.take(ctx, a.in)
			}
		}
		c.listen(ctx)
		if now := h.Elapsed(); now >= sweep {
			c.take(ctx, inSweep{limit: sweepMax})
			sweep = now + c.engine.cfg.Sweep
		}
	}
}

// listen hands news on. News of rows that the store does not have is forgotten, so that it
// is neither read for again and again nor in the way of true news.
func (c *chase) listen(ctx context.Context) {
	if end := c.follower.end; end < c.told {
		c.heard.CompareAndSwap(uint64(c.told), uint64(end))
		c.told = end
	}
	if at := store.Position(c.heard.Load()); at > c.told {
		c.told = at
		c.take(ctx, inNews{at})
	}
}

func (c *chase) finish() {
	c.cancel()
	c.working.Wait()
	c.mu.Lock()
	c.over = true
	for _, w := range c.waiters {
		close(w.reached)
	}
	c.waiters = nil
	c.mu.Unlock()
	close(c.ended)
}

// take brings an input, and goes on as long as there is more to do without one.
func (c *chase) take(ctx context.Context, in any) {
	for {
		for _, eff := range c.follower.step(in) {
			if j, ok := c.job(eff); ok {
				c.background(ctx, j)
			} else if !c.halted.Load() {
				c.show(ctx, eff)
			}
		}
		c.publish()
		if !c.follower.more || ctx.Err() != nil {
			return
		}
		in = inContinue{}
	}
}

// show tells observers.
func (c *chase) show(ctx context.Context, eff any) {
	e, p := c.engine, c.follower.partition
	switch eff := eff.(type) {
	case effLoaded:
		c.shown = true
		for _, o := range e.observers {
			o.Loaded(eff.live)
		}
	case effCommitted:
		for _, o := range e.observers {
			o.Committed(eff.rows)
		}
	case effReady:
		c.shown = true
		for _, o := range e.observers {
			o.Ready(p, false)
		}
	case effProblem:
		e.cfg.Log.Error("followed stream can't be read", "partition", p, "stream", eff.stream, "problem", eff.text)
	case effBroken:
		e.cfg.Log.Error("followed partition does not go on from where it was; reading it anew",
			"partition", p, "problem", eff.text)
		if c.shown {
			for _, o := range e.observers {
				o.Lost(p)
			}
		}
		c.shown = false
		c.follower = newFollower(p, e.kinds, e.cfg.Paranoid)
		c.gen++
		c.background(ctx, job{name: "begin", wait: time.Second, run: func(context.Context) any { return inBegin{} }})
	default:
		panic(fmt.Sprintf("follower of %s got an effect of type %T", p, eff))
	}
}

// job gives an effect its call of the store.
func (c *chase) job(eff any) (j job, ok bool) {
	st, p := c.engine.cfg.Store, c.follower.partition
	switch eff := eff.(type) {
	case effPlace:
		return job{name: "place", run: func(ctx context.Context) any {
			at, err := c.engine.position(ctx, p)
			if err != nil {
				return inPlace{err: err}
			}
			heads, err := st.Live(ctx, p)
			return inPlace{at, heads, err}
		}}, true
	case effGoal:
		return job{name: "goal", run: func(ctx context.Context) any {
			at, err := c.engine.position(ctx, p)
			return inGoal{at, err}
		}}, true
	case effRead:
		return job{name: "read", run: func(ctx context.Context) any {
			rows, err := st.Read(ctx, p, eff.after, eff.limit)
			return inRows{rows, err}
		}}, true
	case effLoad:
		return job{name: "load", many: true, run: func(ctx context.Context) any {
			s, err := c.engine.readStream(ctx, eff.key, latest)
			return inLoaded{eff.key, s, err}
		}}, true
	case effLoadAt:
		return job{name: "load", many: true, run: func(ctx context.Context) any {
			s, err := c.engine.readStream(ctx, eff.key, eff.version)
			return inLoaded{eff.key, s, err}
		}}, true
	}
	return job{}, false
}

// position is where the log of a partition ends now.
func (e *Engine) position(ctx context.Context, p domain.PartitionID) (store.Position, error) {
	list, err := e.cfg.Store.Partitions(ctx)
	if err != nil {
		return 0, fmt.Errorf("find position of %s: %w", p, err)
	}
	for _, own := range list {
		if own.Partition == p {
			return own.Position, nil
		}
	}
	return 0, nil
}

func (c *chase) background(ctx context.Context, j job) {
	gen := c.gen
	c.working.Go(func() {
		in := j.do(ctx, c.engine.cfg.Host, c.reads)
		if in == nil {
			return
		}
		c.mu.Lock()
		c.inbox = append(c.inbox, answered{gen, in})
		c.mu.Unlock()
		c.tell()
	})
}

// failed: the store did not answer, and is asked again a little later.
func failed(in any) bool {
	switch in := in.(type) {
	case inPlace:
		return in.err != nil
	case inGoal:
		return in.err != nil
	case inRows:
		return in.err != nil
	case inLoaded:
		return in.err != nil && !errors.Is(in.err, errUnreadable)
	}
	return false
}

// publish copies what operators see, and lets go of who waited for a position.
func (c *chase) publish() {
	f := c.follower
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = f.phase == phaseShow
	c.status.Position, c.status.Live = f.position, len(f.streams)
	if len(c.status.Problems) != len(f.sick) {
		c.status.Problems = nil
		for _, key := range sortedSick(f.sick) {
			c.status.Problems = append(c.status.Problems, fmt.Sprintf("%s: %s", key.id, f.sick[key]))
		}
	}
	c.waiters = slices.DeleteFunc(c.waiters, func(w waiter) bool {
		if f.position < w.at {
			return false
		}
		close(w.reached)
		return true
	})
}

func (c *chase) snapshot() PartitionStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// seat is the place of one partition in this server: either a driver owns it here, or a
// chase follows it, or it is on its way from the one to the other.
type seat struct {
	partition domain.PartitionID
	turn      *host.Seats // one: held while the partition changes hands
	driver    atomic.Pointer[driver]
	chase     atomic.Pointer[chase]
	holding   atomic.Pointer[store.Holding] // as the last picture showed it

	mu       sync.Mutex
	seen     domain.Token // the highest point of the log that the store ever showed
	verified domain.Token // the highest token that was compared with the store while followed
	claimed  *Claim       // what is shown of those that nothing proves
}

func newSeat(p domain.PartitionID, h host.Host) *seat {
	return &seat{partition: p, turn: host.NewSeats(h, 1)}
}

// seize makes this server the owner by whatever acquire does. turn is not held.
func (e *Engine) seize(ctx context.Context, s *seat, acquire func() (store.Ownership, error)) error {
	if !s.turn.Take(ctx) {
		return ctx.Err()
	}
	defer s.turn.Leave()
	if d := s.driver.Load(); d != nil {
		if d.deposed() {
			return fmt.Errorf("acquire partition %s: what this server began before it was fenced is not settled yet",
				s.partition)
		}
		return nil
	}
	own, err := acquire()
	if err != nil {
		return fmt.Errorf("acquire partition %s: %w", s.partition, err)
	}
	warm := e.unfollow(s)
	if err := e.settleIn(ctx, s, own, warm); err != nil {
		if e.fleet() {
			e.follow(s) // the store names us as owner: whoever drives the fleet tries again
		}
		return err
	}
	return nil
}

// settleIn starts an owner on what the store holds. What the follower knew already, at
// exactly the stored version, needs no reading.
func (e *Engine) settleIn(ctx context.Context, s *seat, own store.Ownership, warm map[streamKey]*stream) error {
	heads, err := e.cfg.Store.Live(ctx, s.partition)
	if err != nil {
		return fmt.Errorf("list live streams of %s: %w", s.partition, err)
	}
	cursors, err := e.cfg.Store.Cursors(ctx, s.partition)
	if err != nil {
		return fmt.Errorf("read cursors of %s: %w", s.partition, err)
	}
	lost, at, err := e.missing(ctx, s, own)
	if err != nil {
		return err
	}
	terms, err := e.terms(ctx)
	if err != nil {
		return err
	}
	d := newDriver(e, newOwner(own, e.kinds, e.cfg.Paranoid))
	d.owner.terms = terms
	d.owner.prove = e.cfg.Prover.Prove
	d.owner.format = e.format.Load()
	d.warm = warm
	for _, c := range cursors {
		d.owner.cursors[c.Reactor] = c.Position
	}
	if lost != nil {
		d.owner.stopped, d.owner.lostAt = lost, at
		e.cfg.Log.Error("partition stopped", "partition", s.partition, "reason", lost)
	}
	s.driver.Store(d)                // before observers hear of it
	d.owner.format = e.format.Load() // a picture that came in between found no driver to tell
	d.start(e.run, heads, e.reactors)
	return nil
}

// terms are the epochs of all partitions, read after one was acquired: the owner before had
// heard of no later term of any pools, and what it refused is refused here too.
func (e *Engine) terms(ctx context.Context) (map[domain.PartitionID]uint64, error) {
	terms := map[domain.PartitionID]uint64{}
	if !e.fleet() {
		return terms, nil
	}
	list, err := e.cfg.Store.Partitions(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the epochs of all partitions: %w", err)
	}
	for _, own := range list {
		terms[own.Partition] = own.Epoch
	}
	return terms, nil
}

// missing compares what the store gave with what it showed before, up to the position that
// it gives.
func (e *Engine) missing(ctx context.Context, s *seat, own store.Ownership) (*domain.Rejection, uint64, error) {
	s.mu.Lock()
	seen := s.seen
	s.mu.Unlock()
	lost, err := e.compare(HeldBy(ctx, e.self()), seen, own.Position)
	return lost, seen.Position, err
}

// compare says whether a log that reaches to held holds what the token names, or somebody
// has accepted that it does not.
func (e *Engine) compare(ctx context.Context, token domain.Token, held store.Position) (*domain.Rejection, error) {
	if token.Position == 0 {
		return nil, nil
	}
	if token.Position <= uint64(held) {
		digest, _, err := e.cfg.Store.BatchAt(ctx, token.Partition, store.Position(token.Position))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, fmt.Errorf("check token of %s: %w", token.Partition, err)
		}
		if err == nil && digest == token.Digest {
			return nil, nil
		}
	}
	losses, err := e.cfg.Store.Losses(ctx, token.Partition)
	if err != nil {
		return nil, fmt.Errorf("check token of %s: %w", token.Partition, err)
	}
	for i := range losses {
		if losses[i].Covers(token) {
			return nil, nil
		}
	}
	// An owner remembers what it wrote, also when the store no longer holds it: what people
	// are told is what is stored.
	if held, err = e.position(ctx, token.Partition); err != nil {
		return nil, fmt.Errorf("check token of %s: %w", token.Partition, err)
	}
	return historyLost(holderOf(ctx), token, held), nil
}

// Own makes this server the owner of a partition that it follows, if the epoch is still
// the one that was seen; otherwise the error wraps store.ErrFenced. What it owns already
// it keeps. The partition takes commands when Own returns.
func (e *Engine) Own(ctx context.Context, p domain.PartitionID, epoch uint64) error {
	s := e.seats[p]
	if s == nil {
		return fmt.Errorf("own partition %s: it is not one of this fleet", p)
	}
	return e.seize(ctx, s, func() (store.Ownership, error) { return e.cfg.Store.Take(ctx, p, e.cfg.Owner, epoch) })
}

// Release gives a partition back: new commands are refused with not_owner, the batch in
// flight is committed and answered, then the store says that nobody owns it. From then on
// it is followed. If ctx ends first the partition is given up without waiting for the
// batch, whose commands are then told that their outcome is not known.
func (e *Engine) Release(ctx context.Context, p domain.PartitionID) error {
	s := e.seats[p]
	if s == nil {
		return nil
	}
	if !s.turn.Take(ctx) {
		return ctx.Err()
	}
	defer s.turn.Leave()
	d := s.driver.Load()
	if d == nil {
		return nil
	}
	_ = d.send(ctx, inLeave{notOwner()}) // fails only when it has ended, or with ctx
	e.cfg.Host.Wait(ctx, host.For{News: d.left, End: d.ended, Limit: host.Forever})
	epoch := e.retire(s, d)
	defer e.follow(s)
	ctx, cancel := host.Within(context.WithoutCancel(ctx), e.cfg.Host, releaseTimeout)
	defer cancel()
	if err := e.cfg.Store.Release(ctx, p, epoch); err != nil && !errors.Is(err, store.ErrFenced) {
		return fmt.Errorf("release partition %s: %w", p, err)
	}
	return nil
}

// releaseTimeout bounds telling the store; without it the next owner waits for our lease.
const releaseTimeout = 5 * time.Second

// retire ends a driver and says under which epoch it owned. turn is held.
func (e *Engine) retire(s *seat, d *driver) uint64 {
	d.cancel()
	e.cfg.Host.Wait(context.Background(), host.For{News: d.ended, Limit: host.Forever})
	d.working.Wait()
	s.driver.CompareAndSwap(d, nil)
	if d.shown {
		for _, o := range e.observers {
			o.Lost(s.partition)
		}
	}
	return d.owner.epoch
}

// Fenced says that the store names a later epoch for a partition than this server holds.
// The owner here is stopped and the partition is followed. It is courtesy: the database
// would have refused its next write.
func (e *Engine) Fenced(ctx context.Context, p domain.PartitionID, epoch uint64) {
	if d := e.driver(p); d != nil && d.snapshot().Epoch < epoch {
		_ = d.send(ctx, inStop{reason: notOwner()}) // fails only when it has ended: the same
	}
}

// fenced is called when a driver ended because its owner was fenced.
func (e *Engine) fenced(d *driver) {
	s := e.seats[d.owner.partition]
	if !s.turn.Take(e.run) {
		return
	}
	defer s.turn.Leave()
	if s.driver.Load() != d {
		return // released meanwhile
	}
	e.retire(s, d)
	e.follow(s)
}

// Yield stops answering for owned partitions, or goes on with it: a member whose lease ran
// out by its own clock does not know whether it still owns anything.
func (e *Engine) Yield(on bool) { e.yielded.Store(on) }

// Format is the event format that may be written now: all servers read it.
func (e *Engine) Format() uint32 { return e.format.Load() }

// See takes a picture of the fleet: who owns what, how far logs have come, which event
// format may be written, and what time it is. Pictures come in the order in which the store
// made them.
func (e *Engine) See(ctx context.Context, picture store.Picture) {
	e.cfg.Clock.Steer(picture.Now, picture.Took)
	if f := min(picture.Format, e.cfg.Format); f > 0 && e.format.Swap(f) != f {
		for _, p := range e.order {
			if d := e.driver(p); d != nil {
				_ = d.send(ctx, inFormat{f}) // an owner that has ended needs none
			}
		}
	}
	for _, h := range picture.Partitions {
		s := e.seats[h.Partition]
		if s == nil {
			continue
		}
		s.holding.Store(&h)
		token := domain.Token{Partition: h.Partition, Epoch: h.Epoch, Position: uint64(h.Position), Digest: h.Digest}
		s.mu.Lock()
		before := s.seen
		went := token.Position < before.Position ||
			token.Position == before.Position && token.Digest != before.Digest && before.Position > 0
		if !went {
			s.seen = token
		}
		s.mu.Unlock()
		if went {
			e.cfg.Host.Go(func() { e.wentBack(e.run, s, before, token) })
		} else if c := s.chase.Load(); c != nil {
			c.news(h.Position)
		}
	}
}

// wentBack deals with a store that shows less of a partition than it showed before. Unless
// somebody has accepted the loss, the partition is stopped: here when it is owned here,
// otherwise by telling its owner, and nothing of it is shown here any more.
func (e *Engine) wentBack(ctx context.Context, s *seat, before, now domain.Token) {
	ctx = HeldBy(ctx, e.self())
	lost, err := e.compare(ctx, before, store.Position(now.Position))
	switch {
	case err != nil:
		return // the next picture shows it again
	case lost == nil:
		e.goOn(ctx, s, before, now)
		return
	}
	if d := s.driver.Load(); d != nil {
		_ = d.send(ctx, inStop{lost, before.Position}) // an owner that has ended decides nothing any more
		return
	}
	if c := s.chase.Load(); c != nil && !c.halted.Swap(true) {
		e.cfg.Log.Error("followed partition went back", "partition", s.partition, "reason", lost)
	}
	before.Proof = e.cfg.Prover.Prove(before) // this server saw it in the store
	e.accuse(ctx, s, before)
}

// goOn begins anew after a loss that was accepted.
func (e *Engine) goOn(ctx context.Context, s *seat, before, now domain.Token) {
	if !s.turn.Take(ctx) {
		return
	}
	defer s.turn.Leave()
	s.mu.Lock()
	fresh := s.seen == before
	if fresh {
		s.seen, s.claimed = now, nil
	}
	s.mu.Unlock()
	if fresh && s.driver.Load() == nil {
		e.unfollow(s)
		e.follow(s)
	}
}

// accuse presents a token that the store does not hold to the partition's owner.
func (e *Engine) accuse(ctx context.Context, s *seat, token domain.Token) {
	e.report(ctx, s, Wire{Present: token})
}

// report tells the partition's owner elsewhere what somebody presented here.
func (e *Engine) report(ctx context.Context, s *seat, w Wire) {
	h := s.holding.Load()
	if h == nil || h.Owner == "" || h.Owner == e.cfg.Owner || !e.fleet() {
		return
	}
	ctx, cancel := host.Within(ctx, e.cfg.Host, forwardTimeout)
	defer cancel()
	w.Version, w.Partition = WireVersion, s.partition
	w.Cause = domain.Cause{Actor: domain.Actor{Kind: actorHolder, ID: holderOf(ctx)}}
	if _, err := e.cfg.Forward(ctx, *h, w); err != nil {
		e.cfg.Log.Warn("owner could not be told of an acknowledgement that is not held",
			"partition", s.partition, "error", err)
	}
}

// Present checks an acknowledgement token that a client or a runner brings. A server that
// holds less than was acknowledged stops the partition instead of going on silently; for a
// partition that is owned elsewhere the token is compared with the store, and its owner is
// told when it is not there. Only a proved token does that: any other one that is not held
// is refused with token_unproved.
func (e *Engine) Present(ctx context.Context, token domain.Token) error {
	s := e.seats[token.Partition]
	if token == (domain.Token{}) || s == nil {
		return nil
	}
	if d := s.driver.Load(); d != nil {
		return d.present(ctx, token)
	}
	if !e.fleet() {
		return nil
	}
	s.mu.Lock()
	known := vouchedBy(token, s.verified)
	s.mu.Unlock()
	if known {
		return nil
	}
	held, err := e.reaches(ctx, s, store.Position(token.Position))
	if err != nil {
		return fmt.Errorf("check token of %s: %w", token.Partition, err)
	}
	lost, err := e.compare(ctx, token, held)
	if err != nil {
		return err
	}
	if lost != nil {
		if unproved := e.doubt(ctx, s, token, held); unproved != nil {
			return unproved
		}
		e.accuse(ctx, s, token)
		return lost
	}
	s.mu.Lock()
	s.verified = vouching(s.verified, token, s.epoch())
	s.mu.Unlock()
	return nil
}

// reaches is how far the log of a followed partition reaches; the store is asked only when
// the follower has not come to a position yet.
func (e *Engine) reaches(ctx context.Context, s *seat, at store.Position) (store.Position, error) {
	if c := s.chase.Load(); c != nil {
		if held := c.snapshot().Position; held >= at {
			return held, nil
		}
	}
	return e.position(ctx, s.partition)
}

// Holds lists the partitions that are owned here, with the epoch.
func (e *Engine) Holds() map[domain.PartitionID]uint64 {
	out := map[domain.PartitionID]uint64{}
	for _, p := range e.order {
		d := e.driver(p)
		if d == nil {
			continue
		}
		if !d.deposed() {
			out[p] = d.snapshot().Epoch
		}
	}
	return out
}

// CatchUp returns when observers here were shown all that the store held, in every partition,
// when it was called. An error says that it did not come to that within a moment. A follower
// that can't go on, because what it reads is damaged, is not waited for.
func (e *Engine) CatchUp(ctx context.Context) error {
	if !e.fleet() {
		return nil
	}
	list, err := e.cfg.Store.Partitions(ctx)
	if err != nil {
		return fmt.Errorf("read the positions of all partitions: %w", err)
	}
	for _, own := range list {
		s := e.seats[own.Partition]
		if s == nil || s.driver.Load() != nil {
			continue
		}
		c := s.chase.Load()
		if c == nil || !c.halted.Load() && !c.await(ctx, own.Position) {
			return fmt.Errorf("partition %s was not shown up to %d yet", own.Partition, own.Position)
		}
	}
	return nil
}

// Epoch is that under which a partition is owned here; 0: it is not, or the last picture showed a
// later one, although its owner here does not know yet.
func (e *Engine) Epoch(p domain.PartitionID) uint64 {
	d := e.driver(p)
	if d == nil {
		return 0
	}
	epoch := d.snapshot().Epoch
	if h := e.seats[p].holding.Load(); h != nil && h.Epoch > epoch {
		return 0
	}
	return epoch
}

// Owns reports whether the partition is owned here. It may change at any time.
func (e *Engine) Owns(p domain.PartitionID) bool { return e.driver(p) != nil }

// Positions is how far the partitions that are owned here have come.
func (e *Engine) Positions() map[domain.PartitionID]store.Position {
	out := map[domain.PartitionID]store.Position{}
	for _, p := range e.order {
		if d := e.driver(p); d != nil {
			out[p] = d.snapshot().Position
		}
	}
	return out
}

// News says that a partition has come to a position, as its owner tells other servers. It
// may be wrong or late: what there is is read from the store.
func (e *Engine) News(p domain.PartitionID, at store.Position) {
	if s := e.seats[p]; s != nil {
		if c := s.chase.Load(); c != nil {
			c.news(at)
		}
	}
}

// PartitionStatus is what operators see of a partition.
type PartitionStatus struct {
	Partition domain.PartitionID
	Owned     bool   // here; the rest is then the owner's view, otherwise the follower's
	Owner     string // as the last picture of the fleet showed it; empty without a fleet
	Epoch     uint64
	Position  store.Position
	Stopped   *domain.Rejection
	Live      int
	Problems  []string // quarantined streams
	// Claim is an acknowledgement that was refused because nothing proves it; the one that is
	// most likely to be true of those since this server began.
	Claim *Claim `json:",omitempty"`
}

// Status lists the partitions owned here.
func (e *Engine) Status() []PartitionStatus {
	var out []PartitionStatus
	for _, p := range e.order {
		if d := e.driver(p); d != nil {
			status := d.snapshot()
			status.Owned, status.Claim = true, e.seats[p].claims()
			status.Owner, _ = e.holder(p)
			out = append(out, status)
		}
	}
	return out
}

// Followed lists the partitions that are owned elsewhere, or by nobody.
func (e *Engine) Followed() []PartitionStatus {
	var out []PartitionStatus
	for _, p := range e.order {
		s := e.seats[p]
		if c := s.chase.Load(); c != nil && s.driver.Load() == nil {
			status := c.snapshot()
			status.Owner, status.Epoch = e.holder(p)
			out = append(out, status)
		}
	}
	return out
}

func (e *Engine) holder(p domain.PartitionID) (string, uint64) {
	if h := e.seats[p].holding.Load(); h != nil {
		return h.Owner, h.Epoch
	}
	return "", 0
}

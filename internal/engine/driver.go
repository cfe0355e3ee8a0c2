package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	engine  *Engine
	owner   *owner
	inbox   chan any
	knock   chan struct{} // something was put into inbox
	reads   *host.Seats   // of lookups
	tails   []*tail
	jumps   uint64 // of the clock, that the owner knows of
	warm    map[streamKey]*stream
	cadence cadence
	rest    time.Duration // what waits is decided then; 0: nothing does
	shown   bool          // observers were shown something that nobody has taken back

	cancel  context.CancelFunc
	left    chan struct{} // closed when a leaving owner has nothing under way any more
	ended   chan struct{} // closed when the loop has ended and everybody has an answer
	working *crew         // reactors and jobs

	mu       sync.Mutex
	status   PartitionStatus
	verified domain.Token // the highest token that was compared with the store
	given    given        // what this owner committed
}

func newDriver(e *Engine, o *owner) *driver {
	now, jumps := e.cfg.Clock.Now()
	o.open.limits = e.cfg.Open
	if e.cfg.Clock.Jumped(e.cfg.Hold) { // the grace of the owner before ended with it
		o.hold = now.Add(e.cfg.Hold)
	}
	if e.cfg.Clock.Young(e.cfg.Hold) { // what it showed before, nobody here knows
		o.doubts = now.Add(e.cfg.Hold)
	}
	d := &driver{engine: e, owner: o, inbox: make(chan any, inboxSize), knock: make(chan struct{}, 1),
		left: make(chan struct{}), ended: make(chan struct{}), reads: host.NewSeats(e.cfg.Host, lookupMax),
		jumps: jumps, cancel: func() {}, working: newCrew(e.cfg.Host)}
	d.publish()
	return d
}

// start loads live streams and begins to work. Nothing is decided on a stream before it
// is loaded, so commands may come at once.
func (d *driver) start(ctx context.Context, heads []store.Head, reactors []Reactor) {
	ctx, d.cancel = context.WithCancel(ctx)
	for _, r := range reactors {
		d.tails = append(d.tails, newTail(d, r))
	}
	d.publish()
	for _, t := range d.tails {
		d.working.Go(func() { t.loop(ctx) })
	}
	started := d.engine.done.Go(func() {
		d.loop(ctx, heads)
		d.cancel()
		d.working.Wait()
	})
	if !started {
		d.finish(ctx)
	}
}

// send hands an input to the owner.
func (d *driver) send(ctx context.Context, in any) error {
	select {
	case <-d.ended:
		return notOwner()
	default:
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case d.inbox <- in:
	case <-d.ended:
		return notOwner()
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case d.knock <- struct{}{}:
	default:
	}
	select {
	case <-d.ended:
		d.drain() // it may have come after the loop looked for the last time
	default:
	}
	return nil
}

// drain answers what nobody takes any more. Whoever finds the loop ended may call it.
func (d *driver) drain() {
	for {
		select {
		case in := <-d.inbox:
			if s, ok := in.(inSubmit); ok && s.item.answer != nil {
				s.item.answer(Ack{}, notOwner())
			}
		default:
			return
		}
	}
}

// loop is the owner's goroutine: take what waits, step, flush, carry out the effects.
func (d *driver) loop(ctx context.Context, heads []store.Head) {
	defer d.finish(ctx)
	if d.owner.stopped == nil {
		d.shown = true
		d.carry(ctx, d.owner.begin(heads, d.warm))
	}
	d.warm = nil
	h := d.engine.cfg.Host
	sweep, cursor := h.Elapsed()+d.engine.cfg.Sweep, h.Elapsed()+cursorLag
	for !d.over() {
		limit := min(sweep, cursor) - h.Elapsed()
		if at, ok := d.owner.wakeAt(); ok {
			now, _ := d.engine.cfg.Clock.Now()
			limit = min(limit, max(at.Sub(now), time.Millisecond))
		}
		if d.rest > 0 {
			limit = min(limit, d.rest-h.Elapsed())
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

// over: a member of a fleet that was fenced has nothing to do here any more. It is called
// on the owner's goroutine.
func (d *driver) over() bool {
	return d.engine.fleet() && d.owner.flying == nil && d.owner.stopped != nil &&
		d.owner.stopped.Code == domain.CodeNotOwner
}

// deposed says that the partition is somebody else's, and this owner only ends.
func (d *driver) deposed() bool {
	stopped := d.snapshot().Stopped
	return stopped != nil && stopped.Code == domain.CodeNotOwner
}

// finish answers everybody who still waits. A fenced partition is followed from then on.
func (d *driver) finish(ctx context.Context) {
	fenced := ctx.Err() == nil && d.over()
	for _, eff := range d.owner.end(notOwner()) {
		d.answer(eff)
	}
	d.publish()
	close(d.ended)
	d.drain()
	if fenced {
		d.engine.done.Go(func() { d.engine.fenced(d) })
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
	d.flush(ctx, now)
}

// flush lets the owner decide and commit, and says how far the log has come.
func (d *driver) flush(ctx context.Context, now time.Time) {
	before := d.snapshot().Position
	for !d.rests() {
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
	if d.owner.position != before {
		d.engine.cfg.Moved(d.owner.partition, d.owner.position)
	}
}

// rests reports whether what waits is to wait a little longer, for company.
func (d *driver) rests() bool {
	d.rest = 0
	if d.owner.flying != nil || d.owner.leaving != nil || d.owner.stopped != nil {
		return false
	}
	n, now := d.owner.waiting(), d.engine.cfg.Host.Elapsed()
	if n == 0 {
		return false
	}
	if rest := d.cadence.rest(n, now); rest > 0 {
		d.rest = now + rest
	}
	return d.rest > 0
}

// ask wants to know the position now. It goes through the inbox, so every answer that was
// given before it is covered.
type ask struct {
	position *store.Position // set before answered is closed
	answered chan struct{}
}

func (d *driver) take(ctx context.Context, in any, now time.Time) {
	if _, ok := in.(inAppended); ok {
		d.cadence.ended = d.engine.cfg.Host.Elapsed()
	}
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
		if j, ok := d.job(eff); ok {
			d.background(ctx, j)
			continue
		}
		d.show(eff)
	}
}

// show carries out the effects that ask nobody: answers, observers, the log of operators.
func (d *driver) show(eff any) {
	switch eff := eff.(type) {
	case effAnswer:
		d.answer(eff)
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
			o.Ready(d.owner.partition, true)
		}
	case effProblem:
		d.engine.cfg.Log.Error("stream quarantined", "partition", d.owner.partition,
			"stream", eff.stream, "problem", eff.text)
	case effRoom:
		if eff.there {
			d.engine.cfg.Log.Info("storage has room again", "partition", d.owner.partition)
		} else {
			d.engine.cfg.Log.Error("storage is full: nothing can be recorded, and all of it is refused",
				"partition", d.owner.partition)
		}
	case effFatal:
		d.engine.cfg.Fatal(fmt.Errorf("append to partition %s: %w", d.owner.partition, eff.err))
	case effLeft:
		close(d.left)
	case effLost:
		d.logLost()
		d.shown = false
		for _, o := range d.engine.observers {
			o.Lost(d.owner.partition)
		}
	default:
		panic(fmt.Sprintf("driver of %s got an effect of type %T", d.owner.partition, eff))
	}
}

// logLost says why nothing is decided any more. That another server of the fleet took over
// is what fleets are for; every other reason needs a person.
func (d *driver) logLost() {
	p, log := d.owner.partition, d.engine.cfg.Log
	if !d.engine.fleet() || d.owner.stopped.Code != domain.CodeNotOwner {
		log.Error("partition stopped", "partition", p, "reason", d.owner.stopped)
		return
	}
	said := []any{"partition", p, "epoch", d.owner.epoch}
	if owner, epoch := d.engine.holder(p); epoch > d.owner.epoch { // else no picture has shown it yet
		said = append(said, "owner", owner, "owner_epoch", epoch)
	}
	log.Warn("partition handed over: its epoch is another owner's now, and it is followed here", said...)
}

func (d *driver) answer(eff any) {
	if a, ok := eff.(effAnswer); ok && a.item.answer != nil {
		a.item.answer(a.ack, a.err)
	}
}

// job is an effect that asks the store: what run answers is the owner's next input.
type job struct {
	name string
	run  func(ctx context.Context) any
	wait time.Duration // before it runs
	many bool          // a read: a bounded number of them runs at once
}

// job gives an effect its call of the store; ok is false for effects that need none.
func (d *driver) job(eff any) (j job, ok bool) {
	st := d.engine.cfg.Store
	switch eff := eff.(type) {
	case effLoad:
		return job{name: "load", many: true, run: func(ctx context.Context) any {
			s, err := d.engine.readStream(ctx, eff.key, latest)
			return inLoaded{eff.key, s, err}
		}}, true
	case effKey:
		return job{name: "key", many: true, run: func(ctx context.Context) any {
			k, err := st.Key(ctx, eff.item.env.Tenant, eff.item.env.Key.Scope, eff.item.env.Key.Key)
			if errors.Is(err, store.ErrNotFound) {
				return inKey{item: eff.item}
			}
			return inKey{eff.item, &k, err}
		}}, true
	case effCounter:
		return job{name: "counter", many: true, run: func(ctx context.Context) any {
			n, err := st.Counter(ctx, eff.tenant, eff.name)
			return inCounter{eff.tenant, eff.name, n, err}
		}}, true
	case effAppend:
		d.cadence.begun(eff.commands, d.engine.cfg.Host.Elapsed())
		return job{name: "append", run: func(ctx context.Context) any { return inAppended{d.append(ctx, eff)} }}, true
	case effReacquire:
		wait := min(settlePause<<min(eff.tries, 10), settlePauseMax)
		if eff.tries == 0 {
			wait = 0
		}
		return job{name: "settle", wait: wait, run: func(ctx context.Context) any { return d.settle(ctx, eff) }}, true
	}
	return job{}, false
}

func (d *driver) append(ctx context.Context, eff effAppend) error {
	begun := d.engine.cfg.Host.Elapsed()
	err := d.engine.cfg.Store.Append(ctx, eff.batch)
	if err == nil {
		d.engine.cfg.Appended(eff.commands, eff.events, d.engine.cfg.Host.Elapsed()-begun)
	}
	return err
}

const (
	settlePause    = 25 * time.Millisecond
	settlePauseMax = 2 * time.Second
	readPause      = 200 * time.Millisecond // a store that is away is not asked in a tight loop
)

// background runs a job and hands its answer to the owner.
func (d *driver) background(ctx context.Context, j job) {
	d.working.Go(func() {
		if in := j.do(ctx, d.engine.cfg.Host, d.reads); in != nil {
			_ = d.send(ctx, in) // fails only when the owner has ended: nobody waits any more
		}
	})
}

// do runs the job and gives its answer, nil when ctx ended before there was one. What the
// store did not answer is not asked again in a tight loop.
func (j job) do(ctx context.Context, h host.Host, seats *host.Seats) any {
	if j.wait > 0 && !host.Pause(ctx, h, j.wait) {
		return nil
	}
	if j.many {
		if !seats.Take(ctx) {
			return nil
		}
		defer seats.Leave()
	}
	in := j.run(ctx)
	if failed(in) && !host.Pause(ctx, h, readPause) {
		return nil
	}
	return in
}

// latest asks readStream for all that there is.
const latest = ^uint64(0)

// readStream builds a stream's state from the store, up to a version. A checkpoint that
// can't be decoded, or is of later, is derived data: the whole history is read instead.
func (e *Engine) readStream(ctx context.Context, key streamKey, upTo uint64) (*stream, error) {
	kind := e.kinds[key.id.Kind()]
	if kind == nil {
		return nil, fmt.Errorf("load stream %s: no such kind: %w", key.id, errUnreadable)
	}
	var state any
	var version, saved uint64
	var size, since int
	for _, checkpoint := range []bool{true, false} {
		h, err := e.cfg.Store.Load(ctx, key.tenant, key.id, checkpoint, kind.Encoding)
		if errors.Is(err, store.ErrBroken) {
			err = fmt.Errorf("%w: %w", errUnreadable, err) // the pages that hold it, not the whole store
		}
		if err != nil {
			return nil, fmt.Errorf("load stream %s: %w", key.id, err)
		}
		if h.Checkpoint != nil && h.Checkpoint.Version > upTo {
			continue
		}
		h.Rows = slices.DeleteFunc(slices.Clone(h.Rows), func(r store.Row) bool { return r.Version > upTo })
		state, version, err = kind.rebuild(h)
		if err == nil && upTo == latest && version != h.Head.Version {
			err = fmt.Errorf("read stream %s: its history ends at version %d, its head is at %d: %w",
				key.id, version, h.Head.Version, errUnreadable)
		}
		if err == nil {
			if h.Checkpoint != nil {
				saved, size = h.Checkpoint.Version, len(h.Checkpoint.State)
			}
			for i := range h.Rows {
				since += len(h.Rows[i].Events)
			}
			break
		} else if h.Checkpoint == nil {
			return nil, err
		}
	}
	if kind.Intern != nil {
		kind.Intern(state)
	}
	return &stream{key: key, kind: kind, state: state, version: version, saved: saved, size: size, since: since,
		stored: version > 0}, nil
}

// settle finds out what became of an append. Raising the epoch waits for the old
// transaction, then the position tells. In a fleet the epoch is raised only if it is still
// this owner's: one that slept while another took over must not take it back, and finds its
// batch in the log if it is there.
func (d *driver) settle(ctx context.Context, eff effReacquire) any {
	st, b := d.engine.cfg.Store, eff.batch
	last := b.Prev + store.Position(len(b.Rows))
	var own store.Ownership
	var err error
	if d.engine.fleet() {
		own, err = st.Take(ctx, b.Partition, d.engine.cfg.Owner, eff.epoch)
	} else {
		own, err = st.Acquire(ctx, b.Partition, d.engine.cfg.Owner)
	}
	fenced := errors.Is(err, store.ErrFenced)
	if err == nil {
		in := inReacquired{own: own, arrived: len(b.Rows) > 0 && own.Position == last && own.Digest == b.Digest}
		if in.arrived || own.Position == b.Prev && own.Digest == b.PrevDigest {
			return in
		}
		before := domain.Token{Partition: b.Partition, Epoch: b.Epoch, Position: uint64(b.Prev), Digest: b.PrevDigest}
		if in.lost, err = d.engine.compare(ctx, before, own.Position); err == nil {
			return in
		}
	}
	if fenced {
		if len(b.Rows) == 0 {
			return inReacquired{fenced: true}
		}
		var digest domain.Digest
		digest, _, err = st.BatchAt(ctx, b.Partition, last)
		if err == nil || errors.Is(err, store.ErrNotFound) {
			return inReacquired{fenced: true, arrived: err == nil && digest == b.Digest}
		}
	}
	if ctx.Err() == nil {
		d.engine.cfg.Log.Warn("store does not answer; the batch in flight is not settled yet",
			"partition", b.Partition, "error", err)
	}
	return inUnsettled{}
}

// publish copies what operators see; it runs on the owner's goroutine.
func (d *driver) publish() {
	o := d.owner
	d.mu.Lock()
	defer d.mu.Unlock()
	if o.position > d.status.Position && o.epoch == d.status.Epoch && o.stopped == nil {
		d.given.add(o.token())
	}
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
		return d.presentMore(ctx, token, status.Stopped)
	}
	if vouchedBy(token, verified) {
		return nil
	}
	if ok, err := d.ownCommit(ctx, token); ok || err != nil {
		return err
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
			return notOwner()
		case host.Ended:
			return ctx.Err()
		}
		held = *a.position
	}
	lost, err := d.engine.compare(ctx, token, held)
	if err != nil {
		return err
	}
	if lost == nil {
		d.mu.Lock()
		d.verified = vouching(d.verified, token, status.Epoch)
		d.mu.Unlock()
		return nil
	}
	if unproved := d.engine.doubt(ctx, d.engine.seats[d.owner.partition], token, held); unproved != nil {
		return unproved
	}
	if err := d.send(ctx, inStop{lost, token.Position}); err != nil {
		return err
	}
	return lost
}

// ownCommit reports whether a token is that of a commit of this owner which the store holds.
func (d *driver) ownCommit(ctx context.Context, token domain.Token) (bool, error) {
	d.mu.Lock()
	now := d.engine.cfg.Host.Elapsed()
	known, newest := d.given.has(token), d.given.newest()
	sure := known && d.given.sure(token, now)
	d.mu.Unlock()
	if !known || sure {
		return sure, nil
	}
	digest, _, err := d.engine.cfg.Store.BatchAt(ctx, newest.Partition, store.Position(newest.Position))
	if errors.Is(err, store.ErrNotFound) || err == nil && digest != newest.Digest {
		return false, nil // the token itself may be held
	}
	if err != nil {
		return false, fmt.Errorf("check token of %s: %w", token.Partition, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.given.has(newest) {
		d.given.held, d.given.looked = max(d.given.held, newest.Position), now
	}
	d.verified = vouching(d.verified, token, d.status.Epoch)
	return true, nil
}

// presentMore compares a token with the store although the partition is stopped: an
// operator who is to decide about lost history must see all that somebody was told of.
func (d *driver) presentMore(ctx context.Context, token domain.Token, stopped *domain.Rejection) error {
	if stopped.Code != domain.CodeHistoryLost {
		return stopped
	}
	held, err := d.engine.position(ctx, d.owner.partition)
	if err != nil || token.Position <= uint64(held) {
		return stopped
	}
	lost, err := d.engine.compare(ctx, token, held)
	if err == nil && lost != nil && d.engine.doubt(ctx, d.engine.seats[d.owner.partition], token, held) == nil {
		_ = d.send(ctx, inStop{lost, token.Position}) // one that has ended shows nothing any more
	}
	return stopped
}

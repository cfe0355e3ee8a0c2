package engine

import (
	"cmp"
	"container/list"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// streamKey names a stream within a partition.
type streamKey struct {
	tenant domain.TenantID
	id     domain.StreamID
}

func (k streamKey) less(other streamKey) bool {
	if k.tenant != other.tenant {
		return k.tenant < other.tenant
	}
	return k.id < other.id
}

// stream is a cached stream. Its state may be ahead of the store while a batch is in
// flight, so nothing outside the owner ever sees it.
type stream struct {
	key     streamKey
	kind    *Kind
	state   any
	version uint64
	saved   uint64 // version of the last checkpoint
	size    int    // of that, in bytes
	since   int    // bytes of events after it
	stored  bool   // has at least one committed row
	wake    time.Time
	live    bool
	turn    *list.Element // of a live stream in the owner's round of sweeps
	share   share         // whose jobs it has
	open    int           // of them without an outcome, as the ledger counts it
}

// item is a submitted command until it is answered.
type item struct {
	env     Envelope
	answer  func(Ack, error)
	waits   int        // lookups still missing before it can be decided
	earlier *store.Key // what the key did before, if anything
	fault   error      // a lookup failed
	timer   bool       // a Wake: nobody waits for the answer
	// Of new work: whose it is, how many jobs it asks for, and whether it has left the queue.
	share    share
	jobs     int
	admitted bool
	// gone says why whoever asked has stopped waiting; nil when somebody waits for ever.
	gone func() error
}

// Inputs of the step function.
type (
	inSubmit struct{ item *item }
	inLoaded struct {
		key    streamKey
		stream *stream
		err    error
	}
	inKey struct {
		item  *item
		found *store.Key
		err   error
	}
	inCounter struct {
		tenant domain.TenantID
		name   string
		value  uint64
		err    error
	}
	inAppended   struct{ err error }
	inReacquired struct {
		own     store.Ownership
		arrived bool              // the batch in doubt is there
		fenced  bool              // another owner came in between; own is empty
		lost    *domain.Rejection // the store holds less than was acknowledged
	}
	inUnsettled struct{} // the store did not say; ask again
	inTick      struct{}
	inJump      struct{ hold time.Duration }
	inCursor    struct {
		reactor string
		at      store.Position
	}
	inCursors struct{} // commit moved cursors even if nothing else does
	inStop    struct {
		reason *domain.Rejection
		at     uint64 // of lost history: the position that somebody was told of
	}
	inLeave  struct{ reason *domain.Rejection } // decide no more, end what is under way
	inFormat struct{ format uint32 }
	inSweep  struct{ limit int }
)

// Effects that the driver carries out.
type (
	effLoad    struct{ key streamKey }
	effKey     struct{ item *item }
	effCounter struct {
		tenant domain.TenantID
		name   string
	}
	effAppend struct {
		batch            store.Batch
		commands, events int
	}
	effReacquire struct { // settle an append whose outcome is unknown
		batch store.Batch
		epoch uint64
		tries int
	}
	effAnswer struct {
		item *item
		ack  Ack
		err  error
	}
	effCommitted struct{ rows []Committed }
	effLoaded    struct{ live Live }
	effProblem   struct {
		stream domain.StreamID
		text   string
	}
	effFatal struct{ err error }
	effRoom  struct{ there bool } // storage became full, or has room again
	effReady struct{}             // every stream that was live at take-over is loaded
	effLost  struct{}
	effLeft  struct{} // nothing is under way any more, and nothing will be
)

// Limits of a batch: above them the rest waits for the next one, so that one transaction
// stays short whatever the load is.
const (
	batchItems       = 2000
	batchEvents      = 8000
	checkpointEvents = 256 // events after which a stream's state may be saved with the batch
)

// owner is the step function of one partition. It does no I/O: step and flush take
// inputs and time, and return effects.
type owner struct {
	partition domain.PartitionID
	epoch     uint64
	position  store.Position
	digest    domain.Digest
	kinds     map[string]*Kind
	paranoid  bool   // check every state after every command
	format    uint32 // of events, that may be written now

	streams  map[streamKey]*stream
	loading  map[streamKey][]*item
	counting map[string][]*item
	counters map[string]uint64
	sick     map[streamKey]string // quarantined: a broken invariant
	recent   recentKeys
	timers   *timers
	hold     time.Time // no Wake before: a clock jump gave grace
	woke     time.Time // the last Wakes were sent: they fire again soon when they found no space
	doubts   time.Time // no Wake before of what may not come early: the clock may have jumped unseen
	ready    []*item   // serves running work, and is decided first
	wakes    []*item   // timers that are due, decided after ready
	fresh    fresh     // new work that waits
	toBegin  []*item   // new work that was looked up
	looking  int       // new work that is being looked up
	ahead    int       // jobs of that and of toBegin
	open     *ledger
	cursors  map[string]store.Position
	moved    map[string]store.Position // cursors not yet committed
	lagging  bool                      // cursors are due: they may make a batch of their own
	flying   *batch
	initial  map[streamKey]bool // live at take-over, not loaded yet
	owed     map[streamKey]bool // live when they were dropped after a failed append, not loaded yet
	full     bool               // the last append found no space
	prove    func(domain.Token) domain.Proof
	terms    map[domain.PartitionID]uint64 // the latest of each pools' that was heard of
	stopped  *domain.Rejection
	lostAt   uint64 // stopped for lost history: the highest position that somebody was told of
	leaving  *domain.Rejection
	left     bool
	round    *list.List       // live streams, in the order in which sweeps show them
	tries    int              // to settle what was appended, since something was committed
	pending  map[*item]uint64 // that wait for lookups
	count    uint64           // of items that ever waited
}

func newOwner(own store.Ownership, kinds map[string]*Kind, paranoid bool) *owner {
	return &owner{
		partition: own.Partition, epoch: own.Epoch, position: own.Position, digest: own.Digest,
		kinds: kinds, paranoid: paranoid, format: 1, pending: map[*item]uint64{}, prove: believesNobody{}.Prove,
		streams: map[streamKey]*stream{}, round: list.New(), loading: map[streamKey][]*item{},
		counting: map[string][]*item{}, counters: map[string]uint64{},
		sick: map[streamKey]string{}, recent: newRecentKeys(), timers: newTimers(),
		owed: map[streamKey]bool{}, cursors: map[string]store.Position{}, moved: map[string]store.Position{},
		terms: map[domain.PartitionID]uint64{}, fresh: newFresh(), open: newLedger(Open{}),
	}
}

// step takes one input. Time comes with it; the same inputs give the same effects.
func (o *owner) step(in any, now time.Time) []any {
	effects := o.take(in, now)
	return append(effects, o.admit()...)
}

func (o *owner) take(in any, now time.Time) []any {
	switch in := in.(type) {
	case inSubmit:
		return o.submit(in.item)
	case inLoaded:
		return o.loaded(in)
	case inKey:
		in.item.earlier = in.found
		return o.arrived(in.item, in.err)
	case inCounter:
		return o.counted(in)
	case inAppended:
		return o.appended(in.err)
	case inReacquired:
		return o.reacquired(in)
	case inUnsettled:
		effects := []any{effReacquire{o.flying.store, o.epoch, o.tries}}
		o.tries++
		return effects
	case inTick:
		return o.tick(now)
	case inJump:
		o.hold = now.Add(in.hold)
	case inCursor:
		if in.at > o.cursors[in.reactor] {
			o.cursors[in.reactor], o.moved[in.reactor] = in.at, in.at
		}
	case inCursors:
		o.lagging = true
	case inStop:
		effects := o.stop(in.reason)
		if in.at > o.lostAt && o.stopped.Code == domain.CodeHistoryLost {
			o.stopped, o.lostAt = in.reason, in.at
		}
		return effects
	case inLeave:
		return o.leave(in.reason)
	case inFormat:
		o.format = in.format
	case inSweep:
		return o.sweep(in.limit)
	default:
		panic(fmt.Sprintf("owner of %s got an input of type %T", o.partition, in))
	}
	return nil
}

// submit takes a command in and asks for whatever must be known before it is decided.
func (o *owner) submit(it *item) (effects []any) {
	if why := o.refusing(); why != nil {
		return []any{effAnswer{item: it, err: why}}
	}
	kind := o.kinds[it.env.Stream.Kind()]
	if kind == nil {
		return []any{effAnswer{item: it, err: fmt.Errorf("submit to %s: no such kind of stream", it.env.Stream)}}
	}
	key := streamKey{it.env.Tenant, it.env.Stream}
	if why, sick := o.sick[key]; sick {
		return []any{effAnswer{item: it, err: domain.Reject(domain.CodeStreamQuarantined, why)}}
	}
	if !it.admitted && o.begins(it) {
		if why := o.fresh.add(it); why != nil {
			return []any{effAnswer{item: it, err: why}}
		}
		return nil
	}
	if o.streams[key] == nil {
		it.waits++
		if o.loading[key] == nil {
			effects = append(effects, effLoad{key})
		}
		o.loading[key] = append(o.loading[key], it)
	}
	if it.env.Key != nil {
		if earlier, ok := o.recent.find(it.env.Tenant, *it.env.Key); ok {
			it.earlier = earlier
		} else {
			it.waits++
			effects = append(effects, effKey{it})
		}
	}
	if name := it.env.Counter; name != "" {
		id := counterID(it.env.Tenant, name)
		if _, known := o.counters[id]; !known {
			it.waits++
			if o.counting[id] == nil {
				effects = append(effects, effCounter{it.env.Tenant, name})
			}
			o.counting[id] = append(o.counting[id], it)
		}
	}
	if it.waits == 0 {
		o.queue(it)
		return effects
	}
	o.count++
	o.pending[it] = o.count
	if it.admitted {
		o.looking++
		o.ahead += it.jobs
	}
	return effects
}

// queue lets a command be decided with the next batch.
func (o *owner) queue(it *item) {
	if it.timer {
		o.wakes = append(o.wakes, it)
		return
	}
	if it.admitted {
		o.toBegin = append(o.toBegin, it)
		o.ahead += it.jobs
		return
	}
	o.ready = append(o.ready, it)
}

// refusing is why no command is taken, nil when they are.
func (o *owner) refusing() *domain.Rejection {
	if o.stopped != nil {
		return o.stopped
	}
	return o.leaving
}

func counterID(tenant domain.TenantID, name string) string { return string(tenant) + "\x00" + name }

// arrived notes that one lookup of an item is done.
func (o *owner) arrived(it *item, err error) []any {
	if err != nil && it.fault == nil {
		it.fault = err
	}
	it.waits--
	if it.waits > 0 {
		return nil
	}
	if _, waits := o.pending[it]; !waits {
		return nil // answered when the partition stopped
	}
	delete(o.pending, it)
	if it.admitted {
		o.looking--
		o.ahead -= it.jobs
	}
	if it.fault != nil {
		return []any{effAnswer{item: it, err: it.fault}}
	}
	o.queue(it)
	return nil
}

// loaded puts a stream into the cache and wakes everything that waited for it.
func (o *owner) loaded(in inLoaded) (effects []any) {
	waiting := o.loading[in.key]
	delete(o.loading, in.key)
	if o.stopped != nil {
		return nil // everybody has an answer, and observers were told that it is over
	}
	err := in.err
	switch {
	case errors.Is(err, errUnreadable):
		// Asking again would not help, and the rest of the partition need not wait for it.
		o.sick[in.key] = err.Error()
		effects = append(effects, effProblem{in.key.id, err.Error()})
		err = domain.Reject(domain.CodeStreamQuarantined, err.Error())
	case err == nil && o.streams[in.key] == nil:
		effects = append(effects, o.adopt(in.stream)...)
	}
	if in.err == nil || o.sick[in.key] != "" {
		delete(o.owed, in.key)
	}
	for _, it := range waiting {
		effects = append(effects, o.arrived(it, err)...)
	}
	if in.err != nil && (o.initial[in.key] || o.owed[in.key]) && o.sick[in.key] == "" {
		// It must come: nothing else would look after what waits in it.
		o.loading[in.key] = []*item{}
		return append(effects, effLoad{in.key})
	}
	return append(effects, o.begun(in.key)...)
}

// begin notes what was live at take-over; begun says when all of it is loaded. Streams in
// warm were followed here before: one that stands exactly where the store has it is taken
// as it is.
func (o *owner) begin(heads []store.Head, warm map[streamKey]*stream) (effects []any) {
	o.initial = map[streamKey]bool{}
	for _, h := range heads {
		key := streamKey{h.Tenant, h.Stream}
		if s := warm[key]; s != nil && s.version == h.Version {
			s.stored, s.turn, s.open = true, nil, 0 // its turn was with whoever followed
			effects = append(effects, o.adopt(s)...)
			continue
		}
		o.initial[key] = true
		o.loading[key] = []*item{}
		effects = append(effects, effLoad{key})
	}
	if len(o.initial) == 0 {
		effects = append(effects, effReady{})
	}
	return effects
}

func (o *owner) begun(key streamKey) []any {
	if !o.initial[key] {
		return nil
	}
	delete(o.initial, key)
	if len(o.initial) > 0 {
		return nil
	}
	return []any{effReady{}}
}

// adopt takes a loaded stream into the cache, checks it and arms its timer.
func (o *owner) adopt(s *stream) (effects []any) {
	if s.version > 0 {
		if err := s.kind.Check(s.state); err != nil {
			o.sick[s.key] = err.Error()
			return []any{effProblem{s.key.id, err.Error()}}
		}
	}
	o.streams[s.key] = s
	o.enter(s)
	if s.version > 0 && s.kind.Live(s.state) {
		o.setLive(s, true)
		if at, ok := s.kind.NextWake(s.state); ok {
			s.wake = at
			o.timers.set(s.key, at)
		}
		effects = append(effects, effLoaded{o.live(s)})
	}
	return effects
}

// live is what observers see of a live stream: its committed state.
func (o *owner) live(s *stream) Live {
	return Live{Partition: o.partition, Tenant: s.key.tenant, Stream: s.key.id, Version: s.version, State: s.state,
		Owned: true}
}

func (o *owner) counted(in inCounter) (effects []any) {
	id := counterID(in.tenant, in.name)
	waiting := o.counting[id]
	delete(o.counting, id)
	if in.err == nil {
		if _, known := o.counters[id]; !known {
			o.counters[id] = in.value
		}
	}
	for _, it := range waiting {
		effects = append(effects, o.arrived(it, in.err)...)
	}
	return effects
}

// tick turns due timers into Wake commands, unless grace holds them back.
func (o *owner) tick(now time.Time) (effects []any) {
	if o.refusing() != nil || now.Before(o.rest()) {
		return nil
	}
	for len(o.wakes) < wakesMax {
		key, ok := o.timers.due(now)
		if !ok {
			return effects
		}
		o.woke = now
		s := o.streams[key]
		if s == nil {
			continue
		}
		if now.Before(o.doubts) && s.kind.Early != nil && s.kind.Early(s.state) {
			o.timers.set(key, o.doubts)
			continue
		}
		cause := domain.Cause{Actor: domain.Actor{Kind: "timer", ID: "wake", Via: "internal"}, At: now}
		effects = append(effects, o.submit(&item{timer: true, env: Envelope{
			Tenant: key.tenant, Partition: o.partition, Stream: key.id,
			Command: s.kind.Wake(cause), Cause: cause,
		}})...)
	}
	return effects
}

// wakeAt is when the driver must tick next.
func (o *owner) wakeAt() (time.Time, bool) {
	at, ok := o.timers.next()
	if rest := o.rest(); ok && at.Before(rest) {
		at = rest
	}
	return at, ok && o.refusing() == nil
}

// fullPause is how long timers rest that found no space: what they want to record is due all the
// time, and whoever has space again need not hear it at once.
const fullPause = time.Second

// rest is until when timers are held back.
func (o *owner) rest() time.Time {
	if again := o.woke.Add(fullPause); o.full && again.After(o.hold) {
		return again
	}
	return o.hold
}

// setLive notes whether anything is still to happen in a stream. One that becomes live is swept
// after all others.
func (o *owner) setLive(s *stream, live bool) {
	s.live = live
	switch {
	case live && s.turn == nil && o.streams[s.key] == s:
		s.turn = o.round.PushBack(s)
	case !live && s.turn != nil:
		o.round.Remove(s.turn)
		s.turn = nil
	}
}

// forget takes a stream out of the cache.
func (o *owner) forget(key streamKey) {
	s := o.streams[key]
	if s == nil {
		return
	}
	delete(o.streams, key)
	o.recount(s, 0)
	if s.turn != nil {
		o.round.Remove(s.turn)
		s.turn = nil
	}
}

// sweep shows observers up to limit live streams again: whatever lost its live cause,
// by a defect or a lost message, gets it back. Streams of the batch in flight are ahead
// of the store and wait for the next round.
func (o *owner) sweep(limit int) (effects []any) {
	if o.stopped != nil {
		return nil
	}
	for range min(limit, o.round.Len()) {
		turn := o.round.Front()
		o.round.MoveToBack(turn)
		s := turn.Value.(*stream)
		key := s.key
		if o.flying != nil && o.flying.touched[key] != nil {
			continue
		}
		if o.timers.byKey[key] == nil && !s.wake.IsZero() && len(o.ready)+len(o.wakes) == 0 && o.flying == nil {
			o.timers.set(key, s.wake) // a Wake was lost: arm it again
		}
		effects = append(effects, effLoaded{o.live(s)})
	}
	return effects
}

// stop ends the partition with an answer for everybody; nothing is decided any more. A
// batch in flight is still answered for what became of it.
func (o *owner) stop(reason *domain.Rejection) (effects []any) {
	if o.stopped != nil {
		if reason.Code == domain.CodeNotOwner {
			o.stopped = reason // whatever it was stopped for, it is somebody else's now
		}
		return nil
	}
	o.stopped = reason
	return append(o.turnAway(reason), effLost{})
}

// leave refuses further commands and waits for the batch in flight. A partition that was
// stopped is left like any other: it has answered everybody already.
func (o *owner) leave(reason *domain.Rejection) (effects []any) {
	if o.leaving != nil {
		return nil
	}
	o.leaving = reason
	return o.turnAway(reason)
}

// turnAway answers every command that is not in the batch in flight.
func (o *owner) turnAway(reason error) (effects []any) {
	for _, it := range slices.Concat(o.ready, o.wakes, o.toBegin) {
		effects = append(effects, effAnswer{item: it, err: reason})
	}
	o.ready, o.wakes, o.toBegin, o.looking, o.ahead = nil, nil, nil, 0, 0
	waiting := slices.SortedFunc(maps.Keys(o.pending), func(a, b *item) int {
		return cmp.Compare(o.pending[a], o.pending[b])
	})
	for _, it := range waiting {
		effects = append(effects, effAnswer{item: it, err: reason})
	}
	clear(o.pending)
	for it := o.fresh.next(); it != nil; it = o.fresh.next() {
		effects = append(effects, effAnswer{item: it, err: reason})
	}
	return effects
}

// end answers everybody when nothing is going to happen here any more. What is in flight
// may or may not have been committed.
func (o *owner) end(reason *domain.Rejection) (effects []any) {
	if o.stopped == nil {
		o.stopped = reason
	}
	effects = o.turnAway(o.stopped)
	if b := o.flying; b != nil {
		o.flying = nil
		for _, a := range b.answers {
			effects = append(effects, effAnswer{item: a.item, err: fmt.Errorf(
				"commit batch of %s after %d: outcome not known: %w", o.partition, o.position, domain.ErrRetry)})
		}
	}
	return effects
}

package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Committed is a row of the log with its events decoded, as observers and reactors get it.
type Committed struct {
	Partition domain.PartitionID
	Epoch     uint64
	Position  store.Position
	Tenant    domain.TenantID
	Stream    domain.StreamID
	First     uint64 // version of the first event
	Version   uint64 // version of the last event
	At        time.Time
	Events    []any
	// State is the stream's state after the row, for observers during their call only;
	// reactors get nil.
	State any
	// Owned: this server owns the partition, and committed the row itself. Otherwise it
	// read the row from the store; Epoch is then 0.
	Owned bool
}

// Live is a live stream as observers see it. State is the owner's: read it during the
// call, keep nothing of it.
type Live struct {
	Partition domain.PartitionID
	Tenant    domain.TenantID
	Stream    domain.StreamID
	Version   uint64
	State     any
	Owned     bool // this server owns the partition; otherwise it follows it
}

// batch is a transaction being decided or in flight.
type batch struct {
	store    store.Batch
	touched  map[streamKey]*stream
	order    []streamKey // of first touch
	events   map[streamKey][]any
	first    map[streamKey]uint64
	keys     map[string]*store.Key
	counters map[string]store.Counter
	answers  []effAnswer
	count    int
}

func newBatch() *batch {
	return &batch{
		touched: map[streamKey]*stream{}, events: map[streamKey][]any{}, first: map[streamKey]uint64{},
		keys: map[string]*store.Key{}, counters: map[string]store.Counter{},
	}
}

// flush decides everything that is ready and asks for one append. At most one batch is
// in flight; while it commits, the next one collects.
func (o *owner) flush(now time.Time) []any {
	cursors := (o.lagging || o.leaving != nil) && len(o.moved) > 0
	if o.leaving != nil && !o.left && o.flying == nil && (o.stopped != nil || !cursors) {
		o.left = true
		return []any{effLeft{}}
	}
	if o.flying != nil || o.stopped != nil || (o.waiting() == 0 && !cursors) {
		return nil
	}
	o.lagging = false
	b := newBatch()
	taken, effects := 0, []any(nil)
	for _, it := range o.ready {
		if taken == batchItems || b.count >= batchEvents {
			break
		}
		taken++
		effects = append(effects, o.decide(b, it, now)...)
	}
	o.ready = slices.Delete(o.ready, 0, taken)
	effects = append(effects, o.wakeDue(b, now)...)
	effects = append(effects, o.beginNew(b, now)...)
	if b.count == 0 && len(b.keys) == 0 && !cursors {
		// Nothing to commit. Answers rest on committed state only: no batch is in flight.
		return append(effects, o.reply(b)...)
	}
	problems, ok := o.seal(b, now)
	effects = append(effects, problems...)
	if !ok {
		return append(effects, o.abandon(b)...)
	}
	o.flying = b
	return append(effects, effAppend{b.store, len(b.answers), b.count})
}

// waiting is how many commands can be decided now.
func (o *owner) waiting() int { return len(o.ready) + len(o.wakes) + len(o.toBegin) }

func (o *owner) token() domain.Token {
	return domain.Token{Partition: o.partition, Epoch: o.epoch, Position: uint64(o.position), Digest: o.digest}
}

// decide runs one command against the cached state. A panic is a broken invariant: the
// stream is quarantined, and everything else goes on.
func (o *owner) decide(b *batch, it *item, now time.Time) (effects []any) {
	key := streamKey{it.env.Tenant, it.env.Stream}
	if it.gone != nil {
		// A command that nobody waits for any more may be one that its sender would not send
		// again: a grant of a server that led the pool before a commit took half a minute.
		if err := it.gone(); err != nil {
			return []any{effAnswer{item: it, err: fmt.Errorf("submit %T to %s: not begun: %w", it.env.Command, key.id, err)}}
		}
	}
	if t := it.env.Term; t.Epoch > 0 {
		if t.Epoch < o.terms[t.Of] {
			return []any{effAnswer{item: it, err: domain.Reject(domain.CodeNotOwner,
				"Another server leads the pool now; try again.")}}
		}
		o.terms[t.Of] = t.Epoch
	}
	if end := it.env.Before; !end.IsZero() && !now.Before(end) {
		return []any{effAnswer{item: it, err: domain.Reject(domain.CodeNotOwner, "The command came too late; try again.")}}
	}
	defer func() {
		if r := recover(); r != nil {
			text := fmt.Sprintf("%s at version of partition position %d: %v", key.id, o.position, r)
			effects = append(effects, o.quarantine(b, key, it, text)...)
		}
	}()
	if done, answer := o.repeated(b, it); done {
		b.answers = append(b.answers, answer)
		return nil
	}
	if why, sick := o.sick[key]; sick {
		b.answers = append(b.answers, effAnswer{item: it, err: domain.Reject(domain.CodeStreamQuarantined, why)})
		return nil
	}
	s := o.streams[key]
	if s == nil { // dropped after a failed append since it was looked up: load it again
		return o.submit(it)
	}
	if it.admitted && s.version == 0 {
		if why := o.open.over(it.share, it.jobs); why != nil {
			b.answers = append(b.answers, effAnswer{item: it, err: why})
			return nil
		}
	}
	command, counter := o.number(b, it)
	decision, rejection := s.kind.Decide(s.state, command, now)
	if rejection != nil {
		b.answers = append(b.answers, effAnswer{item: it, err: rejection})
		return nil
	}
	events, err := s.kind.lower(decision.Events, o.format)
	if err != nil {
		b.answers = append(b.answers, effAnswer{item: it, err: unfinished(err.Error() + ".")})
		return nil
	}
	o.apply(b, s, events)
	if counter != nil && len(events) > 0 {
		b.counters[counterID(counter.Tenant, counter.Name)] = *counter
	}
	ack := Ack{Stream: key.id, Version: s.version, Reply: decision.Reply, Refusal: decision.Refusal, Shown: true}
	if int(s.version) == len(events) {
		for i, e := range events {
			ack.Begun = append(ack.Begun, Recorded{Version: uint64(i + 1), At: now, Event: e})
		}
	}
	b.answers = append(b.answers, effAnswer{item: it, ack: ack})
	if k := it.env.Key; k != nil {
		reply, err := json.Marshal(decision.Reply)
		if err != nil {
			panic(fmt.Sprintf("encode reply %T: %v", decision.Reply, err))
		}
		b.keys[keyID(it.env.Tenant, *k)] = &store.Key{Tenant: it.env.Tenant, Scope: k.Scope, Key: k.Key,
			Body: k.Body, Reply: reply, Stream: key.id, At: now}
	}
	return nil
}

// apply evolves the cached state and notes the events for the row to be written.
func (o *owner) apply(b *batch, s *stream, events []any) {
	if len(events) == 0 {
		return
	}
	if b.touched[s.key] == nil {
		b.touched[s.key] = s
		b.order = append(b.order, s.key)
		b.first[s.key] = s.version + 1
	}
	for _, e := range events {
		s.kind.Evolve(s.state, e)
		s.version++
	}
	if o.paranoid {
		if err := s.kind.Check(s.state); err != nil {
			panic(fmt.Sprintf("check after %T: %v", events[len(events)-1], err))
		}
	}
	o.tally(s, events)
	b.events[s.key] = append(b.events[s.key], events...)
	b.count += len(events)
}

// repeated answers a command whose key has acted before, in the store or in this batch.
func (o *owner) repeated(b *batch, it *item) (bool, effAnswer) {
	if it.env.Key == nil {
		return false, effAnswer{}
	}
	earlier := it.earlier
	if in := b.keys[keyID(it.env.Tenant, *it.env.Key)]; in != nil {
		earlier = in
	} else if found, ok := o.recent.find(it.env.Tenant, *it.env.Key); ok {
		earlier = found
	}
	switch {
	case earlier == nil:
		return false, effAnswer{}
	case earlier.Expired:
		return true, effAnswer{item: it, err: domain.Reject(domain.CodeIdempotencyExpired,
			"This idempotency key is too old for its reply to be kept; look the result up, or use a new key.")}
	case earlier.Body != it.env.Key.Body:
		return true, effAnswer{item: it, err: domain.Reject(domain.CodeIdempotencyMismatch,
			"This idempotency key was used for another request; use a new key for a new request.")}
	}
	return true, effAnswer{item: it, ack: Ack{Stream: earlier.Stream, Repeat: true, Stored: earlier.Reply, Shown: true}}
}

// number gives the command the counter's next value.
func (o *owner) number(b *batch, it *item) (any, *store.Counter) {
	if it.env.Counter == "" {
		return it.env.Command, nil
	}
	id := counterID(it.env.Tenant, it.env.Counter)
	value := o.counters[id]
	if c, ok := b.counters[id]; ok {
		value = c.Value
	}
	numbered := it.env.Command.(Numbered).WithNumber(value + 1)
	return numbered, &store.Counter{Tenant: it.env.Tenant, Name: it.env.Counter, Value: value + 1}
}

// seal turns what was decided into the store's batch. ok is false when a stream could
// not be encoded; it is then quarantined and the rest must be decided again.
func (o *owner) seal(b *batch, now time.Time) (effects []any, ok bool) {
	for i, key := range b.order {
		row, err := o.row(b, key, o.position+store.Position(i)+1, now)
		if err != nil {
			o.sick[key] = err.Error()
			return []any{effProblem{key.id, err.Error()}}, false
		}
		b.store.Rows = append(b.store.Rows, row)
	}
	for _, id := range sortedKeys(b.keys) {
		b.store.Keys = append(b.store.Keys, *b.keys[id])
	}
	for _, id := range sortedKeys(b.counters) {
		b.store.Counters = append(b.store.Counters, b.counters[id])
	}
	for _, name := range sortedKeys(o.moved) {
		b.store.Cursors = append(b.store.Cursors, store.Cursor{Reactor: name, Position: o.moved[name]})
	}
	clear(o.moved)
	b.store.Partition, b.store.Epoch, b.store.At = o.partition, o.epoch, now
	b.store.Prev, b.store.PrevDigest, b.store.Digest = o.position, o.digest, o.digest
	if len(b.store.Rows) > 0 {
		b.store.Digest = store.BatchDigest(o.digest, b.store.Rows)
	}
	return nil, true
}

// row writes one stream's part of the batch: events, head, checkpoint and list rows.
func (o *owner) row(b *batch, key streamKey, at store.Position, now time.Time) (row store.Row, err error) {
	s, events := b.touched[key], b.events[key]
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("write %s at version %d: %v", key.id, s.version, r)
		}
	}()
	data, err := s.kind.EncodeEvents(events, o.format)
	if err != nil {
		return store.Row{}, fmt.Errorf("encode events %s: %w", key.id, err)
	}
	if o.paranoid {
		if again, err := s.kind.DecodeEvents(data); err != nil || len(again) != len(events) {
			return store.Row{}, fmt.Errorf("encoded events %s can't be read: %d of %d: %w", key.id, len(again), len(events), err)
		}
	}
	wake, _ := s.kind.NextWake(s.state)
	live := s.kind.Live(s.state)
	b.store.Heads = append(b.store.Heads, store.Head{Tenant: key.tenant, Stream: key.id,
		Version: s.version, Live: live, NextWake: wake})
	s.since += len(data)
	if live && s.dueCheckpoint() {
		state, err := s.kind.EncodeState(s.state)
		if err != nil {
			return store.Row{}, fmt.Errorf("encode state %s: %w", key.id, err)
		}
		b.store.Checkpoints = append(b.store.Checkpoints, store.Checkpoint{Tenant: key.tenant, Stream: key.id,
			Version: s.version, Encoding: s.kind.Encoding, State: state})
		s.saved, s.size, s.since = s.version, len(state), 0
	}
	rows := s.kind.Rows(s.state, Place{o.partition, key.tenant, key.id, s.version, now, events})
	b.store.Runs = append(b.store.Runs, rows.Runs...)
	b.store.Repositories = append(b.store.Repositories, rows.Repositories...)
	b.store.Runners = append(b.store.Runners, rows.Runners...)
	return store.Row{Position: at, Tenant: key.tenant, Stream: key.id, Version: s.version,
		Count: uint32(len(events)), Events: data, At: now}, nil
}

// dueCheckpoint reports whether the state is worth saving again: when as much happened since as
// was saved then. The bytes of all checkpoints stay in proportion to those of events, also of a
// stream whose state grows with its history, and so does what must be read to build it.
func (s *stream) dueCheckpoint() bool {
	return s.version-s.saved >= checkpointEvents && s.since >= s.size
}

// appended settles the batch in flight.
func (o *owner) appended(err error) []any {
	b := o.flying
	switch {
	case err == nil:
		return o.committed(b)
	case errors.Is(err, store.ErrFull):
		o.flying = nil
		effects := append(o.room(false), o.refuse(b, domain.Reject(domain.CodeStorageFull,
			"The server's storage is full, so nothing was changed; free space and try again."))...)
		if o.leaving != nil {
			clear(o.moved) // whoever leaves does not wait for room: the next owner's reactors do it again
		}
		return effects
	case errors.Is(err, store.ErrFenced):
		o.flying = nil
		lost := domain.Reject(domain.CodeNotOwner, "Another server owns this partition now; try again.")
		return append(o.stop(lost), o.refuse(b, lost)...)
	case errors.Is(err, store.ErrBroken):
		return []any{effFatal{err}}
	default: // unknown, a conflict, a database that went away: ask under a higher epoch
		effects := []any{effReacquire{b.store, o.epoch, o.tries}}
		o.tries++ // until one is committed: a store that takes nothing is not asked in a tight loop
		return effects
	}
}

// reacquired goes on after the owner raised its epoch to learn what became of a batch.
func (o *owner) reacquired(in inReacquired) []any {
	b := o.flying
	if in.fenced || in.lost != nil {
		return o.deposed(b, in)
	}
	o.epoch = in.own.Epoch
	if in.arrived {
		return o.committed(b)
	}
	o.flying = nil
	if in.own.Position != o.position || in.own.Digest != o.digest {
		// Somebody else appended in between: what is cached here is not the truth.
		o.position, o.digest = in.own.Position, in.own.Digest
		clear(o.counters)
		o.recent = newRecentKeys()
		effects := o.abandon(b)
		for _, key := range sortedStreams(o.streams) {
			effects = append(effects, o.drop(key)...)
		}
		return effects
	}
	return o.abandon(b)
}

// deposed ends the partition here, and tells the batch in flight what became of it.
func (o *owner) deposed(b *batch, in inReacquired) (effects []any) {
	why := in.lost
	if why == nil {
		why = domain.Reject(domain.CodeNotOwner, "Another server owns this partition now; try again.")
	}
	effects = o.stop(why)
	switch {
	case in.arrived:
		return append(effects, o.committed(b)...)
	case len(b.store.Rows) == 0:
		return append(effects, o.end(why)...) // nothing in the log tells
	}
	o.flying = nil
	return append(effects, o.refuse(b, why)...)
}

// room tells operators when storage becomes full and when that is over. Whoever sent what was
// refused tries again and may say nothing.
func (o *owner) room(there bool) []any {
	if o.full == !there {
		return nil
	}
	o.full = !there
	return []any{effRoom{there}}
}

// committed answers everybody in the batch; only now does it count as having happened.
func (o *owner) committed(b *batch) (effects []any) {
	effects = o.room(true)
	o.flying, o.tries = nil, 0
	o.position += store.Position(len(b.store.Rows))
	o.digest = b.store.Digest
	for id, c := range b.counters {
		o.counters[id] = c.Value
	}
	for _, id := range sortedKeys(b.keys) {
		o.recent.add(b.keys[id])
	}
	rows := make([]Committed, 0, len(b.store.Rows))
	for i := range b.store.Rows {
		r := &b.store.Rows[i]
		key := streamKey{r.Tenant, r.Stream}
		rows = append(rows, Committed{Partition: o.partition, Epoch: o.epoch, Position: r.Position,
			Tenant: r.Tenant, Stream: r.Stream, First: b.first[key], Version: r.Version, At: r.At, Events: b.events[key],
			State: b.touched[key].state, Owned: true})
		s, head := b.touched[key], &b.store.Heads[i]
		s.stored, s.wake = true, head.NextWake
		o.setLive(s, head.Live)
		o.timers.set(key, head.NextWake)
		if !head.Live {
			o.timers.set(key, time.Time{})
			o.forget(key)
		}
	}
	// Observers first: who reads its answer must find dispatch and pages up to date. Those
	// of a partition that was lost meanwhile learn of it by whoever follows.
	if len(rows) > 0 && o.stopped == nil {
		effects = append(effects, effCommitted{rows})
	}
	return append(effects, o.reply(b)...)
}

// reply answers a batch's commands, and lets go of streams that were only looked at.
func (o *owner) reply(b *batch) (effects []any) {
	var token domain.Token
	if len(b.answers) > 0 {
		token = o.token()
		token.Proof = o.prove(token)
	}
	for _, a := range b.answers {
		a.ack.Token = token
		effects = append(effects, a)
		key := streamKey{a.item.env.Tenant, a.item.env.Stream}
		if s := o.streams[key]; s != nil && !s.live {
			o.forget(key)
		}
	}
	return effects
}

// refuse answers everybody in the batch with a rejection and forgets what was decided.
func (o *owner) refuse(b *batch, why *domain.Rejection) (effects []any) {
	for _, a := range b.answers {
		effects = append(effects, effAnswer{item: a.item, err: why})
	}
	b.answers = nil
	return append(effects, o.abandon(b)...)
}

// abandon forgets a batch that did not happen: touched streams are loaded anew, and its
// commands are decided again.
func (o *owner) abandon(b *batch) (effects []any) {
	for _, key := range b.order {
		effects = append(effects, o.drop(key)...)
	}
	for _, c := range b.store.Cursors {
		o.moved[c.Reactor] = max(o.moved[c.Reactor], c.Position)
	}
	for _, a := range b.answers {
		effects = append(effects, o.submit(a.item)...)
	}
	return effects
}

// drop takes a stream out of the cache; a live one is loaded again at once.
func (o *owner) drop(key streamKey) []any {
	s := o.streams[key]
	o.forget(key)
	o.timers.set(key, time.Time{})
	if s == nil || !s.stored || o.loading[key] != nil || o.refusing() != nil {
		return nil
	}
	if s.live {
		o.owed[key] = true // its timer went with it: it must come back, however often loading fails
	}
	o.loading[key] = []*item{}
	return []any{effLoad{key}}
}

// quarantine isolates a stream whose invariant broke. Events that this batch already
// holds of it are taken back with the stream; other commands are decided again.
func (o *owner) quarantine(b *batch, key streamKey, culprit *item, text string) (effects []any) {
	o.sick[key] = text
	effects = append(effects, effProblem{key.id, text},
		effAnswer{item: culprit, err: domain.Reject(domain.CodeStreamQuarantined, text)})
	if b.touched[key] != nil {
		delete(b.touched, key)
		delete(b.events, key)
		delete(b.first, key)
		b.order = slices.DeleteFunc(b.order, func(k streamKey) bool { return k == key })
		for id, k := range b.keys {
			if k.Tenant == key.tenant && k.Stream == key.id {
				delete(b.keys, id)
			}
		}
		for i := range b.answers {
			if env := b.answers[i].item.env; env.Tenant == key.tenant && env.Stream == key.id {
				b.answers[i] = effAnswer{item: b.answers[i].item, err: domain.Reject(domain.CodeStreamQuarantined, text)}
			}
		}
	}
	o.forget(key)
	o.timers.set(key, time.Time{})
	return effects
}

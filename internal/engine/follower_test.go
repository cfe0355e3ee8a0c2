package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

// pursuit drives a follower's step function by hand: its reads happen at moments that the
// test draws, and their answers arrive in an order that it draws.
type pursuit struct {
	t      *rapid.T
	ctx    context.Context
	kind   *Kind
	store  *memory.Store
	own    store.Ownership
	events map[domain.StreamID][]tallyEvent
	log    []Committed // what was appended, with a copy of the state after it

	chase   *chase
	reads   []job // asked for, and not made yet
	answers []any // made, and not delivered yet
	begun   bool
	ready   bool
	from    store.Position // everything up to here was shown by Loaded
	shown   map[domain.StreamID]Live
	rows    []Committed // shown
}

func (p *pursuit) stateOf(id domain.StreamID) *tally {
	s := &tally{}
	for _, e := range p.events[id] {
		p.kind.Evolve(s, e)
	}
	return s
}

// append commits a batch of one to three streams, as an owner elsewhere does.
func (p *pursuit) append(t *rapid.T) {
	b := store.Batch{Partition: home, Epoch: p.own.Epoch, Prev: p.own.Position, PrevDigest: p.own.Digest}
	used := map[domain.StreamID]bool{}
	for range rapid.IntRange(1, 3).Draw(t, "streams") {
		id := domain.StreamID(fmt.Sprint("tally/", rapid.IntRange(1, 4).Draw(t, "stream")))
		if used[id] {
			continue
		}
		used[id] = true
		var events []any
		for range rapid.IntRange(1, 2).Draw(t, "events") {
			e := tallyEvent{Do: "add", N: rapid.IntRange(1, 9).Draw(t, "n")}
			if rapid.IntRange(0, 4).Draw(t, "ends") == 0 {
				e = tallyEvent{Do: "done"} // it leaves memory, and comes back with its next event
			}
			if e.Do == "add" && p.stateOf(id).Done {
				e = tallyEvent{Do: "reopen"}
			}
			events = append(events, e)
			p.events[id] = append(p.events[id], e)
		}
		data, err := p.kind.EncodeEvents(events, 1)
		if err != nil {
			t.Fatal(err)
		}
		state, version := p.stateOf(id), uint64(len(p.events[id]))
		at := b.Prev + store.Position(len(b.Rows)) + 1
		b.Rows = append(b.Rows, store.Row{Position: at, Tenant: "tnt_a", Stream: id, Version: version,
			Count: uint32(len(events)), Events: data})
		b.Heads = append(b.Heads, store.Head{Tenant: "tnt_a", Stream: id, Version: version, Live: !state.Done})
		if rapid.IntRange(0, 3).Draw(t, "checkpoint") == 0 {
			saved, err := p.kind.EncodeState(state)
			if err != nil {
				t.Fatal(err)
			}
			b.Checkpoints = append(b.Checkpoints, store.Checkpoint{Tenant: "tnt_a", Stream: id, Version: version,
				Encoding: p.kind.Encoding, State: saved})
		}
		p.log = append(p.log, Committed{Position: at, Stream: id, Version: version, State: state})
	}
	b.Digest = store.BatchDigest(b.PrevDigest, b.Rows)
	if err := p.store.Append(p.ctx, b); err != nil {
		t.Fatal(err)
	}
	p.own.Position, p.own.Digest = b.Prev+store.Position(len(b.Rows)), b.Digest
}

// step brings an input and carries the effects out.
func (p *pursuit) step(in any) {
	for {
		for _, eff := range p.chase.follower.step(in) {
			if j, ok := p.chase.job(eff); ok {
				p.reads = append(p.reads, j)
				continue
			}
			p.see(eff)
		}
		if !p.chase.follower.more {
			return
		}
		in = inContinue{}
	}
}

func (p *pursuit) see(eff any) {
	switch eff := eff.(type) {
	case effLoaded:
		if !p.ready {
			p.shown[eff.live.Stream] = eff.live
		}
		p.same(eff.live.Stream, eff.live.Version, eff.live.State)
	case effReady:
		if p.ready {
			p.t.Fatal("ready twice")
		}
		p.ready, p.from = true, p.chase.follower.position
		live := 0
		for id := range p.events {
			version, state := p.at(id, p.from)
			l, known := p.shown[id]
			if isLive := version > 0 && !state.Done; isLive != known || known && l.Version != version {
				p.t.Fatalf("as of %d %s is at %d (live %t), and is shown at %d (%t)", p.from, id, version, isLive, l.Version, known)
			} else if isLive {
				live++
			}
		}
		if live != len(p.shown) {
			p.t.Fatalf("%d streams are shown, %d are live", len(p.shown), live)
		}
	case effCommitted:
		for _, r := range eff.rows {
			p.same(r.Stream, r.Version, r.State)
			p.rows = append(p.rows, r)
		}
	default:
		p.t.Fatalf("effect %T%+v", eff, eff)
	}
}

// at is a stream as of a position.
func (p *pursuit) at(id domain.StreamID, at store.Position) (version uint64, state *tally) {
	for _, r := range p.log {
		if r.Stream == id && r.Position <= at {
			version, state = r.Version, r.State.(*tally)
		}
	}
	return version, state
}

// same compares a state that is shown with the one that events of that version make.
func (p *pursuit) same(id domain.StreamID, version uint64, got any) {
	want := &tally{}
	for _, e := range p.events[id][:version] {
		p.kind.Evolve(want, e)
	}
	if *got.(*tally) != *want {
		p.t.Fatalf("%s at %d is shown as %+v, and is %+v", id, version, got, want)
	}
}

func (p *pursuit) begin(*rapid.T) {
	if !p.begun {
		p.begun = true
		p.step(inBegin{})
	}
}

// read makes one of the reads that were asked for; it may fail.
func (p *pursuit) read(t *rapid.T) {
	if len(p.reads) == 0 {
		return
	}
	i := rapid.IntRange(0, len(p.reads)-1).Draw(t, "read")
	j := p.reads[i]
	p.reads = append(p.reads[:i], p.reads[i+1:]...)
	p.store.SetHooks(memory.Hooks{})
	switch rapid.IntRange(0, 5).Draw(t, "fate") {
	case 0:
		p.store.SetHooks(memory.Hooks{Before: func(memory.Call) error { return errors.New("away") }})
	case 1: // the owner goes on between two reads of one job
		p.store.SetHooks(memory.Hooks{Before: func(c memory.Call) error {
			if c.Op == "live" {
				p.append(t)
			}
			return nil
		}})
	}
	p.answers = append(p.answers, j.run(p.ctx))
	p.store.SetHooks(memory.Hooks{})
}

func (p *pursuit) deliver(t *rapid.T) {
	if len(p.answers) == 0 {
		return
	}
	i := rapid.IntRange(0, len(p.answers)-1).Draw(t, "answer")
	in := p.answers[i]
	p.answers = append(p.answers[:i], p.answers[i+1:]...)
	p.step(in)
}

func (p *pursuit) news(t *rapid.T) {
	if p.begun { // sometimes of what is not there
		p.step(inNews{store.Position(rapid.IntRange(0, int(p.own.Position)+2).Draw(t, "position"))})
	}
}

func (p *pursuit) sweep(*rapid.T) { p.step(inSweep{limit: 2}) }

// settle lets everything arrive, and then all must have been shown.
func (p *pursuit) settle() {
	p.begin(nil)
	for range 2 {
		for len(p.reads)+len(p.answers) > 0 {
			if len(p.answers) == 0 {
				p.answers, p.reads = append(p.answers, p.reads[0].run(p.ctx)), p.reads[1:]
			}
			in := p.answers[0]
			p.answers = p.answers[1:]
			p.step(in)
		}
		p.step(inNews{p.own.Position})
	}
	if !p.ready || p.chase.follower.position != p.own.Position {
		p.t.Fatalf("ready %t, at %d of %d", p.ready, p.chase.follower.position, p.own.Position)
	}
	want := p.log[p.from:]
	if len(want) != len(p.rows) {
		p.t.Fatalf("%d rows were shown, %d committed after %d", len(p.rows), len(want), p.from)
	}
	for i, r := range p.rows {
		if w := want[i]; r.Position != w.Position || r.Stream != w.Stream || r.Version != w.Version {
			p.t.Fatalf("row %d of %s at %d was shown where %d of %s at %d is",
				r.Position, r.Stream, r.Version, w.Position, w.Stream, w.Version)
		}
	}
}

// In whatever order reads are made and answered, and whatever the owner does meanwhile: one
// consistent state, then every row once and in order.
func TestAFollowerInEveryOrderOfEvents(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		st := memory.New()
		ctx := context.WithoutCancel(t.Context())
		own, err := st.Acquire(ctx, home, "owner")
		if err != nil {
			rt.Fatal(err)
		}
		kind := tallyKind()
		evolve := kind.Evolve
		kind.Evolve = func(state, event any) {
			if evolve(state, event); event.(tallyEvent).Do == "reopen" {
				state.(*tally).Done = false
			}
		}
		e := New(Config{Store: st, Kinds: []*Kind{kind}, Partitions: []domain.PartitionID{home}})
		p := &pursuit{t: rt, ctx: ctx, kind: kind, store: st, own: own, events: map[domain.StreamID][]tallyEvent{},
			shown: map[domain.StreamID]Live{}, chase: &chase{engine: e, follower: newFollower(home, e.kinds, true)}}
		rt.Repeat(map[string]func(*rapid.T){"append": p.append, "begin": p.begin, "read": p.read, "read again": p.read,
			"deliver": p.deliver, "deliver again": p.deliver, "news": p.news, "sweep": p.sweep})
		p.settle()
	})
}

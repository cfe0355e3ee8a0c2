package dispatch

import (
	"context"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/host"
)

// Several servers may see the same pools: each knows every ready job and every lease from
// the events that it follows, and one of them leads. Only the leader places, lets leases
// lapse and answers runners, because only it knows which slots are open and who was heard
// when. What a leader that is not the leader any more still says is harmless: a renewal is
// given only while the server's membership lasts, a word to a run counts only in its term, and
// the next leader promises nothing before it knows what became of such words.

var errNotLeader = domain.Reject(domain.CodeNotOwner, "This server does not lead the pool now; try again.")

// Lead tells the dispatcher that this server leads the pools of a partition from now on, or
// not any more. It means something only with Config.Follow.
//
// A new leader does not know who was heard when: every live lease gets a full period from
// now. That is never shorter than what the leader before promised, because that one's right
// to promise ended before this one's began.
func (d *Dispatcher) Lead(pools domain.PartitionID, on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.board.led[pools] == on {
		return
	}
	if on {
		d.board.led[pools] = true
		clear(d.board.sure)
		clear(d.board.asking)
		clear(d.board.awaits)
		d.board.terms++
		d.board.fresh(pools, d.now())
		d.changed()
		life, term := d.life, d.board.terms
		d.cfg.Host.Go(func() { d.catchUp(life, term) })
		return
	}
	delete(d.board.led, pools)
	for id, a := range d.board.agents {
		if a.pool.Partition() == pools {
			a.polling, a.open = false, nil
			d.board.seat(id)
			d.wake(id) // its poll ends with a word about where to go
		}
	}
}

// catchUp waits until memory was shown what the store held when this server began to lead: a
// follower may be seconds behind, and a slot that it takes for open be lent.
func (d *Dispatcher) catchUp(ctx context.Context, term int) {
	h := d.cfg.Host
	late := h.Elapsed() + max(d.cfg.Timing.Abandon, catchUpMost)
	for {
		err := d.cfg.Engine.CatchUp(ctx)
		d.mu.Lock()
		over := d.board.terms != term || ctx.Err() != nil
		done := !over && (err == nil || h.Elapsed() >= late)
		if done {
			d.board.shownTo = term
			d.changed()
		}
		d.mu.Unlock()
		switch {
		case over, done && err == nil:
			return
		case done:
			d.cfg.Log.Warn("placing jobs without having been shown all leases; runners refuse what is too much", "error", err)
			return
		}
		if !host.Pause(ctx, h, catchUpPause) {
			return
		}
	}
}

const (
	// catchUpPause is between two looks.
	catchUpPause = 50 * time.Millisecond
	// catchUpMost is how long a partition that can't be read, perhaps because it is damaged, keeps
	// a pool from placing at least. A store that is slow has answered by then.
	catchUpMost = time.Minute
)

// Leads reports whether this server leads the pools of a partition and may say so.
func (d *Dispatcher) Leads(pools domain.PartitionID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.speaks(pools)
}

// PoolOfSession is the partition of the pool that a runner's session belongs to, as far as
// this server's memory knows it. It says nothing of who shows the session.
func (d *Dispatcher) PoolOfSession(session domain.SessionID) (domain.PartitionID, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.board.session[session]
	if a == nil {
		return "", false
	}
	return a.pool.Partition(), true
}

// PoolOfToken is the partition of the pool that issued a registration token.
//
// Trust: text comes from anybody.
func (d *Dispatcher) PoolOfToken(text string) (domain.PartitionID, bool) {
	token, ok := d.cfg.TokenDigest(text)
	if !ok {
		return "", false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.board.poolOfToken(token)
	if p == nil {
		return "", false
	}
	return p.partition, true
}

// unsure is why this server may not say that a runner or a token is unknown; nil: it may. mu is
// held.
func (d *Dispatcher) unsure() error {
	switch {
	case !d.allReady():
		return errNotReady
	case d.board.follows && len(d.board.led) == 0, !d.cfg.Valid():
		return errNotLeader
	}
	return nil
}

// term is by what right this server speaks of leases now; mu is held. What is said is true in the
// term in which it was found.
func (d *Dispatcher) term(pools domain.PartitionID) engine.Term {
	if d.cfg.Term == nil {
		return engine.Term{}
	}
	return engine.Term{Of: pools, Epoch: d.cfg.Term(pools)}
}

// bound is the error of a term that is none.
func (d *Dispatcher) bound(t engine.Term) error {
	if d.cfg.Term != nil && t.Epoch == 0 {
		return errNotLeader
	}
	return nil
}

// speaks reports whether this server leads the pools and its right to has not run out. mu
// is held.
func (d *Dispatcher) speaks(pools domain.PartitionID) bool {
	if d.cfg.Term != nil && d.cfg.Term(pools) == 0 {
		return false // the next leader is known of, and what ends this one's term is on its way
	}
	return d.board.leads(pools) && d.cfg.Valid()
}

package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
)

// askAgain is the pause before a lease is asked for again that could not be granted now.
const askAgain = 50 * time.Millisecond

// How often the pause doubles while it goes on: a partition that changes hands is back in a
// moment, a full disk is not.
const (
	doublings     = 2
	doublingsFull = 6
)

// missedMax is how often a lease that the run says it granted may be missing in memory
// before it counts as ended: a follower may be some seconds behind.
const missedMax = 100

// grant is a pick on its way.
type grant struct {
	pick
	missed int         // how often the run said that it was granted, and memory had no such lease
	lead   int         // which time it is that this server leads: another leader may come between
	term   engine.Term // in which it was picked, or looked at again
	doubt  bool        // an answer was lost: it may be granted whatever a later owner says of itself
}

// ask asks the run for the lease of a pick. The same pick again is answered with the attempt
// that the slot got, so asking twice is harmless.
func (d *Dispatcher) ask(ctx context.Context, p grant) {
	err := d.bound(p.term)
	if err == nil {
		err = d.cfg.Engine.Send(ctx, engine.Envelope{
			Tenant: p.head.tenant, Partition: p.head.partition, Stream: p.head.run.Stream(), Term: p.term,
			Command: p.command,
		}, func(ack engine.Ack, err error) { d.granted(ctx, p, ack, err) })
	}
	if err != nil {
		d.granted(ctx, p, engine.Ack{}, err)
	}
}

// granted settles a pick: on success the committed event brings the lease; otherwise slot and
// job are free again. While nobody knows which, the slot stays lent.
func (d *Dispatcher) granted(ctx context.Context, p grant, ack engine.Ack, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var r *domain.Rejection
	switch reply, ok := ack.Reply.(run.LeaseReply); {
	case err == nil && ok && reply.Repeat && d.board.leases[reply.Attempt] == nil:
		if d.cfg.Follow && p.missed < missedMax {
			p.missed++
			d.doubt(ctx, p)
			return
		}
		// The slot's token is that of an attempt which has ended: the runner offers it a
		// second time, so the job got nothing.
		d.board.spent(p.pick)
		d.cfg.Log.Warn("runner offers a slot that it used before", "runner", p.command.RunnerName, "attempt", reply.Attempt)
	case err == nil:
		d.cfg.Placed(d.now().Sub(p.head.since), p.head.class)
		return
	case !errors.As(err, &r):
		d.cfg.Log.Warn("not known whether a lease was granted; asking again", "job", p.command.Job, "error", err)
		p.doubt = true
		d.doubt(ctx, p)
		return
	case passing(r.Code) && p.doubt:
		d.doubt(ctx, p)
		return
	case passing(r.Code):
		// The job counts as asked for until it is asked for again: others go first, and a
		// partition that is away is not asked in a tight loop.
		d.board.giveBack(p.command.Slot, p.command.Runner, p.command.Job)
		d.cfg.Host.After(d.again(p, r), func() { d.release(p) })
	default:
		d.board.giveBack(p.command.Slot, p.command.Runner, p.command.Job)
		d.board.dropHead(p.command.Job) // not ready after all: its stream will say when it is
		d.cfg.Log.Info("lease refused by the run", "job", p.command.Job, "code", r.Code, "reason", r.Message)
	}
	d.changed()
}

// again is the pause before a job is asked for once more. That it must wait is said once for
// each job, however long it goes on. mu is held.
func (d *Dispatcher) again(p grant, why *domain.Rejection) time.Duration {
	h := d.board.waits(p.command.Job)
	if h == nil {
		return askAgain
	}
	tries := int(h.tries)
	if tries == 0 {
		d.cfg.Log.Warn("lease can not be granted now", "job", p.command.Job, "error", why)
	}
	most := doublings
	if why.Code == domain.CodeStorageFull {
		most = doublingsFull
	}
	pause := askAgain << min(tries, most)
	h.tries++
	return pause
}

// doubt asks for a pick again a little later: the lease may be granted although nobody said
// so, and its slot must not be lent twice. mu is held.
func (d *Dispatcher) doubt(ctx context.Context, p grant) {
	d.cfg.Host.After(askAgain, func() {
		d.mu.Lock()
		known := d.board.leaseOf(p) != nil
		leads := d.speaks(p.command.Pool.Partition()) && p.lead == d.board.terms &&
			d.board.agents[p.command.Runner] != nil
		if !known && !leads {
			d.board.giveBack(p.command.Slot, p.command.Runner, p.command.Job) // whoever leads now finds out
		}
		now := d.now()
		p.term = d.term(p.command.Pool.Partition())
		d.mu.Unlock()
		switch {
		case known:
		case !leads:
			d.release(p)
		default:
			p.command.Until, p.command.AbandonBy = now.Add(d.cfg.Timing.Lease), now.Add(d.cfg.Timing.Abandon)
			d.cfg.Host.Go(func() { d.ask(ctx, p) })
		}
	})
}

// release lets a job be asked for again.
func (d *Dispatcher) release(p grant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.board.waits(p.command.Job); w != nil {
		w.ask(false)
	}
	d.changed()
}

// leaseOf is the live lease that came of a pick.
func (b *board) leaseOf(p grant) *lease {
	for _, l := range b.grip[p.command.Runner] {
		if l.slot == p.command.Slot && l.attempt.Job() == p.command.Job {
			return l
		}
	}
	return nil
}

// passing reports whether a refusal says nothing of the run, only of its partition now: the
// job waits on, and is asked for again.
func passing(c domain.Code) bool {
	switch c {
	case domain.CodeNotOwner, domain.CodeUpgradeUnfinished, domain.CodeStorageFull:
		return true
	}
	return false
}

package dispatch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
)

// forgetful is an engine elsewhere whose answers to grants get lost.
type forgetful struct {
	Engine
	lose int
}

func (f *forgetful) Send(ctx context.Context, env engine.Envelope, answer func(engine.Ack, error)) error {
	if _, grant := env.Command.(run.GrantLease); !grant || f.lose == 0 {
		return f.Engine.Send(ctx, env, answer)
	}
	f.lose--
	if f.lose == 1 { // its next owner has not taken it yet
		answer(engine.Ack{}, domain.Reject(domain.CodeNotOwner, "not here"))
		return nil
	}
	return f.Engine.Send(ctx, env, func(engine.Ack, error) { answer(engine.Ack{}, errors.New("outcome not known")) })
}

func TestASlotStaysLentWhileNobodyKnowsWhetherItsLeaseWasGranted(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		lossy := &forgetful{Engine: y.dispatch.cfg.Engine, lose: 3}
		y.dispatch.cfg.Engine = lossy
		h := y.register("one", 1)
		one, two := y.request(home, 1, 1, nil), y.request(home, 2, 1, nil)
		if l := h.poll().GetLeases(); len(l) != 1 {
			t.Fatalf("%d leases for one slot", len(l))
		}
		time.Sleep(time.Minute)
		attempts := len(y.state(one).Jobs[0].Attempts) + len(y.state(two).Jobs[0].Attempts)
		if attempts != 1 || lossy.lose > 2 {
			t.Fatalf("%d attempts in one slot, %d answers left to lose", attempts, lossy.lose)
		}
	})
}

// counting is an engine that takes grants, answers none of them, and says how many there were.
type counting struct {
	Engine
	grants int
}

func (c *counting) Send(context.Context, engine.Envelope, func(engine.Ack, error)) error {
	c.grants++
	return nil
}

// A leader that was none for a while lets go of what it had asked for before: the slot may be
// another's by now.
func TestAGrantInDoubtIsNotAskedForAgainInAnotherTerm(t *testing.T) {
	inPair(t, func(t *testing.T, y *yard, p *pair) {
		y.register("one", 1)
		synctest.Wait()
		d, slot := p.a, domain.SlotToken("rnr/0/1")
		asked := &counting{Engine: d.cfg.Engine}
		d.cfg.Engine = asked
		var who domain.RunnerID
		for id := range d.board.agents {
			who = id
		}
		g := grant{lead: d.board.terms}
		g.command.Job, g.command.Slot, g.command.Runner, g.command.Pool = domain.RunID("run_x").Job(0), slot, who, poolID
		doubt := func() {
			d.mu.Lock()
			d.board.lent[slot], d.board.held[who] = g.command.Job, 1
			d.doubt(t.Context(), g)
			d.mu.Unlock()
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		if doubt(); asked.grants != 1 || d.board.lent[slot] == "" {
			t.Fatalf("in the same term it is asked %d times, lent to %q", asked.grants, d.board.lent[slot])
		}
		d.Lead(poolID.Partition(), false)
		d.Lead(poolID.Partition(), true)
		if doubt(); asked.grants != 1 || d.board.lent[slot] != "" {
			t.Fatalf("in the next term it is asked %d times, lent to %q", asked.grants, d.board.lent[slot])
		}
	})
}

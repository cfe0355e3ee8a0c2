package dispatch

import (
	"context"
	"errors"
	"testing"
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

package dispatch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

// pair is two dispatchers that see the same commits, as those of two servers do. The yard's
// own one is replaced by whichever a test speaks with.
type pair struct {
	a, b   *Dispatcher
	va, vb atomic.Bool // their right to lead
}

func inPair(t *testing.T, test func(t *testing.T, y *yard, p *pair)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pair{}
		p.va.Store(true)
		p.vb.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		y := newYard(t, memory.New(), func(y *yard, c Config) {
			c.Follow, c.Valid = true, p.va.Load
			p.a = New(c)
			c.Valid = p.vb.Load
			p.b = New(c)
			for _, d := range []*Dispatcher{p.a, p.b} {
				y.engine.Observe(d)
				d.Start(ctx)
			}
		})
		y.dispatch.Lead(poolID.Partition(), false) // means nothing without Follow
		y.dispatch.board.follows = true            // the yard's own stands aside
		p.a.Lead(poolID.Partition(), true)
		y.dispatch = p.a
		defer func() {
			cancel()
			<-p.a.Done()
			<-p.b.Done()
			y.dispatch = New(y.dispatch.cfg)
			y.dispatch.Start(ctx)
			y.close()
		}()
		test(t, y, p)
	})
}

func notOwner(err error) bool {
	r, ok := domain.AsRejection(err)
	return ok && r.Code == domain.CodeNotOwner
}

func (h *hand) ask(d *Dispatcher, req *runnerv1.ExchangeRequest) (*runnerv1.ExchangeResponse, error) {
	req.Session, req.Resume = h.session, h.secret
	return d.Exchange(h.y.t.Context(), req)
}

func TestOnlyTheLeaderPlacesAndAnswers(t *testing.T) {
	inPair(t, func(t *testing.T, y *yard, p *pair) {
		h := y.register("one", 1)
		if _, err := h.ask(p.b, &runnerv1.ExchangeRequest{WaitMs: 1000}); !notOwner(err) {
			t.Fatalf("who does not lead answered %v", err)
		}
		y.request(home, 1, 1, nil)
		if got := h.poll().GetLeases(); len(got) != 1 {
			t.Fatalf("leases %v", got)
		}
		if part, ok := p.b.PoolOfSession(domain.SessionID(h.session)); !ok || part != poolID.Partition() {
			t.Errorf("who follows does not know the session: %q, %v", part, ok)
		}
	})
}

// Who only follows may be behind: it sends whoever it does not know to the leader, and the
// leader says no.
func TestOnlyTheLeaderSaysThatItDoesNotKnow(t *testing.T) {
	inPair(t, func(t *testing.T, y *yard, p *pair) {
		h := &hand{y: y, session: "ses_nobody", secret: "none"}
		register := &runnerv1.RegisterRequest{Protocol: Protocol, Token: "frt_nothing"}
		if _, err := h.ask(p.b, &runnerv1.ExchangeRequest{}); !notOwner(err) {
			t.Errorf("who follows answered a session that it does not know with %v", err)
		}
		if _, err := p.b.Register(t.Context(), register); !notOwner(err) {
			t.Errorf("who follows answered a token that it does not know with %v", err)
		}
		p.va.Store(false)
		if _, err := h.ask(p.a, &runnerv1.ExchangeRequest{}); !notOwner(err) {
			t.Errorf("a leader whose right had run out answered %v", err)
		}
		p.va.Store(true)
		if _, err := h.ask(p.a, &runnerv1.ExchangeRequest{}); err == nil || notOwner(err) {
			t.Errorf("the leader answered an unknown session with %v", err)
		}
		if _, err := p.a.Register(t.Context(), register); err == nil || notOwner(err) {
			t.Errorf("the leader answered an unknown token with %v", err)
		}
	})
}

func TestAPollEndsWithAWordWhenTheLeaderChanges(t *testing.T) {
	inPair(t, func(t *testing.T, y *yard, p *pair) {
		h := y.register("one", 1)
		answered := make(chan error, 1)
		go func() {
			_, err := h.ask(p.a, &runnerv1.ExchangeRequest{WaitMs: 20_000})
			answered <- err
		}()
		synctest.Wait()
		begin := time.Now()
		p.a.Lead(poolID.Partition(), false)
		if err := <-answered; !notOwner(err) || time.Since(begin) > 0 {
			t.Fatalf("after %v: %v", time.Since(begin), err)
		}
		p.b.Lead(poolID.Partition(), true)
		y.request(home, 1, 1, nil)
		y.dispatch = p.b
		if got := h.poll().GetLeases(); len(got) != 1 {
			t.Fatalf("leases of the next leader: %v", got)
		}
	})
}

// A new leader never heard the runners: their leases last a full period from then on, and
// only the leader lets one lapse.
func TestANewLeaderGivesEveryLeaseAFullPeriod(t *testing.T) {
	inPair(t, func(t *testing.T, y *yard, p *pair) {
		h := y.register("one", 1)
		id := y.request(home, 1, 1, nil)
		l := h.poll().GetLeases()[0]
		for range 4 {
			time.Sleep(9 * time.Second)
			if r := h.exchange(&runnerv1.ExchangeRequest{Renewals: []*runnerv1.Renewal{{Attempt: l.GetAttempt(),
				Epoch: l.GetEpoch()}}}).GetRenewals(); len(r) != 1 || !r[0].GetLive() {
				t.Fatalf("renewal %v", r)
			}
		}
		// The follower has heard nothing for longer than a lease lasts, and lets nothing lapse.
		p.a.Lead(poolID.Partition(), false)
		p.b.Lead(poolID.Partition(), true)
		time.Sleep(29 * time.Second)
		if a := y.state(id).Jobs[0].Attempts[0]; a.Uncertain {
			t.Fatal("the new leader gave less than a full period")
		}
		time.Sleep(5 * time.Second)
		if a := y.state(id).Jobs[0].Attempts[0]; !a.Uncertain {
			t.Fatal("a silent runner's lease did not lapse under the new leader")
		}
	})
}

// A leader whose membership ran out promises nothing, although nobody has told it yet that
// there is another one.
func TestALeaderWhoseMembershipRanOutRenewsNothing(t *testing.T) {
	inPair(t, func(t *testing.T, y *yard, p *pair) {
		h := y.register("one", 1)
		id := y.request(home, 1, 1, nil)
		l := h.poll().GetLeases()[0]
		p.va.Store(false)
		_, err := h.ask(p.a, &runnerv1.ExchangeRequest{Renewals: []*runnerv1.Renewal{{Attempt: l.GetAttempt(),
			Epoch: l.GetEpoch()}}})
		if !notOwner(err) {
			t.Fatalf("a renewal was answered with %v", err)
		}
		time.Sleep(2 * time.Minute)
		if a := y.state(id).Jobs[0].Attempts[0]; a.Uncertain {
			t.Fatal("it let a lease lapse")
		}
	})
}

// behind is an engine elsewhere whose followers don't catch up.
type behind struct {
	Engine
	lag atomic.Bool
}

func (b *behind) CatchUp(ctx context.Context) error {
	if b.lag.Load() {
		return errors.New("not shown yet")
	}
	return b.Engine.CatchUp(ctx)
}

// What a leader was not shown yet may be a lease that holds the slot which it takes for open.
// Promises: [LEASE-2].
func TestANewLeaderPlacesNothingBeforeItHasCaughtUp(t *testing.T) {
	inPair(t, func(t *testing.T, y *yard, p *pair) {
		h := y.register("one", 1)
		slow := &behind{Engine: p.b.cfg.Engine}
		slow.lag.Store(true)
		p.b.cfg.Engine = slow
		p.a.Lead(poolID.Partition(), false)
		p.b.Lead(poolID.Partition(), true)
		y.dispatch = p.b
		y.request(home, 1, 1, nil)
		if got := h.poll().GetLeases(); len(got) != 0 {
			t.Fatalf("placed %v", got)
		}
		slow.lag.Store(false)
		if got := h.poll().GetLeases(); len(got) != 1 {
			t.Fatalf("leases %v when it has caught up", got)
		}
		p.b.Lead(poolID.Partition(), false)
		slow.lag.Store(true)
		p.b.Lead(poolID.Partition(), true)
		time.Sleep(max(p.b.cfg.Timing.Abandon, catchUpMost) + time.Second)
		if p.b.mu.Lock(); !p.b.board.caught() {
			t.Error("one follower that is stuck keeps a pool from its work for ever")
		}
		p.b.mu.Unlock()
	})
}

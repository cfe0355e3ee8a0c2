package dispatch

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// A lapse that is under way says until when its runner acts at most, so nothing longer is
// promised before its answer is known; without an answer, not before there is one.
//
// Promises: [LEASE-4].
func TestNothingIsPromisedWhileALapseIsUnderWay(t *testing.T) {
	b, now := newBoard(Timing{Lease: time.Minute, Abandon: 2 * time.Minute}), time.Unix(1_000_000, 0)
	d := &Dispatcher{board: b}
	attempt := domain.RunID("run_a").Job(0).Attempt(1)
	b.addLease(lease{attempt: attempt, epoch: 1, runner: "rnr_a", slot: "rnr_a/1/1"}, now)
	now = now.Add(time.Minute)
	if n := len(b.lapses(now)); n != 1 {
		t.Fatalf("%d leases lapse; want 1", n)
	}
	renew := func() bool {
		l, known, regain := b.renewed("rnr_a", attempt, 1, now)
		if !known || regain {
			t.Fatalf("the renewal is known: %t, to be regained: %t", known, regain)
		}
		return l != nil
	}
	by := b.leases[attempt].abandonBy
	for _, err := range []error{nil, errors.New("no answer"), errNotLeader} {
		if d.lapseAnswered(attempt, err); renew() || !b.leases[attempt].abandonBy.Equal(by) {
			t.Fatalf("promised until %s with the lapse answered with %v", b.leases[attempt].abandonBy, err)
		}
		if again := len(b.lapses(now)); again == 0 != (err == nil) {
			t.Fatalf("answered with %v, %d lapses are sent again", err, again)
		}
	}
	d.lapseAnswered(attempt, domain.Reject(domain.CodeLeaseStillHeld, "The lease has not run out."))
	if !renew() || !b.leases[attempt].abandonBy.After(by) {
		t.Fatal("the lapse was refused, and the lease is not renewed")
	}
}

// Memory may lose a partition and be shown it again while a lapse of its leases is under way.
//
// Promises: [LEASE-4].
func TestALapseIsRememberedByWhoWasShownItsLeaseAnew(t *testing.T) {
	refused := domain.Reject(domain.CodeLeaseStillHeld, "The lease has not run out.")
	for name, c := range map[string]struct {
		away, back error // what the lapse comes to while the lease is forgotten, and after it is back
		whole      bool  // all that is live was shown, and the lease was not in it
		promised   bool
	}{
		"under way":                  {},
		"committed and not shown":    {back: nil},
		"unknown":                    {away: errors.New("no answer")},
		"refused meanwhile":          {away: refused, promised: true},
		"refused afterwards":         {back: refused, promised: true},
		"unknown, then refused":      {away: errors.New("no answer"), back: refused, promised: true},
		"unknown, then nobody leads": {away: errors.New("no answer"), back: errNotLeader},
		"ended":                      {whole: true, promised: true},
	} {
		t.Run(name, func(t *testing.T) {
			b, now := newBoard(Timing{Lease: time.Minute, Abandon: 2 * time.Minute}), time.Unix(1_000_000, 0)
			l := lease{attempt: domain.RunID("run_a").Job(0).Attempt(1), epoch: 1, runner: "rnr_a", slot: "rnr_a/1/1",
				partition: home}
			b.addLease(l, now)
			b.lapses(now.Add(time.Minute))
			b.forget(home)
			b.forget(home)
			b.lapseAnswered(l.attempt, c.away)
			if c.whole {
				b.loaded(home)
			}
			b.addLease(l, now)
			b.lapseAnswered(l.attempt, c.back)
			if b.loaded(home); len(b.sent) > 0 {
				t.Errorf("lapses of leases that are known or over stay in memory: %v", b.sent)
			}
			if got, _, _ := b.renewed("rnr_a", l.attempt, 1, now); (got != nil) != c.promised {
				t.Errorf("promised: %t, want %t", got != nil, c.promised)
			}
		})
	}
}

// A lapse of the leader before may be on its way to the store, and says less than what a new
// leader promises: it asks one run of each partition before it promises anything there.
//
// Promises: [LEASE-4].
func TestANewLeaderAsksARunBeforeItPromises(t *testing.T) {
	inPair(t, func(t *testing.T, y *yard, p *pair) {
		h := y.register("one", 2)
		y.request(home, 1, 2, nil)
		first := h.poll().GetLeases()
		synctest.Wait()
		if first = append(first, h.poll(first...).GetLeases()...); len(first) != 2 {
			t.Fatalf("leases %v", first)
		}
		p.a.Lead(poolID.Partition(), false)
		p.b.Lead(poolID.Partition(), true)
		for i, asks := range []bool{true, false} {
			p.b.mu.Lock()
			_, known, regain := p.b.board.renewed(p.b.board.session[domain.SessionID(h.session)].Runner.Runner,
				domain.AttemptID(first[i].GetAttempt()), first[i].GetEpoch(), p.b.now())
			if regain && p.b.board.asks(home) {
				t.Error("two ask at the same time")
			}
			clear(p.b.board.asking)
			p.b.mu.Unlock()
			if !known || regain != asks {
				t.Fatalf("renewal %d is known: %t, asks the run: %t", i, known, regain)
			}
			res, err := h.ask(p.b, &runnerv1.ExchangeRequest{Renewals: []*runnerv1.Renewal{
				{Attempt: first[i].GetAttempt(), Epoch: first[i].GetEpoch()}}})
			if err != nil || len(res.GetRenewals()) != 1 || !res.GetRenewals()[0].GetLive() {
				t.Fatalf("renewal %d: %v, %v", i, res.GetRenewals(), err)
			}
		}
	})
}

// To tell a lease is to promise, too: a new leader tells it when a run has answered.
//
// Promises: [LEASE-4].
func TestANewLeaderAsksARunBeforeItTellsALease(t *testing.T) {
	inPair(t, func(t *testing.T, y *yard, p *pair) {
		h := y.register("one", 1)
		y.request(home, 1, 1, nil)
		first := h.poll().GetLeases()
		p.a.Lead(poolID.Partition(), false)
		p.b.Lead(poolID.Partition(), true)
		if p.b.board.knows(home) {
			t.Fatal("a new leader takes its memory for the whole truth")
		}
		y.dispatch = p.b
		again := h.poll().GetLeases()
		if len(first) != 1 || len(again) != 1 || again[0].GetAttempt() != first[0].GetAttempt() {
			t.Fatalf("leases %v, then %v", first, again)
		}
		if !p.b.board.knows(home) {
			t.Error("a lease was told and no run was asked")
		}
		attempt := domain.AttemptID(first[0].GetAttempt())
		p.b.board.leases[attempt].lapsing = true
		if _, ok := p.b.promise(t.Context(), *p.b.board.leases[attempt]); ok {
			t.Error("a lease was told while its lapse is under way")
		}
	})
}

// A run that has answered up to a position is enough, once memory was shown that far: a follower
// that is always behind must not keep live leases from being renewed.
func TestAPartitionIsKnownWhenMemoryWasShownWhatTheRunAnsweredFrom(t *testing.T) {
	b := newBoard(Timing{Lease: time.Minute, Abandon: 2 * time.Minute})
	b.follows = true
	if !b.asks(home) || b.asks(home) {
		t.Fatal("not one asks")
	}
	delete(b.asking, home)
	b.awaits[home] = 7
	if b.asks(home) || b.shown(home, 6) || b.knows(home) {
		t.Error("known before it was shown, or asked for again")
	}
	if !b.shown(home, 7) || !b.knows(home) {
		t.Error("not known although it was shown")
	}
}

// In the protocol no time at all means the usual time: what is over is told as a millisecond.
func TestALeaseThatIsOverIsNotToldAsAWholeOne(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	reply := live(&lease{until: now.Add(-time.Second), abandonBy: now}, now)
	if reply.GetLeaseMs() != 1 || reply.GetAbandonMs() != 1 {
		t.Errorf("told as %d and %d ms", reply.GetLeaseMs(), reply.GetAbandonMs())
	}
}

// A run that is isolated keeps no slot from other runs, and its lease is not given up again and
// again.
//
// Promises: [HIST-8].
func TestAnIsolatedRunKeepsNoSlot(t *testing.T) {
	b, now := newBoard(Timing{Lease: time.Minute, Abandon: 2 * time.Minute}), time.Unix(1_000_000, 0)
	attempt := domain.RunID("run_a").Job(0).Attempt(1)
	b.addLease(lease{attempt: attempt, epoch: 1, runner: "rnr_a", slot: "rnr_a/1/1"}, now)
	b.lapses(now.Add(time.Minute))
	b.lapseAnswered(attempt, domain.Reject(domain.CodeStreamQuarantined, "Its history breaks a rule."))
	if again := b.lapses(now.Add(2 * time.Minute)); len(again)+len(b.lent)+len(b.held) > 0 {
		t.Errorf("lapses %v, slots lent %v, held %v", again, b.lent, b.held)
	}
}

// Who was shown a partition anew asks a run of it again, and does not wait for a position that it
// was shown with the rest.
func TestAPartitionThatWasLoadedIsAskedAgain(t *testing.T) {
	b := newBoard(Timing{Lease: time.Minute, Abandon: 2 * time.Minute})
	b.follows = true
	b.awaits[home] = 7
	if b.loaded(home); !b.asks(home) {
		t.Error("nobody asks, and nothing will be shown")
	}
}

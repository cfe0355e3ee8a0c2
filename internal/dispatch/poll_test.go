package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// A poll of a runner without work costs what it costs, however many there are.
func TestAnIdlePollStaysWithinItsBudget(t *testing.T) {
	const most = 16 // allocations of a poll that begins, looks and ends
	inYard(t, func(t *testing.T, y *yard) {
		h := y.register("one", 1)
		req := &runnerv1.ExchangeRequest{Session: h.session, Resume: h.secret, WaitMs: 45_000,
			Offers: []string{h.runner + "/0/1"}}
		allocations := int(testing.AllocsPerRun(200, func() {
			req.Sequence++
			p, err := y.dispatch.Begin(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if _, over := p.Look(t.Context()); over {
				t.Fatal("an idle poll does not wait")
			}
			if _, err := p.End(); err != nil {
				t.Fatal(err)
			}
		}))
		if allocations > most {
			t.Errorf("%d allocations; at most %d", allocations, most)
		}
		t.Logf("%d allocations", allocations)
	})
}

// An idle runner's poll waits for as long as it asks, a little less; one that holds leases comes
// back to renew them.
func TestHowLongAPollWaits(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		h := y.register("one", 2)
		timing := y.dispatch.cfg.Timing
		took := func(req *runnerv1.ExchangeRequest) time.Duration {
			begun := time.Now()
			h.exchange(req)
			return time.Since(begun)
		}
		waits := map[time.Duration]bool{}
		for sequence := range uint64(20) {
			w := took(&runnerv1.ExchangeRequest{Sequence: sequence, WaitMs: timing.Poll.Milliseconds()})
			if w > timing.Poll || w < timing.Poll-timing.Poll/spreadPolls {
				t.Errorf("an idle poll waits for %s of %s", w, timing.Poll)
			}
			waits[w] = true
		}
		if len(waits) < 10 {
			t.Errorf("%d different waits of 20 polls: they end together", len(waits))
		}
		go func() { y.request(home, 1, 1, nil) }()
		l := h.poll().GetLeases()[0]
		synctest.Wait()
		held := []*runnerv1.Renewal{{Attempt: l.GetAttempt(), Epoch: l.GetEpoch(), Observed: "running"}}
		w := took(&runnerv1.ExchangeRequest{WaitMs: timing.Poll.Milliseconds(), Renewals: held})
		if w > timing.Lease/3 {
			t.Errorf("a poll that holds a lease waits for %s of %s", w, timing.Lease)
		}
	})
}

// An answer waits for a lease that is on its way to the same runner, and not for long.
func TestAnAnswerWaitsForLeasesOnTheirWay(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		h := y.register("one", 2)
		p, err := y.dispatch.Begin(t.Context(), &runnerv1.ExchangeRequest{Session: h.session, Resume: h.secret,
			Sequence: 1, WaitMs: 45_000, Offers: []string{h.runner + "/0/1", h.runner + "/1/1"}})
		if err != nil {
			t.Fatal(err)
		}
		lend := func(n int) {
			y.dispatch.mu.Lock()
			defer y.dispatch.mu.Unlock()
			y.dispatch.board.held[domain.RunnerID(h.runner)] += n
		}
		lend(1) // for a grant whose commit is under way
		if limit, over := p.Look(t.Context()); over || limit <= companyMost {
			t.Fatalf("with nothing to say: %v, %v", limit, over)
		}
		go func() { y.request(home, 1, 1, nil) }()
		synctest.Wait()
		if limit, over := p.Look(t.Context()); over || limit != companyMost {
			t.Fatalf("with a lease to tell and one on its way: %v, %v", limit, over)
		}
		time.Sleep(companyMost)
		if _, over := p.Look(t.Context()); !over {
			t.Fatal("it waits on")
		}
		lend(-1)
		res, err := p.End()
		if err != nil || len(res.GetLeases()) != 1 {
			t.Fatalf("answered with %d leases: %v", len(res.GetLeases()), err)
		}
	})
}

// News rings, also for one that waits without a goroutine of its own, and once for all that comes
// before the next look.
func TestNewsOfAPollRings(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		h := y.register("one", 1)
		begin := func(sequence uint64) *Poll {
			p, err := y.dispatch.Begin(t.Context(), &runnerv1.ExchangeRequest{Session: h.session, Resume: h.secret,
				Sequence: sequence, WaitMs: 45_000, Offers: []string{h.runner + "/0/1"}})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		older, rings := begin(1), map[string]int{}
		older.Ring(func() { rings["older"]++ })
		if _, over := older.Look(t.Context()); over {
			t.Fatal("an idle poll does not wait")
		}
		p := begin(2)
		p.Ring(func() { rings["newer"]++ })
		if _, over := older.Look(t.Context()); !over || rings["older"] != 1 {
			t.Errorf("a poll whose place another took: over %v, rings %v", over, rings)
		}
		if _, over := p.Look(t.Context()); over {
			t.Fatal("an idle poll does not wait")
		}
		y.request(home, 1, 1, nil)
		synctest.Wait()
		if rings["newer"] != 1 {
			t.Errorf("a lease: rings %v", rings)
		}
		if _, over := p.Look(t.Context()); !over {
			t.Error("a lease is nothing to say")
		}
		if res, err := p.End(); err != nil || len(res.GetLeases()) != 1 {
			t.Errorf("answered with %d leases: %v", len(res.GetLeases()), err)
		}
	})
}

package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/manifest"
)

// failing can't write the first manifests: what they rest on is away for a moment.
type failing struct {
	plainManifests
	left int
}

func (f *failing) Build(ctx context.Context, o Order) (*manifest.Manifest, error) {
	if f.left--; f.left >= 0 {
		return nil, errors.New("the object store is away")
	}
	return f.plainManifests.Build(ctx, o)
}

// A lease that could not be told is tried again soon, and not when its poll ends: by then the lease
// is nearly over.
func TestALeaseThatCouldNotBeToldIsToldSoon(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		y.dispatch.cfg.Manifests = &failing{left: 2}
		h := y.register("one", 1)
		got := make(chan *runnerv1.ExchangeResponse, 1)
		begun := time.Now()
		go func() {
			got <- h.exchange(&runnerv1.ExchangeRequest{WaitMs: 45_000, Offers: []string{h.runner + "/0/1"}})
		}()
		synctest.Wait()
		y.request(home, 1, 1, nil)
		if res := <-got; len(res.GetLeases()) != 1 || time.Since(begun) > 3*tellAgain {
			t.Errorf("%d leases after %s", len(res.GetLeases()), time.Since(begun))
		}
	})
}

// A poll takes the place of the one before, whose connection may be gone without a word; that one
// ends, and takes nothing along.
func TestANewerPollStaysWhenTheOlderOneEnds(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		h := y.register("one", 1)
		poll := func(sequence uint64) chan *runnerv1.ExchangeResponse {
			got := make(chan *runnerv1.ExchangeResponse, 1)
			go func() {
				got <- h.exchange(&runnerv1.ExchangeRequest{Sequence: sequence, WaitMs: 45_000,
					Offers: []string{h.runner + "/0/1"}})
			}()
			synctest.Wait()
			return got
		}
		stale := poll(1)
		time.Sleep(30 * time.Second)
		newer := poll(2)
		select {
		case <-stale:
		default:
			t.Error("the older poll waits on")
		}
		time.Sleep(16 * time.Second)
		synctest.Wait()
		begun := time.Now()
		y.request(home, 1, 1, nil)
		if res := <-newer; len(res.GetLeases()) != 1 || time.Since(begun) > time.Second {
			t.Errorf("%d leases after %s", len(res.GetLeases()), time.Since(begun))
		}
		if n := len(y.dispatch.polls); n != 0 {
			t.Errorf("%d polls are left", n)
		}
	})
}

// large writes manifests of 9 MiB.
type large struct{ plainManifests }

func (l large) Build(ctx context.Context, o Order) (*manifest.Manifest, error) {
	m, err := l.plainManifests.Build(ctx, o)
	if err == nil {
		m.JobName = strings.Repeat("x", 9<<20)
	}
	return m, err
}

// What has no room in an answer comes with the next one.
func TestLargeManifestsComeOneAnswerAfterTheOther(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		y.dispatch.cfg.Manifests = large{}
		h := y.register("one", 6)
		y.request(home, 1, 6, nil)
		var offers []string
		for slot := range 6 {
			offers = append(offers, fmt.Sprintf("%s/%d/1", h.runner, slot))
		}
		told, answers := map[string]bool{}, 0
		for len(told) < 6 && answers < 10 {
			req := &runnerv1.ExchangeRequest{WaitMs: 5000, Offers: offers}
			for a := range told {
				req.Renewals = append(req.Renewals, &runnerv1.Renewal{Attempt: a, Epoch: 1, Observed: "running"})
			}
			res, bytes := h.exchange(req), 0
			for _, l := range res.GetLeases() {
				told[l.GetAttempt()] = true
				bytes += len(l.GetManifest())
			}
			if answers++; bytes > answerBytes {
				t.Errorf("an answer with %d bytes", bytes)
			}
			offers = nil
		}
		if len(told) != 6 || answers < 2 {
			t.Errorf("%d leases in %d answers", len(told), answers)
		}
	})
}

// A runner counts a lease from when it asked. A poll that has waited for long gives it as much of
// the lease as one that has not, and never more than what was promised.
func TestALeaseIsCountedFromWhenItsPollBegan(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		h := y.register("one", 1)
		got := make(chan *runnerv1.ExchangeResponse, 1)
		begun := time.Now()
		go func() {
			got <- h.exchange(&runnerv1.ExchangeRequest{WaitMs: 45_000, Offers: []string{h.runner + "/0/1"}})
		}()
		synctest.Wait()
		time.Sleep(30 * time.Second)
		id := y.request(home, 1, 1, nil)
		l := (<-got).GetLeases()[0]
		granted := y.state(id).Jobs[0].Attempts[0]
		for what, c := range map[string]struct {
			ms int64
			by time.Time
		}{"lease": {l.GetLeaseMs(), granted.Until}, "abandon": {l.GetAbandonMs(), granted.AbandonBy}} {
			counted := begun.Add(time.Duration(c.ms) * time.Millisecond)
			if counted.After(c.by) || c.by.Sub(counted) > 100*time.Millisecond {
				t.Errorf("%s: the runner counts to %s, granted was %s", what, counted, c.by)
			}
		}
	})
}

package dispatch

import (
	"errors"
	"testing"
	"time"

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

package bench

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
)

func TestWhatPassesIsAskedAgainAndCounted(t *testing.T) {
	var r retries
	left := 2
	err := r.again(t.Context(), func() error {
		if left--; left >= 0 {
			return connect.NewError(connect.CodeUnavailable, "not now")
		}
		return nil
	})
	if n, of := r.count(); err != nil || n != 2 || of != "unavailable 2" {
		t.Errorf("%v, %d again: %s", err, n, of)
	}
	calls := 0
	lasting := connect.NewError(connect.CodeInvalidArgument, "never")
	if err := r.again(t.Context(), func() error { calls++; return lasting }); !errors.Is(err, lasting) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
	ended, end := context.WithCancel(t.Context())
	err = r.again(ended, func() error {
		end()
		return connect.NewError(connect.CodeUnavailable, "not now")
	})
	if err == nil {
		t.Error("a call without success became one when the measurement ended")
	}
}

func TestAPaceFollowsTheAnswers(t *testing.T) {
	var p pace
	at := time.Unix(1000, 0)
	answer := func(took time.Duration, refused bool) {
		begun := at
		at = at.Add(took)
		p.answered(begun, at, refused)
		at = at.Add(time.Nanosecond)
	}
	answer(time.Millisecond, false)
	if p.next() != 0 {
		t.Errorf("a rest of %s after a quick answer", p.next())
	}
	answer(2*paceSlow, false)
	answer(2*paceSlow, false)
	if p.next() != 2*paceLow {
		t.Errorf("a rest of %s after two slow answers", p.next())
	}
	p.answered(at.Add(-3*paceSlow), at, false) // it was under way with the one before
	if p.next() != 2*paceLow {
		t.Errorf("a rest of %s after calls that were slow together", p.next())
	}
	for range 20 {
		answer(time.Millisecond, true)
	}
	if p.next() != paceHigh || p.most != paceHigh {
		t.Errorf("a rest of %s after refusals", p.next())
	}
	for range 200 {
		answer(time.Millisecond, false)
	}
	if p.next() != 0 {
		t.Errorf("a rest of %s after many quick answers", p.next())
	}
}

// Leases that ran out are counted by the words of whoever lost them.
func TestAServerSaysThatItsLeaseRanOut(t *testing.T) {
	source, err := os.ReadFile("../fleet/driver.go")
	if err != nil || !strings.Contains(string(source), `Warn("`+lapseWords) {
		t.Errorf("no server says %q: %v", lapseWords, err)
	}
	var s server
	for range 5 {
		_, _ = s.Write([]byte("level=WARN msg=\"" + lapseWords + "; not answering\" late=1s\n"))
	}
	if n, said := s.lapsesOf(); n != 5 || len(said) != lapsesKept {
		t.Errorf("%d, %q", n, said)
	}
}

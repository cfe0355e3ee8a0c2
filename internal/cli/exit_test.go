package cli

import (
	"fmt"
	"net"
	"testing"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// TestAddressInUseIsNotAServerThatIsAway: up and server can't listen; nobody was asked.
func TestAddressInUseIsNotAServerThatIsAway(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	_, err = net.Listen("tcp", taken.Addr().String())
	if err == nil {
		t.Fatal("the address was given twice")
	}
	got := judge(t.Context(), fmt.Errorf("listen on %s: %w", taken.Addr(), err), true)
	if got.exit != ExitUsage || got.answer.GetCode() != codeUsage {
		t.Errorf("exit %d, code %s", got.exit, got.answer.GetCode())
	}
	_, err = net.Dial("tcp", "127.0.0.1:1")
	if got := judge(t.Context(), err, true); got.exit != ExitUnreachable {
		t.Errorf("nobody answers: exit %d", got.exit)
	}
}

// TestNoAnswerInTimeIsNoRefusal: a script that reads "refused" starts the same thing anew.
func TestNoAnswerInTimeIsNoRefusal(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"deadline_exceeded", "cancelled", "unavailable"} {
		if got := judgeAnswer(&fairleadv1.ErrorInfo{Code: code}); got.exit != ExitUnreachable {
			t.Errorf("%s: exit %d", code, got.exit)
		}
	}
}

package crash

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// A server whose cable to the database is pulled out answers its runners and clients all
// the time, and must not tell them anything that it can't keep.
func TestAServerIsCutOffFromItsDatabaseAndNotFromItsRunners(t *testing.T) {
	trouble(t, Options{Store: PostgreSQL, Apart: true}, func(ctx context.Context, s *Siege) error {
		for _, length := range []time.Duration{leaseTTL / 2, 4 * leaseTTL} {
			if err := s.space.cut(true); err != nil {
				return err
			}
			pause(ctx, length)
			if err := s.space.cut(false); err != nil {
				return err
			}
			pause(ctx, 3*time.Second)
		}
		return nil
	})
}

// TestTheClockJumps runs the siege below in a machine of its own, because nobody else's
// clock may be set.
func TestTheClockJumps(t *testing.T) {
	if os.Getenv(guestVariable) != "" {
		besetByClocks(t)
		return
	}
	t.Parallel()
	said, err := inGuest(t.Context(), t.TempDir(), programs, "^TestTheClockJumps$")
	switch {
	case errors.Is(err, errPrivilege):
		NotRun.Say(t.Name(), err.Error())
	case err != nil:
		t.Fatalf("%v\n%s", err, said)
	case !strings.Contains(said, "--- PASS: TestTheClockJumps") || !strings.Contains(said, "guest: exit code 0"):
		t.Fatalf("the guest says:\n%s", said)
	default:
		t.Logf("the guest says:\n%s", said)
	}
}

// besetByClocks moves the clock by minutes in both directions while clients are at work.
func besetByClocks(t *testing.T) {
	trouble(t, Options{Store: SQLite}, func(ctx context.Context, s *Siege) error {
		for _, by := range []time.Duration{7 * time.Minute, -3 * time.Minute, -20 * time.Minute, time.Hour} {
			if err := jump(by); err != nil {
				return err
			}
			s.Say("the clock jumped by %s", by)
			pause(ctx, 2*leaseTTL)
		}
		return nil
	})
}

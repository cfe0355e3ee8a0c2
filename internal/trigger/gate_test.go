package trigger

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
)

// A flood of one repository keeps another's request waiting for a place, not for the flood; who
// would wait for too long is refused with a time to come back.
// Promises: [CMD-16, CMD-17].
func TestTheGateLetsRepositoriesInByTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(host.Machine())
		var done, refused atomic.Int32
		visit := func(l line, takes time.Duration) (waited time.Duration, err error) {
			begun := time.Now()
			leave, err := g.enter(t.Context(), l)
			waited = time.Since(begun)
			if err == nil {
				time.Sleep(takes)
				leave()
				leave() // once more does nothing
			}
			return waited, err
		}
		for range 3 * gateWaitingOne {
			go func() {
				_, err := visit(line{"tnt_a", "big"}, time.Second)
				r, no := domain.AsRejection(err)
				switch {
				case err == nil:
					done.Add(1)
				case no && r.Code == domain.CodeOverloaded && r.RetryAfter > 0:
					refused.Add(1)
				default:
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		if g.busyOf[line{"tnt_a", "big"}] != gateBusyOne || g.count != gateWaitingOne {
			t.Errorf("%d are in, %d wait", g.busyOf[line{"tnt_a", "big"}], g.count)
		}
		for i := range 3 {
			waited, err := visit(line{"tnt_a", fmt.Sprint("small-", i)}, time.Millisecond)
			if err != nil || waited > time.Second {
				t.Errorf("another's request waited for %s: %v", waited, err)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if done.Load()+refused.Load() != 3*gateWaitingOne || done.Load() < 10*gateBusyOne {
			t.Errorf("%d were let in, %d refused", done.Load(), refused.Load())
		}
		if g.busy+g.count+len(g.busyOf)+len(g.waiting)+len(g.turns) != 0 {
			t.Errorf("something is left: %+v", g)
		}
	})
}

// Whoever does not wait any more is in nobody's way.
func TestTheGateForgetsWhoWentAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(host.Machine())
		ctx, cancel := context.WithCancel(t.Context())
		var leaves []func()
		for i := range gateBusy {
			leave, err := g.enter(ctx, line{"tnt_a", fmt.Sprint(i)})
			if err != nil {
				t.Fatal(err)
			}
			leaves = append(leaves, leave)
		}
		for range 10 {
			go func() {
				if _, err := g.enter(ctx, line{"tnt_a", "x"}); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		for _, leave := range leaves {
			leave()
		}
		if g.busy+g.count+len(g.busyOf)+len(g.waiting)+len(g.turns) != 0 {
			t.Errorf("something is left: %+v", g)
		}
	})
}

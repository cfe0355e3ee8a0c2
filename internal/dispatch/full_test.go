package dispatch

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

// A full store is asked less and less often and the log says once what waits; when there is
// room again the job gets its lease without anybody's help.
func TestAJobThatAFullStoreKeepsWaitingIsToldOnceAndGranted(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		var said bytes.Buffer
		y.dispatch.cfg.Log = slog.New(slog.NewTextHandler(&said, nil))
		h := y.register("one", 1)
		y.request(home, 1, 1, nil)
		asked := 0
		y.store.SetHooks(memory.Hooks{Before: func(c memory.Call) error {
			if c.Op != "append" {
				return nil
			}
			asked++
			return store.ErrFull
		}})
		if leases := h.poll().GetLeases(); len(leases) > 0 {
			t.Fatalf("a full store granted %v", leases)
		}
		time.Sleep(2 * time.Minute)
		if asked > 100 {
			t.Errorf("a full store was asked %d times in two minutes", asked)
		}
		y.store.SetHooks(memory.Hooks{})
		var got int
		for range 10 {
			if got = len(h.poll().GetLeases()); got > 0 {
				break
			}
		}
		if got != 1 {
			t.Errorf("%d leases once there was room", got)
		}
		if n := strings.Count(said.String(), "lease can not be granted now"); n != 1 {
			t.Errorf("it was said %d times:\n%s", n, said.String())
		}
	})
}

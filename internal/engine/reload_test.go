package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

// A database that goes away at a commit and is still away when the stream is loaded anew
// must not take the stream's timer with it: nothing else would wake what waits there.
func TestATimerSurvivesAReloadThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		h := newHouse(t, st, nil)
		defer h.engine.Close()
		h.must("x", tallyCommand{do: "ring", at: time.Now().Add(time.Hour)})
		lost, away := false, 5
		st.SetHooks(memory.Hooks{Before: func(c memory.Call) error {
			switch {
			case c.Op == "append" && !lost:
				lost = true
				return store.ErrUnknown // and it never arrived
			case c.Op == "load" && lost && away > 0:
				away--
				return context.DeadlineExceeded
			}
			return nil
		}})
		// The command is answered with the failure to load; whoever sent it asks no more.
		if _, err := h.submit("x", tallyCommand{do: "add", n: 1}); err == nil {
			t.Fatal("the command was taken although its stream could not be loaded")
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		got, err := h.engine.Read(context.Background(), "tnt_a", "tally/x", false)
		if err != nil || got.State.(*tally).Rung != 1 {
			t.Fatalf("the timer is lost: %+v, %v", got.State, err)
		}
	})
}

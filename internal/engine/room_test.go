package engine

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

// Runners and reactors whose commands are refused for want of space try again and say
// nothing, so the engine tells operators: once when it begins, once when it is over.
// Promises: [CMD-9].
func TestAFullStoreIsToldOnceAndSoIsItsEnd(t *testing.T) {
	st := memory.New()
	var said bytes.Buffer
	h := newHouse(t, st, func(e *Engine) { e.cfg.Log = slog.New(slog.NewTextHandler(&said, nil)) })
	for range 2 {
		st.SetHooks(memory.Hooks{Before: func(c memory.Call) error {
			if c.Op == "append" {
				return store.ErrFull
			}
			return nil
		}})
		for range 3 {
			if _, err := h.submit("x", tallyCommand{do: "add", n: 1}); err == nil {
				t.Fatal("a full store took a command")
			}
		}
		st.SetHooks(memory.Hooks{})
		for range 3 {
			h.must("x", tallyCommand{do: "add", n: 1})
		}
	}
	h.engine.Close()
	for _, text := range []string{"storage is full", "storage has room again"} {
		if n := strings.Count(said.String(), text); n != 2 {
			t.Errorf("%q was said %d times, want 2:\n%s", text, n, said.String())
		}
	}
}

// A server that leaves does not wait for room: what its reactors did is done again by the next
// owner's. It tried as fast as it could before, for as long as there was none.
func TestWhoLeavesDoesNotWaitForRoom(t *testing.T) {
	o, now := newOwner(store.Ownership{Partition: home, Epoch: 1}, nil, true), time.Unix(1_000_000, 0)
	o.step(inCursor{"somebody", 1}, now)
	o.step(inLeave{domain.Reject(domain.CodeNotOwner, "Another server owns this partition now.")}, now)
	if effects := o.flush(now); len(effects) != 1 {
		t.Fatalf("%v; want one append", effects)
	}
	o.step(inAppended{store.ErrFull}, now)
	if effects := o.flush(now); !slices.Equal(effects, []any{effLeft{}}) {
		t.Errorf("%v; want that it has left", effects)
	}
}

// A timer whose record finds no space fires again after a while, and not all the time.
func TestATimerWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		h := newHouse(t, st, nil)
		defer h.engine.Close()
		h.must("x", tallyCommand{do: "ring", at: h.engine.Now().Add(time.Second)})
		var appends atomic.Int64
		st.SetHooks(memory.Hooks{Before: func(c memory.Call) error {
			if c.Op != "append" {
				return nil
			}
			appends.Add(1)
			return store.ErrFull
		}})
		time.Sleep(30 * time.Second)
		if n := appends.Load(); n < 10 || n > 40 {
			t.Errorf("%d appends in half a minute without room", n)
		}
		st.SetHooks(memory.Hooks{})
		time.Sleep(2 * fullPause)
		got, err := h.engine.Read(t.Context(), "tnt_a", "tally/x", false)
		if err != nil || !got.State.(*tally).Ring.IsZero() {
			t.Errorf("it did not ring: %+v, %v", got.State, err)
		}
	})
}

// A store that never says what became of a batch is asked less and less often, until one is
// committed.
func TestAStoreThatTakesNothingIsNotAskedInATightLoop(t *testing.T) {
	o, now := newOwner(store.Ownership{Partition: home, Epoch: 1}, nil, true), time.Unix(1_000_000, 0)
	o.step(inCursor{"somebody", 1}, now)
	appended := func(err error) []any {
		o.step(inCursors{}, now)
		if effects := o.flush(now); len(effects) != 1 {
			t.Fatalf("%v; want one append", effects)
		}
		return o.step(inAppended{err}, now)
	}
	for tries := range 3 {
		effects := appended(store.ErrUnknown)
		if got, ok := effects[0].(effReacquire); !ok || got.tries != tries {
			t.Fatalf("%v; want it settled after %d others", effects, tries)
		}
		o.step(inReacquired{own: store.Ownership{Partition: home, Epoch: uint64(tries) + 2}}, now)
	}
	appended(nil)
	o.step(inCursor{"somebody", 2}, now)
	if got, ok := appended(store.ErrUnknown)[0].(effReacquire); !ok || got.tries != 0 {
		t.Errorf("%v; want it settled at once", got)
	}
}

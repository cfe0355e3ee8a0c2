package engine

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

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

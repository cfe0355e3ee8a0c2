package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

func TestAReactorThatKeepsUpNeverAsksTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		reads := 0
		st.SetHooks(memory.Hooks{Before: func(c memory.Call) error {
			if c.Op == "read" {
				reads++
			}
			return nil
		}})
		r := &recorder{}
		h := newHouse(t, st, func(e *Engine) { e.React(r) })
		defer h.engine.Close()
		for range 3 {
			h.must("a", tallyCommand{do: "add", n: 1})
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if got := r.seen(); got != "1:a@1 2:a@2 3:a@3" || reads != 0 {
			t.Fatalf("rows %q with %d reads", got, reads)
		}
	})
}

// An owner that takes its partition back may find rows that another one appended.
func TestAReactorIsToldOfRowsThatItsOwnerDidNotAppend(t *testing.T) {
	st := memory.New()
	h := newHouse(t, st, nil)
	defer h.engine.Close()
	begun := newTail(h.engine.driver(home), &recorder{})
	for range 3 {
		h.must("a", tallyCommand{do: "add", n: 1})
	}
	if rows, err := begun.next(t.Context()); err != nil || len(rows) != 0 {
		t.Fatalf("%v, %v", rows, err)
	}
	begun.reach(3)
	select {
	case <-begun.news:
	default:
		t.Fatal("no news")
	}
	if rows, err := begun.next(t.Context()); err != nil || len(rows) != 3 || rows[2].Version != 3 {
		t.Fatalf("%v, %v", rows, err)
	}
}

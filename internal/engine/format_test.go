package engine

import (
	"context"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

// A server of a fleet writes what every release reads until it knows what the others read; one that
// is alone writes its own format.
// Promises: [FLEET-11].
func TestAFleetIsTakenForOldUntilItIsSeen(t *testing.T) {
	alone := New(Config{Store: memory.New(), Format: 3})
	if got := alone.Format(); got != 3 {
		t.Errorf("alone it writes format %d", got)
	}
	e := New(Config{Store: memory.New(), Format: 3,
		Forward: func(context.Context, store.Holding, Wire) (WireAck, error) { return WireAck{}, ErrUnsent }})
	if got := e.Format(); got != 1 {
		t.Errorf("before it has seen the fleet it writes format %d", got)
	}
	for _, c := range []struct{ all, want uint32 }{{2, 2}, {3, 3}, {7, 3}} {
		e.See(t.Context(), store.Picture{Format: c.all})
		if got := e.Format(); got != c.want {
			t.Errorf("where all read format %d it writes %d", c.all, got)
		}
	}
}

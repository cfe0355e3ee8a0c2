package engine

import (
	"context"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

// A key whose reply is gone is refused, never executed anew: nobody can say any more what
// the first answer was.
// Promises: [CMD-4].
func TestAKeyWhoseReplyIsGoneNeverActsAgain(t *testing.T) {
	st := memory.New()
	h := newHouse(t, st, nil)
	env := envelope("x", tallyCommand{do: "add", n: 5})
	env.Key = &Key{Scope: ClientScope("p", "Add"), Key: "k1", Body: domain.DigestOf([]byte("five"))}
	if _, err := h.engine.Submit(context.Background(), env); err != nil {
		t.Fatal(err)
	}
	h.engine.Close()
	if n, err := st.ExpireKeys(t.Context(), time.Now().Add(time.Hour), 10); err != nil || n != 1 {
		t.Fatalf("expired %d keys, %v", n, err)
	}
	h = newHouse(t, st, nil)
	defer h.engine.Close()
	_, err := h.engine.Submit(context.Background(), env)
	if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeIdempotencyExpired {
		t.Fatalf("an expired key: %v", err)
	}
	if got := h.total("x"); got != 5 {
		t.Errorf("it acted again: %d", got)
	}
}

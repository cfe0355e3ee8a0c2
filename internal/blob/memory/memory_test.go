package memory

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/blob/blobtest"
)

func TestConformance(t *testing.T) {
	blobtest.Run(t, blobtest.Harness{
		Open:   func(*testing.T) blob.Store { return New() },
		Reopen: func(_ *testing.T, old blob.Store) blob.Store { return old.(*Store).Clone() },
	})
}

func TestHookFailsBeforeOrLosesTheReply(t *testing.T) {
	away := errors.New("away")
	for _, after := range []bool{false, true} {
		s := New()
		s.SetHook(func(_ context.Context, c Call) error {
			if c.Method == "Put" && c.After == after {
				return away
			}
			return nil
		})
		if err := s.Put(t.Context(), "k", strings.NewReader("x"), 1); !errors.Is(err, away) {
			t.Fatalf("put: %v", err)
		}
		_, err := s.Size(t.Context(), "k")
		if stored := err == nil; stored != after {
			t.Errorf("after=%v: stored=%v", after, stored)
		}
	}
}

func TestCapacity(t *testing.T) {
	s := New()
	s.SetCapacity(10)
	if err := s.Put(t.Context(), "a", strings.NewReader("12345678"), 8); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "b", strings.NewReader("123"), 3); !errors.Is(err, blob.ErrFull) {
		t.Fatalf("put beyond the capacity: %v", err)
	}
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "b", strings.NewReader("123"), 3); err != nil {
		t.Fatalf("put after space returned: %v", err)
	}
}

package memory_test

import (
	"errors"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
	"github.com/fairlead-ci/fairlead/internal/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return memory.New() },
		storetest.WithReopen(func(t *testing.T, s store.Store) store.Store {
			image := s.(*memory.Store).Clone()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return image
		}))
}

func oneRow(own store.Ownership) store.Batch {
	next := own.Position + 1
	b := store.Batch{
		Partition: own.Partition, Epoch: own.Epoch, Prev: own.Position, PrevDigest: own.Digest,
		Rows:  []store.Row{{Position: next, Tenant: "t", Stream: "run/a", Version: uint64(next), Count: 1}},
		Heads: []store.Head{{Tenant: "t", Stream: "run/a", Version: uint64(next), Live: true}},
	}
	b.Digest = store.BatchDigest(b.PrevDigest, b.Rows)
	return b
}

func TestHooksBeforeAndAfterACommit(t *testing.T) {
	s := memory.New()
	own, err := s.Acquire(t.Context(), "p", "me")
	if err != nil {
		t.Fatal(err)
	}
	length := func() int {
		rows, err := s.Read(t.Context(), "p", 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(rows)
	}
	s.SetHooks(memory.Hooks{Before: func(c memory.Call) error {
		if c.Op == "append" && len(c.Batch.Rows) == 1 {
			return store.ErrFull
		}
		return nil
	}})
	if err := s.Append(t.Context(), oneRow(own)); !errors.Is(err, store.ErrFull) || length() != 0 {
		t.Errorf("failed before the commit: %v, %d rows", err, length())
	}
	s.SetHooks(memory.Hooks{After: func(memory.Call) error { return store.ErrUnknown }})
	if err := s.Append(t.Context(), oneRow(own)); !errors.Is(err, store.ErrUnknown) || length() != 1 {
		t.Errorf("reply lost after the commit: %v, %d rows", err, length())
	}
	s.SetHooks(memory.Hooks{})
	if err := s.Append(t.Context(), oneRow(own)); !errors.Is(err, store.ErrConflict) {
		t.Errorf("the same batch again: %v", err)
	}
}

func TestACloneIsApartFromItsOriginal(t *testing.T) {
	s := memory.New()
	own, err := s.Acquire(t.Context(), "p", "me")
	if err != nil {
		t.Fatal(err)
	}
	first := oneRow(own)
	if err := s.Append(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	image := s.Clone()
	own.Position, own.Digest = 1, first.Digest
	if err := s.Append(t.Context(), oneRow(own)); err != nil {
		t.Fatal(err)
	}
	rows, err := image.Read(t.Context(), "p", 0, 10)
	if err != nil || len(rows) != 1 {
		t.Errorf("the image has %d rows (%v)", len(rows), err)
	}
	if err := image.Append(t.Context(), oneRow(own)); err != nil {
		t.Errorf("the image goes on by itself: %v", err)
	}
}

// An append that is held up stands for one that is on its way to the disk: Acquire must
// not return a position that it could still move.
func TestAcquireWaitsForAnAppendInFlight(t *testing.T) {
	s := memory.New()
	own, err := s.Acquire(t.Context(), "p", "me")
	if err != nil {
		t.Fatal(err)
	}
	started, release := make(chan struct{}), make(chan struct{})
	s.SetHooks(memory.Hooks{Before: func(c memory.Call) error {
		if c.Op == "append" {
			close(started)
			<-release
		}
		return nil
	}})
	appended := make(chan error, 1)
	go func() { appended <- s.Append(t.Context(), oneRow(own)) }()
	<-started
	next := make(chan store.Ownership, 1)
	go func() {
		got, err := s.Acquire(t.Context(), "p", "you")
		if err != nil {
			t.Error(err)
		}
		next <- got
	}()
	close(release)
	if err := <-appended; err != nil {
		t.Fatal(err)
	}
	if got := <-next; got.Position != 1 || got.Epoch != 2 {
		t.Errorf("the next owner starts from %+v", got)
	}
}

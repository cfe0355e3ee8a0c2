package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/blob/memory"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// slowStore is a process that can be stopped in the middle of a call: what gate matches
// waits until the test lets it go on, like a process that got SIGSTOP and wakes much later.
type slowStore struct {
	blob.Store
	mu      sync.Mutex
	gate    func(verb, key string) bool
	arrived chan string
	goOn    chan struct{}
}

func newSlowStore(under blob.Store, gate func(verb, key string) bool) *slowStore {
	return &slowStore{Store: under, gate: gate, arrived: make(chan string, 100), goOn: make(chan struct{})}
}

func (s *slowStore) pass(verb, key string) {
	s.mu.Lock()
	stop := s.gate(verb, key)
	s.mu.Unlock()
	if stop {
		s.arrived <- verb + " " + key
		<-s.goOn
	}
}

func (s *slowStore) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	s.pass("put", key)
	return s.Store.Put(context.WithoutCancel(ctx), key, r, size)
}

func (s *slowStore) Delete(ctx context.Context, key string) error {
	s.pass("delete", key)
	return s.Store.Delete(context.WithoutCancel(ctx), key)
}

// turn opens the logs as one of several holders, whose right to them the test takes away.
func turn(t *testing.T, store blob.Store, era uint64) (*Gateway, *atomic.Bool) {
	t.Helper()
	valid := &atomic.Bool{}
	valid.Store(true)
	g, err := Open(t.Context(), store, Config{foldCount: 4, Era: era, Valid: valid.Load})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g, valid
}

func textOf(t *testing.T, g *Gateway, a domain.AttemptID) string {
	t.Helper()
	var out strings.Builder
	if _, err := reader(t, g, a).Raw(t.Context(), &out, 0, -1); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A holder that was stopped in the middle of a write, and finishes it after the next one has
// taken over, tells nobody that it is durable; and what it wrote never counts, although its
// segment has the smaller number.
// Promises: [FLEET-12].
func TestWhatAnEarlierHolderWritesLateCountsForNothing(t *testing.T) {
	under, a := memory.New(), attempt(1)
	stall := &atomic.Bool{}
	slow := newSlowStore(under, func(verb, key string) bool {
		return stall.Load() && verb == "put" && strings.HasPrefix(key, "segments/")
	})
	first, valid := turn(t, slow, 1)
	push(t, first, chunk(a, 1, "one "))
	stall.Store(true)
	answered := make(chan error, 1)
	go func() {
		_, err := first.Append(context.Background(), []Chunk{chunk(a, 2, "late ")})
		answered <- err
	}()
	<-slow.arrived
	valid.Store(false)

	second, _ := turn(t, under, 2)
	if got := textOf(t, second, a); got != "one " {
		t.Fatalf("the second holder has %q", got)
	}
	push(t, second, chunk(a, 2, "two "))
	close(slow.goOn)
	if err := <-answered; !errors.Is(err, ErrNotHeld) || !errors.Is(err, domain.ErrRetry) {
		t.Errorf("the late write was answered with %v", err)
	}
	push(t, second, chunk(a, 3, "three"))

	third, _ := turn(t, under, 3)
	if got := textOf(t, third, a); got != "one two three" {
		t.Errorf("the third holder has %q", got)
	}
	if third.Counters().Void != 1 {
		t.Errorf("%d segments were void, want the late one", third.Counters().Void)
	}
}

// A holder that gives the logs away, although it could go on holding them, acknowledges
// nothing of what it was writing at that moment: the next one may have looked already.
func TestAHolderThatGivesTheLogsAwayAcknowledgesNothingAfterwards(t *testing.T) {
	under, a := memory.New(), attempt(1)
	stall := &atomic.Bool{}
	slow := newSlowStore(under, func(verb, key string) bool {
		return stall.Load() && verb == "put" && strings.HasPrefix(key, "segments/")
	})
	first := NewHolder(slow, Config{})
	if err := first.Hold(t.Context(), 1, func() bool { return true }); err != nil {
		t.Fatal(err)
	}
	stall.Store(true)
	answered := make(chan error, 1)
	go func() {
		_, err := first.Append(context.Background(), []Chunk{chunk(a, 1, "late")})
		answered <- err
	}()
	<-slow.arrived
	first.Drop()
	second, _ := turn(t, under, 2)
	close(slow.goOn)
	if err := <-answered; !errors.Is(err, ErrNotHeld) {
		t.Errorf("what was written after the logs were given away was answered with %v", err)
	}
	push(t, second, chunk(a, 1, "again"))
	if got := textOf(t, second, a); got != "again" {
		t.Errorf("the next holder has %q", got)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
}

// A holder that wakes in the middle of deleting what it had folded takes nothing away from
// the one that has taken over.
// Promises: [FLEET-12].
func TestAnEarlierHolderThatDeletesLateTakesNothingAway(t *testing.T) {
	under, a := memory.New(), attempt(1)
	slow := newSlowStore(under, func(verb, key string) bool { return verb == "delete" })
	first, valid := turn(t, slow, 1)
	want := ""
	for i := range 4 {
		push(t, first, chunk(a, uint64(i+1), fmt.Sprint(i, " ")))
		want += fmt.Sprint(i, " ")
	}
	<-slow.arrived // the fold is durable, and its first segment is about to go
	valid.Store(false)
	second, _ := turn(t, under, 2)
	close(slow.goOn)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	push(t, second, chunk(a, 5, "end"))
	want += "end"
	if got := textOf(t, second, a); got != want {
		t.Errorf("the second holder has %q, want %q", got, want)
	}
	third, _ := turn(t, under, 3)
	if got := textOf(t, third, a); got != want {
		t.Errorf("the third holder has %q, want %q", got, want)
	}
}

// A write that failed for its caller and happened all the same is void once the chunk was
// written again, for this holder and for the next.
func TestAWriteInDoubtIsVoidOnceItWasRepeated(t *testing.T) {
	under, a := memory.New(), attempt(1)
	lose := &atomic.Bool{}
	g, _ := turn(t, &lossyStore{Store: under, lose: lose}, 1)
	lose.Store(true)
	if _, err := g.Append(t.Context(), []Chunk{chunk(a, 1, "in doubt")}); err == nil {
		t.Fatal("the lost reply was no error")
	}
	lose.Store(false)
	push(t, g, chunk(a, 1, "repeated"))
	next, _ := turn(t, under, 2)
	if got := textOf(t, next, a); got != "repeated" {
		t.Errorf("the next holder has %q", got)
	}
	if kept, err := next.Evidence(t.Context(), tenant, a); err != nil || len(kept) != 0 {
		t.Errorf("evidence of a conflict: %v, %v", kept, err)
	}
}

// lossyStore does what it is asked and loses the reply; deletes do not happen meanwhile, as
// in a process that dies.
type lossyStore struct {
	blob.Store
	lose *atomic.Bool
}

func (s *lossyStore) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	err := s.Store.Put(ctx, key, r, size)
	if err == nil && s.lose.Load() {
		return errors.New("reply lost")
	}
	return err
}

func (s *lossyStore) Delete(context.Context, string) error { return errors.New("not now") }

func TestAnEraIsOpenedOnceAndNeverAfterALaterOne(t *testing.T) {
	store := memory.New()
	turn(t, store, 5)
	for _, era := range []uint64{5, 4} {
		if _, err := Open(t.Context(), store, Config{Era: era}); !errors.Is(err, ErrNotHeld) {
			t.Errorf("era %d: %v", era, err)
		}
	}
	turn(t, store, 6)
	left, err := store.List(t.Context(), eraPrefix, "", 10)
	if err != nil || len(left) != 1 || left[0].Key != eraKey(6) {
		t.Errorf("records of eras: %v, %v", left, err)
	}
}

// A log from before there were eras goes on when servers begin to take turns.
// The record of an era may be there although its writer was told that it is not.
func TestAHolderWhoseEraWasOpenedWithoutAWordOpensItAgain(t *testing.T) {
	store := memory.New()
	lost := errors.New("the reply was lost")
	store.SetHook(func(_ context.Context, c memory.Call) error {
		if c.Method == "Put" && c.After && strings.HasPrefix(c.Key, eraPrefix) {
			return lost
		}
		return nil
	})
	h := NewHolder(store, Config{})
	always := func() bool { return true }
	if err := h.Hold(t.Context(), 3, always); !errors.Is(err, lost) {
		t.Fatalf("the first try: %v", err)
	}
	if err := NewHolder(store, Config{}).Hold(t.Context(), 3, always); !errors.Is(err, ErrNotHeld) {
		t.Errorf("somebody else: %v", err)
	}
	store.SetHook(nil)
	if err := h.Hold(t.Context(), 3, always); err != nil || !h.Held() {
		t.Errorf("the second try: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

func TestALogOfALoneServerGoesOnInEras(t *testing.T) {
	store, a := memory.New(), attempt(1)
	alone := open(t, store)
	push(t, alone, chunk(a, 1, "before "))
	_ = alone.Close()
	g, _ := turn(t, store, 3)
	push(t, g, chunk(a, 2, "after"))
	if got := textOf(t, g, a); got != "before after" {
		t.Errorf("%q", got)
	}
	seal(t, g, a, 2)
	if left, _ := store.List(t.Context(), segmentPrefix(""), "", 10); len(left) != 0 {
		t.Errorf("segments left: %v", left)
	}
}

func TestAHolderServesWhileItHoldsAndTellsReadersWhenItDrops(t *testing.T) {
	store, a, b := memory.New(), attempt(1), attempt(2)
	h := NewHolder(store, Config{})
	t.Cleanup(func() { _ = h.Close() })
	if _, err := h.Append(t.Context(), []Chunk{chunk(a, 1, "x")}); !errors.Is(err, ErrNotHeld) || h.Held() {
		t.Fatalf("nobody holds the logs, and Append answered %v", err)
	}
	if err := h.Hold(t.Context(), 1, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Append(t.Context(), []Chunk{chunk(a, 1, "one"), chunk(b, 1, "kept")}); err != nil {
		t.Fatal(err)
	}
	ref, err := h.Seal(t.Context(), tenant, b, domain.ClassBatch, 1)
	if err != nil {
		t.Fatal(err)
	}
	l, err := h.Log(tenant, a, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for piece, err := range l.Follow(t.Context(), 0) {
		if err != nil {
			if !errors.Is(err, ErrNotHeld) {
				t.Errorf("following ended with %v", err)
			}
			break
		}
		got += string(piece.Bytes)
		h.Drop()
	}
	if got != "one" {
		t.Errorf("followed %q", got)
	}
	if _, err := h.Log(tenant, a, nil); !errors.Is(err, ErrNotHeld) {
		t.Errorf("an open log elsewhere: %v", err)
	}
	sealed, err := h.Log(tenant, b, &ref)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if _, err := sealed.Raw(t.Context(), &out, 0, -1); err != nil || out.String() != "kept" {
		t.Errorf("a sealed log elsewhere: %q, %v", out.String(), err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Hold(ended, 2, nil); err == nil || h.Held() {
		t.Errorf("held after its time: %v", err)
	}
}

package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob/memory"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// A server dies after the sealed log is durable and before history knows of it. The next one
// has the whole log, takes what still comes, and seals all of it.
// Promises: [LOG-15].
func TestASealThatHistoryDoesNotKnowIsNoSeal(t *testing.T) {
	for name, size := range map[string]int{"shares an object": 1, "has its own": 2 * sharedBytesMax} {
		t.Run(name, func(t *testing.T) {
			store, a := memory.New(), attempt(1)
			g := open(t, store)
			push(t, g, chunk(a, 1, strings.Repeat("a", size)))
			if _, err := g.Seal(t.Context(), tenant, a, domain.ClassBatch, SequenceUnknown); err != nil {
				t.Fatal(err)
			}
			if err := g.Close(); err != nil {
				t.Fatal(err)
			}
			g = open(t, copyOf(store))
			push(t, g, chunk(a, 2, "more"))
			if ref := seal(t, g, a, 2); ref.Bytes != int64(size)+4 || ref.Gaps != 0 {
				t.Errorf("sealed as %+v", ref)
			}
			if got := raw(t, reader(t, g, a)); len(got) != size+4 || !strings.HasSuffix(got, "amore") {
				t.Errorf("%d bytes", len(got))
			}
		})
	}
}

// Many logs that end at about the same time share objects; a log that is alone waits for nobody.
func TestLogsThatEndTogetherShareObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		g, err := Open(t.Context(), store, Config{})
		if err != nil {
			t.Fatal(err)
		}
		const many = 100
		var chunks []Chunk
		for i := range many {
			chunks = append(chunks, chunk(attempt(i), 1, fmt.Sprintln("log", i)))
		}
		push(t, g, chunks...)
		begin := time.Now()
		refs := make([]Ref, many)
		refs[0] = seal(t, g, attempt(0), 1)
		if took := time.Since(begin); took != 0 {
			t.Errorf("the first one waited for %v", took)
		}
		var all sync.WaitGroup
		for i := 1; i < many; i++ {
			all.Go(func() { refs[i] = seal(t, g, attempt(i), 1) })
		}
		all.Wait()
		if took := time.Since(begin); took > 2*bundleRest || g.Counters().Bundles != 2 {
			t.Errorf("%d bundles in %v", g.Counters().Bundles, took)
		}
		for i, ref := range refs {
			l, err := g.Log(tenant, attempt(i), &ref)
			if err != nil {
				t.Fatal(err)
			}
			if got := raw(t, l); got != fmt.Sprintln("log", i) {
				t.Errorf("log %d reads %q", i, got)
			}
			if n, err := Examine(t.Context(), store, attempt(i), ref); err != nil || n != ref.Length {
				t.Errorf("log %d: %d bytes, %v", i, n, err)
			}
		}
		if left := segments(t, store); left != nil {
			t.Errorf("segments left: %v", left)
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// Whoever waits for a shared object is answered when the logs are closed or given away.
func TestSealsThatWaitAreAnsweredWhenTheLogsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, end := range []func(*Gateway){func(g *Gateway) { _ = g.Close() }, (*Gateway).Abandon} {
			g, err := Open(t.Context(), memory.New(), Config{})
			if err != nil {
				t.Fatal(err)
			}
			push(t, g, chunk(attempt(1), 1, "a"), chunk(attempt(2), 1, "b"))
			seal(t, g, attempt(1), 1)
			answer := make(chan error, 1)
			go func() {
				_, err := g.Seal(context.Background(), tenant, attempt(2), domain.ClassBatch, 1)
				answer <- err
			}()
			synctest.Wait()
			end(g)
			if err := <-answer; !errors.Is(err, domain.ErrRetry) {
				t.Errorf("answered with %v", err)
			}
			_ = g.Close()
		}
	})
}

// The segments that the earlier release left are those that other logs needed, too: a part of
// the log. The object has all of it, and nothing is waited for.
func TestALogThatAnEarlierReleaseSealedIsNotSealedAgainFromWhatIsLeft(t *testing.T) {
	store, a, b := memory.New(), attempt(1), attempt(2)
	g := open(t, store)
	push(t, g, chunk(a, 1, "one "))
	push(t, g, chunk(a, 2, "two"), chunk(b, 1, "other"))
	whole := copyOf(store)
	first := seal(t, open(t, whole), a, 2)
	object, err := readRange(t.Context(), whole, first.Object, first.Offset, first.Length)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Put(t.Context(), earlierKey(tenant, a), bytes.NewReader(object), -1); err != nil {
		t.Fatal(err)
	}
	if err := store.Delete(t.Context(), segmentKey(tenant, 1)); err != nil {
		t.Fatal(err)
	}
	g = open(t, copyOf(store))
	if sealed, err := g.Sealed(t.Context(), tenant, a); err != nil || !sealed {
		t.Errorf("sealed: %v, %v", sealed, err)
	}
	late := chunk(a, 3, "late")
	if acks, err := g.Append(t.Context(), []Chunk{late}); err != nil || !errors.Is(acks[0].Refused, ErrSealed) {
		t.Errorf("a chunk after it: %+v, %v", acks, err)
	}
	if again := seal(t, g, a, 2); again.Digest != first.Digest || again.Gaps != 0 ||
		again.Object != earlierKey(tenant, a) {
		t.Errorf("sealed as %+v, want %+v", again, first)
	}
	if got := raw(t, reader(t, g, b)); got != "other" {
		t.Errorf("the other log is %q", got)
	}
}

// A holder that did not know of a seal took chunks in: what the seal has goes, what it has not
// is kept as evidence.
// Promises: [LOG-4].
func TestWhatWasTakenAfterAnothersSealIsEvidence(t *testing.T) {
	store, a := memory.New(), attempt(1)
	g := open(t, store)
	push(t, g, chunk(a, 1, "one "), chunk(a, 2, "two"))
	other := open(t, copyOf(store))
	ref, err := other.Seal(t.Context(), tenant, a, domain.ClassBatch, SequenceUnknown)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := readRange(t.Context(), other.store, ref.Object, ref.Offset, ref.Length)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Put(t.Context(), ref.Object, bytes.NewReader(sealed), -1); err != nil {
		t.Fatal(err)
	}
	push(t, g, chunk(a, 3, "three"), chunk(a, 5, "five"))
	noteSeal(g, a, ref)
	noteSeal(g, a, ref) // it may be told often
	kept, err := g.Evidence(t.Context(), tenant, a)
	if err != nil || len(kept) != 2 || string(kept[0].Data) != "three" || string(kept[1].Data) != "five" ||
		kept[0].Reason != "sealed" {
		t.Errorf("evidence = %+v, %v", kept, err)
	}
	if got := raw(t, reader(t, g, a)); got != "one two" {
		t.Errorf("raw = %q", got)
	}
	if c := g.Counters(); c.Live != 0 {
		t.Errorf("%d logs are live", c.Live)
	}
	if left := segments(t, store); left != nil {
		t.Errorf("segments left: %v", left)
	}
}

// The seal that counts is the recorded one: until then the log reads as one that may go on.
func TestALogIsShownAsSealedOnceThatIsRecorded(t *testing.T) {
	g, a := open(t, memory.New()), attempt(1)
	push(t, g, chunk(a, 1, "text"))
	ref, err := g.Seal(t.Context(), tenant, a, domain.ClassBatch, 1)
	if err != nil {
		t.Fatal(err)
	}
	if totals, err := reader(t, g, a).Totals(t.Context()); err != nil || totals.Sealed || totals.Bytes != 4 {
		t.Errorf("before: %+v, %v", totals, err)
	}
	noteSeal(g, a, ref)
	if totals, err := reader(t, g, a).Totals(t.Context()); err != nil || !totals.Sealed || totals.Bytes != 4 {
		t.Errorf("afterwards: %+v, %v", totals, err)
	}
}

// A seal that waits for a write learns that another one was recorded, and ends; whoever gave up
// waiting leaves nothing open behind.
func TestASealThatWaitsLearnsOfAnother(t *testing.T) {
	for _, gaveUp := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store, a := memory.New(), attempt(1)
			g, err := Open(t.Context(), store, Config{})
			if err != nil {
				t.Fatal(err)
			}
			hold := make(chan struct{})
			store.SetHook(func(_ context.Context, c memory.Call) error {
				if c.Method == "Put" && !c.After && strings.HasPrefix(c.Key, "segments/") {
					<-hold
				}
				return nil
			})
			var all sync.WaitGroup
			all.Go(func() { push(t, g, chunk(a, 1, "written")) })
			synctest.Wait()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			all.Go(func() {
				ref, err := g.Seal(ctx, tenant, a, domain.ClassBatch, 1)
				if gaveUp != (err != nil) || !gaveUp && ref.Bytes != 99 {
					t.Errorf("gave up %v: %+v, %v", gaveUp, ref, err)
				}
			})
			synctest.Wait()
			if gaveUp {
				cancel()
				synctest.Wait()
			}
			g.Recorded(tenant, a, Ref{Bytes: 99})
			synctest.Wait()
			close(hold)
			all.Wait()
			synctest.Wait()
			if c := g.Counters(); c.Live != 0 {
				t.Errorf("gave up %v: %d logs are live", gaveUp, c.Live)
			}
			if err := g.Close(); err != nil {
				t.Fatal(err)
			}
			if left := segments(t, store); left != nil {
				t.Errorf("segments left: %v", left)
			}
		})
	}
}

// What was queued in the moment in which small chunks collect is written before Close ends.
func TestCloseWritesWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		g, err := Open(t.Context(), store, Config{})
		if err != nil {
			t.Fatal(err)
		}
		push(t, g, chunk(attempt(1), 1, "at once"))
		var all sync.WaitGroup
		all.Go(func() { push(t, g, chunk(attempt(1), 2, "collects")) })
		synctest.Wait()
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		time.Sleep(2 * segmentRest)
		if left := segments(t, store); len(left) != 2 {
			t.Errorf("segments = %v", left)
		}
	})
}

// What can't be looked up, because its run can't be read, is refused alone: the chunks of other
// attempts that come with it are stored.
func TestOneUnreadableHistoryKeepsNoOtherChunkAway(t *testing.T) {
	g, err := Open(t.Context(), memory.New(), Config{
		Recorded: func(context.Context, domain.TenantID, domain.AttemptID) (*Ref, error) { return nil, errAway }})
	if err != nil {
		t.Fatal(err)
	}
	late := chunk(attempt(1), 1, "of a run that can't be read")
	late.Ended = true
	acks, err := g.Append(t.Context(), []Chunk{late, chunk(attempt(2), 1, "fine")})
	if err != nil || !errors.Is(acks[0].Refused, ErrBusy) || acks[1].Refused != nil || acks[1].Through != 1 {
		t.Errorf("acks = %+v, %v", acks, err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
}

// A silent attempt must not make its readers ask history whenever another one speaks.
func TestAReaderOfASilentLogAsksHistoryOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		g, err := Open(t.Context(), memory.New(), Config{
			Recorded: func(context.Context, domain.TenantID, domain.AttemptID) (*Ref, error) {
				asked++
				return nil, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		seen := make(chan Totals, 1)
		go func() {
			totals, err := reader(t, g, attempt(1)).Wait(context.Background(), Totals{})
			if err != nil {
				t.Error(err)
			}
			seen <- totals
		}()
		for i := range 100 {
			push(t, g, chunk(attempt(i+2), 1, "another"))
			synctest.Wait()
		}
		push(t, g, chunk(attempt(1), 1, "me"))
		if totals := <-seen; totals.Bytes != 2 || asked != 1 {
			t.Errorf("asked %d times, then %+v", asked, totals)
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestALogThatAnEarlierReleaseSealedIsFound(t *testing.T) {
	store, a := memory.New(), attempt(1)
	g := open(t, store)
	push(t, g, chunk(a, 1, "a\n"))
	first := seal(t, g, a, 1)
	// It gave every log an object of its own, and removed the segments before history knew.
	alone, err := readRange(t.Context(), store, first.Object, first.Offset, first.Length)
	if err != nil {
		t.Fatal(err)
	}
	store = memory.New()
	key := earlierKey(tenant, a)
	if err := store.Put(t.Context(), key, bytes.NewReader(alone), -1); err != nil {
		t.Fatal(err)
	}
	g = open(t, store)
	first.Object = key
	if again := seal(t, g, a, 1); again != first {
		t.Errorf("sealed as %+v, want %+v", again, first)
	}
	if got := raw(t, reader(t, g, a)); got != "a\n" {
		t.Errorf("raw = %q", got)
	}
}

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
			if _, err := g.Seal(t.Context(), tenant, a, SequenceUnknown); err != nil {
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
				_, err := g.Seal(context.Background(), tenant, attempt(2), 1)
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
	key := sealedKey(tenant, a, 1)
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

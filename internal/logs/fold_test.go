package logs

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fairlead-ci/fairlead/internal/blob/memory"
)

func TestAQuietAttemptPinsFewSegments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		g, err := Open(t.Context(), store, Config{RecentBytes: 1})
		if err != nil {
			t.Fatal(err)
		}
		quiet := attempt(0)
		var want strings.Builder
		most := 0
		for i := range 1000 {
			text := fmt.Sprintln("tick", i)
			want.WriteString(text)
			busy := chunk(attempt(i+1), 1, strings.Repeat("x", 20_000))
			push(t, g, chunk(quiet, uint64(i+1), text), busy)
			seal(t, g, busy.Attempt, 1)
			synctest.Wait()
			most = max(most, len(g.lane(tenant).segments))
		}
		if most > 3*foldCount {
			t.Errorf("%d segments at the most", most)
		}
		if c := g.Counters(); c.Folds < 10 {
			t.Errorf("counters = %+v", c)
		}
		if n := len(segments(t, store)); n != len(g.lane(tenant).segments) {
			t.Errorf("%d segments stored, %d known", n, len(g.lane(tenant).segments))
		}
		if n := len(g.lives[logID{tenant, quiet}].blocks); n > 200 {
			t.Errorf("%d blocks for %d bytes", n, want.Len())
		}
		for _, g := range []*Gateway{g, open(t, copyOf(store))} {
			if got := raw(t, reader(t, g, quiet)); got != want.String() {
				t.Error("the log is not what was sent")
			}
			if ack := push(t, g, chunk(quiet, 3, "other"), chunk(quiet, 900, "tick 899\n")); ack.Conflicts != 1 {
				t.Errorf("ack = %+v", ack)
			}
		}
		seal(t, g, quiet, 1000)
		if left := segments(t, store); left != nil {
			t.Errorf("left: %v", left)
		}
	})
}

// A crash at any point of a fold, a hole in the log, a seal in the middle, a reader in the
// middle: the log stays what it is.
func TestFoldingIsSafe(t *testing.T) {
	for _, method := range []string{"Put", "Delete"} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(method, " after=", after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { foldAndCrash(t, method, after) })
			})
		}
	}
}

func foldAndCrash(t *testing.T, method string, after bool) {
	store := memory.New()
	g, err := Open(t.Context(), store, Config{RecentBytes: 1, foldCount: 6})
	if err != nil {
		t.Fatal(err)
	}
	a, b := attempt(1), attempt(2)
	var crashed *memory.Store
	arm := func() {
		store.SetHook(func(_ context.Context, c memory.Call) error {
			// The seventh segment is the copy; a deletion is that of a folded one.
			hit := c.Method == "Delete" || strings.HasSuffix(c.Key, "0007")
			if crashed == nil && c.Method == method && c.After == after && hit {
				crashed = copyOf(store)
			}
			return nil
		})
	}
	var seen strings.Builder
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for piece, err := range reader(t, g, a).Follow(context.Background(), 0) {
			if err != nil {
				t.Error(err)
			}
			seen.Write(piece.Bytes)
		}
	}()
	push(t, g, chunk(a, 1, "1\n"), chunk(b, 1, "b"))
	push(t, g, chunk(a, 2, "2\n"), chunk(a, 5, "5\n"))
	push(t, g, chunk(a, 6, "6\n"), chunk(a, 7, "7\n"))
	push(t, g, chunk(a, 3, "3\n"), chunk(b, 2, "b"))
	push(t, g, chunk(a, 9, "9\n"))
	arm()
	push(t, g, chunk(a, 10, "10\n"))
	synctest.Wait()
	store.SetHook(nil)
	if crashed == nil || g.Counters().Folds == 0 {
		t.Fatal("no fold happened")
	}
	after1 := open(t, crashed)
	for _, g := range []*Gateway{after1, g} {
		if got := raw(t, reader(t, g, a)); got != "1\n2\n3\n" {
			t.Errorf("raw before the hole: %q", got)
		}
		push(t, g, chunk(a, 4, "4\n"), chunk(a, 8, "8\n"), chunk(a, 11, "11\n"))
		if ref := seal(t, g, a, 11); ref.Gaps != 0 || ref.Lines != 11 {
			t.Errorf("ref = %+v", ref)
		}
		if got := raw(t, reader(t, g, a)); got != "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n" {
			t.Errorf("raw: %q", got)
		}
		if got := raw(t, reader(t, g, b)); got != "bb" {
			t.Errorf("the other: %q", got)
		}
		seal(t, g, b, 2)
		if e, err := g.Evidence(t.Context(), tenant, a); err != nil || e != nil {
			t.Errorf("evidence out of nothing: %+v, %v", e, err)
		}
	}
	<-ended
	if seen.String() != "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n" {
		t.Errorf("followed: %q", seen.String())
	}
	for _, s := range []*memory.Store{store, crashed} {
		if left := segments(t, s); left != nil {
			t.Errorf("left: %v", left)
		}
	}
}

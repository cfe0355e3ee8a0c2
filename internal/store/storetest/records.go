package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/store"
)

func (s *suite) recordPromises() []promise {
	return []promise{
		{"AKeyIsFoundAsItWasWritten", keyFound},
		{"TheSameKeyTwiceIsAConflict", keyTwice},
		{"OnlyOldClientKeysExpire", keysExpire},
		{"AnExpiredKeyIsStillAConflict", tombstone},
		{"ExpiryIsBoundedAndOldestFirst", expiryBounded},
		{"CountersOnlyGrow", counters},
		{"CursorsCommitWithoutRows", cursors},
	}
}

func key(scope, id string, when time.Time) store.Key {
	return store.Key{
		Tenant: tenant, Scope: scope, Key: id, Body: "sha256:body", Reply: []byte("reply " + id), Stream: "run/a", At: when,
	}
}

func (w *world) addKeys(t *testing.T, keys ...store.Key) {
	t.Helper()
	w.append(t, func(b *store.Batch) { b.Keys = keys })
}

func keyFound(t *testing.T, w *world) {
	k := key("client/me/runs", "k1", at)
	empty := key("client/me/runs", "k2", at)
	empty.Reply = []byte{}
	w.addKeys(t, k, empty)
	same(t, "key", must[store.Key](t)(w.store.Key(t.Context(), tenant, k.Scope, k.Key)), k)
	got := must[store.Key](t)(w.store.Key(t.Context(), tenant, empty.Scope, empty.Key))
	if len(got.Reply) != 0 || got.Expired {
		t.Errorf("a key without a reply: %+v", got)
	}
	for _, miss := range [][2]string{{"client/me/runs", "k3"}, {"client/you/runs", "k1"}, {"trigger/rep", "k1"}} {
		if _, err := w.store.Key(t.Context(), tenant, miss[0], miss[1]); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("key %v: %v", miss, err)
		}
	}
}

// Promises: [CMD-2].
func keyTwice(t *testing.T, w *world) {
	k := key("trigger/rep", "k1", at)
	w.addKeys(t, k)
	w.refused(t, batch(w.own, func(b *store.Batch) { b.Keys = []store.Key{k} }), store.ErrConflict)
	fresh := key("trigger/rep", "k2", at)
	w.refused(t, batch(w.own, func(b *store.Batch) { b.Keys = []store.Key{fresh, fresh} }), store.ErrConflict)
	w.addKeys(t, fresh, key("trigger/other", "k1", at))
}

// Promises: [CMD-4].
func keysExpire(t *testing.T, w *world) {
	old, young := at.Add(-time.Hour), at
	kept := []store.Key{
		key("client/me/runs", "young", young), key("trigger/rep", "old", old), key("Client/me/runs", "old", old),
		key("clients/me", "old", old), key("client", "old", old), key("client0", "old", old),
	}
	gone := key("client/me/runs", "old", old)
	w.addKeys(t, append(kept, gone)...)
	if n := must[int](t)(w.store.ExpireKeys(t.Context(), young, 100)); n != 1 {
		t.Errorf("%d keys expired", n)
	}
	for _, k := range kept {
		same(t, "a key that stays", must[store.Key](t)(w.store.Key(t.Context(), tenant, k.Scope, k.Key)), k)
	}
	gone.Reply, gone.Expired = nil, true
	same(t, "the tombstone", must[store.Key](t)(w.store.Key(t.Context(), tenant, gone.Scope, gone.Key)), gone)
	if n := must[int](t)(w.store.ExpireKeys(t.Context(), young, 100)); n != 0 {
		t.Errorf("%d keys expired a second time", n)
	}
}

// Promises: [CMD-4].
func tombstone(t *testing.T, w *world) {
	k := key("client/me/runs", "k1", at)
	w.addKeys(t, k)
	must[int](t)(w.store.ExpireKeys(t.Context(), at.Add(time.Second), 1))
	w.refused(t, batch(w.own, func(b *store.Batch) { b.Keys = []store.Key{k} }), store.ErrConflict)
}

func expiryBounded(t *testing.T, w *world) {
	for i := range 5 {
		w.addKeys(t, key("client/me/runs", fmt.Sprint(i), at.Add(-time.Duration(i)*time.Minute)))
	}
	for _, want := range []int{2, 2, 1, 0} {
		if n := must[int](t)(w.store.ExpireKeys(t.Context(), at.Add(time.Minute), 2)); n != want {
			t.Errorf("%d expired, want %d", n, want)
		}
		if want == 2 {
			// The oldest two went first.
			newest := must[store.Key](t)(w.store.Key(t.Context(), tenant, "client/me/runs", "0"))
			if newest.Expired {
				t.Error("the newest key went before older ones")
			}
		}
	}
	if n := must[int](t)(w.store.ExpireKeys(t.Context(), at.Add(time.Minute), 0)); n != 0 {
		t.Errorf("a limit of 0 expired %d", n)
	}
}

// Promises: [CMD-12].
func counters(t *testing.T, w *world) {
	read := func() uint64 { return must[uint64](t)(w.store.Counter(t.Context(), tenant, "runs")) }
	if read() != 0 {
		t.Errorf("a new counter is %d", read())
	}
	set := func(values ...uint64) func(*store.Batch) {
		return func(b *store.Batch) {
			for _, v := range values {
				b.Counters = append(b.Counters, store.Counter{Tenant: tenant, Name: "runs", Value: v})
			}
		}
	}
	for _, values := range [][]uint64{{1}, {2, 3, 4}, {4}, {1 << 60}} {
		w.append(t, set(values...))
		if want := values[len(values)-1]; read() != want {
			t.Errorf("after %v the counter is %d", values, read())
		}
	}
	w.refused(t, batch(w.own, set(5)), store.ErrConflict)
}

func cursors(t *testing.T, w *world) {
	before := w.own
	w.append(t, func(b *store.Batch) {
		b.Cursors = []store.Cursor{{Reactor: "notify", Position: 4}, {Reactor: "dispatch", Position: 3}}
	})
	w.append(t, func(b *store.Batch) { b.Cursors = []store.Cursor{{Reactor: "notify", Position: 9}} })
	same(t, "cursors", must[[]store.Cursor](t)(w.store.Cursors(t.Context(), part)), []store.Cursor{
		{Reactor: "dispatch", Position: 3}, {Reactor: "notify", Position: 9},
	})
	same(t, "the log's end", w.own, before)
	if got := must[[]store.Cursor](t)(w.store.Cursors(t.Context(), "p-two")); len(got) != 0 {
		t.Errorf("another partition has cursors %v", got)
	}
	if _, _, err := w.store.BatchAt(t.Context(), part, 0); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a batch without rows left a batch: %v", err)
	}
}

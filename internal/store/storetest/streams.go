package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

func (s *suite) streamPromises() []promise {
	return []promise{
		{"HistoryComesBackInOrder", history},
		{"AnUnknownStreamIsEmpty", unknownStream},
		{"AVersionGapIsAConflict", versionGap},
		{"AConflictLeavesNothingOfItsBatch", atomicConflict},
		{"ACheckpointStandsForTheRowsBeforeIt", checkpoints},
		{"ACheckpointOfAnotherEncodingIsIgnored", checkpointEncoding},
		{"ACheckpointMayComeLaterAndIsReplaced", checkpointLater},
		{"LiveListsWhatAnOwnerMustLoad", live},
		{"AHeadMayChangeWithoutEvents", headAlone},
	}
}

func history(t *testing.T, w *world) {
	var want []store.Row
	for i := range 4 {
		b := w.append(t, func(b *store.Batch) {
			add(b, tenant, "run/a", uint64(3*(i+1)), 3, fmt.Sprint("events ", i))
			add(b, tenant, domain.StreamID(fmt.Sprint("run/other", i)), 1, 1, "noise")
		})
		want = append(want, b.Rows[0])
	}
	h := must[store.History](t)(w.store.Load(t.Context(), tenant, "run/a", true, encoding))
	same(t, "history", h, store.History{
		Head: store.Head{Tenant: tenant, Stream: "run/a", Version: 12, Live: true}, Rows: want,
	})
}

func unknownStream(t *testing.T, w *world) {
	h := must[store.History](t)(w.store.Load(t.Context(), tenant, "run/none", true, encoding))
	same(t, "history", h, store.History{})
}

func versionGap(t *testing.T, w *world) {
	w.append(t, func(b *store.Batch) { add(b, tenant, "run/a", 2, 2, "ab") })
	for _, c := range []struct {
		version uint64
		count   uint32
	}{{1, 1}, {2, 1}, {2, 2}, {4, 1}, {4, 4}, {9, 1}} {
		b := batch(w.own, func(b *store.Batch) {
			add(b, tenant, "run/new", 1, 1, "x")
			add(b, tenant, "run/a", c.version, c.count, "y")
		})
		t.Run(fmt.Sprintf("to-%d-by-%d", c.version, c.count), func(t *testing.T) { w.refused(t, b, store.ErrConflict) })
	}
	w.refused(t, batch(w.own, func(b *store.Batch) { add(b, tenant, "run/b", 5, 1, "y") }), store.ErrConflict)
	w.append(t, func(b *store.Batch) { add(b, tenant, "run/a", 3, 1, "c") })
}

// atomicConflict spoils the last record of a batch that touches every table.
func atomicConflict(t *testing.T, w *world) {
	first := full(w.own, 1)
	if err := w.store.Append(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	w.own = after(w.own, first)
	for name, spoil := range map[string]func(*store.Batch){
		"key":     func(b *store.Batch) { b.Keys = append(b.Keys, first.Keys[0]) },
		"stream":  func(b *store.Batch) { add(b, tenant, "run/full-1", 2, 2, "again"); seal(b) },
		"counter": func(b *store.Batch) { b.Counters[0].Value = 0 },
		"repository name": func(b *store.Batch) {
			b.Repositories = append(b.Repositories, repoRow(tenant, 3))
			b.Repositories[1].Name = first.Repositories[0].Name
		},
	} {
		b := full(w.own, 2)
		spoil(&b)
		t.Run(name, func(t *testing.T) { w.refused(t, b, store.ErrConflict) })
	}
	if err := w.store.Append(t.Context(), full(w.own, 2)); err != nil {
		t.Errorf("the batch without its conflict: %v", err)
	}
}

func checkpoints(t *testing.T, w *world) {
	w.append(t, func(b *store.Batch) { add(b, tenant, "run/a", 2, 2, "ab") })
	saved := store.Checkpoint{Tenant: tenant, Stream: "run/a", Version: 3, Encoding: encoding, State: []byte("state")}
	w.append(t, func(b *store.Batch) {
		add(b, tenant, "run/a", 3, 1, "c")
		b.Checkpoints = []store.Checkpoint{saved}
	})
	later := w.append(t, func(b *store.Batch) { add(b, tenant, "run/a", 5, 2, "de") })
	head := store.Head{Tenant: tenant, Stream: "run/a", Version: 5, Live: true}
	h := must[store.History](t)(w.store.Load(t.Context(), tenant, "run/a", true, encoding))
	same(t, "with checkpoint", h, store.History{Head: head, Checkpoint: &saved, Rows: later.Rows})
	h = must[store.History](t)(w.store.Load(t.Context(), tenant, "run/a", false, encoding))
	if h.Checkpoint != nil || len(h.Rows) != 3 || h.Rows[0].Version != 2 {
		t.Errorf("without checkpoint: %+v", h)
	}
}

// Promises: [HIST-14].
func checkpointEncoding(t *testing.T, w *world) {
	w.append(t, func(b *store.Batch) {
		add(b, tenant, "run/a", 1, 1, "a")
		b.Checkpoints = []store.Checkpoint{{Tenant: tenant, Stream: "run/a", Version: 1, Encoding: 1<<32 - 1}}
	})
	h := must[store.History](t)(w.store.Load(t.Context(), tenant, "run/a", true, encoding))
	if h.Checkpoint != nil || len(h.Rows) != 1 {
		t.Errorf("another encoding: %+v", h)
	}
	h = must[store.History](t)(w.store.Load(t.Context(), tenant, "run/a", true, 1<<32-1))
	if h.Checkpoint == nil || h.Checkpoint.State != nil || len(h.Rows) != 0 {
		t.Errorf("the same encoding: %+v", h)
	}
}

func checkpointLater(t *testing.T, w *world) {
	w.append(t, func(b *store.Batch) { add(b, tenant, "run/a", 1, 1, "a") })
	w.append(t, func(b *store.Batch) { add(b, tenant, "run/a", 2, 1, "b") })
	for _, version := range []uint64{1, 2} {
		w.append(t, func(b *store.Batch) {
			b.Checkpoints = []store.Checkpoint{{Tenant: tenant, Stream: "run/a", Version: version, Encoding: encoding}}
		})
		h := must[store.History](t)(w.store.Load(t.Context(), tenant, "run/a", true, encoding))
		if h.Checkpoint == nil || h.Checkpoint.Version != version || len(h.Rows) != 2-int(version) {
			t.Errorf("checkpoint of version %d: %+v", version, h)
		}
	}
}

func live(t *testing.T, w *world) {
	wake := at.Add(time.Hour)
	w.append(t, func(b *store.Batch) {
		add(b, other, "run/a", 1, 1, "x")
		add(b, tenant, "run/b", 1, 1, "x")
		add(b, tenant, "run/a", 1, 1, "x")
		add(b, tenant, "run/Z", 1, 1, "x")
		add(b, tenant, "run/done", 1, 1, "x")
		b.Heads[1].NextWake = wake
		b.Heads[4].Live = false
	})
	same(t, "live", must[[]store.Head](t)(w.store.Live(t.Context(), part)), []store.Head{
		{Tenant: tenant, Stream: "run/Z", Version: 1, Live: true},
		{Tenant: tenant, Stream: "run/a", Version: 1, Live: true},
		{Tenant: tenant, Stream: "run/b", Version: 1, Live: true, NextWake: wake},
		{Tenant: other, Stream: "run/a", Version: 1, Live: true},
	})
	w.append(t, func(b *store.Batch) {
		add(b, tenant, "run/a", 2, 1, "x")
		b.Heads[0].Live = false
		add(b, tenant, "run/done", 2, 1, "x")
	})
	heads := must[[]store.Head](t)(w.store.Live(t.Context(), part))
	if len(heads) != 4 || heads[2].Stream != "run/done" {
		t.Errorf("after one concluded and one went on: %+v", heads)
	}
	if heads := must[[]store.Head](t)(w.store.Live(t.Context(), "p-none")); len(heads) != 0 {
		t.Errorf("unknown partition: %+v", heads)
	}
}

func headAlone(t *testing.T, w *world) {
	w.append(t, func(b *store.Batch) { add(b, tenant, "run/a", 1, 1, "x") })
	moved := store.Head{Tenant: tenant, Stream: "run/a", Version: 1, Live: true, NextWake: at}
	w.append(t, func(b *store.Batch) { b.Heads = []store.Head{moved} })
	same(t, "live", must[[]store.Head](t)(w.store.Live(t.Context(), part)), []store.Head{moved})
	for _, h := range []store.Head{
		{Tenant: tenant, Stream: "run/a", Version: 2}, {Tenant: tenant, Stream: "run/none", Version: 1},
	} {
		w.refused(t, batch(w.own, func(b *store.Batch) { b.Heads = []store.Head{h} }), store.ErrConflict)
	}
}

package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// encoding is the checkpoint encoding that the suite writes.
const encoding = 7

func (s *suite) logPromises() []promise {
	return []promise{
		{"PositionsAreGapless", gapless},
		{"EveryBatchChainsToTheOneBefore", chained},
		{"BatchAtKnowsOnlyTheEndsOfBatches", batchEnds},
		{"ReadPagesInOrder", readPages},
		{"TimesKeepMicrosecondsInUTC", timesKept},
		{"APositionBehindOrAheadIsAConflict", wrongPosition},
		{"AnotherDigestBeforeIsAConflict", wrongDigest},
		{"AMalformedBatchIsRefusedEverywhere", malformed},
		{"APayloadMayBeLarge", largePayload},
		{"ABatchMayBeLarge", largeBatch},
		{"ACancelledCallerGetsAllOrNothing", cancelled},
		{"PingWrites", func(t *testing.T, w *world) {
			if err := w.store.Ping(t.Context()); err != nil {
				t.Error(err)
			}
		}},
	}
}

// Promises: [HIST-1].
func gapless(t *testing.T, w *world) {
	for i := range 3 {
		w.append(t, func(b *store.Batch) {
			for j := range i + 1 {
				add(b, tenant, domain.StreamID(fmt.Sprintf("run/%d-%d", i, j)), 2, 2, "ab")
			}
		})
	}
	w.append(t, nil) // a batch without rows moves nothing
	rows := must[[]store.Row](t)(w.store.Read(t.Context(), part, 0, 100))
	if len(rows) != 6 || w.own.Position != 6 {
		t.Fatalf("%d rows, position %d", len(rows), w.own.Position)
	}
	for i, r := range rows {
		if r.Position != store.Position(i+1) {
			t.Errorf("row %d is at %d", i, r.Position)
		}
	}
	again := acquire(t, w.store, part)
	w.own.Epoch++
	same(t, "the next owner", again, w.own)
}

// Promises: [HIST-2].
func chained(t *testing.T, w *world) {
	var ends []store.Position
	for i := range 4 {
		w.append(t, func(b *store.Batch) {
			add(b, tenant, "run/a", uint64(i+1), 1, fmt.Sprint("event ", i))
			add(b, other, domain.StreamID(fmt.Sprint("run/b", i)), 3, 3, "")
		})
		ends = append(ends, w.own.Position)
	}
	var prev domain.Digest
	var from store.Position
	for _, end := range ends {
		rows := must[[]store.Row](t)(w.store.Read(t.Context(), part, from, int(end-from)))
		computed := store.BatchDigest(prev, rows)
		stored, epoch, err := w.store.BatchAt(t.Context(), part, end)
		if err != nil || stored != computed || epoch != w.own.Epoch {
			t.Errorf("batch at %d: stored %s of epoch %d (%v), computed %s", end, stored, epoch, err, computed)
		}
		prev, from = computed, end
	}
	if prev != w.own.Digest {
		t.Errorf("the chain ends with %s, the owner was told %s", prev, w.own.Digest)
	}
}

func batchEnds(t *testing.T, w *world) {
	w.append(t, func(b *store.Batch) {
		add(b, tenant, "run/a", 1, 1, "a")
		add(b, tenant, "run/b", 1, 1, "b")
	})
	for _, position := range []store.Position{0, 1, 3} {
		if _, _, err := w.store.BatchAt(t.Context(), part, position); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("batch at %d: %v", position, err)
		}
	}
	if _, _, err := w.store.BatchAt(t.Context(), "p-none", 2); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("batch of an unknown partition: %v", err)
	}
	if _, _, err := w.store.BatchAt(t.Context(), part, 2); err != nil {
		t.Errorf("batch at 2: %v", err)
	}
}

func readPages(t *testing.T, w *world) {
	w.append(t, func(b *store.Batch) {
		for i := range 10 {
			add(b, tenant, domain.StreamID(fmt.Sprint("run/", i)), 1, 1, fmt.Sprint(i))
		}
	})
	var seen []byte
	var from store.Position
	for {
		rows := must[[]store.Row](t)(w.store.Read(t.Context(), part, from, 3))
		if len(rows) == 0 {
			break
		}
		if len(rows) > 3 {
			t.Fatalf("%d rows for a limit of 3", len(rows))
		}
		for _, r := range rows {
			seen = append(seen, r.Events...)
		}
		from = rows[len(rows)-1].Position
	}
	same(t, "order", string(seen), "0123456789")
	if rows, err := w.store.Read(t.Context(), "p-none", 0, 3); err != nil || len(rows) != 0 {
		t.Errorf("unknown partition: %d rows, %v", len(rows), err)
	}
	if _, err := w.store.Read(t.Context(), part, 0, 0); err == nil {
		t.Error("a limit of 0 was accepted")
	}
}

func timesKept(t *testing.T, w *world) {
	local := time.FixedZone("elsewhere", 3*3600)
	times := []time.Time{
		at, at.Add(999 * time.Nanosecond).In(local), time.Unix(0, 0), time.Unix(-1, 1000), {}, at.AddDate(200, 0, 0),
	}
	for i, when := range times {
		w.append(t, func(b *store.Batch) {
			add(b, tenant, domain.StreamID(fmt.Sprint("run/", i)), 1, 1, "x")
			b.Rows[0].At, b.Heads[0].NextWake, b.At = when, when, when
		})
		rows := must[[]store.Row](t)(w.store.Read(t.Context(), part, store.Position(i), 1))
		want := time.UnixMicro(when.UnixMicro()).UTC()
		if !rows[0].At.Equal(want) || rows[0].At.Location() != time.UTC || rows[0].At.IsZero() != when.IsZero() {
			t.Errorf("wrote %v, read %v", when, rows[0].At)
		}
		h := must[store.History](t)(w.store.Load(t.Context(), tenant, rows[0].Stream, false, 0))
		if !h.Head.NextWake.Equal(want) || h.Head.NextWake.IsZero() != when.IsZero() {
			t.Errorf("wrote wake-up %v, read %v", when, h.Head.NextWake)
		}
	}
}

func wrongPosition(t *testing.T, w *world) {
	first := w.append(t, func(b *store.Batch) { add(b, tenant, "run/a", 1, 1, "a") })
	w.refused(t, first, store.ErrConflict)
	ahead := w.own
	ahead.Position += 5
	w.refused(t, batch(ahead, func(b *store.Batch) { add(b, tenant, "run/b", 1, 1, "b") }), store.ErrConflict)
	w.refused(t, batch(ahead, func(b *store.Batch) {
		b.Cursors = []store.Cursor{{Reactor: "r", Position: 1}}
	}), store.ErrConflict)
}

// Promises: [HIST-2].
func wrongDigest(t *testing.T, w *world) {
	w.append(t, func(b *store.Batch) { add(b, tenant, "run/a", 1, 1, "a") })
	fork := w.own
	fork.Digest = domain.DigestOf([]byte("another history"))
	w.refused(t, batch(fork, func(b *store.Batch) { add(b, tenant, "run/b", 1, 1, "b") }), store.ErrConflict)
}

func malformed(t *testing.T, w *world) {
	w.append(t, func(b *store.Batch) { add(b, tenant, "run/a", 1, 1, "a") })
	for name, spoil := range map[string]func(*store.Batch){
		"no partition":         func(b *store.Batch) { b.Partition = "" },
		"no epoch":             func(b *store.Batch) { b.Epoch = 0 },
		"digest of other rows": func(b *store.Batch) { b.Digest = domain.DigestOf(nil) },
		"position gap": func(b *store.Batch) {
			b.Rows[0].Position++
			b.Digest = store.BatchDigest(b.PrevDigest, b.Rows)
		},
		"row without head":     func(b *store.Batch) { b.Heads = nil },
		"head of two versions": func(b *store.Batch) { b.Heads[0].Version++ },
		"two heads":            func(b *store.Batch) { b.Heads = append(b.Heads, b.Heads[0]) },
		"two rows": func(b *store.Batch) {
			b.Rows = append(b.Rows, b.Rows[0])
			seal(b)
		},
		"no events":       func(b *store.Batch) { b.Rows[0].Count = 0; seal(b) },
		"no tenant":       func(b *store.Batch) { b.Rows[0].Tenant, b.Heads[0].Tenant = "", ""; seal(b) },
		"NUL in a stream": func(b *store.Batch) { b.Rows[0].Stream, b.Heads[0].Stream = "run/\x00", "run/\x00"; seal(b) },
		"key not UTF-8": func(b *store.Batch) {
			b.Keys = []store.Key{{Tenant: tenant, Scope: "client/x/y", Key: "\xff", At: at}}
		},
		"run without tenant":     func(b *store.Batch) { b.Runs = []store.RunRow{runRow("", 1)} },
		"counter without name":   func(b *store.Batch) { b.Counters = []store.Counter{{Tenant: tenant, Value: 1}} },
		"cursor without reactor": func(b *store.Batch) { b.Cursors = []store.Cursor{{Position: 1}} },
		"repository without a name": func(b *store.Batch) {
			b.Repositories = []store.RepositoryRow{{Tenant: tenant, Repository: "rep_1"}}
		},
		"runner without a pool": func(b *store.Batch) {
			b.Runners = []store.RunnerRow{{Tenant: tenant, Runner: "rnr_1"}}
		},
		"checkpoint of version 0": func(b *store.Batch) {
			b.Checkpoints = []store.Checkpoint{{Tenant: tenant, Stream: "run/b"}}
		},
	} {
		b := batch(w.own, func(b *store.Batch) { add(b, tenant, "run/b", 1, 1, "b") })
		spoil(&b)
		t.Run(name, func(t *testing.T) { w.refused(t, b, store.ErrInvalid) })
	}
}

func largePayload(t *testing.T, w *world) {
	payload := bytes.Repeat([]byte("0123456789abcde\x00"), 1<<16)
	w.append(t, func(b *store.Batch) {
		add(b, tenant, "run/large", 1, 1, string(payload))
		b.Checkpoints = []store.Checkpoint{
			{Tenant: tenant, Stream: "run/large", Version: 1, Encoding: encoding, State: payload},
		}
	})
	h := must[store.History](t)(w.store.Load(t.Context(), tenant, "run/large", false, 0))
	if len(h.Rows) != 1 || !bytes.Equal(h.Rows[0].Events, payload) {
		t.Error("the payload came back changed")
	}
	h = must[store.History](t)(w.store.Load(t.Context(), tenant, "run/large", true, encoding))
	if h.Checkpoint == nil || !bytes.Equal(h.Checkpoint.State, payload) || len(h.Rows) != 0 {
		t.Error("the checkpoint came back changed")
	}
}

func largeBatch(t *testing.T, w *world) {
	const rows = 5000
	b := w.append(t, func(b *store.Batch) {
		for i := range rows {
			add(b, tenant, domain.StreamID(fmt.Sprint("run/", i)), 1, 1, fmt.Sprint("payload ", i))
		}
	})
	got := must[[]store.Row](t)(w.store.Read(t.Context(), part, 0, rows+1))
	if len(got) != rows || store.BatchDigest("", got) != b.Digest {
		t.Errorf("%d rows came back, with digest %s", len(got), store.BatchDigest("", got))
	}
	if heads := must[[]store.Head](t)(w.store.Live(t.Context(), part)); len(heads) != rows {
		t.Errorf("%d live streams", len(heads))
	}
}

func cancelled(t *testing.T, w *world) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := batch(w.own, func(b *store.Batch) { add(b, tenant, "run/a", 1, 1, "a") })
	before := w.everything(t)
	if err := w.store.Append(ctx, b); !errors.Is(err, context.Canceled) {
		t.Errorf("append with a cancelled context: %v", err)
	}
	same(t, "after a cancelled append", w.everything(t), before)

	// Cancelled at some moment of the append: whatever is answered, it must be the truth.
	for i := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		b := batch(w.own, func(b *store.Batch) {
			for j := range 20 {
				add(b, tenant, domain.StreamID(fmt.Sprintf("run/%d-%d", i, j)), 1, 1, "a")
			}
		})
		answer := make(chan error, 1)
		go func() { answer <- w.store.Append(ctx, b) }()
		for range i * 50 {
			_ = ctx.Err() // a little later every time, without a clock
		}
		cancel()
		err := <-answer
		own := acquire(t, w.store, part)
		switch own.Position {
		case w.own.Position:
			if err == nil {
				t.Fatal("acknowledged, but not there")
			}
		case after(w.own, b).Position:
			if err != nil && !errors.Is(err, store.ErrUnknown) {
				t.Fatalf("there, but the answer was: %v", err)
			}
		default:
			t.Fatalf("a part of the batch is there: position %d", own.Position)
		}
		w.own = own
	}
}

package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

func (s *suite) lossPromises() []promise {
	return []promise{
		{"ALossRaisesTheEpochAndIsKept", lossKept},
		{"ALossCoversTokensOfWhatWasLost", lossCovers},
	}
}

// Promises: [BACKUP-7].
func lossKept(t *testing.T, w *world) {
	b := w.append(t, func(b *store.Batch) {
		add(b, tenant, "run/a", 1, 1, "x")
		add(b, other, "run/b", 1, 1, "y")
		add(b, other, "run/c", 1, 1, "z")
	})
	want := store.Loss{Partition: part, Kind: store.LossAccepted, Through: 12, Actor: "ann@host",
		Note: "standby promoted", At: at}
	got := must[store.Loss](t)(w.store.RecordLoss(t.Context(), want))
	want.Held, want.Digest, want.Epoch = 3, b.Digest, store.EpochAfterLoss(w.own.Epoch)
	same(t, "the record", got, want)
	late := batch(w.own, func(b *store.Batch) { add(b, tenant, "run/late", 1, 1, "x") })
	if err := w.store.Append(t.Context(), late); !errors.Is(err, store.ErrFenced) {
		t.Errorf("an owner of before appends: %v", err)
	}
	next := acquire(t, w.store, part)
	if next.Epoch <= want.Epoch || next.Position != 3 {
		t.Errorf("the next owner has %+v", next)
	}
	again := must[store.Loss](t)(w.store.RecordLoss(t.Context(),
		store.Loss{Partition: part, Kind: store.LossRestored, At: at.Add(time.Hour)}))
	if again.Epoch <= next.Epoch {
		t.Errorf("a second loss has epoch %d after %d", again.Epoch, next.Epoch)
	}
	same(t, "the records", must[[]store.Loss](t)(w.store.Losses(t.Context(), part)), []store.Loss{want, again})
	if l := must[[]store.Loss](t)(w.store.Losses(t.Context(), "p-two")); len(l) != 0 {
		t.Errorf("another partition has losses %v", l)
	}
	if _, err := w.store.RecordLoss(t.Context(), store.Loss{Partition: "p-none",
		Kind: store.LossRestored}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a loss of no partition: %v", err)
	}
	for _, bad := range []store.Loss{{Kind: store.LossAccepted}, {Partition: part, Kind: "shrugged", Actor: "me",
		Through: 1},
		{Partition: part, Kind: store.LossAccepted, Through: 1}, {Partition: part, Kind: store.LossAccepted, Actor: "me"}} {
		if _, err := w.store.RecordLoss(t.Context(), bad); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("loss %+v: %v", bad, err)
		}
	}
}

// Promises: [BACKUP-7].
func lossCovers(t *testing.T, w *world) {
	w.append(t, func(b *store.Batch) { add(b, tenant, "run/a", 1, 1, "x") })
	loss := must[store.Loss](t)(w.store.RecordLoss(t.Context(),
		store.Loss{Partition: part, Kind: store.LossAccepted, Through: 12, Actor: "me", At: at}))
	for _, c := range []struct {
		partition       domain.PartitionID
		epoch, position uint64
		covered         bool
	}{
		{part, loss.Epoch - 1, 12, true}, {part, 1, 4, true}, {part, loss.Epoch - 1, 13, false},
		{part, loss.Epoch, 12, false}, {"p-two", 1, 4, false},
	} {
		token := domain.Token{Partition: c.partition, Epoch: c.epoch, Position: c.position}
		if got := loss.Covers(token); got != c.covered {
			t.Errorf("token %s is covered: %v", token, got)
		}
	}
	loss.Kind = store.LossRestored
	if loss.Covers(domain.Token{Partition: part, Epoch: 1, Position: 4}) {
		t.Error("a restore alone covers a token")
	}
}

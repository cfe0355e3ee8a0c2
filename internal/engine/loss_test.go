package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

func (h *house) add(n int) (Ack, error) {
	return h.engine.Submit(context.Background(), Envelope{Tenant: "t", Partition: home, Stream: "tally/a",
		Command: tallyCommand{do: "add", n: n}})
}

// A token of lost history stops the partition; accepting the loss lets it go on, with the
// token and without a restart.
func TestAcceptingALossLetsThePartitionGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		old := newHouse(t, st, nil)
		if _, err := old.add(1); err != nil {
			t.Fatal(err)
		}
		backup := st.Clone()
		lost, err := old.add(2)
		if err != nil {
			t.Fatal(err)
		}
		old.engine.Close()

		if _, err := backup.RecordLoss(t.Context(), store.Loss{Partition: home, Kind: store.LossRestored}); err != nil {
			t.Fatal(err)
		}
		h := newHouse(t, backup, nil)
		defer h.engine.Close()
		// The new history grows beyond the lost position, and its own tokens are fine.
		for range 3 {
			ack, err := h.add(5)
			if err != nil {
				t.Fatal(err)
			}
			if err := h.engine.Present(t.Context(), ack.Token); err != nil {
				t.Errorf("a token of the present: %v", err)
			}
		}
		for range 2 {
			err = h.engine.Present(t.Context(), lost.Token)
			if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeHistoryLost {
				t.Fatalf("a token of what was lost: %v", err)
			}
		}
		synctest.Wait()
		if _, err := h.add(1); err == nil {
			t.Error("the partition goes on by itself")
		}
		accepted, err := backup.RecordLoss(t.Context(), store.Loss{Partition: home, Kind: store.LossAccepted,
			Through: store.Position(lost.Token.Position), Actor: "ann", At: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * lossPoll)
		synctest.Wait()
		if err := h.engine.Present(t.Context(), lost.Token); err != nil {
			t.Errorf("a token of an accepted loss: %v", err)
		}
		ack, err := h.add(1)
		if err != nil || ack.Token.Epoch <= accepted.Epoch || ack.Reply != 1+5+5+5+1 {
			t.Errorf("after the loss was accepted: %+v, %v", ack, err)
		}
		further := lost.Token
		further.Position += 7
		further.Proof = ours.Prove(further)
		err = h.engine.Present(t.Context(), further)
		if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeHistoryLost {
			t.Errorf("a token of more than was accepted: %v", err)
		}
	})
}

// A loss that is accepted before anybody came with a token fences the running owner, and
// the server takes the partition again.
func TestALossThatIsAcceptedInAdvance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		h := newHouse(t, st, nil)
		defer h.engine.Close()
		if _, err := h.add(1); err != nil {
			t.Fatal(err)
		}
		if _, err := st.RecordLoss(t.Context(), store.Loss{Partition: home, Kind: store.LossAccepted, Through: 9,
			Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		if _, err := h.add(1); err == nil {
			t.Error("an owner of before the loss still writes")
		}
		time.Sleep(2 * lossPoll)
		synctest.Wait()
		if ack, err := h.add(1); err != nil || ack.Reply != 2 {
			t.Errorf("after the loss: %+v, %v", ack, err)
		}
	})
}

// skipper is a reactor that can't do anything with one stream.
type skipper struct{ seen []domain.StreamID }

func (s *skipper) Name() string { return "skipper" }

func (s *skipper) React(_ context.Context, row Committed) error {
	if row.Stream == "tally/sick" {
		return domain.Reject(domain.CodeStreamQuarantined, "damaged")
	}
	s.seen = append(s.seen, row.Stream)
	return nil
}

// A row of a damaged stream holds back no reactor: neither one that it refuses, nor one that
// nobody can decode.
func TestReactorsPassOverDamagedRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		own, err := st.Acquire(t.Context(), home, "earlier")
		if err != nil {
			t.Fatal(err)
		}
		b := store.Batch{Partition: home, Epoch: own.Epoch}
		for i, row := range []struct{ stream, events string }{
			{"tally/one", `[{"do":"add"}]`}, {"tally/garbage", `garbage`}, {"tally/sick", `[{"do":"add"}]`},
			{"unknown/kind", `[]`}, {"tally/two", `[{"do":"add"}]`},
		} {
			id := domain.StreamID(row.stream)
			b.Rows = append(b.Rows, store.Row{Position: store.Position(i + 1), Tenant: "t", Stream: id, Version: 1, Count: 1,
				Events: []byte(row.events)})
			b.Heads = append(b.Heads, store.Head{Tenant: "t", Stream: id, Version: 1, Live: true})
		}
		b.Digest = store.BatchDigest("", b.Rows)
		if err := st.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		s := &skipper{}
		h := newHouse(t, st, func(e *Engine) { e.React(s) })
		defer h.engine.Close()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(s.seen) != 2 || s.seen[0] != "tally/one" || s.seen[1] != "tally/two" {
			t.Errorf("the reactor got %v", s.seen)
		}
		if problems := h.engine.Status()[0].Problems; len(problems) != 2 {
			t.Errorf("quarantined %v", problems)
		}
	})
}

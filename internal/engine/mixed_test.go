package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

// A newer server writes what its older neighbour reads until that one is gone.
// Promises: [FLEET-11].
func TestTwoVersionsWriteWhatBothRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t)
		defer s.close()
		s.change = func(name string, c *Config) {
			kind := tallyKind()
			decode := kind.DecodeEvents
			if strings.HasPrefix(name, "new") {
				c.Format = 2
				kind.Lower = func(event any, format uint32) (any, error) {
					e := event.(tallyEvent)
					if format < 2 && e.Do == "refused" {
						return nil, errors.New("refusals have no form before format 2")
					}
					if format >= 2 {
						e.Hue = "red" // the field that format 2 brings
					}
					return e, nil
				}
			} else {
				kind.DecodeEvents = func(data []byte) ([]any, error) {
					if strings.Contains(string(data), "hue") {
						return nil, errors.New("unknown field")
					}
					return decode(data)
				}
			}
			c.Kinds = []*Kind{kind}
		}
		member := func(name string, format uint32) store.Member {
			return store.Member{Name: name, Session: name, Format: format}
		}
		renew := func(m store.Member) {
			t.Helper()
			if _, err := s.store.Renew(t.Context(), m, time.Hour); err != nil {
				t.Fatal(err)
			}
			s.look()
			synctest.Wait()
		}
		s.open("old")
		s.open("new")
		renew(member("old", 1))
		renew(member("new", 2))
		s.give("new", home)
		s.must("new", "x", tallyCommand{do: "add", n: 1})
		for _, at := range []string{"new", "old"} { // what has no older form is refused, and may be tried again
			_, err := s.submit(at, "x", tallyCommand{do: "refuse"})
			if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeUpgradeUnfinished {
				t.Fatalf("at %s: %v", at, err)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		s.wants("old", "followed", map[string]int{"x": 1})
		s.give("old", home) // they may take over from each other in both directions
		s.must("new", "x", tallyCommand{do: "add", n: 1})
		s.give("new", home)
		s.must("old", "x", tallyCommand{do: "add", n: 1})
		rows, _ := s.store.Read(t.Context(), home, 0, 100)
		for _, r := range rows {
			if strings.Contains(string(r.Events), "hue") {
				t.Fatalf("the old one can't read %s", r.Events)
			}
		}
		if err := s.store.Leave(t.Context(), member("old", 1)); err != nil {
			t.Fatal(err)
		}
		renew(member("new", 2))
		if ack := s.must("new", "x", tallyCommand{do: "refuse"}); ack.Refusal == nil {
			t.Fatalf("after the upgrade: %+v", ack)
		}
		rows, _ = s.store.Read(t.Context(), home, store.Position(len(rows)), 1)
		if len(rows) != 1 || !strings.Contains(string(rows[0].Events), "hue") {
			t.Fatalf("after the upgrade: %s", rows[0].Events)
		}
		if _, err := s.store.Renew(t.Context(), member("old", 1), time.Hour); !errors.Is(err, store.ErrTooOld) {
			t.Fatalf("an old one comes back: %v", err)
		}
	})
}

// Promises: [FLEET-11].
func TestACommandThatItsOwnerDoesNotKnowIsRefusedUntilTheUpgrade(t *testing.T) {
	s := newStreet(t, "a", "b")
	defer s.close()
	s.give("a", home)
	command := []byte(`{"Do":"add","N":1,"Novelty":true}`)
	for _, w := range []Wire{
		{Version: WireVersion, Partition: home, Tenant: "tnt_a", Stream: "tally/x", Command: command},
		{Version: WireVersion, Partition: home, Tenant: "tnt_a", Stream: "novelty/x", Command: []byte(`{}`)},
		{Version: WireVersion + 1, Partition: home, Tenant: "tnt_a", Stream: "tally/x", Command: []byte(`{}`)},
	} {
		ack, err := s.engines["a"].Receive(t.Context(), w)
		if err != nil || ack.Rejected == nil || ack.Rejected.Code != domain.CodeUpgradeUnfinished {
			t.Errorf("%+v: %+v, %v", w, ack, err)
		}
	}
	ack, err := s.engines["b"].Receive(t.Context(), Wire{Version: WireVersion, Partition: home, Tenant: "tnt_a",
		Stream: "tally/x", Command: []byte(`{"Do":"add","N":1}`)})
	if err != nil || ack.Rejected == nil || ack.Rejected.Code != domain.CodeNotOwner {
		t.Errorf("at a server that does not own it: %+v, %v", ack, err)
	}
}

// A row that can't be read ails its stream, at the follower and at whoever takes over; all
// others go on.
// Promises: [HIST-9].
func TestAnUnreadableRowAilsOneStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t)
		defer s.close()
		s.change = func(_ string, c *Config) {
			c.Paranoid = false // it would find out before
			encode := c.Kinds[0].EncodeEvents
			c.Kinds[0].EncodeEvents = func(events []any, format uint32) ([]byte, error) {
				if events[0].(tallyEvent).N == 666 {
					return []byte("not what it was"), nil
				}
				return encode(events, format)
			}
		}
		s.open("a")
		s.open("b")
		s.give("a", home)
		for _, stream := range []string{"sick", "well"} {
			s.must("a", stream, tallyCommand{do: "add", n: 1})
		}
		s.must("a", "sick", tallyCommand{do: "add", n: 666})
		s.must("a", "well", tallyCommand{do: "add", n: 1})
		time.Sleep(time.Second)
		synctest.Wait()
		followed := s.engines["b"].Followed()
		if len(followed) != 2 || len(followed[0].Problems) != 1 || !strings.Contains(followed[0].Problems[0], "tally/sick") {
			t.Fatalf("followed %+v", followed)
		}
		if _, totals, _, _ := s.eyes["b"].seen(); totals["well"] != 2 {
			t.Fatalf("totals %v", totals)
		}
		s.give("b", home)
		synctest.Wait()
		if _, _, ready, _ := s.eyes["b"].seen(); ready != "owned" {
			t.Fatal("the partition does not get ready")
		}
		s.must("b", "well", tallyCommand{do: "add", n: 1})
		_, err := s.submit("b", "sick", tallyCommand{do: "add", n: 1})
		if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeStreamQuarantined {
			t.Fatalf("the sick stream: %v", err)
		}
	})
}

// A database that comes back with less than it showed stops the partition wherever it is
// owned, until somebody accepts the loss.
// Promises: [HIST-6].
func TestAStoreThatWentBackStopsThePartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, "a", "b")
		defer s.close()
		s.give("a", home)
		s.must("a", "x", tallyCommand{do: "add", n: 1})
		s.look()
		old := s.store.Clone()
		lost := s.must("b", "x", tallyCommand{do: "add", n: 1}).Token
		s.look()
		s.store.Become(old) // the standby that was promoted lacks the last batch
		s.look()
		synctest.Wait()
		for _, at := range []string{"a", "b"} {
			_, err := s.submit(at, "x", tallyCommand{do: "add", n: 1})
			if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeHistoryLost {
				t.Fatalf("at %s: %v", at, err)
			}
			err = s.engines[at].Present(t.Context(), lost)
			if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeHistoryLost {
				t.Fatalf("present at %s: %v", at, err)
			}
		}
		h, _ := s.look().Holding(home)
		if err := s.engines["b"].Own(t.Context(), home, h.Epoch); err != nil {
			t.Fatal(err)
		}
		s.look()
		synctest.Wait()
		_, err := s.submit("b", "x", tallyCommand{do: "add", n: 1})
		if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeHistoryLost {
			t.Fatalf("another owner: %v", err)
		}
		_, err = s.store.RecordLoss(t.Context(), store.Loss{Partition: home, Kind: store.LossAccepted,
			Through: store.Position(lost.Position), Actor: "someone"})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range s.engines {
			h, _ := s.look().Holding(home)
			e.Fenced(t.Context(), home, h.Epoch)
		}
		synctest.Wait()
		s.give("a", home)
		synctest.Wait()
		if ack := s.must("b", "x", tallyCommand{do: "add", n: 1}); ack.Reply != 2 {
			t.Fatalf("after the loss was accepted: %+v", ack)
		}
		if err := s.engines["b"].Present(t.Context(), lost); err != nil {
			t.Fatalf("the lost token after that: %v", err)
		}
		s.wants("b", "followed", map[string]int{"x": 2})
	})
}

// An owner that outlives the loss of what it wrote says what is stored and not what it
// remembers, and a partition that stands still can be moved: a drain does not wait for it,
// and accepting the loss does not wait for a move.
// Promises: [HIST-6].
func TestAStoppedPartitionIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, "a", "b")
		defer s.close()
		s.give("a", home)
		s.must("a", "x", tallyCommand{do: "add", n: 1})
		old := s.store.Clone()
		lost := s.must("a", "x", tallyCommand{do: "add", n: 1}).Token
		s.look()
		s.store.Become(old)
		err := s.engines["a"].Present(t.Context(), lost)
		if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeHistoryLost ||
			!strings.Contains(r.Message, fmt.Sprintf("and this server holds %d: ", lost.Position-1)) {
			t.Fatalf("present at the owner: %v", err)
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.engines["a"].Release(ctx, home); err != nil || ctx.Err() != nil {
			t.Fatalf("release: %v, %v", err, ctx.Err())
		}
		if h, _ := s.look().Holding(home); h.Owner != "" {
			t.Fatalf("after the release: %+v", h)
		}
		s.give("b", home)
		synctest.Wait()
		_, err = s.submit("b", "x", tallyCommand{do: "add", n: 1})
		if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeHistoryLost {
			t.Fatalf("the next owner: %v", err)
		}
	})
}

// Promises: [FLEET-9].
func TestAYieldedServerAnswersForNothing(t *testing.T) {
	s := newStreet(t)
	defer s.close()
	s.change = func(_ string, c *Config) { c.Patience = time.Millisecond }
	s.open("a")
	s.open("b")
	s.give("a", home)
	s.engines["a"].Yield(true)
	for _, at := range []string{"a", "b"} {
		_, err := s.submit(at, "x", tallyCommand{do: "add", n: 1})
		if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeNotOwner {
			t.Errorf("at %s: %v", at, err)
		}
	}
	s.engines["a"].Yield(false)
	s.must("b", "x", tallyCommand{do: "add", n: 1})
}

// Promises: [FLEET-14].
func TestACommandWaitsForAPartitionBetweenTwoOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, "a", "b", "c")
		defer s.close()
		s.give("a", home)
		if err := s.engines["a"].Release(t.Context(), home); err != nil {
			t.Fatal(err)
		}
		s.look()
		got := make(chan Ack, 1)
		go func() { got <- s.must("c", "x", tallyCommand{do: "add", n: 1}) }()
		select {
		case ack := <-got:
			t.Fatalf("nobody owns it: %+v", ack)
		case <-time.After(3 * time.Second):
		}
		s.give("b", home)
		if ack := <-got; ack.Token.Epoch != 2 {
			t.Fatalf("ack %+v", ack)
		}
		// Without patience it is told to try again.
		if err := s.engines["b"].Release(t.Context(), home); err != nil {
			t.Fatal(err)
		}
		s.look()
		_, err := s.submit("c", "x", tallyCommand{do: "add", n: 1})
		if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeNotOwner {
			t.Fatalf("after the patience: %v", err)
		}
	})
}

// Whatever waits when an engine closes gets an answer.
func TestNobodyWaitsForAnEngineThatClosed(t *testing.T) {
	st := memory.New()
	h := newHouse(t, st, nil)
	hang := make(chan struct{})
	st.SetHooks(memory.Hooks{Before: func(c memory.Call) error {
		if c.Op == "key" || c.Op == "load" {
			<-hang
		}
		return nil
	}})
	answers := make(chan error, 2)
	for _, key := range []*Key{nil, {Scope: ClientScope("p", "Add"), Key: "k"}} {
		env := envelope("x", tallyCommand{do: "add", n: 1})
		env.Key = key
		err := h.engine.Send(t.Context(), env, func(_ Ack, err error) { answers <- err })
		if err != nil {
			t.Fatal(err)
		}
	}
	closed := make(chan struct{})
	go func() { h.engine.Close(); close(closed) }()
	for range 2 {
		if r, ok := domain.AsRejection(<-answers); !ok || r.Code != domain.CodeNotOwner {
			t.Errorf("answer %v", r)
		}
	}
	close(hang)
	<-closed
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

// Promises: [FLEET-5].
func TestAFollowerShowsExactlyWhatTheOwnerCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, "a", "b")
		defer s.close()
		s.give("a", home)
		synctest.Wait()
		for i := range 20 {
			s.must("a", fmt.Sprint("s", i%3), tallyCommand{do: "add", n: i})
			if i%7 == 0 {
				s.engines["b"].News(home, store.Position(i)) // mostly right, sometimes late
			}
		}
		s.must("a", "s2", tallyCommand{do: "done"})
		s.must("a", "s2", tallyCommand{do: "add", n: 1}) // of a stream that left memory
		time.Sleep(time.Second)
		synctest.Wait()
		owner, _, _, _ := s.eyes["a"].seen()
		follower, _, _, _ := s.eyes["b"].seen()
		if len(owner) != 22 || !slices.Equal(owner, follower) {
			t.Fatalf("owner    %q\nfollower %q", owner, follower)
		}
		s.wants("b", "followed", map[string]int{"s0": 63, "s1": 70, "s2": 58})
	})
}

// A follower that begins while its owner goes on shows a state, and then all that follows.
// Promises: [FLEET-5].
func TestAFollowerMayBeginAtAnyMoment(t *testing.T) {
	s := newStreet(t, "a")
	defer s.close()
	s.give("a", home)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			stream := fmt.Sprint("s", i%11)
			do := "add"
			if i%13 == 0 {
				do = "done"
			}
			if _, err := s.submit("a", stream, tallyCommand{do: do, n: 1}); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for i := range 12 {
		name := fmt.Sprint("f", i)
		e := s.open(name)
		for {
			if _, _, ready, _ := s.eyes[name].seen(); ready != "" && s.eyes[name].count() > 5 {
				break
			}
			s.look()
		}
		_, _, _, problems := s.eyes[name].seen()
		if len(problems) > 0 {
			t.Errorf("%s: %q", name, problems)
		}
		s.mu.Lock()
		delete(s.engines, name)
		s.mu.Unlock()
		e.Close()
	}
	close(stop)
	<-stopped
}

func (o *eye) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.rows)
}

func TestACommandIsForwardedAndItsEffectIsSeenBeforeItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, "a", "b")
		defer s.close()
		s.give("a", home)
		synctest.Wait()
		for i := 1; i <= 5; i++ {
			ack := s.must("b", "x", tallyCommand{do: "add", n: 1})
			if ack.Reply != i || ack.Version != uint64(i) || ack.Token.Position != uint64(i) || ack.Token.Partition != home {
				t.Fatalf("ack %+v", ack)
			}
			s.wants("b", "followed", map[string]int{"x": i})
		}
		if err := s.engines["b"].Present(t.Context(), s.must("b", "x", tallyCommand{do: "add", n: 1}).Token); err != nil {
			t.Fatalf("present at the follower: %v", err)
		}
		_, err := s.submit("b", "x", tallyCommand{do: "reject"})
		if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeInvalidArgument {
			t.Fatalf("rejected: %v", err)
		}
		if ack := s.must("b", "x", tallyCommand{do: "refuse"}); ack.Refusal == nil || ack.Version != 7 {
			t.Fatalf("refusal %+v", ack)
		}
		env := envelope("n", tallyCommand{do: "add", n: 1})
		env.Counter = "runs"
		env.Key = &Key{Scope: ClientScope("p", "Add"), Key: "k", Body: domain.DigestOf(nil)}
		for i := range 3 {
			ack, err := s.engines["b"].Submit(t.Context(), env)
			if err != nil || ack.Repeat != (i > 0) || i > 0 && string(ack.Stored) != "1" {
				t.Fatalf("try %d: %+v %v", i, ack, err)
			}
		}
	})
}

// Promises: [FLEET-7].
func TestALostReplyIsAnUnknownOutcomeAndTheKeyFindsIt(t *testing.T) {
	s := newStreet(t, "a", "b")
	defer s.close()
	s.give("a", home)
	env := envelope("x", tallyCommand{do: "add", n: 5})
	env.Key = &Key{Scope: ClientScope("p", "Add"), Key: "k1", Body: domain.DigestOf(nil)}
	s.after = func(string, Wire, WireAck) error { return errors.New("connection lost") }
	_, err := s.engines["b"].Submit(t.Context(), env)
	if _, rejected := domain.AsRejection(err); err == nil || rejected || !errors.Is(err, domain.ErrRetry) {
		t.Fatalf("lost reply: %v", err)
	}
	s.after = nil
	ack, err := s.engines["b"].Submit(t.Context(), env)
	if err != nil || !ack.Repeat || string(ack.Stored) != "5" {
		t.Fatalf("again: %+v, %v", ack, err)
	}
}

// Promises: [FLEET-6].
func TestACommandIsForwardedOnceOnly(t *testing.T) {
	s := newStreet(t, "a", "b", "c")
	defer s.close()
	s.give("a", home)
	hops := 0
	s.between = func(string, Wire) error { hops++; return nil }
	stale := store.Holding{Ownership: store.Ownership{Partition: home, Epoch: 1}, Owner: "c"}
	s.engines["b"].seats[home].holding.Store(&stale) // b believes in an owner that is none
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := s.engines["b"].Submit(ctx, envelope("x", tallyCommand{do: "add", n: 1}))
	if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeNotOwner || hops == 0 {
		t.Fatalf("%v after %d hops", err, hops)
	}
	if n, _ := s.store.Read(t.Context(), home, 0, 10); len(n) != 0 {
		t.Fatalf("%d rows", len(n))
	}
}

// A hung owner that wakes is fenced by its first write, changes nothing, and follows.
// Promises: [FLEET-1].
func TestAHungOwnerThatWakesChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, "a", "b")
		defer s.close()
		s.give("a", home)
		s.must("a", "x", tallyCommand{do: "add", n: 1})
		s.must("a", "x", tallyCommand{do: "ring", at: time.Now().Add(time.Hour)})
		h, _ := s.look().Holding(home)
		if err := s.engines["b"].Own(t.Context(), home, h.Epoch); err != nil { // a hangs and sees nothing
			t.Fatal(err)
		}
		s.must("b", "x", tallyCommand{do: "add", n: 1})
		before, _ := s.store.Read(t.Context(), home, 0, 100)
		_, err := s.submit("a", "x", tallyCommand{do: "add", n: 100})
		if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeNotOwner {
			t.Fatalf("the old owner: %v", err)
		}
		if now, _ := s.store.Read(t.Context(), home, 0, 100); len(now) != len(before) {
			t.Fatalf("%d rows, then %d", len(before), len(now))
		}
		s.look()
		synctest.Wait()
		s.wants("a", "followed", map[string]int{"x": 2})
		s.wants("b", "owned", map[string]int{"x": 2})
		if ack := s.must("a", "x", tallyCommand{do: "add", n: 1}); ack.Reply != 3 {
			t.Fatalf("through the old owner: %+v", ack)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		got, err := s.engines["a"].Read(t.Context(), "tnt_a", "tally/x", false)
		if err != nil || got.State.(*tally).Rung != 1 {
			t.Fatalf("the timer at the new owner: %+v, %v", got.State, err)
		}
	})
}

// Who takes a partition over knows the terms that began before, also those that nobody has told
// it of: a word of an earlier leader that was kept on the way comes too late there as well.
// Promises: [CMD-15].
func TestANewOwnerKnowsTheTermsThatBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, "a", "b")
		defer s.close()
		s.give("a", home)
		for range 3 { // the partition of the pools changes hands, and none of these servers is there
			if _, err := s.store.Acquire(t.Context(), "pools", "another"); err != nil {
				t.Fatal(err)
			}
		}
		h, _ := s.look().Holding(home)
		say := func(at string, epoch uint64) error {
			env := envelope("x", tallyCommand{do: "add", n: 1})
			env.Term = Term{Of: "pools", Epoch: epoch}
			_, err := s.engines[at].Submit(t.Context(), env)
			return err
		}
		if err := say("b", 2); err != nil { // forwarded to an owner that began before the third term
			t.Errorf("the owner before: %v", err)
		}
		if err := s.engines["b"].Own(t.Context(), home, h.Epoch); err != nil {
			t.Fatal(err)
		}
		if r, ok := domain.AsRejection(say("b", 2)); !ok || r.Code != domain.CodeNotOwner {
			t.Errorf("an earlier term was answered with %v", r)
		}
		if err := say("b", 3); err != nil {
			t.Errorf("the term of now: %v", err)
		}
		if epoch := s.engines["b"].Epoch(home); epoch != h.Epoch+1 {
			t.Errorf("epoch %d after %d", epoch, h.Epoch)
		}
	})
}

// An append whose reply got lost while somebody else took over is settled by the log: what
// is there is acknowledged, what is not is refused, and the partition is not taken back.
func TestAnAppendInDoubtIsSettledWithoutTakingThePartitionBack(t *testing.T) {
	for _, arrives := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newStreet(t)
			defer s.close()
			hanging, wake := make(chan struct{}), make(chan struct{})
			s.change = func(name string, c *Config) {
				if name == "a" {
					c.Store = slow{c.Store, hanging, wake}
				}
			}
			s.open("a")
			s.open("b")
			s.give("a", home)
			s.must("a", "x", tallyCommand{do: "add", n: 1})
			synctest.Wait()
			hang := func(c memory.Call) error {
				if c.Op != "append" || c.Batch.Epoch != 1 {
					return nil
				}
				return store.ErrUnknown
			}
			hooks := memory.Hooks{Before: hang}
			if arrives {
				hooks = memory.Hooks{After: hang}
			}
			s.store.SetHooks(hooks)
			type result struct {
				ack Ack
				err error
			}
			got := make(chan result)
			go func() {
				ack, err := s.submit("a", "x", tallyCommand{do: "add", n: 10})
				got <- result{ack, err}
			}()
			<-hanging // the append came back without an answer, and a hangs before asking again
			h, _ := s.look().Holding(home)
			if err := s.engines["b"].Own(t.Context(), home, h.Epoch); err != nil {
				t.Fatal(err)
			}
			close(wake)
			r := <-got
			epoch := func() uint64 { h, _ := s.look().Holding(home); return h.Epoch }
			if arrives && (r.err != nil || r.ack.Reply != 11 || r.ack.Token.Epoch != 1 || r.ack.Token.Position != 2) {
				t.Fatalf("it arrived: %+v, %v", r.ack, r.err)
			}
			if rej, ok := domain.AsRejection(r.err); !arrives && (!ok || rej.Code != domain.CodeNotOwner) {
				t.Fatalf("it did not arrive: %+v, %v", r.ack, r.err)
			}
			if epoch() != 2 {
				t.Fatalf("the epoch is %d: somebody took it back", epoch())
			}
			if arrives {
				if err := s.engines["b"].Present(t.Context(), r.ack.Token); err != nil {
					t.Fatalf("its token at the new owner: %v", err)
				}
			}
			synctest.Wait()
			s.wants("a", "followed", map[string]int{"x": map[bool]int{true: 11, false: 1}[arrives]})
		})
	}
}

// slow makes Take of one engine wait: a process that hangs between two calls.
type slow struct {
	store.Store
	hanging, wake chan struct{}
}

func (s slow) Take(ctx context.Context, p domain.PartitionID, o string, epoch uint64) (store.Ownership, error) {
	if epoch > 0 {
		close(s.hanging)
		<-s.wake
	}
	return s.Store.Take(ctx, p, o, epoch)
}

// Promises: [FLEET-8].
func TestAReleaseEndsWhatIsUnderWayAndRefusesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t)
		defer s.close()
		gate, appending := make(chan struct{}), make(chan struct{})
		s.change = func(name string, c *Config) {
			if name == "a" {
				c.Store = gated{c.Store, appending, gate}
			}
		}
		s.open("a")
		s.open("b")
		s.give("a", home)
		s.must("a", "x", tallyCommand{do: "add", n: 1})
		first := make(chan error, 1)
		go func() {
			_, err := s.submit("a", "x", tallyCommand{do: "add", n: 1})
			first <- err
		}()
		<-appending
		released := make(chan error, 1)
		go func() { released <- s.engines["a"].Release(context.Background(), home) }()
		select {
		case <-released:
			t.Fatal("released while a batch was in flight")
		case <-time.After(time.Second):
		}
		var refused error
		late := envelope("x", tallyCommand{do: "add", n: 100})
		_ = s.engines["a"].Send(t.Context(), late, func(_ Ack, err error) { refused = err })
		close(gate)
		if err := <-first; err != nil {
			t.Fatalf("the batch in flight: %v", err)
		}
		if err := <-released; err != nil {
			t.Fatal(err)
		}
		if r, ok := domain.AsRejection(refused); !ok || r.Code != domain.CodeNotOwner {
			t.Fatalf("a command after the release began: %v", refused)
		}
		if h, _ := s.look().Holding(home); h.Owner != "" || h.Epoch != 1 {
			t.Fatalf("after the release: %+v", h)
		}
		s.give("b", home)
		synctest.Wait()
		s.wants("a", "followed", map[string]int{"x": 2})
		s.wants("b", "owned", map[string]int{"x": 2})
	})
}

// gated makes the append at position 1 wait.
type gated struct {
	store.Store
	appending, gate chan struct{}
}

func (g gated) Append(ctx context.Context, b store.Batch) error {
	if b.Prev == 1 {
		close(g.appending)
		<-g.gate
	}
	return g.Store.Append(ctx, b)
}

func TestATakeOverReadsNothingThatTheFollowerKnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, "a", "b")
		defer s.close()
		s.give("a", home)
		for i := range 50 {
			s.must("a", fmt.Sprint("s", i), tallyCommand{do: "add", n: 1})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		loads := 0
		s.store.SetHooks(memory.Hooks{Before: func(c memory.Call) error {
			if c.Op == "load" {
				loads++
			}
			return nil
		}})
		h, _ := s.look().Holding(home)
		if err := s.engines["b"].Own(t.Context(), home, h.Epoch); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.store.SetHooks(memory.Hooks{})
		_, totals, ready, problems := s.eyes["b"].seen()
		if loads != 0 || ready != "owned" || len(totals) != 50 || len(problems) > 0 {
			t.Fatalf("%d loads, %q with %d streams, problems %q", loads, ready, len(totals), problems)
		}
		if ack := s.must("b", "s7", tallyCommand{do: "add", n: 1}); ack.Reply != 2 || ack.Version != 2 {
			t.Fatalf("after the take-over: %+v", ack)
		}
	})
}

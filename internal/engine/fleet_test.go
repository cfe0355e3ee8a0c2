package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

// street is several engines over one store. They forward to each other as servers do, with
// every command and answer written out and read again.
type street struct {
	t     *testing.T
	store *memory.Store

	mu      sync.Mutex
	engines map[string]*Engine
	eyes    map[string]*eye
	between func(to string, w Wire) error            // before a command is delivered
	after   func(to string, w Wire, a WireAck) error // before its answer is
	change  func(name string, c *Config)             // of a new engine
}

func newStreet(t *testing.T, names ...string) *street {
	t.Helper()
	s := &street{t: t, store: memory.New(), engines: map[string]*Engine{}, eyes: map[string]*eye{}}
	for _, name := range names {
		s.open(name)
	}
	return s
}

func (s *street) open(name string) *Engine {
	s.t.Helper()
	cfg := Config{Store: s.store, Kinds: []*Kind{tallyKind()}, Partitions: []domain.PartitionID{home, "annex"},
		Owner: name, Paranoid: true, Fatal: func(err error) { s.t.Error(err) },
		Forward: func(ctx context.Context, to store.Holding, w Wire) (WireAck, error) { return s.carry(ctx, to.Owner, w) }}
	if s.change != nil {
		s.change(name, &cfg)
	}
	e, sees := New(cfg), &eye{}
	e.Observe(sees)
	if err := e.Start(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	s.engines[name], s.eyes[name] = e, sees
	s.mu.Unlock()
	return e
}

func (s *street) close() {
	for _, name := range sortedKeys(s.engines) {
		s.engines[name].Close()
	}
}

// carry is the wire.
func (s *street) carry(ctx context.Context, to string, w Wire) (WireAck, error) {
	s.mu.Lock()
	e, between, after := s.engines[to], s.between, s.after
	s.mu.Unlock()
	if e == nil {
		return WireAck{}, fmt.Errorf("dial %s: %w", to, ErrUnsent)
	}
	if between != nil {
		if err := between(to, w); err != nil {
			return WireAck{}, err
		}
	}
	var there Wire
	copyByJSON(s.t, w, &there)
	ack, err := e.Receive(ctx, there)
	if err != nil {
		return WireAck{}, err
	}
	if after != nil {
		if err := after(to, w, ack); err != nil {
			return WireAck{}, err
		}
	}
	var back WireAck
	copyByJSON(s.t, ack, &back)
	return back, nil
}

func copyByJSON(t *testing.T, from, to any) {
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		t.Error(err)
	}
}

// look shows every engine the same picture.
func (s *street) look() store.Picture {
	s.t.Helper()
	p, err := s.store.Picture(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range sortedKeys(s.engines) {
		s.engines[name].See(context.Background(), p)
	}
	return p
}

// give makes an engine the owner by taking from whoever has it, and tells everybody.
func (s *street) give(name string, p domain.PartitionID) {
	s.t.Helper()
	h, _ := s.look().Holding(p)
	if err := s.engines[name].Own(context.Background(), p, h.Epoch); err != nil {
		s.t.Fatal(err)
	}
	s.look()
}

func (s *street) engine(name string) *Engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engines[name]
}

func (s *street) submit(at, stream string, c tallyCommand) (Ack, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.engine(at).Submit(ctx, envelope(stream, c))
}

func (s *street) must(at, stream string, c tallyCommand) Ack {
	s.t.Helper()
	ack, err := s.submit(at, stream, c)
	if err != nil {
		s.t.Fatalf("%s %s at %s: %v", c.do, stream, at, err)
	}
	return ack
}

// eye is an observer that notes everything and checks what every observer may rely on: a
// row goes on from the last one, its state is that of its version, and after Lost nothing
// is known.
type eye struct {
	mu       sync.Mutex
	known    map[string]uint64 // versions, by stream
	totals   map[string]int
	at       map[domain.PartitionID]store.Position
	ready    map[domain.PartitionID]string // "owned" or "followed"
	rows     []string
	problems []string
	losses   int
}

func (o *eye) clear() {
	if o.known == nil {
		o.known, o.totals = map[string]uint64{}, map[string]int{}
		o.at, o.ready = map[domain.PartitionID]store.Position{}, map[domain.PartitionID]string{}
	}
}

func (o *eye) Loaded(l Live) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clear()
	o.hands(l.Partition, l.Owned)
	id := l.Stream.ID()
	if v, known := o.known[id]; known && v != l.Version {
		o.problems = append(o.problems, fmt.Sprintf("%s was at %d and is shown at %d", id, v, l.Version))
	}
	o.known[id], o.totals[id] = l.Version, l.State.(*tally).Total
}

// hands checks that what was ready does not change its owner without Lost.
func (o *eye) hands(p domain.PartitionID, owned bool) {
	if was := o.ready[p]; was != "" && (was == "owned") != owned {
		o.problems = append(o.problems, fmt.Sprintf("%s was %s and is shown with owned=%t", p, was, owned))
	}
}

func (o *eye) Committed(rows []Committed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clear()
	for _, r := range rows {
		o.hands(r.Partition, r.Owned)
		id := r.Stream.ID()
		if o.ready[r.Partition] != "" {
			if v := o.known[id]; v != r.First-1 && v != 0 {
				o.problems = append(o.problems, fmt.Sprintf("%s goes on from %d with %d", id, v, r.First))
			}
			if at := o.at[r.Partition]; at != 0 && at+1 != r.Position {
				o.problems = append(o.problems, fmt.Sprintf("row %d follows %d", r.Position, at))
			}
		}
		s := r.State.(*tally)
		o.known[id], o.totals[id], o.at[r.Partition] = r.Version, s.Total, r.Position
		o.rows = append(o.rows, fmt.Sprintf("%s/%d:%s@%d=%d", r.Partition, r.Position, id, r.Version, s.Total))
	}
}

func (o *eye) Ready(p domain.PartitionID, owned bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clear()
	if o.ready[p] != "" {
		o.problems = append(o.problems, fmt.Sprintf("%s is ready twice", p))
	}
	o.ready[p] = map[bool]string{true: "owned", false: "followed"}[owned]
}

func (o *eye) Lost(p domain.PartitionID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clear()
	o.losses++
	delete(o.ready, p)
	delete(o.at, p)
	if p == home {
		clear(o.known)
		clear(o.totals)
	}
}

func (o *eye) seen() (rows []string, total map[string]int, ready string, problems []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clear()
	totals := map[string]int{}
	for id, n := range o.totals {
		totals[id] = n
	}
	return slices.Clone(o.rows), totals, o.ready[home], slices.Clone(o.problems)
}

func (s *street) wants(at, ready string, totals map[string]int) {
	s.t.Helper()
	_, got, is, problems := s.eyes[at].seen()
	if is != ready || fmt.Sprint(got) != fmt.Sprint(totals) || len(problems) > 0 {
		s.t.Fatalf("%s is %q with %v, want %q with %v; problems %q", at, is, got, ready, totals, problems)
	}
}

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
		_ = s.engines["a"].Send(t.Context(), envelope("x", tallyCommand{do: "add", n: 100}), func(_ Ack, err error) { refused = err })
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

// A newer server writes what its older neighbour reads until that one is gone.
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
func TestAnUnreadableRowAilsOneStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t)
		defer s.close()
		s.change = func(_ string, c *Config) {
			encode := c.Kinds[0].EncodeEvents
			c.Kinds[0].EncodeEvents = func(events []any) ([]byte, error) {
				if events[0].(tallyEvent).N == 666 {
					return []byte("not what it was"), nil
				}
				return encode(events)
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

package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
	"github.com/fairlead-ci/fairlead/internal/store/postgres"
	"github.com/fairlead-ci/fairlead/internal/testkit/pg"
)

// A sum is the smallest stream kind: every command adds one.
type (
	sum      struct{ N int }
	addOne   struct{}
	oneAdded struct{}
)

func sumKind() *engine.Kind {
	return engine.Typed[sum, addOne, oneAdded]{
		Name: "sum", Encoding: 1, New: func() *sum { return &sum{} },
		Decide: func(s *sum, _ addOne, _ time.Time) ([]oneAdded, any, *domain.Rejection, *domain.Rejection) {
			return []oneAdded{{}}, s.N + 1, nil, nil
		},
		Evolve:       func(s *sum, _ oneAdded) { s.N++ },
		NextWake:     func(*sum) (time.Time, bool) { return time.Time{}, false },
		Check:        func(*sum) error { return nil },
		Live:         func(*sum) bool { return true },
		EncodeEvents: func(e []oneAdded, _ uint32) ([]byte, error) { return json.Marshal(len(e)) },
		DecodeEvents: func(b []byte) ([]oneAdded, error) {
			var n int
			err := json.Unmarshal(b, &n)
			return make([]oneAdded, n), err
		},
		EncodeState:   func(s *sum) ([]byte, error) { return json.Marshal(s) },
		DecodeState:   func(b []byte) (*sum, error) { s := &sum{}; return s, json.Unmarshal(b, s) },
		Wake:          func(domain.Cause) addOne { return addOne{} },
		EncodeCommand: func(addOne) ([]byte, error) { return []byte("+1"), nil },
		DecodeCommand: func([]byte) (addOne, error) { return addOne{}, nil },
		EncodeReply:   func(reply any) ([]byte, error) { return json.Marshal(reply) },
		DecodeReply:   func(b []byte) (any, error) { var n *int; err := json.Unmarshal(b, &n); return n, err },
	}.Erase()
}

// witness is an observer that checks what it is shown: every row of a partition in order and
// once, every state that of its version, and who owns only changes by way of Lost.
type witness struct {
	mu       sync.Mutex
	at       map[domain.PartitionID]store.Position
	hands    map[domain.PartitionID]bool
	sums     map[domain.StreamID]int
	problems []string
}

func (w *witness) Loaded(l engine.Live) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look(l.Partition, l.Stream, l.Owned, l.Version, l.State)
}

func (w *witness) look(p domain.PartitionID, id domain.StreamID, owned bool, version uint64, state any) {
	if was, known := w.hands[p]; known && was != owned {
		w.problems = append(w.problems, fmt.Sprintf("%s changed hands in silence", p))
	}
	n := state.(*sum).N
	if uint64(n) != version || n < w.sums[id] {
		w.problems = append(w.problems, fmt.Sprintf("%s at %d is %d and was %d", id, version, n, w.sums[id]))
	}
	w.sums[id] = n
}

func (w *witness) Committed(rows []engine.Committed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range rows {
		if _, ready := w.hands[r.Partition]; ready {
			if at, known := w.at[r.Partition]; known && at+1 != r.Position {
				w.problems = append(w.problems, fmt.Sprintf("row %d of %s follows %d", r.Position, r.Partition, at))
			}
			if known := w.sums[r.Stream]; uint64(known)+1 != r.First {
				w.problems = append(w.problems, fmt.Sprintf("%s goes on from %d with %d", r.Stream, known, r.First))
			}
			w.at[r.Partition] = r.Position
		}
		w.look(r.Partition, r.Stream, r.Owned, r.Version, r.State)
	}
}

func (w *witness) Ready(p domain.PartitionID, owned bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hands[p] = owned
}

func (w *witness) Lost(p domain.PartitionID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.hands, p)
	delete(w.at, p)
}

func (w *witness) says() (map[domain.StreamID]int, []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.sums), slices.Clone(w.problems)
}

// town is a fleet of servers in one process over one store.
type town struct {
	t     *testing.T
	store store.Store
	ttl   time.Duration
	parts []domain.PartitionID
	log   *slog.Logger // of drivers; nil: none

	mu      sync.Mutex
	servers map[string]*server
}

// server is one of them: engine, driver, and a gate before its store, so that it can hang.
type server struct {
	name   string
	engine *engine.Engine
	driver *Driver
	sees   *witness
	gate   *gate
	dead   bool
}

// gate is a store that can be made to hang, as a process that is stopped does between two
// calls.
type gate struct {
	store.Store
	mu     sync.Mutex
	frozen chan struct{} // closed when it thaws; nil: it is not frozen
}

func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	frozen := g.frozen
	g.mu.Unlock()
	if frozen == nil {
		return nil
	}
	select {
	case <-frozen:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gate) freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.frozen = make(chan struct{})
}

func (g *gate) thaw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.frozen)
	g.frozen = nil
}

func (g *gate) Append(ctx context.Context, b store.Batch) error {
	if err := g.pass(ctx); err != nil {
		return err
	}
	return g.Store.Append(ctx, b)
}

func (g *gate) Renew(ctx context.Context, m store.Member, ttl time.Duration) (store.Picture, error) {
	if err := g.pass(ctx); err != nil {
		return store.Picture{}, err
	}
	return g.Store.Renew(ctx, m, ttl)
}

func (g *gate) Take(ctx context.Context, p domain.PartitionID, owner string, epoch uint64) (store.Ownership, error) {
	if err := g.pass(ctx); err != nil {
		return store.Ownership{}, err
	}
	return g.Store.Take(ctx, p, owner, epoch)
}

func (g *gate) Read(ctx context.Context, p domain.PartitionID, after store.Position, limit int) ([]store.Row, error) {
	if err := g.pass(ctx); err != nil {
		return nil, err
	}
	return g.Store.Read(ctx, p, after, limit)
}

func newTown(t *testing.T, st store.Store, ttl time.Duration) *town {
	return &town{t: t, store: st, ttl: ttl, parts: append(partitionNames(8), "pool-x"), servers: map[string]*server{}}
}

func (w *town) open(name string) *server {
	w.t.Helper()
	s := &server{name: name, gate: &gate{Store: w.store}}
	s.engine = engine.New(engine.Config{Store: s.gate, Kinds: []*engine.Kind{sumKind()}, Partitions: w.parts[:8],
		Pools: w.parts[8:], Owner: name, Paranoid: true, Patience: 5 * w.ttl, Poll: w.ttl / 8,
		Forward: func(ctx context.Context, to store.Holding, wire engine.Wire) (engine.WireAck, error) {
			peer := w.server(to.Owner)
			if peer == nil {
				return engine.WireAck{}, fmt.Errorf("dial %s: %w", to.Owner, engine.ErrUnsent)
			}
			return peer.engine.Receive(ctx, wire)
		}})
	s.sees = &witness{at: map[domain.PartitionID]store.Position{}, hands: map[domain.PartitionID]bool{},
		sums: map[domain.StreamID]int{}}
	s.engine.Observe(s.sees)
	var err error
	s.driver, err = New(Config{Store: s.gate, Engine: s.engine, TTL: w.ttl, Partitions: w.parts, Log: w.log,
		Member: store.Member{Name: name, Session: fmt.Sprint(name, " ", len(w.servers)), Address: name, Format: 1},
		Kick: func(_ context.Context, address string) {
			if peer := w.server(address); peer != nil {
				peer.driver.Kick()
			}
		}})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := s.engine.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	if err := s.driver.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.servers[name] = s
	w.mu.Unlock()
	return s
}

// server is a peer that can be reached.
func (w *town) server(name string) *server {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.servers[name]
	if s == nil || s.dead {
		return nil
	}
	return s
}

// kill is kill -9: nothing is given back, nobody is told.
func (w *town) kill(name string) {
	s := w.server(name)
	w.mu.Lock()
	s.dead = true
	w.mu.Unlock()
	s.gate.freeze()
	s.driver.cancel()
	s.engine.Close()
}

func (w *town) close() {
	for _, name := range w.names() {
		s := w.server(name)
		s.driver.Close()
		s.engine.Close()
	}
}

func (w *town) names() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, s := range w.servers {
		if !s.dead {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// settle waits until every partition is owned by one of the named, evenly, and they know it.
func (w *town) settle(names ...string) time.Duration {
	w.t.Helper()
	began := host.Machine().Elapsed()
	for deadline := began + 60*time.Second; host.Machine().Elapsed() < deadline; {
		load, all := map[string]int{}, 0
		for _, name := range names {
			load[name] = len(w.server(name).engine.Holds())
			all += load[name]
		}
		low, high := len(w.parts)/len(names), (len(w.parts)+len(names)-1)/len(names)
		even := all == len(w.parts)
		for _, name := range names {
			even = even && load[name] >= low && load[name] <= high
		}
		if even {
			return host.Machine().Elapsed() - began
		}
		host.Pause(w.t.Context(), host.Machine(), w.ttl/50)
	}
	w.t.Fatalf("it does not settle among %v", names)
	return 0
}

// load sends keyed commands to every partition by way of every server that can be reached,
// until stop, each until it is answered. It returns how many were sent per stream.
func (w *town) load(stop <-chan struct{}) (sent map[domain.StreamID]int, wait func()) {
	sent = map[domain.StreamID]int{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for i, p := range w.parts {
		group.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				stream := domain.StreamID(fmt.Sprintf("sum/%s-%d", p, n%3))
				key := &engine.Key{Scope: engine.ClientScope("c", "Add"), Key: fmt.Sprintf("%s/%d", p, n)}
				w.insist(engine.Envelope{Tenant: "tnt_a", Partition: p, Stream: stream, Command: addOne{}, Key: key}, i+n)
				mu.Lock()
				sent[stream]++
				mu.Unlock()
				host.Pause(w.t.Context(), host.Machine(), w.ttl/100)
			}
		})
	}
	return sent, group.Wait
}

// insist tries until the command is acknowledged, at one server after the other.
func (w *town) insist(env engine.Envelope, n int) {
	for try := 0; w.t.Context().Err() == nil; try++ {
		names := w.names()
		s := w.server(names[(n+try)%len(names)])
		if s == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), 4*w.ttl)
		_, err := s.engine.Submit(ctx, env)
		cancel()
		if err == nil {
			return
		}
		host.Pause(w.t.Context(), host.Machine(), w.ttl/20)
	}
}

// audit compares what was acknowledged with what is stored, and what every server shows.
func (w *town) audit(sent map[domain.StreamID]int) {
	w.t.Helper()
	if len(sent) != 3*len(w.parts) {
		w.t.Errorf("%d streams were used", len(sent))
	}
	for stream, n := range sent {
		for _, name := range w.names() {
			h, err := w.server(name).engine.Read(w.t.Context(), "tnt_a", stream, false)
			if err != nil || h.State.(*sum).N != n {
				w.t.Errorf("%s at %s: %+v (%v), acknowledged %d", stream, name, h.State, err, n)
			}
		}
	}
	for _, name := range w.names() {
		for {
			sums, problems := w.server(name).sees.says()
			if len(problems) > 0 {
				w.t.Fatalf("%s was shown: %q", name, problems)
			}
			if maps.Equal(sums, sent) {
				break
			}
			host.Pause(w.t.Context(), host.Machine(), w.ttl/50) // the last rows are on their way
		}
	}
	for _, p := range w.parts {
		rows, err := w.store.Read(w.t.Context(), p, 0, 1_000_000)
		if err != nil {
			w.t.Fatal(err)
		}
		for i, r := range rows {
			if r.Position != store.Position(i+1) {
				w.t.Fatalf("row %d of %s is at %d", i, p, r.Position)
			}
		}
	}
}

// onBoth runs a test on virtual time over memory, and on real time over PostgreSQL.
func onBoth(t *testing.T, test func(*testing.T, *town)) {
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, newTown(t, memory.New(), 2*time.Second)) })
	})
	t.Run("postgres", func(t *testing.T) {
		st, err := postgres.Open(t.Context(), pg.Start(t), postgres.Options{ConnsMax: 24})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = st.Close() }()
		test(t, newTown(t, st, time.Second))
	})
}

// Promises: [FLEET-1].
func TestServersShareDieHangLeaveAndComeBackUnderLoad(t *testing.T) {
	onBoth(t, func(t *testing.T, w *town) {
		defer w.close()
		w.open("a")
		w.settle("a")
		stop := make(chan struct{})
		sent, wait := w.load(stop)
		w.open("b")
		w.open("c")
		w.settle("a", "b", "c")

		w.kill("a")
		took := w.settle("b", "c")
		t.Logf("from kill to the last partition owned elsewhere: %v with a lease of %v", took, w.ttl)
		if w.ttl == 2*time.Second && took > w.ttl+w.ttl/10 { // on virtual time this is no measurement
			t.Errorf("take-over took %v with a lease of %v", took, w.ttl)
		}

		w.open("a")
		w.settle("a", "b", "c")

		hung := w.server("b")
		epochs := hung.engine.Holds()
		hung.gate.freeze()
		w.settle("a", "c")
		if hung.driver.Valid() {
			t.Error("a hung server believes in its lease")
		}
		hung.gate.thaw()
		w.settle("a", "b", "c")
		for p, now := range hung.engine.Holds() {
			if then, had := epochs[p]; had && now <= then {
				t.Errorf("it owns %s at the epoch of before, %d", p, now)
			}
		}

		c := w.server("c")
		if err := c.driver.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.settle("a", "b")
		w.mu.Lock()
		c.dead = true
		w.mu.Unlock()
		c.driver.Close()
		c.engine.Close()

		close(stop)
		wait()
		w.audit(sent)
	})
}

// Promises: [FLEET-15].
func TestADrainLeavesNoGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, memory.New(), 2*time.Second)
		defer w.close()
		for _, name := range []string{"a", "b", "c"} {
			w.open(name)
		}
		w.settle("a", "b", "c")
		began := time.Now()
		if err := w.server("a").driver.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.settle("b", "c")
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("partitions were without an owner for up to %v", took)
		}
	})
}

func TestTheLastServerMayDrainToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, memory.New(), 2*time.Second)
		s := w.open("a")
		w.settle("a")
		if err := s.driver.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.close()
		p, err := w.store.Picture(context.Background())
		if err != nil || len(p.Members) != 0 {
			t.Errorf("members %+v (%v)", p.Members, err)
		}
		for _, h := range p.Partitions {
			if h.Owner != "" {
				t.Errorf("%s is still %s's", h.Partition, h.Owner)
			}
		}
	})
}

func TestARestartedServerWaitsForTheLeaseOfItsPast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, memory.New(), 2*time.Second)
		defer w.close()
		w.open("a")
		w.settle("a")
		w.kill("a")
		began := time.Now()
		w.open("a")
		if took := time.Since(began); took < time.Second || took > 3*time.Second {
			t.Errorf("it waited for %v", took)
		}
		w.settle("a")
	})
}

// By a clock that was set back by an hour the lease of its past lasts for an hour.
//
// Promises: [FLEET-19].
func TestAServerComesBackAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, set := memory.New(), time.Duration(0)
		st.SetClock(func() time.Time { return time.Now().Add(set) })
		w := newTown(t, st, 2*time.Second)
		defer w.close()
		w.open("a")
		w.settle("a")
		w.kill("a")
		set = -time.Hour
		began := time.Now()
		w.open("a")
		if took := time.Since(began); took < TTLMax || took > 2*TTLMax {
			t.Errorf("it waited for %v", took)
		}
		w.settle("a")
	})
}

// Promises: [FLEET-4].
func TestTwoServersOfOneNameDoNotWorkTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, memory.New(), 2*time.Second)
		defer w.close()
		s := w.open("a")
		w.settle("a")
		twin, err := New(Config{Store: w.store, Engine: s.engine, TTL: w.ttl, Partitions: w.parts,
			Member: store.Member{Name: "a", Session: "another", Format: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if err := twin.Start(t.Context()); err == nil {
			t.Error("the second one joined")
		}
		s.engine.Yield(false) // the twin had no engine of its own to keep quiet
		if !s.driver.Valid() {
			t.Error("the first one lost its lease")
		}
	})
}

func TestALeaseHasALeastLength(t *testing.T) {
	for _, c := range []Config{
		{TTL: TTLMin - 1, Member: store.Member{Name: "a", Session: "s", Format: 1}},
		{TTL: TTLMax + 1, Member: store.Member{Name: "a", Session: "s", Format: 1}},
		{Member: store.Member{Name: "a", Format: 1}},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v", c.Member)
		}
	}
}

// slowRenewals is a store that carries out a renewal a moment after it was asked, also when
// nobody waits for it any more: so does a database whose client has hung up.
type slowRenewals struct {
	store.Store
	slow   atomic.Bool
	flying atomic.Int32
}

func (s *slowRenewals) Renew(ctx context.Context, m store.Member, ttl time.Duration) (store.Picture, error) {
	if !s.slow.Load() {
		return s.Store.Renew(ctx, m, ttl)
	}
	s.flying.Add(1)
	var p store.Picture
	err, done := error(nil), make(chan struct{})
	go func() {
		time.Sleep(100 * time.Millisecond)
		p, err = s.Store.Renew(context.WithoutCancel(ctx), m, ttl)
		close(done)
	}()
	select {
	case <-done:
		return p, err
	case <-ctx.Done():
		return store.Picture{}, ctx.Err()
	}
}

func TestARenewalUnderWayDoesNotBringBackWhoLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &slowRenewals{Store: memory.New()}
		w := newTown(t, st, 2*time.Second)
		w.open("a")
		w.settle("a")
		st.slow.Store(true)
		for st.flying.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		w.close()
		time.Sleep(time.Second)
		if p, err := st.Picture(context.Background()); err != nil || len(p.Members) != 0 {
			t.Errorf("members %+v (%v)", p.Members, err)
		}
	})
}

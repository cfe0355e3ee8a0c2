package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Observer sees what was committed, in order, on the owner's goroutine: it must be quick
// and must not call the engine synchronously. Missing news is repaired by Loaded, which
// comes at take-over and again with every sweep of the reconciler.
type Observer interface {
	// Loaded shows the committed state of a live stream.
	Loaded(live Live)
	// Committed shows rows of one batch.
	Committed(rows []Committed)
	// Ready says that every stream that was live at take-over has been shown by Loaded,
	// so what the observer was not shown does not exist.
	Ready(partition domain.PartitionID)
	// Lost says that the partition is not owned here any more.
	Lost(partition domain.PartitionID)
}

// Config of an engine.
type Config struct {
	Store      store.Store
	Kinds      []*Kind
	Partitions []domain.PartitionID // those that repositories are routed to
	Pools      []domain.PartitionID // further ones, of pools
	Owner      string               // this server's name, for operators
	Clock      *Clock
	Log        *slog.Logger
	// Host is what the engine's work runs on; nil is the machine.
	Host host.Host
	// Paranoid checks every stream after every command: for tests and simulation.
	Paranoid bool
	// Hold is how long Wake commands wait after the clock jumped: timers of leases would
	// fire although the time that they stand for has not passed.
	Hold time.Duration
	// Sweep is how often the reconciler looks at live streams; 0 is every 15 s.
	Sweep time.Duration
	// Fatal is told of a store that can't be trusted any more: the process must end.
	Fatal func(error)
}

// Engine owns partitions and takes commands for them.
type Engine struct {
	cfg       Config
	kinds     map[string]*Kind
	observers []Observer
	reactors  []Reactor

	mu      sync.RWMutex
	drivers map[domain.PartitionID]*driver
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

// New makes an engine that owns nothing yet. Register observers and reactors, then Start.
func New(cfg Config) *Engine {
	cfg.Host = host.Or(cfg.Host)
	e := &Engine{cfg: cfg, kinds: map[string]*Kind{}, drivers: map[domain.PartitionID]*driver{}}
	for _, k := range cfg.Kinds {
		e.kinds[k.Name] = k
	}
	if e.cfg.Sweep == 0 {
		e.cfg.Sweep = 15 * time.Second
	}
	if e.cfg.Clock == nil {
		e.cfg.Clock = NewClock()
	}
	if e.cfg.Log == nil {
		e.cfg.Log = slog.New(slog.DiscardHandler)
	}
	if e.cfg.Fatal == nil {
		e.cfg.Fatal = func(err error) { panic(err) }
	}
	return e
}

// Observe registers an observer. Call it before Start.
func (e *Engine) Observe(o Observer) { e.observers = append(e.observers, o) }

// React registers a reactor. Call it before Start.
func (e *Engine) React(r Reactor) { e.reactors = append(e.reactors, r) }

// Start takes ownership of all configured partitions and loads their live streams.
func (e *Engine) Start(ctx context.Context) error {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e.cancel = cancel
	for _, p := range append(append([]domain.PartitionID{}, e.cfg.Partitions...), e.cfg.Pools...) {
		if err := e.own(ctx, run, p); err != nil {
			cancel()
			return err
		}
	}
	return nil
}

func (e *Engine) own(ctx, run context.Context, p domain.PartitionID) error {
	own, err := e.cfg.Store.Acquire(ctx, p, e.cfg.Owner)
	if err != nil {
		return fmt.Errorf("acquire partition %s: %w", p, err)
	}
	heads, err := e.cfg.Store.Live(ctx, p)
	if err != nil {
		return fmt.Errorf("list live streams of %s: %w", p, err)
	}
	cursors, err := e.cfg.Store.Cursors(ctx, p)
	if err != nil {
		return fmt.Errorf("read cursors of %s: %w", p, err)
	}
	d := newDriver(e, newOwner(own, e.kinds, e.cfg.Paranoid))
	for _, c := range cursors {
		d.owner.cursors[c.Reactor] = c.Position
	}
	e.mu.Lock()
	e.drivers[p] = d
	e.mu.Unlock()
	d.start(run, heads, e.reactors)
	return nil
}

// begin starts work that Close waits for.
func (e *Engine) begin(f func()) {
	e.done.Add(1)
	e.cfg.Host.Go(func() {
		defer e.done.Done()
		f()
	})
}

// Close stops everything. Commands in flight are committed or answered with an error.
func (e *Engine) Close() {
	if e.cancel != nil {
		e.cancel()
	}
	e.done.Wait()
}

// Route is the partition of a new repository: by tenant, so that a tenant's repositories
// share one by default. Rows keep the partition that they were made with.
func (e *Engine) Route(tenant domain.TenantID) domain.PartitionID {
	h := fnv.New32a()
	h.Write([]byte(tenant))
	return e.cfg.Partitions[int(h.Sum32()%uint32(len(e.cfg.Partitions)))]
}

// Now is the engine's time.
func (e *Engine) Now() time.Time {
	now, _ := e.cfg.Clock.Now()
	return now
}

func (e *Engine) driver(p domain.PartitionID) *driver {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.drivers[p]
}

// Submit hands a command to the partition's owner and waits until it is committed or
// refused. If ctx ends first the command may still act: ask again with the same key.
func (e *Engine) Submit(ctx context.Context, env Envelope) (Ack, error) {
	var ack Ack
	var failed error
	answered := make(chan struct{})
	err := e.Send(ctx, env, func(got Ack, err error) {
		ack, failed = got, err
		close(answered)
	})
	if err != nil {
		return Ack{}, err
	}
	if e.cfg.Host.Wait(ctx, host.For{News: answered, Limit: host.Forever}) == host.Ended {
		return Ack{}, fmt.Errorf("submit %T to %s: outcome not known yet: %w", env.Command, env.Stream, ctx.Err())
	}
	return ack, failed
}

// Send is Submit without waiting: answer is called once, on the owner's goroutine, and
// must not block. An error means that nothing was sent and answer is never called.
func (e *Engine) Send(ctx context.Context, env Envelope, answer func(Ack, error)) error {
	d := e.driver(env.Partition)
	if d == nil {
		return domain.Reject(domain.CodeNotOwner, "This server does not own the partition now; try again.")
	}
	if k := env.Key; k != nil &&
		(k.Key == "" || len(k.Key) > 256 || !store.ValidText(k.Key) || !store.ValidText(k.Scope)) {
		return domain.Reject(domain.CodeInvalidArgument, "An idempotency key has 1 to 256 bytes of text.")
	}
	return d.send(ctx, inSubmit{&item{env: env, answer: answer}})
}

// Earlier looks up what a key did, without acting: the stream of its first acceptance.
func (e *Engine) Earlier(ctx context.Context, tenant domain.TenantID, key Key) (store.Key, bool, error) {
	k, err := e.cfg.Store.Key(ctx, tenant, key.Scope, key.Key)
	if errors.Is(err, store.ErrNotFound) {
		return store.Key{}, false, nil
	}
	return k, err == nil, err
}

// Recorded is one event of a stream's history.
type Recorded struct {
	Version  uint64
	Position store.Position
	At       time.Time
	Event    any
}

// History is a stream as the store has it: state, and all events if they were asked for.
type History struct {
	State   any
	Version uint64
	Events  []Recorded
}

// Read gives a stream's committed state from the store; with events the whole history.
// An unknown stream is a not_found rejection.
func (e *Engine) Read(ctx context.Context, tenant domain.TenantID, id domain.StreamID, events bool) (History, error) {
	kind := e.kinds[id.Kind()]
	if kind == nil {
		return History{}, domain.Reject(domain.CodeNotFound, "There is no such thing.")
	}
	h, err := e.cfg.Store.Load(ctx, tenant, id, !events, kind.Encoding)
	if err != nil {
		return History{}, fmt.Errorf("load stream %s: %w", id, err)
	}
	if len(h.Rows) == 0 && h.Checkpoint == nil {
		return History{}, domain.Reject(domain.CodeNotFound, "There is no such thing.")
	}
	state, version, err := kind.rebuild(h)
	if err != nil {
		return History{}, err
	}
	out := History{State: state, Version: version}
	if !events {
		return out, nil
	}
	for i := range h.Rows {
		row := &h.Rows[i]
		decoded, err := kind.DecodeEvents(row.Events)
		if err != nil {
			return History{}, fmt.Errorf("decode events %s at version %d: %w", id, row.Version, err)
		}
		first := row.Version - uint64(len(decoded)) + 1
		for n, ev := range decoded {
			out.Events = append(out.Events, Recorded{first + uint64(n), row.Position, row.At, ev})
		}
	}
	return out, nil
}

// Present checks an acknowledgement token that a client or a runner brings. A server
// that holds less than it acknowledged stops the partition instead of going on silently.
func (e *Engine) Present(ctx context.Context, token domain.Token) error {
	if token == (domain.Token{}) {
		return nil
	}
	d := e.driver(token.Partition)
	if d == nil {
		return nil // owned elsewhere: its owner checks
	}
	return d.present(ctx, token)
}

// PartitionStatus is what operators see of a partition.
type PartitionStatus struct {
	Partition domain.PartitionID
	Epoch     uint64
	Position  store.Position
	Stopped   *domain.Rejection
	Live      int
	Problems  []string // quarantined streams
}

// Status lists the partitions owned here.
func (e *Engine) Status() []PartitionStatus {
	e.mu.RLock()
	defer e.mu.RUnlock()
	var out []PartitionStatus
	for _, p := range append(append([]domain.PartitionID{}, e.cfg.Partitions...), e.cfg.Pools...) {
		if d := e.drivers[p]; d != nil {
			out = append(out, d.snapshot())
		}
	}
	return out
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Observer sees what was committed, in order: it must be quick and must not call the
// engine synchronously. Missing news is repaired by Loaded, which comes at the start and
// again with every sweep of the reconciler.
//
// A partition is shown either by its owner (owned) or by a follower, which reads what an
// owner elsewhere commits. When that changes, Lost comes first and then everything anew;
// only who owns a partition may act on what it is shown.
type Observer interface {
	// Loaded shows the committed state of a live stream.
	Loaded(live Live)
	// Committed shows rows of one batch, or of a part of one when followed. A stream
	// appears at most once in a call.
	Committed(rows []Committed)
	// Ready says that every stream that was live has been shown by Loaded, so what the
	// observer was not shown does not exist.
	Ready(partition domain.PartitionID, owned bool)
	// Lost says that what was shown of the partition is not kept up to date any more.
	Lost(partition domain.PartitionID)
}

// Config of an engine.
type Config struct {
	Store      store.Store
	Kinds      []*Kind
	Partitions []domain.PartitionID // those that repositories are routed to
	Pools      []domain.PartitionID // further ones, of pools
	Owner      string               // this server's name, unique in a fleet
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
	// Open bounds the jobs without an outcome of each partition that is owned here.
	Open Open
	// Fatal is told of a store that can't be trusted any more: the process must end.
	Fatal func(error)

	// Forward carries a command to the member that owns its partition, and its answer
	// back. An error that wraps ErrUnsent says that the command did not leave; after any
	// other error the outcome is not known. nil: this server is alone; it owns every
	// partition from Start on and forwards nothing.
	Forward func(ctx context.Context, to store.Holding, w Wire) (WireAck, error)
	// Moved is told how far an owned partition has come after each commit, on the owner's
	// goroutine: other servers want to hear it. It must not block.
	Moved func(partition domain.PartitionID, at store.Position)
	// Appended is told of each durable append: how many commands shared it, with how many events,
	// and how long it took. It may be called from everywhere, and must not block.
	Appended func(commands, events int, took time.Duration)
	// Prover proves the tokens of answers and examines those that are presented. nil: none is
	// proved, and none can stop a partition.
	Prover Prover
	// Doubted is told of every token that was refused because nothing proves it. It must not
	// block.
	Doubted func(domain.Standing)
	// Format is the event format that this program writes when it may; 0 is 1. A fleet
	// writes the highest one that all its members read, see Picture.Format.
	Format uint32
	// Spread is how new repositories spread over partitions; empty is by tenant.
	Spread string
	// Patience is how long Submit waits for a partition that is between two owners; 0 is 5 s.
	Patience time.Duration
	// Poll is how often the positions of followed partitions are looked up, as a fallback
	// for news; 0 is 250 ms.
	Poll time.Duration
}

// Engine owns partitions, follows the others, and takes commands for all.
type Engine struct {
	cfg       Config
	kinds     map[string]*Kind
	observers []Observer
	reactors  []Reactor
	seats     map[domain.PartitionID]*seat // fixed by New
	order     []domain.PartitionID         // of seats, as configured

	run     context.Context // ends with Close
	cancel  context.CancelFunc
	done    *crew
	yielded atomic.Bool
	doubts  doubts
	format  atomic.Uint32 // that may be written
}

// New makes an engine that owns nothing yet. Register observers and reactors, then Start.
func New(cfg Config) *Engine {
	cfg.Host = host.Or(cfg.Host)
	e := &Engine{cfg: cfg, kinds: map[string]*Kind{}, seats: map[domain.PartitionID]*seat{}, done: newCrew(cfg.Host)}
	for _, k := range cfg.Kinds {
		e.kinds[k.Name] = k
	}
	for _, p := range slices.Concat(cfg.Partitions, cfg.Pools) {
		e.seats[p] = newSeat(p, cfg.Host)
		e.order = append(e.order, p)
	}
	for _, d := range []struct {
		at    *time.Duration
		value time.Duration
	}{{&e.cfg.Sweep, 15 * time.Second}, {&e.cfg.Patience, 5 * time.Second}, {&e.cfg.Poll, 250 * time.Millisecond}} {
		if *d.at == 0 {
			*d.at = d.value
		}
	}
	e.cfg.Format = max(e.cfg.Format, 1)
	e.format.Store(e.cfg.Format)
	if e.cfg.Forward != nil {
		e.format.Store(1) // until a picture says what the other servers read
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
	if e.cfg.Prover == nil {
		e.cfg.Prover = believesNobody{}
	}
	if e.cfg.Doubted == nil {
		e.cfg.Doubted = func(domain.Standing) {}
	}
	if e.cfg.Moved == nil {
		e.cfg.Moved = func(domain.PartitionID, store.Position) {}
	}
	if e.cfg.Appended == nil {
		e.cfg.Appended = func(int, int, time.Duration) {}
	}
	e.run, e.cancel = context.WithCancel(context.Background())
	return e
}

// Observe registers an observer. Call it before Start.
func (e *Engine) Observe(o Observer) { e.observers = append(e.observers, o) }

// React registers a reactor. Call it before Start.
func (e *Engine) React(r Reactor) { e.reactors = append(e.reactors, r) }

// Start begins to work. A server that is alone takes all configured partitions and loads
// their live streams; a member of a fleet follows all of them, until Own is called.
func (e *Engine) Start(ctx context.Context) error {
	if e.fleet() {
		for _, p := range e.order {
			e.follow(e.seats[p])
		}
		e.done.Go(e.watch)
		e.done.Go(e.watchLosses)
		return nil
	}
	e.done.Go(e.watchLosses)
	for _, p := range e.order {
		s := e.seats[p]
		err := e.seize(ctx, s, func() (store.Ownership, error) { return e.cfg.Store.Acquire(ctx, p, e.cfg.Owner) })
		if err != nil {
			e.cancel()
			return err
		}
	}
	return nil
}

// fleet reports whether there may be other servers.
func (e *Engine) fleet() bool { return e.cfg.Forward != nil }

// Close stops everything. Commands in flight are committed or answered with an error.
func (e *Engine) Close() {
	e.done.Close()
	e.cancel()
	e.done.Wait()
}

// Route is the partition of a new repository. By default a tenant's repositories share
// one; a fleet may spread them, see Config.Spread. Rows keep the partition that they were
// made with.
func (e *Engine) Route(tenant domain.TenantID, repository domain.RepositoryID) domain.PartitionID {
	h := fnv.New32a()
	h.Write([]byte(tenant))
	if e.cfg.Spread == store.SpreadRepository {
		h.Write([]byte{0})
		h.Write([]byte(repository))
	}
	return e.cfg.Partitions[int(h.Sum32()%uint32(len(e.cfg.Partitions)))]
}

// Now is the engine's time.
func (e *Engine) Now() time.Time {
	now, _ := e.cfg.Clock.Now()
	return now
}

// driver is the owner here, nil when the partition is owned elsewhere.
func (e *Engine) driver(p domain.PartitionID) *driver {
	if s := e.seats[p]; s != nil {
		return s.driver.Load()
	}
	return nil
}

// Submit hands a command to the partition's owner, here or elsewhere, and waits until it
// is committed or refused. If ctx ends first the command may still act: ask again with the
// same key. A partition that is between two owners is waited for, see Config.Patience.
func (e *Engine) Submit(ctx context.Context, env Envelope) (Ack, error) {
	ack, err := e.submit(ctx, env)
	if !e.fleet() || !betweenOwners(err) {
		return ack, err
	}
	patience, cancel := host.Within(ctx, e.cfg.Host, e.cfg.Patience)
	defer cancel()
	for wait := 10 * time.Millisecond; betweenOwners(err); wait = min(2*wait, 100*time.Millisecond) {
		if e.run.Err() != nil || !host.Pause(patience, e.cfg.Host, wait) {
			break
		}
		ack, err = e.submit(ctx, env)
	}
	return ack, err
}

// betweenOwners: nothing happened, and another try may find the partition's next owner.
func betweenOwners(err error) bool {
	r, ok := domain.AsRejection(err)
	return ok && r.Code == domain.CodeNotOwner
}

func (e *Engine) submit(ctx context.Context, env Envelope) (Ack, error) {
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

// Send is Submit without waiting: answer is called once, on a goroutine of the engine, and
// must not block. A command that still waits for its turn when ctx ends is not carried out.
// An error means that nothing was sent and answer is never called. A
// not_owner rejection, from here or as the answer, means that nothing happened: the
// partition has no owner now, or one that this server does not know yet.
func (e *Engine) Send(ctx context.Context, env Envelope, answer func(Ack, error)) error {
	if k := env.Key; k != nil &&
		(k.Key == "" || len(k.Key) > 256 || !store.ValidText(k.Key) || !store.ValidText(k.Scope)) {
		return domain.Reject(domain.CodeInvalidArgument, "An idempotency key has 1 to 256 bytes of text.")
	}
	s := e.seats[env.Partition]
	if s == nil {
		return notOwner()
	}
	if d := s.driver.Load(); d != nil {
		if e.yielded.Load() {
			return notOwner()
		}
		return d.send(ctx, inSubmit{&item{env: env, answer: answer, gone: ctx.Err}})
	}
	if !e.fleet() {
		return notOwner()
	}
	return e.forward(ctx, s, env, answer)
}

func notOwner() *domain.Rejection {
	return domain.Reject(domain.CodeNotOwner, "This server does not own the partition now; try again.")
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
	if errors.Is(err, store.ErrBroken) {
		return History{}, quarantined(fmt.Errorf("load stream %s: %w", id, err))
	}
	if err != nil {
		return History{}, fmt.Errorf("load stream %s: %w", id, err)
	}
	if len(h.Rows) == 0 && h.Checkpoint == nil {
		return History{}, domain.Reject(domain.CodeNotFound, "There is no such thing.")
	}
	state, version, err := kind.rebuild(h)
	if err != nil && h.Checkpoint != nil { // derived, and perhaps the only thing that is broken
		if h, err = e.cfg.Store.Load(ctx, tenant, id, false, kind.Encoding); err == nil {
			state, version, err = kind.rebuild(h)
		}
	}
	if errors.Is(err, errUnreadable) {
		return History{}, quarantined(err)
	}
	if err != nil {
		return History{}, fmt.Errorf("read stream %s: %w", id, err)
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

package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/manifest"
)

// Manifests builds the order for a granted attempt. A *domain.Rejection says that it can
// never be built; any other error that it may be tried again.
type Manifests interface {
	Build(ctx context.Context, want Order) (*manifest.Manifest, error)
}

// Order names the attempt that a manifest is wanted for.
type Order struct {
	Tenant  domain.TenantID
	Attempt domain.AttemptID
	Epoch   uint64
	Runner  domain.RunnerID
	Pool    domain.PoolID
	Slot    domain.SlotToken
	Until   time.Time
	Brief   run.Brief
}

// Signer signs manifests.
type Signer interface {
	Sign(payload []byte) (keyID string, signature []byte)
}

// Engine is what dispatch needs of the engine.
type Engine interface {
	engine.Submitter
	Send(ctx context.Context, env engine.Envelope, answer func(engine.Ack, error)) error
	Read(ctx context.Context, tenant domain.TenantID, id domain.StreamID, events bool) (engine.History, error)
	Present(ctx context.Context, token domain.Token) error
	CatchUp(ctx context.Context) error
}

// Config of a dispatcher.
type Config struct {
	Engine    Engine
	Manifests Manifests
	Signer    Signer
	Keys      func() []Key
	// TokenDigest reads a registration token's digest; false for text that is none.
	TokenDigest func(text string) (domain.Digest, bool)
	Logs        Logs
	// Keep makes an object of a value that is too large for history, and gives its digest; nil:
	// such values are refused.
	Keep   func(ctx context.Context, tenant domain.TenantID, data []byte) (domain.Digest, error)
	Locate func(ctx context.Context, tenant domain.TenantID, run domain.RunID) (domain.PartitionID, error)
	Clock  *engine.Clock
	// Host is what the dispatcher's work runs on; nil is the machine.
	Host   host.Host
	Log    *slog.Logger
	Timing Timing
	// Partitions is how many partitions must be loaded before memory's word counts.
	Partitions int
	Grace      time.Duration // told to runners: between asking a job to stop and killing it
	Mint       func(prefix string) string
	// Follow makes a server that leads no pool before Lead says so; without it, it leads all.
	Follow bool
	// Valid reports whether this server's right to lead has not run out, by a clock that
	// only grows; nil: it never does.
	Valid func() bool
	// Term is the epoch under which this server owns the partition of pools, 0 when it does not;
	// nil: no other server can. What a leader says of leases goes by its term.
	Term func(pools domain.PartitionID) uint64
	// Placed is told how long a job had waited when its lease was granted.
	Placed func(wait time.Duration, class domain.Class)
}

// Dispatcher owns the pools of this server.
type Dispatcher struct {
	cfg Config

	mu      sync.Mutex
	board   *board
	polls   map[domain.RunnerID]*Poll              // the newest of each runner
	swept   map[domain.StreamID]domain.PartitionID // streams that were shown whole, and where they live
	repairs uint64
	// refusals counts refused callers per attempt; see refuseAccess.
	refusals map[domain.AttemptID]int
	life     context.Context // of the loop
	kick     chan struct{}   // something changed: place again
	stopped  chan struct{}
}

// New makes a dispatcher. Register it as the engine's observer, then Start it.
func New(cfg Config) *Dispatcher {
	cfg.Host = host.Or(cfg.Host)
	if cfg.Placed == nil {
		cfg.Placed = func(time.Duration, domain.Class) {}
	}
	if cfg.Valid == nil {
		cfg.Valid = func() bool { return true }
	}
	b := newBoard(cfg.Timing)
	b.follows = cfg.Follow
	return &Dispatcher{cfg: cfg, board: b, polls: map[domain.RunnerID]*Poll{},
		swept: map[domain.StreamID]domain.PartitionID{}, refusals: map[domain.AttemptID]int{},
		life: context.Background(), kick: make(chan struct{}, 1), stopped: make(chan struct{})}
}

func (d *Dispatcher) now() time.Time {
	now, _ := d.cfg.Clock.Now()
	return now
}

// changed asks for another placement. It is called with mu held and never blocks.
func (d *Dispatcher) changed() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// wake ends a runner's waiting poll so that it is told the news. mu is held.
func (d *Dispatcher) wake(id domain.RunnerID) {
	if p := d.polls[id]; p != nil && !p.woken {
		p.woken = true
		close(p.news)
		if p.ring != nil {
			p.ring()
		}
	}
}

// Start runs placement and the lease keeper until ctx ends.
func (d *Dispatcher) Start(ctx context.Context) {
	d.mu.Lock()
	d.life = ctx
	d.mu.Unlock()
	d.cfg.Host.Go(func() { d.loop(ctx) })
}

// Done is closed when the loop has ended.
func (d *Dispatcher) Done() <-chan struct{} { return d.stopped }

func (d *Dispatcher) loop(ctx context.Context) {
	defer close(d.stopped)
	every := min(max(d.cfg.Timing.Lease/10, 20*time.Millisecond), time.Second)
	h := d.cfg.Host
	last, due := h.Elapsed(), h.Elapsed()+every
	_, seen := d.cfg.Clock.Now()
	for {
		switch h.Wait(ctx, host.For{News: d.kick, Limit: due - h.Elapsed()}) {
		case host.Ended:
			return
		case host.News:
			d.place(ctx)
		}
		now := h.Elapsed()
		if now < due {
			continue
		}
		// A loop that was not run for long means that this process was stopped, not
		// that every runner fell silent: they get a fresh period.
		stall := now-last > every+d.cfg.Timing.Lease/2
		seen = d.keep(ctx, stall, seen)
		last, due = now, now+every
	}
}

// keep submits a lapse for every lease whose holder was not heard in time. seen are the jumps of
// the clock that were known so far, and it returns those that are known now.
func (d *Dispatcher) keep(ctx context.Context, stall bool, seen uint64) (jumps uint64) {
	d.mu.Lock()
	now, jumps := d.cfg.Clock.Now()
	if stall || jumps != seen {
		d.board.grace(now)
	}
	var lapsed []lease
	terms := map[domain.PoolID]engine.Term{}
	if d.cfg.Valid() {
		lapsed = d.board.lapses(now)
		for _, l := range lapsed { // what it says is true in this term
			terms[l.pool] = d.term(l.pool.Partition())
		}
	}
	d.mu.Unlock()
	for _, l := range lapsed {
		err := d.bound(terms[l.pool])
		if err == nil {
			err = d.cfg.Engine.Send(ctx, engine.Envelope{
				Tenant: l.tenant, Partition: l.partition, Stream: streamOf(l.attempt), Term: terms[l.pool],
				Command: run.LapseLease{Cause: internal("lease-keeper"), Attempt: l.attempt, Epoch: l.epoch,
					LastSeen: l.lastSeen, AbandonBy: l.abandonBy},
				// A lapse that was kept on the way for so long may be older than a regain which the
				// run has forgotten the end of.
				Before: now.Add(d.cfg.Timing.Abandon - d.cfg.Timing.Lease),
			}, func(_ engine.Ack, err error) { d.lapseAnswered(l.attempt, err) })
		}
		if err != nil {
			d.lapseAnswered(l.attempt, err)
		}
	}
	return jumps
}

// lapseAnswered lets the keeper try again when a lapse could not be recorded. A rejection
// means that the run knows better: the attempt ended, or the lease is another one. Without an
// answer it may be committed yet: it is sent until there is one, and promises wait for that.
func (d *Dispatcher) lapseAnswered(attempt domain.AttemptID, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.board.lapseAnswered(attempt, err)
}

// place asks the placement rules who gets what, and asks the runs for those leases.
func (d *Dispatcher) place(ctx context.Context) {
	if !d.cfg.Valid() {
		return
	}
	d.mu.Lock()
	var picks []pick
	if d.allReady() && d.board.caught() { // a lease that is not loaded or shown yet holds a slot too
		picks = d.board.place(d.now())
	}
	grants := make([]grant, 0, len(picks))
	for _, p := range picks {
		grants = append(grants, grant{pick: p, lead: d.board.terms, term: d.term(p.command.Pool.Partition())})
	}
	d.mu.Unlock()
	for _, g := range grants {
		d.ask(ctx, g)
	}
}

func internal(name string) domain.Cause {
	return domain.Cause{Actor: domain.Actor{Kind: "reactor", ID: name, Via: "internal"}}
}

func streamOf(a domain.AttemptID) domain.StreamID {
	r, _, _, _ := a.Split()
	return r.Stream()
}

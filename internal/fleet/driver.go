package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// TTL is how long a lease lasts unless configured. A server that dies is replaced within
// it; a server that can't reach its database for that long stops answering.
const TTL = 2 * time.Second

// TTLMin bounds the configuration: below it, ordinary pauses of a busy machine would move
// partitions.
const TTLMin = 200 * time.Millisecond

// TTLMax bounds it, too, and with it how long others wait for a member that renewed just before
// somebody set the database's clock back.
const TTLMax = 30 * time.Second

// Engine is what a driver needs of the engine.
type Engine interface {
	// Own takes a partition if the epoch is still the one given.
	Own(ctx context.Context, p domain.PartitionID, epoch uint64) error
	// Release gives a partition back.
	Release(ctx context.Context, p domain.PartitionID) error
	// Fenced says that the store names a later epoch.
	Fenced(ctx context.Context, p domain.PartitionID, epoch uint64)
	// Yield stops answering for owned partitions, or goes on with it.
	Yield(on bool)
	// See takes a picture of the fleet.
	See(ctx context.Context, picture store.Picture)
	// Holds lists the owned partitions with their epochs.
	Holds() map[domain.PartitionID]uint64
}

// Config of a driver.
type Config struct {
	Store  store.Fleet
	Engine Engine
	// Member is this server: Name, Session, Address, Version and Format are wanted.
	Member store.Member
	// TTL of the lease; 0 is TTL, and less than TTLMin or more than TTLMax is refused.
	TTL time.Duration
	// Partitions are all that the fleet has, of runs and of pools.
	Partitions []domain.PartitionID
	// Kick tells the member at that address to look at the fleet now; nil: nobody is told,
	// and the others find out with their next renewal. It may take its time and may fail.
	Kick func(ctx context.Context, address string)
	// Refused is told, on every try, that the store does not take this server as a member:
	// store.ErrNameTaken or store.ErrTooOld. nil: it is logged only.
	Refused func(err error)
	Host    host.Host // nil is the machine
	Log     *slog.Logger
}

// Driver gives a Member its goroutine, its clock and its store. It decides nothing.
type Driver struct {
	cfg    Config
	member *Member
	lease  atomic.Int64 // end of the lease by Host.Elapsed
	knock  chan struct{}
	cancel context.CancelFunc
	ended  chan struct{} // closed when the loop and all its work have ended
	empty  chan struct{} // closed when everything was given back for good

	// Of the loop, for whoever asks why a lease ran out.
	late  time.Duration // how late the loop came to its turn, at most since the last renewal
	asked time.Duration // when the last renewal was asked for

	mu      sync.Mutex
	inbox   []any
	picture store.Picture
	working int
}

// New makes a driver. Start it.
func New(cfg Config) (*Driver, error) {
	if cfg.TTL == 0 {
		cfg.TTL = TTL
	}
	if cfg.TTL < TTLMin {
		return nil, fmt.Errorf("make member %s: a lease of %v is too short: at least %v", cfg.Member.Name, cfg.TTL, TTLMin)
	}
	if cfg.TTL > TTLMax {
		return nil, fmt.Errorf("make member %s: a lease of %v is too long: at most %v", cfg.Member.Name, cfg.TTL, TTLMax)
	}
	if err := cfg.Member.Check(); err != nil {
		return nil, fmt.Errorf("make member: %w", err)
	}
	if cfg.Kick == nil {
		cfg.Kick = func(context.Context, string) {}
	}
	if cfg.Refused == nil {
		cfg.Refused = func(error) {}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Host = host.Or(cfg.Host)
	return &Driver{cfg: cfg, member: NewMember(cfg.Member.Name, cfg.TTL, cfg.Partitions), knock: make(chan struct{}, 1),
		ended: make(chan struct{}), empty: make(chan struct{})}, nil
}

// Start joins the fleet and begins to take partitions. A name that is still another
// session's, for example of this server before it was restarted, is waited for until that
// one's lease must have run out.
func (d *Driver) Start(ctx context.Context) error {
	d.cfg.Engine.Yield(true)
	joined, err := d.join(ctx)
	if err != nil {
		return fmt.Errorf("join the fleet as %s: %w", d.cfg.Member.Name, err)
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	d.cancel = cancel
	d.put(joined)
	d.cfg.Host.Go(func() { d.loop(run) })
	return nil
}

// join renews for the first time. A store that does not answer at once is asked again.
func (d *Driver) join(ctx context.Context) (Renewed, error) {
	h := d.cfg.Host
	began := h.Elapsed()
	var before predecessor
	for {
		in := d.renew(ctx, false)
		if renewed, ok := in.(Renewed); ok {
			d.cfg.Member.Instead = ""
			return renewed, nil
		}
		err, patience := in.(NotRenewed).Err, joinPatience
		switch {
		case errors.Is(err, store.ErrTooOld):
			return Renewed{}, err
		case errors.Is(err, store.ErrNameTaken):
			patience = 2 * d.cfg.TTL
			if d.watch(ctx, &before) {
				patience = joinPatience + 2*TTLMax
			}
		}
		if h.Elapsed()-began > patience || !host.Pause(ctx, h, d.cfg.TTL/renewEvery) {
			return Renewed{}, err
		}
	}
}

// predecessor is another session of this server's name, which may be one before a crash.
type predecessor struct {
	session string
	until   time.Time
	ends    time.Duration // of its lease, by the local clock
	renewed bool          // it lives
}

// watch looks at who has the name, and reports whether it may be dead: it was not renewed since it
// is looked at. By the store's clock, which somebody may have set back, its lease can last for as
// long as that; when it has not been renewed for as long as a lease lasts, it is replaced.
func (d *Driver) watch(ctx context.Context, before *predecessor) (silent bool) {
	asked := d.cfg.Host.Elapsed()
	picture, err := d.cfg.Store.Picture(ctx)
	other, known := picture.Member(d.cfg.Member.Name)
	switch {
	case err != nil || !known:
	case before.session != other.Session || !before.until.Equal(other.Until):
		lasts := min(max(d.cfg.TTL, other.Until.Sub(picture.Now)), TTLMax)
		*before = predecessor{other.Session, other.Until, d.cfg.Host.Elapsed() + lasts + lasts/slower, before.session != ""}
	case asked >= before.ends:
		d.cfg.Member.Instead, d.cfg.Member.InsteadUntil = before.session, before.until
	}
	return !before.renewed
}

// joinPatience is how long a starting server waits for a store that gives no answer.
const joinPatience = 15 * time.Second

// Valid reports whether this server's lease has not run out by its own clock. Whoever
// promises something from memory (a renewed lease, an acknowledged chunk) asks after it did
// the work and before it answers: another server may have begun to promise otherwise.
func (d *Driver) Valid() bool { return d.cfg.Host.Elapsed() < time.Duration(d.lease.Load()) }

// Kick makes the member look at the fleet now: a peer changed something.
func (d *Driver) Kick() { d.put(Kicked{}) }

// Picture is the fleet as it was last seen.
func (d *Driver) Picture() store.Picture {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.picture
}

// Drain gives all partitions back and leaves the fleet. It returns when that is done, or
// with ctx; Close must follow all the same.
func (d *Driver) Drain(ctx context.Context) error {
	d.put(Drain{})
	if d.cfg.Host.Wait(ctx, host.For{News: d.empty, End: d.ended, Limit: host.Forever}) == host.Ended {
		return fmt.Errorf("drain %s: %w", d.cfg.Member.Name, ctx.Err())
	}
	return nil
}

// Close ends the driver and leaves the fleet if the store answers. It releases nothing: the
// lease ends, and others take over. Drain first to do it without a gap.
func (d *Driver) Close() {
	if d.cancel == nil {
		return
	}
	d.cancel()
	d.cfg.Host.Wait(context.Background(), host.For{News: d.ended, Limit: host.Forever})
	ctx, cancel := host.Within(context.Background(), d.cfg.Host, d.cfg.TTL)
	defer cancel()
	if err := d.cfg.Store.Leave(ctx, d.cfg.Member); err != nil {
		d.cfg.Log.Warn("server could not leave the fleet; its lease will run out", "error", err)
	}
}

func (d *Driver) put(in any) {
	d.mu.Lock()
	d.inbox = append(d.inbox, in)
	d.mu.Unlock()
	select {
	case d.knock <- struct{}{}:
	default:
	}
}

func (d *Driver) loop(ctx context.Context) {
	h := d.cfg.Host
	for {
		due := d.member.WakeAt()
		woken := h.Wait(ctx, host.For{News: d.knock, Limit: max(0, due-h.Elapsed())})
		d.late = max(d.late, h.Elapsed()-due)
		if woken == host.Ended || ctx.Err() != nil {
			break
		}
		d.mu.Lock()
		inbox := d.inbox
		d.inbox = nil
		d.mu.Unlock()
		for _, in := range append(inbox, Tick{}) {
			d.take(ctx, in)
		}
	}
	d.lease.Store(0)
	d.cfg.Engine.Yield(true)
	for d.busy() {
		h.Wait(context.Background(), host.For{News: d.knock, Limit: host.Forever})
	}
	close(d.ended)
}

func (d *Driver) busy() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.working > 0
}

// take brings one input to the member and carries out what follows.
func (d *Driver) take(ctx context.Context, in any) {
	if r, ok := in.(Renewed); ok {
		d.mu.Lock()
		d.picture = r.Picture
		d.mu.Unlock()
		d.cfg.Engine.See(ctx, r.Picture)
	}
	effects := d.member.Step(in, d.cfg.Engine.Holds(), d.cfg.Host.Elapsed())
	d.lease.Store(int64(d.member.Lease()))
	for _, eff := range effects {
		d.carry(ctx, eff)
	}
	if _, ok := in.(Renewed); ok {
		d.late = 0 // it counts from the last renewal
	}
	d.settled()
}

// settled notices when a draining member has nothing any more. The renewal that said so to
// the others must have been accepted.
func (d *Driver) settled() {
	self, _ := d.picture.Member(d.cfg.Member.Name)
	if !d.member.draining || !self.Draining || !d.member.Idle() || len(d.cfg.Engine.Holds()) > 0 {
		return
	}
	select {
	case <-d.empty:
	default:
		close(d.empty)
	}
}

func (d *Driver) carry(ctx context.Context, eff any) {
	switch eff := eff.(type) {
	case Renew:
		d.asked = d.cfg.Host.Elapsed()
		d.work(func() any { return d.renew(ctx, eff.Draining) })
	case Take:
		d.work(func() any {
			err := d.cfg.Engine.Own(ctx, eff.Partition, eff.Epoch)
			return d.moved(ctx, Done{eff.Partition, true, err})
		})
	case Release:
		d.work(func() any {
			return d.moved(ctx, Done{eff.Partition, false, d.cfg.Engine.Release(ctx, eff.Partition)})
		})
	case Disown:
		d.work(func() any {
			return d.moved(ctx, Done{eff.Partition, false, d.cfg.Store.Release(ctx, eff.Partition, eff.Epoch)})
		})
	case Fence:
		d.cfg.Engine.Fenced(ctx, eff.Partition, eff.Epoch)
	case Yield:
		d.cfg.Log.Warn("lease ran out; not answering for partitions until it is renewed", d.why()...)
		d.cfg.Engine.Yield(true)
	case Resume:
		d.cfg.Engine.Yield(false)
	case Kick:
		for _, m := range eff.Members {
			d.work(func() any {
				within, cancel := host.Within(ctx, d.cfg.Host, d.cfg.TTL)
				defer cancel()
				d.cfg.Kick(within, m.Address)
				return nil
			})
		}
	default:
		panic(fmt.Sprintf("driver of member %s got an effect of type %T", d.cfg.Member.Name, eff))
	}
}

// why says what a renewal was waiting for: the store, which had not answered for so long, or this
// process, which came late to its own turn because the machine has more to do than it can.
func (d *Driver) why() []any {
	out := []any{"late", d.late, "ttl", d.cfg.TTL}
	if d.member.renewing {
		out = append(out, "store_silent", d.cfg.Host.Elapsed()-d.asked)
	}
	return out
}

// work runs f beside the loop; what it returns is an input.
func (d *Driver) work(f func() any) {
	d.mu.Lock()
	d.working++
	d.mu.Unlock()
	d.cfg.Host.Go(func() {
		in := f()
		d.mu.Lock()
		d.working--
		d.mu.Unlock()
		if in == nil {
			in = Tick{}
		}
		d.put(in)
	})
}

// renew asks for the lease. The time is taken before: the lease can't last longer in the
// store's eyes than in ours. Close does not cut it off: a statement that arrives after the
// member has left would bring the member back.
func (d *Driver) renew(ctx context.Context, draining bool) any {
	sent := d.cfg.Host.Elapsed()
	within, cancel := host.Within(context.WithoutCancel(ctx), d.cfg.Host, d.cfg.TTL)
	defer cancel()
	m := d.cfg.Member
	m.Draining = draining
	picture, err := d.cfg.Store.Renew(within, m, d.cfg.TTL)
	if err == nil {
		picture.Took = d.cfg.Host.Elapsed() - sent
		return Renewed{picture, sent}
	}
	if ctx.Err() == nil {
		d.cfg.Log.Warn("lease was not renewed", "member", m.Name, "error", err)
	}
	if errors.Is(err, store.ErrNameTaken) || errors.Is(err, store.ErrTooOld) {
		d.cfg.Refused(err)
	}
	return NotRenewed{err}
}

func (d *Driver) moved(ctx context.Context, done Done) any {
	if done.Err != nil && ctx.Err() == nil && !errors.Is(done.Err, store.ErrFenced) {
		d.cfg.Log.Warn("partition did not change hands", "partition", done.Partition, "error", done.Err)
	}
	return done
}

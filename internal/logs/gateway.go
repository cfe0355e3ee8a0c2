package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
)

// Config sets what an operator may want to change. The zero value is a good default.
type Config struct {
	// QueueBytes bounds the chunks that wait for a write; beyond it Append is ErrBusy.
	QueueBytes int64
	// RecentBytes bounds the memory for blocks that were written or read last.
	RecentBytes int64
	// WriteTimeout is how long one write may take before it counts as failed.
	WriteTimeout time.Duration
	// Now is the clock for times of arrival in evidence, and for the days that logs are sealed on.
	Now func() time.Time
	// Host is what the gateway's work runs on; nil is the machine.
	Host host.Host
	// Wrote, if set, hears of every write of a segment. It is called without a lock held and
	// must not block.
	Wrote func(Write)
	// Era numbers the holders of the segments where several servers take turns: it only
	// grows (the epoch of the partition that the logs go with). 0 says that no other process
	// ever writes here; see era.go for what eras are for.
	Era uint64
	// Valid reports whether this holder may still speak for the logs; it is asked after
	// something became durable and before anybody is told. nil: always.
	Valid func() bool
	// Recorded looks in history for the reference to an attempt's sealed log; nil when there
	// is none yet. It is asked where memory does not know: by readers that bring no
	// reference, and for chunks of attempts that have ended. nil: nothing is recorded.
	Recorded func(context.Context, domain.TenantID, domain.AttemptID) (*Ref, error)

	again     bool // this holder has tried to open its era before
	foldCount int  // for tests, which want it small
}

// Write is one write of a segment, for metrics.
type Write struct {
	Tenant domain.TenantID
	Bytes  int64
	Chunks int
	Took   time.Duration
	Err    error
}

// Counters are sums since Open, for metrics.
type Counters struct {
	Chunks, Bytes               uint64 // acknowledged
	Repeats, Conflicts, Refused uint64
	Segments, Failures          uint64 // writes
	Folds                       uint64 // many small segments made one
	Seals, Live                 uint64 // sealed since Open; live now
	Bundles                     uint64 // objects that sealed logs were written to since Open
	Damaged                     uint64 // objects found damaged at Open
	Void                        uint64 // segments of holders that had lost the logs, dropped at Open
}

// Gateway is the driver of ingest: it owns goroutines and I/O, and nothing decides here.
type Gateway struct {
	store  blob.Store
	config Config
	shelf  *shelf
	codec  *codec
	writes *host.Seats
	seals  *host.Seats

	ctx     context.Context // ends at Close
	cancel  context.CancelFunc
	dropped atomic.Bool // by Abandon: the right to speak for the logs was given away

	mu     sync.Mutex // guards everything below; never held over I/O
	closed bool
	work   int           // commits and folds under way
	idle   chan struct{} // closed when work has come to 0; nil while nobody waits
	// abandoned: another server holds the logs. Those that are not sealed can't be read here.
	abandoned bool
	lanes     map[domain.TenantID]*lane
	lives     map[logID]*live
	queued    int64
	// recent knows the references of logs that were recorded last; bundles collects what
	// shares objects. births wakes readers of logs that had no chunk yet.
	recent   recent
	bundles  map[bundleOf]*bundler
	births   map[logID]chan struct{}
	counters Counters
	damaged  []error
}

type logID struct {
	tenant  domain.TenantID
	attempt domain.AttemptID
}

// Open finds the segments of logs that are not sealed and rebuilds their index, and removes
// what a crash between sealing and deleting left behind. A damaged segment is set aside
// (see Damaged) and the rest is served.
func Open(ctx context.Context, store blob.Store, config Config) (*Gateway, error) {
	g := newGateway(ctx, store, config)
	if err := g.recover(ctx); err != nil {
		g.cancel()
		return nil, fmt.Errorf("open log gateway: %w", err)
	}
	return g, nil
}

// newGateway makes a gateway that knows of no log yet.
func newGateway(ctx context.Context, store blob.Store, config Config) *Gateway {
	config.QueueBytes = cmp.Or(config.QueueBytes, defaultQueueBytes)
	config.RecentBytes = cmp.Or(config.RecentBytes, defaultRecentBytes)
	config.WriteTimeout = cmp.Or(config.WriteTimeout, defaultWriteTimeout)
	config.foldCount = cmp.Or(config.foldCount, foldCount)
	config.Host = host.Or(config.Host)
	if config.Now == nil {
		config.Now = time.Now
	}
	g := &Gateway{
		store: store, config: config, shelf: newShelf(config.RecentBytes), codec: newCodec(),
		writes: host.NewSeats(config.Host, writesMax), seals: host.NewSeats(config.Host, sealsMax),
		lanes: map[domain.TenantID]*lane{}, lives: map[logID]*live{}, bundles: map[bundleOf]*bundler{},
		births: map[logID]chan struct{}{},
		recent: recent{refs: map[logID]Ref{}},
	}
	g.config.Valid = func() bool { return !g.dropped.Load() && (config.Valid == nil || config.Valid()) }
	g.ctx, g.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return g
}

// Close refuses new chunks and waits for writes that are under way.
func (g *Gateway) Close() error {
	g.mu.Lock()
	g.closed = true
	g.dropBundles()
	for _, l := range g.lanes {
		g.pump(l)
	}
	for g.work > 0 {
		if g.idle == nil {
			g.idle = make(chan struct{})
		}
		idle := g.idle
		g.mu.Unlock()
		g.config.Host.Wait(context.Background(), host.For{News: idle, Limit: host.Forever})
		g.mu.Lock()
	}
	g.mu.Unlock()
	g.cancel()
	return nil
}

// Abandon lets go of the logs at once: nothing more is acknowledged, not even what is being
// written at this moment, because the next holder may not find it; whoever follows a log
// that is not sealed is told to look elsewhere, and Close can follow when there is time.
func (g *Gateway) Abandon() {
	g.dropped.Store(true)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed, g.abandoned = true, true
	g.dropBundles()
	for _, l := range g.lives {
		l.wake()
	}
	for id := range g.births {
		g.announce(id)
	}
}

// Counters gives the sums so far.
func (g *Gateway) Counters() Counters {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.counters
	c.Live = uint64(len(g.lives))
	return c
}

// Damaged gives what Open found broken and set aside, each a *Damage.
func (g *Gateway) Damaged() []error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.damaged)
}

// LiveLog is a log whose seal is not recorded.
type LiveLog struct {
	Tenant  domain.TenantID
	Attempt domain.AttemptID
	Through uint64 // contiguous and durable
	Ahead   int    // chunks behind a hole
	Bytes   int64
}

// Live lists the logs whose seal is not recorded, for a reconciler that looks for attempts
// that ended without a Seal, and for logs of which history knows the seal already.
func (g *Gateway) Live() []LiveLog {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]LiveLog, 0, len(g.lives))
	for _, l := range g.lives {
		all = append(all, LiveLog{l.tenant, l.attempt, l.through, len(l.ahead), l.tally.offset})
	}
	slices.SortFunc(all, func(a, b LiveLog) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Attempt, b.Attempt))
	})
	return all
}

// Growing tells how long a log is that is not sealed, as far as memory knows; false when no
// chunk of it has come. It asks nobody: lists of many attempts call it for each.
func (g *Gateway) Growing(tenant domain.TenantID, attempt domain.AttemptID) (Totals, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lives[logID{tenant, attempt}]
	if l == nil {
		return Totals{}, false
	}
	return l.tally.totals(false), true
}

// Through says how far an attempt's live log is durable without a hole; 0 when it has none.
func (g *Gateway) Through(tenant domain.TenantID, attempt domain.AttemptID) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.lives[logID{tenant, attempt}]; l != nil {
		return l.through
	}
	return 0
}

// Append takes chunks of any attempts, in any order, and returns once what it acknowledges
// is durable: one Ack per attempt. An error means that nothing is acknowledged; with
// errors.Is(err, domain.ErrRetry) sending again can help, and is harmless.
// Preconditions: the caller has found that each chunk comes from its attempt's current lease
// epoch.
//
// Trust: chunks are written by runners; every field is checked here.
func (g *Gateway) Append(ctx context.Context, chunks []Chunk) ([]Ack, error) {
	if len(chunks) == 0 {
		return nil, nil
	}
	chunks, bad, err := sift(chunks)
	if err != nil {
		return nil, err
	}
	parts := split(chunks)
	var sealed []*part
	open := parts[:0:0]
	for _, p := range parts {
		l, err := g.liveLog(ctx, p.ack.Tenant, p.ack.Attempt, p.ended)
		switch {
		case errors.Is(err, ErrSealed):
			p.ack.Refused = ErrSealed
			sealed = append(sealed, p)
		case err != nil:
			// It may be sealed; the others of the call have nothing to do with that.
			p.ack.Refused = &Busy{After: busyFor}
		default:
			p.live = l
			open = append(open, p)
		}
	}
	if err := g.refuseSealed(ctx, sealed); err != nil {
		return nil, err
	}
	if err := g.submit(ctx, open); err != nil {
		return nil, err
	}
	acks := make([]Ack, len(parts))
	for i, p := range parts {
		acks[i] = p.ack
	}
	return merge(acks, bad), nil
}

// sift parts chunks that are what they claim from those that are not: a bad one must not
// keep the others of its call from being stored.
func sift(chunks []Chunk) (good []Chunk, bad []Ack, err error) {
	good = make([]Chunk, 0, len(chunks))
	total := 0
	for i := range chunks {
		c := &chunks[i]
		total += len(c.Data)
		if err := c.check(); err != nil {
			bad = append(bad, Ack{Tenant: c.Tenant, Attempt: c.Attempt, Epoch: c.Epoch, Refused: err})
			continue
		}
		good = append(good, *c)
	}
	if total > AppendBytesMax {
		return nil, nil, fmt.Errorf("append %d bytes at once: %w", total, ErrInvalid)
	}
	return good, bad, nil
}

// merge adds refusals of single chunks to the answers: one for each attempt.
func merge(acks, bad []Ack) []Ack {
	for _, b := range bad {
		i := slices.IndexFunc(acks, func(a Ack) bool { return a.Tenant == b.Tenant && a.Attempt == b.Attempt })
		switch {
		case i < 0:
			acks = append(acks, b)
		case acks[i].Refused == nil:
			acks[i].Refused = b.Refused
		}
	}
	return acks
}

// split sorts chunks by attempt and sequence and measures them; repeats within the call go.
func split(chunks []Chunk) []*part {
	byLog := map[logID]*part{}
	var parts []*part
	for i := range chunks {
		c := &chunks[i]
		id := logID{c.Tenant, c.Attempt}
		p := byLog[id]
		if p == nil {
			p = &part{ack: Ack{Tenant: c.Tenant, Attempt: c.Attempt}}
			byLog[id] = p
			parts = append(parts, p)
		}
		p.ack.Epoch = max(p.ack.Epoch, c.Epoch)
		p.ended = p.ended || c.Ended
		it := item{content: c.Data, span: span{
			sequence: c.Sequence, epoch: c.Epoch, at: c.At.UnixMicro(), checksum: c.Checksum, dropped: c.Dropped,
			mark: c.Mark, step: c.Step, stream: c.Stream,
		}}
		it.measure(c.Data)
		p.items = append(p.items, it)
	}
	for _, p := range parts {
		slices.SortStableFunc(p.items, func(a, b item) int { return cmp.Compare(a.sequence, b.sequence) })
		kept := p.items[:0]
		for _, it := range p.items {
			switch n := len(kept); {
			case n == 0 || kept[n-1].sequence != it.sequence:
				kept = append(kept, it)
			case kept[n-1].checksum != it.checksum:
				p.conflicts = append(p.conflicts, it)
			}
		}
		p.items = kept
	}
	return parts
}

// liveLog finds the index of a log that may grow, or makes one; ErrSealed when it is closed.
// ended: the attempt has an outcome, so that its log may have been sealed before this gateway
// was opened, or so long ago that only history knows.
func (g *Gateway) liveLog(
	ctx context.Context, tenant domain.TenantID, attempt domain.AttemptID, ended bool,
) (*live, error) {
	id := logID{tenant, attempt}
	asked := !ended
	for {
		g.mu.Lock()
		l := g.lives[id]
		_, recorded := g.recent.find(id)
		switch {
		case l != nil && l.ref != nil, l == nil && recorded:
			g.mu.Unlock()
			return nil, ErrSealed
		case l == nil && asked:
			l = g.newLive(id)
			g.announce(id)
		}
		g.mu.Unlock()
		if l != nil {
			return l, nil
		}
		ref, err := g.recorded(ctx, id)
		if err != nil {
			return nil, err
		}
		if ref != nil {
			return nil, ErrSealed
		}
		asked = true
	}
}

// newLive makes the index of a log. The caller holds mu.
func (g *Gateway) newLive(id logID) *live {
	l := newLive(id.tenant, id.attempt)
	g.lives[id] = l
	return l
}

// birth gives a channel that is closed when the log gets its first chunk, or is sealed. The
// caller holds mu.
func (g *Gateway) birth(id logID) <-chan struct{} {
	if g.births[id] == nil {
		g.births[id] = make(chan struct{})
	}
	return g.births[id]
}

// announce wakes readers of a log that did not exist. The caller holds mu.
func (g *Gateway) announce(id logID) {
	if born := g.births[id]; born != nil {
		close(born)
		delete(g.births, id)
	}
}

// lane gives the tenant's lane. The caller holds mu.
func (g *Gateway) lane(tenant domain.TenantID) *lane {
	l := g.lanes[tenant]
	if l == nil {
		l = &lane{tenant: tenant, segments: map[uint64]*held{}, number: firstOf(g.config.Era), foldAt: g.config.foldCount}
		g.lanes[tenant] = l
	}
	return l
}

// submit queues the parts, one request per tenant, and waits for all of them.
func (g *Gateway) submit(ctx context.Context, parts []*part) error {
	byTenant := map[domain.TenantID]*request{}
	var requests []*request
	var bytes int64
	for _, p := range parts {
		r := byTenant[p.ack.Tenant]
		if r == nil {
			r = &request{done: make(chan struct{})}
			byTenant[p.ack.Tenant] = r
			requests = append(requests, r)
		}
		r.parts = append(r.parts, p)
		for i := range p.items {
			// A chunk without bytes costs memory too.
			r.bytes += len(p.items[i].content) + 160
			bytes += int64(len(p.items[i].content) + 160)
		}
	}
	if err := g.enqueue(requests, bytes); err != nil {
		return err
	}
	var failed error
	for _, r := range requests {
		if g.config.Host.Wait(ctx, host.For{News: r.done, Limit: host.Forever}) == host.Ended {
			return fmt.Errorf("append: %w", ctx.Err())
		}
		failed = errors.Join(failed, r.err)
	}
	return failed
}

func (g *Gateway) enqueue(requests []*request, bytes int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return retryable(ErrClosed)
	}
	if g.queued > 0 && g.queued+bytes > g.config.QueueBytes {
		return &Busy{After: busyFor}
	}
	for _, r := range requests {
		l := g.lane(r.parts[0].ack.Tenant)
		l.submit(r)
		g.queued += int64(r.bytes)
		g.pump(l)
	}
	return nil
}

// pump starts the writes that the lane wants. The caller holds mu.
func (g *Gateway) pump(l *lane) {
	for {
		if g.closed {
			l.resting = false // Close waits for what is queued
		}
		b := l.next()
		if b == nil {
			return
		}
		if len(b.pieces) > 0 && !l.resting && !g.closed {
			l.resting = true
			g.config.Host.After(segmentRest, func() { g.rested(l) })
		}
		g.begin(func() { g.commit(b) })
	}
}

// rested ends the moment in which small chunks collect.
func (g *Gateway) rested(l *lane) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l.resting = false
	if !g.closed {
		g.pump(l)
	}
}

// begin starts work that Close waits for. The caller holds mu.
func (g *Gateway) begin(f func()) {
	g.work++
	g.config.Host.Go(func() {
		f()
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.work--; g.work == 0 && g.idle != nil {
			close(g.idle)
			g.idle = nil
		}
	})
}

// tidy folds segments of the lane when there are enough. The caller holds mu.
func (g *Gateway) tidy(l *lane) {
	if numbers := l.foldable(); numbers != nil && !g.closed {
		l.folding = true
		g.begin(func() { g.fold(l, numbers) })
	}
}

// retryable marks a fault of storage as one that sending again can mend.
func retryable(err error) error {
	if err == nil || errors.Is(err, domain.ErrRetry) {
		return err
	}
	return fmt.Errorf("%w (%w)", err, domain.ErrRetry)
}

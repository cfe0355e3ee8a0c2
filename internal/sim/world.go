package sim

import (
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"github.com/fairlead-ci/fairlead/internal/archive"
	blobs "github.com/fairlead-ci/fairlead/internal/blob/memory"
	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/fleet"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

// Options say how to run a world.
type Options struct {
	Trace bool // keep the trace
	Trim  Trim // what to leave out of what the seed drew
	// Archive lets servers move history into objects all the time. It changes the course of a
	// world, so that it is not drawn by seeds which have one already.
	Archive bool
}

// Result is what became of a world.
type Result struct {
	Seed      uint64
	Violation *Violation // nil: it was clean
	Trace     []string   // if it was asked for
	Steps     uint64     // events of the scheduler
	Events    int        // committed events
	Virtual   time.Duration
	Faults    map[string]int
	Coverage  Coverage
	Sum       uint64 // of everything that happened: the same seed gives the same
}

// Violation is a promise that was broken.
type Violation struct {
	Check string // the sentence
	What  string
	At    time.Duration
}

// Error implements error.
func (v *Violation) Error() string { return fmt.Sprintf("at %s: %s: %s", v.At, v.Check, v.What) }

// world is everything there is.
type world struct {
	archives bool // servers archive
	seed     uint64
	swarm    swarm
	trim     Trim
	sched    *sched
	trace    traced
	streams  map[string]*rand.Rand
	faults   map[fault]int

	store            *memory.Store
	objects          *blobs.Store
	key              ed25519.PrivateKey
	prover           *credential.Prover
	storeSkew        time.Duration // of the store's clock: what it was set by
	storeSet         time.Duration // when that was last
	setBack          time.Duration // in all
	setForward       time.Duration
	storeFullUntil   time.Duration
	objectsFullUntil time.Duration
	cuts             map[[2]string]time.Duration // until when two don't hear each other
	behind           time.Duration               // of the store's clock is a server's at most

	tenants    []domain.TenantID
	partitions []domain.PartitionID
	pools      []domain.PartitionID
	remotes    []*remote
	servers    []*server
	machines   []*machine
	clients    []*client
	book       *book
	minted     uint64

	settingUp bool
	healed    bool
	broken    *Violation

	tens    time.Duration // how many times ten seconds have passed
	spanned uint64        // steps up to the last of them
}

// start is when every world begins, by its own clock.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func (w *world) wall() time.Time { return start.Add(w.sched.now) }

// storeWall is the clock of the store, which somebody may have set.
func (w *world) storeWall() time.Time { return w.wall().Add(w.storeSkew) }

func (w *world) stream(purpose string) *rand.Rand {
	r := w.streams[purpose]
	if r == nil {
		r = stream(w.seed, purpose)
		w.streams[purpose] = r
	}
	return r
}

// chance decides whether a fault happens now.
func (w *world) chance(f fault) bool {
	p := w.swarm.odds[f]
	if p == 0 || w.healed || w.settingUp || w.stream("fault/"+string(f)).Float64() >= p {
		return false
	}
	w.faults[f]++
	return true
}

// violation notes the first promise that was broken. The world stops there.
func (w *world) violation(check, format string, args ...any) {
	if w.broken != nil {
		return
	}
	w.broken = &Violation{check, fmt.Sprintf(format, args...), w.sched.now}
	w.line("world", "VIOLATION", "%s: %s", check, w.broken.What)
}

// id makes 16 bytes that sort by time.
func (w *world) id(at time.Time) (id [16]byte) {
	w.minted++
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16|0x7000)
	binary.BigEndian.PutUint64(id[8:], w.seed<<32|w.minted)
	return id
}

// cut says whether two don't hear each other now.
func (w *world) cut(a, b string) bool {
	if len(w.cuts) == 0 {
		return false
	}
	return w.sched.now < w.cuts[[2]string{a, b}] || w.sched.now < w.cuts[[2]string{b, a}]
}

// full fills a storage for a while.
func (w *world) full(until *time.Duration, what string) {
	d := between(w.stream("full"), 100*time.Millisecond, 10*time.Second)
	*until = max(*until, w.sched.now+d)
	w.line(what, "!full", "for %s", d)
}

// Run runs the world of a seed from its beginning to its end.
func Run(seed uint64, o Options) Result {
	w := newWorld(seed, o)
	func() {
		defer func() {
			if r := recover(); r != nil {
				w.violation("nothing panics", "%v\n%s", r, debug.Stack())
			}
		}()
		w.live()
	}()
	w.end()
	faults := map[string]int{}
	for f, n := range w.faults {
		faults[string(f)] = n
	}
	return Result{Seed: seed, Violation: w.broken, Trace: w.trace.lines, Steps: w.sched.steps, Events: w.book.events,
		Virtual: w.sched.now, Faults: faults, Coverage: w.book.coverage, Sum: w.sum()}
}

func newWorld(seed uint64, o Options) *world {
	w := &world{seed: seed, trim: o.Trim, swarm: draw(seed, o.Trim), streams: map[string]*rand.Rand{},
		faults: map[fault]int{}, sched: &sched{}, store: memory.New(), objects: blobs.New(),
		cuts: map[[2]string]time.Duration{}, tenants: []domain.TenantID{"tnt_a", "tnt_b"}}
	w.sched.random = w.stream("sched")
	w.trace.keep, w.archives = o.Trace, o.Archive
	var key [ed25519.SeedSize]byte
	binary.BigEndian.PutUint64(key[:], seed)
	w.key, w.prover = ed25519.NewKeyFromSeed(key[:]), proverOf(seed, key[:])
	w.book = newBook(w)
	for i := range w.swarm.partitions {
		w.partitions = append(w.partitions, domain.PartitionID(fmt.Sprintf("p%d", i)))
	}
	w.pools = []domain.PartitionID{poolName.Partition()}
	w.store.SetClock(w.storeWall)
	return w
}

// whole is the store with what lies in the archive.
func (w *world) whole() store.Store { return archive.Over(w.store, archive.NewReader(w.objects)) }

// live is the course of a world: set up, go wrong, heal, come to rest.
func (w *world) live() {
	w.setUp()
	if w.broken != nil {
		return
	}
	w.people()
	w.trouble()
	w.until(func() bool { return w.sched.now >= w.swarm.phase })
	for _, then := range []func(){w.heal, w.month} {
		if w.broken == nil {
			then()
			w.rest()
		}
	}
	if w.broken == nil {
		w.line("world", "rest", "")
		w.book.close()
	}
}

// rest waits until everything has come to its end.
func (w *world) rest() {
	limit, at := w.sched.now+restWithin+3*w.setBack, w.sched.now
	rested := false
	ownedAt := w.sched.now
	w.until(func() bool {
		if w.sched.now >= at {
			at = w.sched.now + time.Second
			rested = w.restless() == ""
			if p := w.unowned(); p == "" {
				ownedAt = w.sched.now
			} else if w.sched.now > ownedAt+ownedWithin {
				w.violation("every partition has an owner that answers", "nobody answers for %s since %s", p, ownedAt)
			}
		}
		return rested || w.sched.now >= limit
	})
	if w.broken == nil && !rested {
		w.violation("everything comes to its end", "after %s of peace: %s", restWithin, w.restless())
	}
}

// restWithin is how long a healed world may take. The sealer's patience with chunks that
// never come is ten minutes; everything else is quicker.
const restWithin = 30 * time.Minute

// ownedWithin is how long a partition of a healed world may be without an owner that answers: the
// longest lease of a member, and a server that starts.
const ownedWithin = fleet.TTLMax + 30*time.Second

// unowned names a partition that no server answers for, "" when there is none.
func (w *world) unowned() domain.PartitionID {
	owned := map[domain.PartitionID]bool{}
	for _, s := range w.servers {
		if s.up() && s.ready && s.fleet.Valid() {
			for p := range s.engine.Holds() {
				owned[p] = true
			}
		}
	}
	for _, p := range append(slices.Clone(w.partitions), w.pools...) {
		if !owned[p] {
			return p
		}
	}
	return ""
}

// stepsMax is a world that goes round in circles, stepsBusy one that does for ten seconds: the
// busiest of worlds that don't make half as many.
const (
	stepsMax  = 2_000_000
	stepsBusy = 40_000
)

func (w *world) until(done func() bool) {
	for w.broken == nil && !done() {
		if !w.sched.step() {
			w.violation("nothing waits for ever in silence", "nobody has anything left to do")
		}
		if w.sched.steps > stepsMax {
			w.violation("nothing goes round in circles", "more than %d steps", stepsMax)
		}
		if span := w.sched.now / (10 * time.Second); span != w.tens {
			w.tens, w.spanned = span, w.sched.steps
		} else if w.sched.steps-w.spanned > stepsBusy {
			w.violation("nothing goes round in circles", "%d steps within ten seconds", w.sched.steps-w.spanned)
		}
	}
}

// end unwinds whatever still runs.
func (w *world) end() {
	w.sched.current = nil
	for _, s := range w.servers {
		if s.process != nil {
			s.process.kill()
		}
	}
	for _, m := range w.machines {
		for _, p := range []*process{m.agent, m.jobs} {
			if p != nil {
				p.kill()
			}
		}
	}
	for _, c := range w.clients {
		c.process.kill()
	}
}

func (w *world) sum() uint64 {
	sum := w.trace.sum
	for _, n := range []uint64{w.sched.steps, uint64(w.sched.now), w.minted, uint64(w.book.events)} {
		sum = sum*1_000_003 + n
	}
	return sum
}

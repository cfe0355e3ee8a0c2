package trigger

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
)

// line is whose turn it is at the gate: what a request names as its repository, before anything
// is looked up.
type line struct {
	tenant     domain.TenantID
	repository string
}

// gate bounds how many requests resolve commits, compile and store objects at once, and lets those
// that wait in by turns of their repositories: ten thousand requests for one keep a request for
// another waiting for one of them, not for all. Who would wait for too long is refused.
type gate struct {
	host host.Host

	mu      sync.Mutex
	busy    int
	busyOf  map[line]int
	waiting map[line][]*visitor // of those in turns
	turns   []line              // those that have somebody waiting, the next one first
	count   int
}

// visitor waits at the gate.
type visitor struct {
	in  chan struct{} // closed when it may go on
	let bool          // it was let in
}

func newGate(h host.Host) *gate {
	return &gate{host: h, busyOf: map[line]int{}, waiting: map[line][]*visitor{}}
}

// enter waits for a turn, and gives a function that ends it; calling that again does nothing.
func (g *gate) enter(ctx context.Context, l line) (leave func(), err error) {
	l.repository = domain.Clip(l.repository, nameBytesMax) // it comes from outside
	if err := g.wait(ctx, l); err != nil {
		return nil, err
	}
	var once sync.Once
	return func() { once.Do(func() { g.leave(l) }) }, nil
}

func (g *gate) wait(ctx context.Context, l line) error {
	g.mu.Lock()
	if g.count == 0 && g.free(l) {
		g.take(l)
		g.mu.Unlock()
		return nil
	}
	if n := len(g.waiting[l]); n >= gateWaitingOne || g.count >= gateWaiting {
		all := g.count
		g.mu.Unlock()
		return full(all, n)
	}
	v := &visitor{in: make(chan struct{})}
	if _, has := g.waiting[l]; !has {
		g.turns = append(g.turns, l)
	}
	g.waiting[l] = append(g.waiting[l], v)
	g.count++
	g.next()
	g.mu.Unlock()
	woken := g.host.Wait(ctx, host.For{News: v.in, Limit: gateWait})
	g.mu.Lock()
	defer g.mu.Unlock()
	if v.let {
		return nil
	}
	g.waiting[l] = slices.DeleteFunc(g.waiting[l], func(other *visitor) bool { return other == v })
	g.count--
	if woken == host.Late {
		return full(g.count, len(g.waiting[l]))
	}
	return fmt.Errorf("wait for the turn of %.100q: %w", l.repository, ctx.Err())
}

func full(all, one int) error {
	return domain.Shed(domain.CodeOverloaded, gateRetry, fmt.Sprintf("More requests for runs wait than can be begun "+
		"within %s (%d, %d of them for this repository); running work goes on. Try again later.", gateWait, all, one))
}

// leave lets the next in.
func (g *gate) leave(l line) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy--
	if g.busyOf[l]--; g.busyOf[l] == 0 {
		delete(g.busyOf, l)
	}
	g.next()
}

func (g *gate) free(l line) bool { return g.busy < gateBusy && g.busyOf[l] < gateBusyOne }

func (g *gate) take(l line) {
	g.busy++
	g.busyOf[l]++
}

// next lets in whom there is room for, one of each repository after the other. mu is held.
func (g *gate) next() {
	for looked := 0; g.busy < gateBusy && looked < len(g.turns); {
		l := g.turns[0]
		g.turns = g.turns[1:]
		looked++
		if len(g.waiting[l]) > 0 && g.free(l) {
			v := g.waiting[l][0]
			g.waiting[l][0] = nil
			g.waiting[l] = g.waiting[l][1:]
			g.count--
			g.take(l)
			v.let = true
			close(v.in)
			looked = 0
		}
		if len(g.waiting[l]) == 0 {
			delete(g.waiting, l)
			continue
		}
		g.turns = append(g.turns, l)
	}
}

// Bounds of the gate.
const (
	// gateBusy is how many requests are worked on at once: enough that their syncs share what the
	// disk does, and few enough that each is done in some tens of milliseconds.
	gateBusy = 32
	// gateBusyOne is the same for one repository: one whose remote does not answer does not take
	// all places.
	gateBusyOne = 8
	// gateWaiting and gateWaitingOne bound who waits, of all and for one repository: a request that
	// waits keeps a connection and its message in memory.
	gateWaiting    = 4000
	gateWaitingOne = 1000
	// gateWait is how long a request waits for its turn.
	gateWait = 10 * time.Second
	// gateRetry is told to whoever was refused.
	gateRetry = 5 * time.Second
)

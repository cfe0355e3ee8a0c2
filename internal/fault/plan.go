package fault

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrInjected is in every error that a plan makes.
var ErrInjected = errors.New("injected fault")

// Port names what a wrapper stands before.
type Port string

// Ports. Objects and Segments are the same port, as its two users see it.
const (
	PortStore     Port = "store"
	PortObjects   Port = "objects"  // what a run rests on: plans, snapshots, contexts
	PortSegments  Port = "segments" // what the log gateway keeps
	PortSource    Port = "source"
	PortManifests Port = "manifests"
	PortSandbox   Port = "sandbox"
	PortSpool     Port = "spool"
)

// How says what becomes of a call that is struck.
type How string

// Ways to fail. Not every call can fail in every way; those that can't are not counted.
const (
	Before How = "before" // nothing happened
	After  How = "after"  // it happened, and its reply was lost
	Full   How = "full"   // nothing happened: there is no space
	Broken How = "broken" // nothing happened, and what failed can't be trusted any more
	Torn   How = "torn"   // half of it happened
)

// Mode is a way to fail and how long it lasts.
type Mode struct {
	How     How
	Lasting bool // every later call that can fail in this way does so too
}

// String is "once before" or "for good before".
func (m Mode) String() string {
	if m.Lasting {
		return "for good " + string(m.How)
	}
	return "once " + string(m.How)
}

// Call is one call of a port.
type Call struct {
	Op  string // the method in lower case: "append", "put"
	Can []How  // in which ways it can fail
}

// Plan says which calls fail. Its methods may be called from any goroutine.
type Plan struct {
	port Port
	mode Mode
	k    int
	tell func(op string)

	mu     sync.Mutex
	mended bool
	count  int // calls so far that could have been struck
	struck []string
}

// NewPlan strikes the k-th call of the port, from 1, that can fail in the mode's way.
func NewPlan(port Port, mode Mode, k int) *Plan {
	return &Plan{port: port, mode: mode, k: k, tell: func(string) {}}
}

// Tell has f told of every call that is struck, before it fails: where the plan is carried out
// in another process, that is how its parent learns of it. Call it before the plan is used.
func (p *Plan) Tell(f func(op string)) { p.tell = f }

// Mend ends all faults.
func (p *Plan) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mended = true
}

// Struck lists the calls that failed, in order; none means that there was no k-th call.
func (p *Plan) Struck() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.struck)
}

// Count is how many calls could have been struck so far.
func (p *Plan) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// Mode is the plan's.
func (p *Plan) Mode() Mode { return p.mode }

// strikes counts a call and says whether it fails.
func (p *Plan) strikes(port Port, c Call) bool {
	if p == nil || port != p.port || !slices.Contains(c.Can, p.mode.How) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mended {
		return false
	}
	p.count++
	if p.count == p.k || p.mode.Lasting && p.count > p.k {
		p.struck = append(p.struck, c.Op)
		p.tell(c.Op)
		return true
	}
	return false
}

// gate carries out the calls of one port by a plan. meaning gives a fault the error that the
// port has for it; nil for one that has no name of its own.
type gate struct {
	plan    *Plan
	port    Port
	meaning func(op string, how How) error
}

// do is a call that answers nothing but whether it worked.
func (g gate) do(c Call, act func() error) error {
	if !g.plan.strikes(g.port, c) {
		return act()
	}
	if g.plan.mode.How == After {
		if err := act(); err != nil {
			return err // it failed by itself, and its reply was not lost
		}
	}
	return g.err(c.Op)
}

// ask is do for a call that answers something.
func ask[T any](g gate, c Call, act func() (T, error)) (T, error) {
	var out T
	err := g.do(c, func() (err error) {
		out, err = act()
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return out, nil
}

func (g gate) err(op string) error {
	if meaning := g.meaning(op, g.plan.mode.How); meaning != nil {
		return fmt.Errorf("%s %s: %w: %w", g.port, op, meaning, ErrInjected)
	}
	return fmt.Errorf("%s %s: %w", g.port, op, ErrInjected)
}

// reads can fail only before they did anything: a lost answer is no answer.
func reads(op string) Call { return Call{op, []How{Before}} }

// writes can also have happened.
func writes(op string) Call { return Call{op, []How{Before, After}} }

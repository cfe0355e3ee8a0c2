package fault_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/fault"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// setting is what a pass plays on.
type setting struct {
	disk func(testing.TB) disk
	// source is source control with one repository, of one commit; nil: branches.
	source func(testing.TB) (scm.Source, origin)
	plant  func(store.Store, blob.Store) (store.Store, blob.Store)
	// over stands between the faults and the server; nil: nothing does.
	over func(store.Store) store.Store
}

// passed is what came of one pass.
type passed struct {
	struck   []string
	findings []string
	trace    string
}

// play goes once through the client's whole life with one plan of what fails, and looks at
// everything afterwards. It must be called in a bubble of synctest: what it waits for takes
// minutes.
func play(t testing.TB, s setting, plan *fault.Plan) passed {
	w := &world{t: t, disk: s.disk(t), plan: plan, plant: s.plant, over: s.over, book: newBook(), log: &notes{},
		kinds: map[string]*engine.Kind{}, turn: make(chan struct{}, 1)}
	for _, k := range projection.Kinds() {
		w.kinds[k.Name] = k
	}
	work, cancel := context.WithCancel(context.Background())
	c := &client{world: w, work: work}
	if s.source == nil {
		s.source = inBranches
	}
	w.source, c.origin = s.source(t)
	secret, _ := credential.NewRegistrationToken()
	c.secret = secret.Reveal()
	c.bring(thing{name: "start", do: func(context.Context) error { return c.up(1) }})
	for _, thing := range c.things() {
		if !c.bring(thing) {
			break
		}
	}
	plan.Mend()
	c.settle()
	cancel()
	w.mu.Lock()
	w.stopping = true
	w.mu.Unlock()
	time.Sleep(10 * time.Minute) // whatever still goes on ends by itself within this
	return passed{plan.Struck(), w.book.findings, w.log.String()}
}

// mend ends the faults. A server that ran into a lasting one is started again, as an operator
// would do who has made room or found the disk.
func (c *client) mend(why string) {
	c.trace("mended: %s", why)
	c.plan.Mend()
	c.restart()
}

func (c *client) restart() {
	c.down()
	if err := c.up(3); err != nil {
		c.book.find("nothing fails any more, and the server does not start: %v", err)
	}
}

// bring asks for a thing until it has happened. While a fault lasts, the client finds out
// and stops asking; a fault that happened once must not be felt for longer than a moment.
func (c *client) bring(thing thing) bool {
	begin, tries := time.Now(), 0
	var last error
	lasting := c.plan.Mode().Lasting
	for time.Since(begin) < thing.wait+10*time.Minute {
		tries++
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		err := thing.do(ctx)
		cancel()
		if err == nil {
			c.trace("client: %s", thing.name)
			return true
		}
		last = err
		if !errors.Is(err, errNotYet) {
			c.trace("client: %s: %v", thing.name, err)
			c.clear(thing.name, err)
			c.definite(thing.name, err)
		}
		patience := tries >= 3 && thing.wait == 0 || time.Since(begin) > thing.wait && thing.wait > 0
		if lasting && len(c.plan.Struck()) > 0 && patience {
			lasting = false
			if errors.Is(last, errNotYet) && !c.said() {
				c.book.find("%s does not happen, and nobody says why: %v", thing.name, last)
			}
			c.mend(thing.name + " does not happen")
			begin = time.Now()
		}
		time.Sleep(time.Second)
	}
	c.book.find("%s never happens: %v", thing.name, last)
	return false
}

// said reports whether the server's log tells its operator what is wrong.
func (c *client) said() bool {
	text := c.log.String()
	return strings.Contains(text, fault.ErrInjected.Error()) || strings.Contains(text, "storage is full")
}

// definite wants no answer that would make a client give up: nothing here is its own fault.
func (c *client) definite(what string, err error) {
	r, ok := domain.AsRejection(err)
	if !ok {
		return
	}
	switch r.Code {
	case domain.CodeNotOwner, domain.CodeStorageFull:
		return // says that it is for the moment
	case domain.CodeCommitNotFound, domain.CodeInvalidArgument:
		if strings.Contains(r.Message, "try again") {
			return
		}
	}
	c.book.find("%s: the client is told %s for good: %s", what, r.Code, r.Message)
}

// settle lets everything come to rest, looks at all of it, and looks again after another
// start.
func (c *client) settle() {
	time.Sleep(2 * time.Minute)
	c.inspect("running")
	c.restart()
	for _, thing := range c.again() {
		c.bring(thing)
	}
	time.Sleep(time.Minute)
	c.inspect("started again")
	c.down()
}

// inspect is the audit of what the running server's disk holds, and of what the server thinks.
func (c *client) inspect(when string) {
	c.mu.Lock()
	s := c.server
	c.mu.Unlock()
	if s == nil {
		c.book.find("%s: there is no server", when)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	before := len(c.book.findings)
	c.audit(ctx, s.store, s.blobs)
	a := &audit{w: c.world, blobs: s.blobs}
	// What could not be deleted is found by the next start.
	if left, err := a.leftovers(ctx); err != nil || len(left) > 0 && when != "running" {
		c.book.find("all logs are sealed, and there are segments %v (%v)", left, err)
	}
	if live := s.gateway.Live(); len(live) > 0 {
		c.book.find("all logs are sealed, and the gateway has live ones: %v", live)
	}
	for _, status := range s.engine.Status() {
		if status.Stopped != nil || len(status.Problems) > 0 {
			c.book.find("partition %s: stopped %v, problems %v", status.Partition, status.Stopped, status.Problems)
		}
	}
	for _, p := range s.dispatch.Pools(tenant) {
		if p.Busy > 0 || p.Waiting > 0 {
			c.book.find("nothing is left to do, and pool %s has %d busy and %d waiting", p.Pool, p.Busy, p.Waiting)
		}
	}
	for i := before; i < len(c.book.findings); i++ {
		c.book.findings[i] = fmt.Sprintf("%s: %s", when, c.book.findings[i])
	}
}

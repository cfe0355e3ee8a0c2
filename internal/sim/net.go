package sim

import (
	"errors"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

var (
	errRefused = errors.New("connection refused")
	errReset   = errors.New("connection reset")
	errTimeout = errors.New("no answer in time")
)

// call is a request to a server that somebody waits for.
type call struct {
	world  *world
	from   *process
	name   string // of who asks
	to     *server
	what   string
	handle func(s *served) (any, error)
	done   func(any, error)
	once   bool // nobody on the way repeats it
	ended  bool
}

// served is a server as it answers one request.
type served struct {
	*server
	at *process
}

// call sends a request and brings the answer: exactly once done hears of it, in the caller's
// process, unless that dies. handle runs in a task of the server; it may run although the
// caller hears of a failure, and twice.
func (w *world) call(c call, patience time.Duration) {
	c.world = w
	one := &c
	w.sched.after(patience, c.from, func() { one.end(nil, errTimeout) })
	copies := 1
	if w.chance(netTwice) && !c.once {
		copies = 2
		w.line("net", "!"+string(netTwice), "%s>%s %s", c.name, c.to.name, c.what)
	}
	for range copies {
		if w.lost(c.name, c.to.name, c.what) {
			continue
		}
		w.sched.after(w.latency(), nil, one.arrive)
	}
}

// lost says whether a message does not arrive.
func (w *world) lost(from, to, what string) bool {
	if w.cut(from, to) {
		w.line("net", "!"+string(netCut), "%s>%s %s", from, to, what)
		return true
	}
	if w.chance(netDrop) {
		w.line("net", "!"+string(netDrop), "%s>%s %s", from, to, what)
		return true
	}
	return false
}

func (c *call) arrive() {
	w, p := c.world, c.to.process
	if p == nil || p.dead {
		w.sched.after(w.latency(), c.from, func() { c.end(nil, errRefused) })
		return
	}
	w.sched.after(0, p, func() { // a frozen server takes it when it wakes
		c.to.open = append(c.to.open, c)
		p.Go(func() {
			answer, err := c.handle(&served{c.to, p})
			if w.lost(c.to.name, c.name, c.what) {
				return
			}
			w.sched.after(w.latency(), c.from, func() { c.end(answer, err) })
		})
	})
}

// reset ends the calls of a server that died; their callers hear of it.
func (s *server) reset() {
	for _, c := range s.open {
		if !c.ended {
			s.world.sched.after(s.world.latency(), c.from, func() { c.end(nil, errReset) })
		}
	}
	s.open = nil
}

func (c *call) end(answer any, err error) {
	if c.ended {
		return
	}
	c.ended = true
	for i, other := range c.to.open {
		if other == c {
			c.to.open = append(c.to.open[:i:i], c.to.open[i+1:]...)
			break
		}
	}
	c.done(answer, err)
}

// latency is how long a message takes.
func (w *world) latency() time.Duration {
	r := w.stream("net")
	d := w.swarm.latency/2 + time.Duration(r.Int64N(int64(w.swarm.latency)))
	if w.chance(netSlow) {
		d += between(r, 100*time.Millisecond, 8*time.Second)
	}
	return d
}

// way is how long something takes to a store or back.
func (w *world) way() time.Duration {
	return time.Duration(w.stream("way").Int64N(int64(4 * time.Millisecond)))
}

// definite says whether an answer is one: trying again brings nothing else.
func definite(err error) bool {
	r, ok := domain.AsRejection(err)
	if err == nil {
		return true
	}
	if !ok {
		return false
	}
	switch r.Code {
	case domain.CodeNotOwner, domain.CodeStorageFull:
		return false
	}
	return true
}

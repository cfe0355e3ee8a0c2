package sim

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/fairlead-ci/fairlead/internal/host"
)

// sched is the world's time and its tasks. A task is a goroutine that runs only while the
// scheduler stands still, so that there is one thread of execution in an order that the seed
// decides.
type sched struct {
	now     time.Duration
	random  *rand.Rand
	events  events
	serial  uint64
	current *task
	ready   []*task
	steps   uint64 // events and resumptions so far
}

// event is something that happens at a time. It belongs to a process, or to nobody.
type event struct {
	at     time.Duration
	serial uint64 // ties are broken by birth
	owner  *process
	run    func()
}

type events []event

func (e events) before(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].serial < e[j].serial
}

// push and pop are a heap without the boxing of container/heap: worlds spend their time here.
func (e *events) push(x event) {
	*e = append(*e, x)
	h := *e
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.before(i, up) {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (e *events) pop() event {
	h := *e
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], event{}
	h = h[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			break
		}
		if down+1 < last && h.before(down+1, down) {
			down++
		}
		if !h.before(down, i) {
			break
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
	*e = h
	return first
}

// at plans an event of a process; nil is nobody's, which no crash and no freeze touches.
func (s *sched) at(when time.Duration, owner *process, run func()) {
	s.serial++
	s.events.push(event{max(when, s.now), s.serial, owner, run})
}

func (s *sched) after(d time.Duration, owner *process, run func()) { s.at(s.now+d, owner, run) }

// step lets one thing happen. It reports false when nothing is left.
func (s *sched) step() bool {
	for len(s.ready) > 0 {
		i := s.random.IntN(len(s.ready))
		t := s.ready[i]
		s.ready[i] = s.ready[len(s.ready)-1]
		s.ready = s.ready[:len(s.ready)-1]
		switch {
		case t.process.dead:
		case t.process.frozen:
			t.process.thawing = append(t.process.thawing, t)
		default:
			s.resume(t)
			return true
		}
	}
	for len(s.events) > 0 {
		e := s.events.pop()
		s.now = max(s.now, e.at)
		if e.owner != nil {
			if e.owner.dead {
				continue
			}
			if e.owner.frozen {
				e.owner.deferred = append(e.owner.deferred, e)
				continue
			}
		}
		s.steps++
		e.run()
		if e.owner != nil {
			s.look(e.owner)
		}
		return true
	}
	return false
}

// process is one incarnation of something that runs: it can be frozen, and it dies as a
// whole. It is the host of the product's code in it.
type process struct {
	sched    *sched
	name     string
	born     time.Duration
	rate     float64 // of its machine's clock: how much of it passes in a second of the world's
	dead     bool
	frozen   bool
	tasks    []*task
	deferred []event // what should have happened while it was frozen
	thawing  []*task
}

func (s *sched) process(name string) *process {
	return &process{sched: s, name: name, born: s.now, rate: 1}
}

// paced is how much passes of a clock that runs at that rate.
func paced(d time.Duration, rate float64) time.Duration {
	if rate == 1 {
		return d
	}
	return time.Duration(float64(d) * rate)
}

// on puts a process that begins on a machine whose clock runs at that rate.
func (p *process) on(rate float64) *process {
	p.rate = rate
	return p
}

// takes is how long it takes by the world's time until so much of the machine's has passed.
func (p *process) takes(d time.Duration) time.Duration {
	if p.rate == 1 {
		return d
	}
	return time.Duration(math.Ceil(float64(d) / p.rate))
}

// killed unwinds a task of a process that died.
type killed struct{}

// kill ends the process: its tasks never run again, and its plans come to nothing.
func (p *process) kill() {
	if p.dead {
		return
	}
	p.dead = true
	running := p.sched.current
	for _, t := range p.tasks {
		if t != running {
			t.stop()
		}
	}
	p.tasks, p.deferred, p.thawing = nil, nil, nil
	if running != nil && running.process == p {
		panic(killed{})
	}
}

func (p *process) freeze() { p.frozen = true }

// thaw lets the process go on. Everything that it missed happens now, in its old order.
func (p *process) thaw() {
	if !p.frozen {
		return
	}
	p.frozen = false
	for _, e := range p.deferred {
		p.sched.at(p.sched.now, p, e.run)
	}
	p.sched.ready = append(p.sched.ready, p.thawing...)
	p.deferred, p.thawing = nil, nil
	p.sched.look(p)
}

// task is a coroutine of a process.
type task struct {
	process *process
	next    func() (struct{}, bool)
	stop    func()
	yield   func(struct{}) bool
	waiting bool
	serial  uint64 // of its waits
	ctx     context.Context
	w       host.For
	woken   host.Woken
}

// Go implements host.Host.
func (p *process) Go(f func()) {
	if p.dead {
		return
	}
	s := p.sched
	t := &task{process: p}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(killed); !ok {
					panic(fmt.Sprintf("%v\n%s", r, debug.Stack())) // the stack ends here
				}
			}
		}()
		f()
	})
	p.tasks = append(p.tasks, t)
	s.ready = append(s.ready, t)
}

func (s *sched) resume(t *task) {
	s.steps++
	before := s.current
	s.current = t
	_, more := t.next()
	s.current = before
	if !more && !t.process.dead {
		for i, other := range t.process.tasks {
			if other == t {
				t.process.tasks = append(t.process.tasks[:i], t.process.tasks[i+1:]...)
				break
			}
		}
	}
	s.look(t.process)
}

// Wait implements host.Host.
func (p *process) Wait(ctx context.Context, w host.For) host.Woken {
	if p.dead {
		panic(killed{})
	}
	s := p.sched
	t := s.current
	if t == nil || t.process != p {
		panic(fmt.Sprintf("%s waits outside of its tasks", p.name))
	}
	if woken := look(ctx, w); woken != 0 {
		return woken
	}
	if w.Limit <= 0 {
		return host.Late
	}
	t.serial++
	t.waiting, t.ctx, t.w = true, ctx, w
	if w.Limit != host.Forever {
		serial := t.serial
		s.after(p.takes(w.Limit), p, func() {
			if t.waiting && t.serial == serial {
				s.wake(t, host.Late)
			}
		})
	}
	s.park(t)
	return t.woken
}

// park gives the turn back to the scheduler until the task is resumed.
func (s *sched) park(t *task) {
	if !t.yield(struct{}{}) || t.process.dead {
		panic(killed{})
	}
}

func (s *sched) wake(t *task, why host.Woken) {
	t.waiting, t.woken = false, why
	t.ctx, t.w = nil, host.For{}
	s.ready = append(s.ready, t)
}

// look finds the tasks of a process that have what they wait for. Whatever a task waits for
// is done by its own process, so only a process that has just run is looked at.
func (s *sched) look(p *process) {
	if p.dead {
		return
	}
	for _, t := range p.tasks {
		if t.waiting {
			if woken := look(t.ctx, t.w); woken != 0 {
				s.wake(t, woken)
			}
		}
	}
}

func look(ctx context.Context, w host.For) host.Woken {
	select {
	case <-w.News:
		return host.News
	default:
	}
	select {
	case <-w.End:
		return host.End
	default:
	}
	if ctx.Err() != nil {
		return host.Ended
	}
	return 0
}

// After implements host.Host.
func (p *process) After(d time.Duration, f func()) {
	if !p.dead {
		p.sched.after(p.takes(d), p, f)
	}
}

// Elapsed implements host.Host.
func (p *process) Elapsed() time.Duration { return paced(p.sched.now-p.born, p.rate) }

var _ host.Host = (*process)(nil)

// sleep lets a task wait for virtual time.
func (p *process) sleep(d time.Duration) { host.Pause(context.Background(), p, d) }

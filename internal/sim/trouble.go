package sim

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fairlead-ci/fairlead/internal/host"
)

// trouble plans everything that goes wrong by itself, without an operation that it strikes.
func (w *world) trouble() {
	w.nowAndThen(serverDies, func() { w.anyServer().crash(serverDies) })
	w.nowAndThen(serverStops, func() { w.stopServer() })
	w.nowAndThen(serverDrains, func() { w.drain() })
	w.nowAndThen(clockJumps, func() { w.jump() })
	w.nowAndThen(storeAway, func() {
		for _, s := range w.servers {
			w.isolate(s.name, "db", 8*time.Second)
		}
	})
	w.nowAndThen(netCut, func() { w.cutSomebody() })
	w.nowAndThen(runnerDies, func() { w.anyMachine(false, runnerDies) })
	w.nowAndThen(machineDies, func() { w.anyMachine(true, machineDies) })
	w.nowAndThen(runnerVanishes, func() { w.anyMachine(true, runnerVanishes) })
	w.nowAndThen(runnerStops, func() { w.stopMachine() })
	w.nowAndThen(liarSpeaks, func() {
		w.lie()
		w.invent()
	})
	w.nowAndThen(storeClockSet, func() { w.setStoreClock() })
	w.nowAndThen(leaderStrands, func() { w.strand() })
}

// nowAndThen does something at random times, as often per minute as the seed drew.
func (w *world) nowAndThen(f fault, strike func()) {
	rate := w.swarm.odds[f]
	if rate == 0 {
		return
	}
	r := w.stream("when/" + string(f))
	var next func()
	next = func() {
		wait := -math.Log(1-r.Float64()) / rate * float64(time.Minute)
		w.sched.after(time.Duration(min(wait, float64(time.Hour))), nil, func() {
			if w.healed {
				return
			}
			w.faults[f]++
			strike()
			next()
		})
	}
	next()
}

func (w *world) anyServer() *server { return pick(w.stream("trouble/server"), w.servers...) }

// stopServer freezes a process: SIGSTOP, a suspended machine, a long collection of garbage.
func (w *world) stopServer() {
	s := w.anyServer()
	p := s.process
	if p == nil || p.frozen {
		return
	}
	d := w.span(2 * w.swarm.lease)
	w.line(s.label(), "!"+string(serverStops), "for %s", d)
	p.freeze()
	w.sched.after(d, nil, func() {
		if !p.dead {
			w.line(s.label(), "wakes", "")
			p.thaw()
		}
	})
}

// span is a time that is sometimes short and sometimes longer than a lease.
func (w *world) span(most time.Duration) time.Duration {
	return time.Duration(spread(w.stream("span"), 0.05, max(most.Seconds(), 0.1)) * float64(time.Second))
}

func (w *world) jump() {
	r := w.stream("trouble/jump")
	d := time.Duration(spread(r, 0.01, 600) * float64(time.Second))
	if r.IntN(2) == 0 {
		d = -d
	}
	if r.IntN(3) > 0 {
		s := w.anyServer()
		s.skew += d
		w.line(s.name, "!"+string(clockJumps), "by %s", d)
		return
	}
	m := pick(r, w.machines...)
	m.skew += d
	w.line(m.name, "!"+string(clockJumps), "by %s", d)
}

// setStoreClock sets the clock of the store: by about a lease, by a little or by minutes.
func (w *world) setStoreClock() {
	r := w.stream("trouble/store-clock")
	d := time.Duration(spread(r, 0.01, 600) * float64(time.Second))
	if r.IntN(2) == 0 {
		d = between(r, w.swarm.member/2, 4*w.swarm.member)
	}
	if r.IntN(2) == 0 {
		d = -d
		w.setBack -= d
	} else {
		w.setForward += d
	}
	w.storeSkew += d
	w.storeSet = w.sched.now
	w.line("db", "!"+string(storeClockSet), "by %s", d)
}

func (w *world) isolate(a, b string, most time.Duration) { w.part(a, b, w.span(most)) }

// part cuts what two say to each other for as long as that.
func (w *world) part(a, b string, d time.Duration) {
	w.line("net", "!"+string(netCut), "%s|%s for %s", a, b, d)
	w.cuts[[2]string{a, b}] = w.sched.now + d
}

// strand splits the network in two: the pool's leader, with the runners that speak with it, is
// on the side without the store until long after its lease has run out.
func (w *world) strand() {
	i := slices.IndexFunc(w.servers, (*server).leads)
	if i < 0 {
		return
	}
	s, r := w.servers[i], w.stream("trouble/strand")
	d := w.swarm.member + between(r, w.swarm.lease/2, w.swarm.lease+w.swarm.abandon)
	w.part(s.name, "db", d)
	for _, other := range w.servers {
		if other == s {
			continue
		}
		w.part(s.name, other.name, d)
		for _, m := range w.machines {
			if m.server() == s {
				w.part(m.name, other.name, d)
			}
		}
	}
}

func (w *world) cutSomebody() {
	r := w.stream("trouble/cut")
	s := w.anyServer()
	switch r.IntN(5) {
	case 0:
		w.isolate(s.name, "db", 3*w.swarm.lease)
	case 1:
		w.isolate(s.name, "blob", 3*w.swarm.lease)
	case 2:
		other := w.anyServer()
		w.isolate(s.name, other.name, 3*w.swarm.lease)
	default: // a runner, from one server or from all
		m := pick(r, w.machines...)
		if r.IntN(2) == 0 {
			w.isolate(m.name, s.name, 3*w.swarm.abandon)
			return
		}
		for _, s := range w.servers {
			w.isolate(m.name, s.name, 3*w.swarm.abandon)
		}
	}
}

func (w *world) anyMachine(whole bool, why fault) {
	m := pick(w.stream("trouble/machine"), w.machines...)
	if m.agent.dead || m.agent.frozen || m.lied || why == runnerVanishes && m.stays {
		return
	}
	m.die(whole, why)
}

// stopMachine freezes a runner with everything that runs on its machine.
func (w *world) stopMachine() {
	m := pick(w.stream("trouble/machine"), w.machines...)
	if m.agent.dead || m.agent.frozen || m.lied {
		return
	}
	agent, jobs := m.agent, m.jobs
	d := w.span(3 * w.swarm.abandon)
	w.line(m.name, "!"+string(runnerStops), "for %s", d)
	agent.freeze()
	jobs.freeze()
	m.pauseActing(true)
	w.sched.after(d, nil, func() {
		w.line(m.name, "wakes", "")
		m.pauseActing(false)
		jobs.thaw()
		agent.thaw()
	})
}

// heal ends everything that is wrong.
func (w *world) heal() {
	w.line("world", "heals", "")
	w.healed = true
	clear(w.cuts)
	if w.swarm.scheduled > 0 { // what starts by the clock would never come to rest
		w.swarm.scheduled = 0
		for _, r := range w.remotes {
			r.push(w)
		}
	}
	w.storeFullUntil, w.objectsFullUntil = 0, 0
	for _, s := range w.servers {
		if s.process != nil {
			s.process.thaw()
		}
	}
	for _, m := range w.machines {
		m.jobs.thaw()
		m.agent.thaw()
	}
}

// restless says what is not at its end yet; "" when everything is.
func (w *world) restless() string {
	for _, c := range w.clients {
		if c.busy > 0 {
			return fmt.Sprintf("client %s waits for %d answers", c.name, c.busy)
		}
	}
	if why := w.untold(); why != "" {
		return why
	}
	return w.book.restless()
}

// untold names a push that no server has heard of.
func (w *world) untold() string {
	for _, r := range w.remotes {
		if len(r.commits) > 1 && !w.book.started(r, r.tip()) {
			return fmt.Sprintf("commit %.7s of %s has started nothing", r.tip(), r.name)
		}
	}
	return ""
}

// drain asks a server to end: it gives its partitions away, and goes.
func (w *world) drain() {
	s := w.anyServer()
	p := s.process
	if p == nil || p.frozen || !s.ready {
		return
	}
	w.line(s.label(), "!"+string(serverDrains), "")
	driver := s.fleet
	p.Go(func() {
		ctx, cancel := host.Within(context.Background(), p, 20*time.Second)
		defer cancel()
		err := driver.Drain(ctx)
		w.line(s.label(), "drained", "%v", err)
		driver.Close()
		s.crash(serverDrains)
	})
}

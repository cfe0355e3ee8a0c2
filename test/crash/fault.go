package crash

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"time"
)

// Rage carries out the schedule until enough kills have hit something, and heals
// everything afterwards.
func (s *Siege) Rage(ctx context.Context) error {
	yard := Yard{Store: s.Store, Servers: s.Servers, Runners: s.Runners, Lease: leaseTTL}
	for episode := range Schedule(s.Seed, yard) {
		if sum(s.hits[Kill]) >= s.Kills || ctx.Err() != nil {
			break
		}
		if err := s.episode(ctx, episode); err != nil {
			return err
		}
		pause(ctx, episode.Quiet)
		s.lookAfter(ctx)
	}
	return s.heal(ctx)
}

// episode begins its faults together and ends each after its own length.
func (s *Siege) episode(ctx context.Context, e Episode) error {
	type undo struct {
		after time.Duration
		do    func() error
	}
	var undos []undo
	begun := time.Now()
	for _, f := range e.Faults {
		if f.Act == Kill && sum(s.hits[Kill]) >= s.Kills {
			continue
		}
		under := s.underWay()
		do, hit := s.inflict(f)
		if hit {
			s.hits[f.Act][f.Target]++
			s.Say("%s (%d kills, attempts on the machines: %v)", f, sum(s.hits[Kill]), under)
		}
		undos = append(undos, undo{f.Length, do})
	}
	var first error
	for len(undos) > 0 {
		next := 0
		for i := range undos {
			if undos[i].after < undos[next].after {
				next = i
			}
		}
		pause(ctx, time.Until(begun.Add(undos[next].after)))
		if err := undos[next].do(); err != nil && first == nil {
			first = err
		}
		undos = append(undos[:next], undos[next+1:]...)
	}
	return first
}

// underWay counts the attempts on each machine, for whoever reads along.
func (s *Siege) underWay() (out []int) {
	for _, r := range s.runners {
		attempts, _ := filepath.Glob(filepath.Join(r.data, "attempts", "*"))
		out = append(out, len(attempts))
	}
	return out
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(max(d, 0)):
	case <-ctx.Done():
	}
}

func nothing() error { return nil }

// inflict does the fault and gives back what ends it. hit is false when there was nothing
// to hit.
func (s *Siege) inflict(f Fault) (undo func() error, hit bool) {
	switch f.Act {
	case Kill:
		return s.kill(f)
	case Stop:
		return s.stop(f)
	}
	var ways []*proxy
	switch f.Target {
	case OfClients:
		ways = append(ways, s.servers[f.Index].clients)
	case OfRunner:
		ways = s.runners[f.Index].links
	case OfDatabase:
		ways = append(ways, s.servers[f.Index].toStore)
	case OfPeers:
		ways = append(ways, s.servers[f.Index].peers)
	}
	set := func(how passage) {
		for _, way := range ways {
			way.set(how)
		}
	}
	set(f.How)
	return func() error { set(pass); return nil }, true
}

func (s *Siege) kill(f Fault) (undo func() error, hit bool) {
	switch f.Target {
	case OfServer:
		v := s.servers[f.Index]
		return v.start, v.end(syscall.SIGKILL, endPatience)
	case OfRunner:
		r := s.runners[f.Index]
		return r.start, r.end(syscall.SIGKILL, endPatience)
	case OfMachine:
		r := s.runners[f.Index]
		return r.start, r.killMachine()
	case OfProcess:
		pids := s.runners[f.Index].processes()
		if len(pids) == 0 {
			return nothing, false
		}
		return nothing, syscall.Kill(pids[s.random.IntN(len(pids))], syscall.SIGKILL) == nil
	case OfBackend:
		return s.database.await, s.database.killBackend(s.random)
	}
	hit = s.database.kill()
	return func() error {
		if err := s.database.start(); err != nil {
			return err
		}
		return s.database.await()
	}, hit
}

func (s *Siege) stop(f Fault) (undo func() error, hit bool) {
	switch f.Target {
	case OfServer:
		v := s.servers[f.Index]
		v.signal(syscall.SIGSTOP)
		return func() error { v.signal(syscall.SIGCONT); return nil }, v.pid() > 0
	case OfRunner:
		r := s.runners[f.Index]
		r.signal(syscall.SIGSTOP)
		return func() error { r.signal(syscall.SIGCONT); return nil }, r.pid() > 0
	case OfMachine:
		r := s.runners[f.Index]
		r.freezeMachine(syscall.SIGSTOP)
		from := now()
		return func() error {
			s.mu.Lock()
			s.sleeps = append(s.sleeps, frozen{runner: r.name, from: from, to: now()})
			s.mu.Unlock()
			r.freezeMachine(syscall.SIGCONT)
			return nil
		}, true
	}
	s.database.freeze(syscall.SIGSTOP)
	return func() error { s.database.freeze(syscall.SIGCONT); return nil }, true
}

// lookAfter does what a service manager does: what ended is started again. An end that
// nobody asked for is a finding, unless the program had not got ready: a server may give
// up while its database is away.
func (s *Siege) lookAfter(ctx context.Context) {
	for _, p := range s.programs() {
		for _, end := range p.strangeEnds() {
			s.Say("%s ended by itself: %s", p.name, end)
			if len(end) > 10 && end[:10] == "ready true" {
				s.Book.finding("%s ended by itself (%s):\n%s", p.name, end, p.tail(4<<10))
			}
		}
		if p.pid() == 0 && ctx.Err() == nil {
			if err := p.start(); err != nil {
				s.Book.finding("%v", err)
			}
		}
	}
}

func (s *Siege) programs() (out []*program) {
	for _, v := range s.servers {
		out = append(out, v.program)
	}
	for _, r := range s.runners {
		out = append(out, r.program)
	}
	if s.database != nil {
		out = append(out, s.database.program)
	}
	return out
}

// heal gives everything back and waits until all programs are ready.
func (s *Siege) heal(ctx context.Context) error {
	for _, v := range s.servers {
		for _, way := range v.ways() {
			way.set(pass)
		}
	}
	for _, r := range s.runners {
		for _, link := range r.links {
			link.set(pass)
		}
	}
	deadline := time.Now().Add(startPatience)
	for {
		s.lookAfter(ctx)
		waiting := ""
		for _, p := range s.programs() {
			if s.database != nil && p == s.database.program {
				if !s.database.answers() {
					waiting = p.name
				}
			} else if !p.isReady() {
				waiting = p.name
			}
		}
		switch {
		case waiting == "":
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("heal: %s is not ready", waiting)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		pause(ctx, 200*time.Millisecond)
	}
}

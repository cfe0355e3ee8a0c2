package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"connectrpc.com/connect/v2"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/runner/job"
	"github.com/fairlead-ci/fairlead/internal/runner/spool"
	"github.com/fairlead-ci/fairlead/internal/runner/supervisor"
)

// Run is a runner until ctx ends. Then it stops offering, tells the server, and leaves
// the supervisors of running attempts alone: the next Run over the same folder takes
// them up again, and without one they end by themselves before their leases do.
func Run(ctx context.Context, c Config) error {
	if err := c.complete(); err != nil {
		return err
	}
	guard, err := lock(c.Data)
	if err != nil {
		return err
	}
	defer func() { _ = guard.Close() }()
	program, keep := lighter()
	if keep != nil {
		defer func() { _ = keep.Close() }()
	}
	c.program = program
	id, err := loadIdentity(&c)
	if err != nil {
		return err
	}
	if err := enrol(ctx, &c, id); err != nil {
		return err
	}
	for {
		err := runAs(ctx, &c, id)
		if !errors.Is(err, errUnregistered) || c.Token == "" {
			return err
		}
		// The server has lost this runner, or an administrator removed it; there is a
		// token to begin again with, under a new secret.
		c.Logger.Warn("registering anew", "error", err)
		fresh := &identity{Server: id.Server, Name: id.Name, Boot: id.Boot}
		if err := os.Remove(identityPath(c.Data)); err != nil {
			return fmt.Errorf("forget runner identity: %w", err)
		}
		if id, err = loadIdentity(&c); err != nil {
			return err
		}
		id.Boot = max(id.Boot, fresh.Boot+1)
		if err := enrol(ctx, &c, id); err != nil {
			return err
		}
	}
}

// enrol registers where that is needed or may be useful, and waits for a server that is
// away.
func enrol(ctx context.Context, c *Config, id *identity) error {
	if id.matches(c) {
		return nil
	}
	if c.Token == "" {
		if id.Runner == "" {
			return fmt.Errorf("start runner %s: it is not registered, and there is no token to register it with", c.Name)
		}
		c.Logger.Warn("the server knows this runner with other labels, capacity or isolation; give a token to change that",
			"labels", id.Labels, "capacity", id.Capacity, "isolation", id.Isolation)
		c.Capacity = min(c.Capacity, id.Capacity)
		return nil
	}
	pause := backoffFirst
	for {
		try, cancel := context.WithTimeout(ctx, callSlack)
		turn := c.servers.turn()
		err := id.register(try, c, newClient(c.servers.list[c.servers.index(turn)]))
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !away(err):
			if id.Runner != "" {
				c.Logger.Warn("the token was refused; going on with the registration there is", "error", err)
				return nil
			}
			return err
		}
		c.Logger.Warn("the server does not answer", "error", err)
		c.servers.leave(turn)
		if !sleep(ctx, pause) {
			return context.Cause(ctx)
		}
		pause = min(pause*2, backoffMax)
	}
}

// away reports whether an error means that the server can't be reached now.
func away(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeUnknown, connect.CodeInternal,
		connect.CodeResourceExhausted, connect.CodeAborted:
		return true
	default:
		return false
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// event is an input of the machine.
type event func(m *machine, now instant)

// agent drives the machine.
type agent struct {
	c       *Config
	id      *identity
	m       *machine
	events  chan event
	callers [kinds]*caller
	follow  map[string]*follower
	reserve *reserve
	taken   map[supervisor.Folder]bool // in which supervisors waited that have an attempt now
	fault   error                      // ends the agent

	stop    context.Context
	working sync.WaitGroup
}

func runAs(ctx context.Context, c *Config, id *identity) error {
	reply, err := id.reply()
	if err != nil {
		return err
	}
	ring, err := keyring(reply.GetKeys())
	if err != nil {
		return fmt.Errorf("load runner identity: %w", err)
	}
	stop, cancel := context.WithCancel(ctx)
	a := &agent{c: c, id: id, events: make(chan event), follow: make(map[string]*follower), stop: stop,
		reserve: newReserve(c), taken: make(map[supervisor.Folder]bool)}
	a.m = newMachine(config{
		runner: id.Runner, session: id.Session, resume: id.Resume, boot: id.Boot, capacity: c.Capacity,
		keys: ring, timing: reply.GetTiming(), wall: time.Now, jitter: rand.Float64,
	})
	defer a.working.Wait()
	defer cancel()
	for k := range kinds {
		a.callers[k] = newCaller(k, c.servers, a.onCall)
		a.working.Go(func() { a.callers[k].run(stop) })
	}
	if err := a.takeUp(); err != nil {
		return err
	}
	if err := a.sweep(); err != nil {
		return err
	}
	a.working.Go(func() { a.reserve.run(stop) })
	err = a.loop(ctx)
	cancel()
	if err == nil {
		a.farewell()
	}
	return err
}

// loop is the agent's one thread of decisions.
func (a *agent) loop(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next := a.settle()
		if a.fault != nil {
			return a.fault
		}
		for id, f := range a.follow {
			if a.m.room(id) {
				f.grant()
			}
		}
		timer.Reset(max(next.Until(), 0))
		select {
		case <-ctx.Done():
			return nil
		case e := <-a.events:
			e(a.m, supervisor.Now())
		case <-timer.C:
		}
	}
}

// settle plans and carries out until nothing more is due, because an effect that fails
// is an input again.
func (a *agent) settle() (next instant) {
	for {
		next = a.m.plan(supervisor.Now())
		effects := a.m.take()
		if len(effects) == 0 {
			return next
		}
		for _, e := range effects {
			a.do(e)
		}
	}
}

// tell hands an event to the loop, unless the agent is ending.
func (a *agent) tell(e func(m *machine, now instant)) {
	select {
	case a.events <- e:
	case <-a.stop.Done():
	}
}

func (a *agent) onCall(k kind, req *runnerv1.ExchangeRequest, resp *runnerv1.ExchangeResponse, err error) {
	a.tell(func(m *machine, now instant) {
		if err == nil {
			m.answered(k, req, resp, now)
			return
		}
		if final(err) {
			a.fault = fmt.Errorf("%w: %w", errUnregistered, err)
		}
		if disowned(err) {
			m.disown(req)
		}
		m.failed(k, req, err, now)
	})
}

// do carries out one effect.
func (a *agent) do(e any) {
	switch e := e.(type) {
	case effSend:
		a.callers[e.kind].requests <- e.req // has room: the machine sends one at a time
	case effSpawn:
		a.spawn(e)
	case effExtend:
		a.handle(e.attempt, func(h *supervisor.Handle) { h.Extend(e.abandonAt) })
	case effCancel:
		a.handle(e.attempt, func(h *supervisor.Handle) { h.Cancel(e.reason, e.grace) })
	case effKill:
		a.handle(e.attempt, func(h *supervisor.Handle) { h.Kill() })
	case effForce:
		a.handle(e.attempt, func(h *supervisor.Handle) {
			if err := h.Force(); err != nil {
				a.c.Logger.Error("a supervisor can't be ended", "attempt", e.attempt, "error", err)
			}
		})
	case effAck:
		a.handle(e.attempt, func(h *supervisor.Handle) { h.Acknowledge(e.chunks, e.progress) })
	case effForget:
		delete(a.follow, e.attempt)
		if err := forget(a.c.Data, e.attempt); err != nil {
			a.c.Logger.Error("an attempt's folder stays behind", "attempt", e.attempt, "error", err)
		}
	case effKeys:
		if err := a.id.learn(a.c.Data, e.keys); err != nil {
			// This process has them; the next one is told again.
			a.c.Logger.Error("the server's new signing keys are not kept", "error", err)
		}
	case effReady:
		a.c.Ready(Ready{
			Name: a.c.Name, Runner: a.id.Runner, Pool: a.id.Pool, Isolation: a.c.Driver.Name(),
			Reason: a.c.Report.Reason, Capacity: a.c.Capacity,
		})
	case effNote:
		a.c.Logger.Warn(e.text, e.args...)
	}
}

func (a *agent) handle(attempt string, use func(*supervisor.Handle)) {
	if f := a.follow[attempt]; f != nil && f.handle != nil {
		use(f.handle)
	}
}

// spawn starts the supervisor of a new attempt.
func (a *agent) spawn(e effSpawn) {
	attempt := string(e.manifest.Attempt)
	folder := supervisor.Folder(filepath.Join(attemptsDir(a.c.Data), attempt))
	goos, arch := platform()
	// What an earlier epoch of the same attempt may have left is not this one's.
	err := isolate.Erase(string(folder))
	order := supervisor.Order{
		Folder: string(folder), Driver: a.c.Driver.Name(), Manifest: e.manifest, Server: a.c.servers.ordered(),
		Sandbox: a.c.sandbox(attempt, folder, e.manifest.Network),
		Runner:  job.Runner{Name: a.c.Name, OS: goos, Arch: arch}, Env: a.c.env(), AbandonAt: e.abandonAt,
	}
	if err != nil {
		a.cannotStart(attempt, err)
		return
	}
	a.c.Logger.Info("attempt starts", "attempt", attempt, "epoch", e.manifest.Epoch, "job", e.manifest.JobName)
	time.AfterFunc(warmDelay, a.reserve.resume)
	if w := a.reserve.take(order.Sandbox, e.manifest.Tier); w != nil {
		handle, err := w.Give(order)
		if err == nil {
			f := a.newFollower(attempt, folder, a.c.Driver, handle)
			f.begin = func(now instant) { a.spawnCold(order, w, now) }
			a.run(f)
			return
		}
		a.c.Logger.Warn("an attempt starts slower", "attempt", attempt, "error", err)
		a.reserve.clear(w.Clear(a.stop))
	}
	a.spawnCold(order, nil, supervisor.Now())
}

// spawnCold starts a supervisor for an attempt that has not begun; before is the waiting
// one that ended with the order in its hands.
func (a *agent) spawnCold(order supervisor.Order, before *supervisor.Warm, now instant) {
	attempt := string(order.Manifest.Attempt)
	if before != nil {
		a.reserve.clear(before.Clear(a.stop))
		h := a.m.held[attempt]
		if h == nil || h.dropped || h.cancelled {
			a.m.ended(attempt, errors.New("it was stopped before it began"), now)
			return
		}
		order.AbandonAt = h.abandonAt
	}
	handle, err := supervisor.Spawn(a.c.program, order)
	if err != nil {
		a.cannotStart(attempt, err)
		return
	}
	a.run(a.newFollower(attempt, supervisor.Folder(order.Folder), a.c.Driver, handle))
}

func (a *agent) cannotStart(attempt string, err error) {
	a.c.Logger.Error("an attempt can't start", "attempt", attempt, "error", err)
	a.m.failedToStart(attempt, err, supervisor.Now())
}

func (a *agent) newFollower(attempt string, folder supervisor.Folder, d isolate.Driver,
	h *supervisor.Handle) *follower {
	return &follower{
		attempt: attempt, folder: folder, driver: d, handle: h, reader: spool.NewReader(folder.Spool()),
		credit: make(chan struct{}, 1), tell: a.tell, resume: a.reserve.resume,
	}
}

func (a *agent) run(f *follower) {
	a.follow[f.attempt] = f
	a.working.Go(func() { f.run(a.stop) })
}

// takeUp finds what an earlier process of this runner left. Supervisors that live go
// on; what is left of those that don't is killed and erased before this returns, and so
// before any capacity is offered.
func (a *agent) takeUp() error {
	entries, err := os.ReadDir(attemptsDir(a.c.Data))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("take up attempts: %w", err)
	}
	for _, entry := range entries {
		if err := a.takeUpOne(entry.Name()); err != nil {
			return fmt.Errorf("take up attempt %s: %w", entry.Name(), err)
		}
	}
	return nil
}

// sweep removes what waited for an attempt under an earlier process of this runner. It
// comes after takeUp: a supervisor that got its order in the last moment of that process
// is an attempt's, and stays.
func (a *agent) sweep() error {
	entries, err := os.ReadDir(warmDir(a.c.Data))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sweep what was started ahead: %w", err)
	}
	for _, entry := range entries {
		folder := supervisor.Folder(filepath.Join(warmDir(a.c.Data), entry.Name()))
		if a.taken[folder] {
			continue
		}
		if err := supervisor.Sweep(a.stop, folder, a.c.driver); err != nil {
			return fmt.Errorf("sweep what was started ahead: %w", err)
		}
	}
	return nil
}

func (a *agent) takeUpOne(name string) error {
	folder := supervisor.Folder(filepath.Join(attemptsDir(a.c.Data), name))
	handle, alive := supervisor.Adopt(folder)
	state, err := folder.Load()
	if err != nil || string(state.Attempt) != name {
		// It never began, or is not an attempt's folder: nothing can have come of it.
		if alive == nil {
			handle.Kill()
			<-handle.Gone()
		}
		return forget(a.c.Data, name)
	}
	if _, _, _, ok := domain.AttemptID(name).Split(); !ok {
		return forget(a.c.Data, name)
	}
	d, err := a.c.driver(state.Driver)
	if err != nil {
		return err
	}
	if state.Warm != "" {
		a.taken[state.Warm] = true
	}
	if alive != nil {
		handle = nil
		if err := supervisor.Bury(a.stop, folder, d); err != nil {
			return err
		}
	}
	a.m.adopt(state)
	a.run(a.newFollower(name, folder, d, handle))
	a.c.Logger.Info("attempt taken up again", "attempt", name, "epoch", state.Epoch, "alive", alive == nil)
	return nil
}

// farewell tells the server not to wait for this runner. It is a courtesy: a server
// that can't be reached finds out by itself.
func (a *agent) farewell() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.stop), farewellPatience)
	defer cancel()
	a.m.drain()
	a.m.calls = [kinds]call{}
	a.m.send(beat, supervisor.Now())
	for _, e := range a.m.take() {
		if s, ok := e.(effSend); ok {
			if _, err := a.callers[beat].client().Exchange(ctx, s.req); err != nil {
				a.c.Logger.Info("the server was not told that this runner ends", "error", err)
			}
		}
	}
}

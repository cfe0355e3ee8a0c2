package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/dispatch"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/trigger"
)

// ctx is the context in which a server serves.
func (s *served) ctx() context.Context { return context.Background() }

// dispatcher is the server's, as it was when the request came.
func (s *served) dispatcher() *dispatch.Dispatcher {
	if !s.server.ready || s.server.process != s.at {
		s.at.sleep(time.Millisecond)
		panic(killed{}) // it has not come up: nobody listens yet
	}
	return s.server.dispatch
}

// client is somebody who uses the API: with idempotency keys, and again where no answer came.
type client struct {
	world   *world
	name    string
	random  *rand.Rand
	process *process
	at      int
	busy    int // requests that wait for a definite answer
	token   domain.Token
}

// people brings the clients, the pushes and the person who looks after what is held.
func (w *world) people() {
	for i := range w.swarm.clients {
		name := fmt.Sprintf("c%d", i+1)
		c := &client{world: w, name: name, random: stream(w.seed, name), process: w.sched.process(name), at: i}
		w.clients = append(w.clients, c)
		share := (w.swarm.runs + w.swarm.clients - 1) / w.swarm.clients
		for n := range share {
			w.sched.after(between(c.random, 0, w.swarm.phase), c.process, func() { c.begin(func() { c.wish(n) }) })
		}
	}
	first := w.clients[0]
	pushes := 1 + w.stream("push").IntN(4)
	for range pushes {
		w.sched.after(between(w.stream("push"), 0, w.swarm.phase), nil, func() { w.push() })
	}
	first.process.Go(func() { first.mind() })
}

// begin runs something that must come to an answer.
func (c *client) begin(f func()) {
	c.busy++
	c.process.Go(func() {
		f()
		c.busy--
	})
}

// ask sends a request to one server and waits for what comes.
func (c *client) ask(what string, handle func(s *served) (any, error)) (answer any, err error) {
	w := c.world
	done := make(chan struct{})
	w.call(call{from: c.process, name: c.name, to: w.servers[c.at%len(w.servers)], what: what,
		handle: func(s *served) (any, error) {
			s.dispatcher() // it must be up
			if err := s.server.engine.Present(s.ctx(), c.token); err != nil {
				return nil, err
			}
			return handle(s)
		},
		done: func(a any, e error) {
			answer, err = a, e
			close(done)
		}}, 10*time.Second)
	c.process.Wait(context.Background(), host.For{News: done, Limit: host.Forever})
	return answer, err
}

// insist asks until there is a definite answer, of one server after the other.
func (c *client) insist(what string, handle func(s *served) (any, error)) (any, error) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		answer, err := c.ask(what, handle)
		if definite(err) {
			return answer, err
		}
		c.world.line(c.name, "again", "%s: %v", what, err)
		c.at++
		c.process.sleep(pause/2 + time.Duration(c.random.Int64N(int64(pause))))
	}
}

func (c *client) cause() domain.Cause {
	return domain.Cause{Actor: domain.Actor{Kind: "person", ID: c.name, Via: "simulation"}}
}

func (c *client) key(method, key, body string) *engine.Key {
	return &engine.Key{Scope: engine.ClientScope(c.name, method), Key: key, Body: domain.DigestOf([]byte(body))}
}

// remember keeps the highest token, as the product's client does.
func (c *client) remember(t domain.Token) {
	if t.Partition != c.token.Partition || t.Epoch > c.token.Epoch ||
		t.Epoch == c.token.Epoch && t.Position > c.token.Position {
		c.token = t
	}
}

// wish asks for a run, and then for something about it.
func (c *client) wish(n int) {
	w := c.world
	r := pick(c.random, w.remotes...)
	key := fmt.Sprintf("wish-%d", n)
	id, ok := c.create(r, key, "")
	if !ok {
		return
	}
	if c.random.IntN(3) == 0 { // the same again, later
		c.process.sleep(between(c.random, 0, 20*time.Second))
		again, ok := c.create(r, key, "")
		if ok && again != id {
			w.violation(checkActsOnce, "key %s of %s gave %s, then %s", key, c.name, id, again)
		}
	}
	if c.random.IntN(6) == 0 {
		if other, ok := c.create(r, key, "another title"); ok {
			w.violation(checkActsOnce, "key %s of %s with another body gave %s", key, c.name, other)
		}
	}
	if c.random.IntN(4) == 0 { // the same key means something else to each tenant
		if other := w.namesake(r); other != nil {
			c.create(other, key, "")
		}
	}
	if c.random.IntN(6) == 0 {
		c.fork(id, r)
	}
	switch c.random.IntN(5) {
	case 0:
		c.process.sleep(between(c.random, 0, 40*time.Second))
		c.cancel(r, id, key)
	case 1:
		c.process.sleep(between(c.random, 0, w.swarm.phase))
		c.rerun(r, id, key)
	}
}

// create asks for a run. ok is false when it was refused.
func (c *client) create(r *remote, key, title string) (domain.RunID, bool) {
	w := c.world
	req := trigger.Request{Tenant: r.tenant, Repository: string(r.id), Title: title, Cause: c.cause()}
	body := r.name + "/" + title
	answer, err := c.insist("create "+key, func(s *served) (any, error) {
		again := req
		again.Key = c.key("run", key, body)
		return s.server.triggers.Run(s.ctx(), again)
	})
	if err != nil {
		w.line(c.name, "refused", "create %s: %v", key, err)
		if r, ok := domain.AsRejection(err); ok && r.Code == domain.CodeIdempotencyMismatch && title == "" {
			w.violation(checkActsOnce, "the first use of key %s by %s for this tenant was refused: %v", key, c.name, err)
		}
		return "", false
	}
	accepted, _ := answer.(trigger.Accepted)
	w.line(c.name, "accepted", "%s %s repeat %t", key, short(accepted.Run), accepted.Repeat)
	c.remember(accepted.Token)
	w.book.accepted(c, r, key, accepted)
	return accepted.Run, true
}

func (c *client) submit(r *remote, id domain.RunID, what string, command run.Command, key *engine.Key) (
	engine.Ack, error) {
	answer, err := c.insist(what, func(s *served) (any, error) {
		row, err := s.server.disk.Run(s.ctx(), r.tenant, id)
		if err != nil {
			return nil, fmt.Errorf("find run %s: %w", id, err)
		}
		return s.server.engine.Submit(s.ctx(), engine.Envelope{Tenant: r.tenant, Partition: row.Partition,
			Stream: id.Stream(), Command: command, Cause: c.cause(), Key: key})
	})
	ack, _ := answer.(engine.Ack)
	if err == nil {
		c.remember(ack.Token)
		c.world.book.token(ack.Token)
	}
	c.world.line(c.name, "asked", "%s of %s: %v", what, short(id), err)
	return ack, err
}

func (c *client) cancel(r *remote, id domain.RunID, key string) {
	_, err := c.submit(r, id, "cancel", run.RequestCancel{Cause: c.cause(), Reason: "changed my mind"},
		c.key("cancel", key, string(id)))
	if err == nil {
		c.world.book.cancelled(id)
	}
}

func (c *client) rerun(r *remote, id domain.RunID, key string) {
	mode := pick(c.random, run.RerunAll, run.RerunFailed)
	_, _ = c.submit(r, id, "rerun "+mode, run.Rerun{Cause: c.cause(), Mode: mode}, c.key("rerun", key, string(id)+mode))
}

// mind looks after attempts that are held for a person, and loses patience with those that were
// asked to end because their time had passed. In some worlds nobody does.
func (c *client) mind() {
	if c.random.IntN(4) == 0 {
		return
	}
	for {
		c.process.sleep(between(c.random, 5*time.Second, 30*time.Second))
		for _, late := range c.world.book.current(outOfTime) {
			if id := late.attempt.Run(); c.random.IntN(2) == 0 {
				c.begin(func() { c.cancel(late.remote, id, "late") })
			}
		}
		for _, h := range c.world.book.current(func(a *run.Attempt) bool { return a.Held }) {
			then := pick(c.random, run.ThenRetry, run.ThenSuccess, run.ThenFailure)
			effect := pick(c.random, domain.EffectNone, domain.EffectConfirmed, domain.EffectUnknown)
			c.begin(func() {
				_, _ = c.submit(h.remote, h.attempt.Run(), "settle", run.Settle{Cause: c.cause(), Attempt: h.attempt,
					Effect: effect, Then: then, Note: "looked"}, nil)
			})
			c.process.sleep(time.Second)
		}
	}
}

// push adds a commit to a repository and tells the servers, twice, if nothing is lost. What
// tells of pushes knows of no answers: some of it is delivered again, when all is long done.
func (w *world) push() {
	r := pick(w.stream("push"), w.remotes...)
	before := r.tip()
	after := r.push(w)
	w.line("world", "push", "%s %.7s", r.name, after)
	whens := []time.Duration{between(w.stream("push"), 0, 3*time.Second), between(w.stream("push"), 0, 3*time.Second)}
	if again := w.stream("push/again"); again.IntN(3) == 0 {
		whens = append(whens, between(again, 3*time.Second, w.swarm.phase))
	}
	c := w.clients[0]
	for _, when := range whens {
		if w.chance(hookLost) {
			w.line("world", "!"+string(hookLost), "%.7s", after)
			continue
		}
		w.sched.after(when, c.process, func() {
			c.process.Go(func() {
				teller := *c // a hook of its own, at any server
				teller.at = w.stream("push").IntN(len(w.servers))
				answer, err := teller.ask("push", pushed(r, before, after))
				w.started(r, after, answer, err)
			})
		})
	}
}

// pushed tells a server of a push.
func pushed(r *remote, before, after string) func(s *served) (any, error) {
	return func(s *served) (any, error) {
		return s.server.triggers.Push(s.ctx(), trigger.Push{Tenant: r.tenant, Repository: string(r.id), Ref: branch,
			Before: before, After: after, Pusher: "ada",
			Cause: domain.Cause{Actor: domain.Actor{Kind: "source", ID: "hook", Via: "simulation"}}})
	}
}

// started notes what a server said that a push has started.
func (w *world) started(r *remote, commit string, answer any, err error) {
	if pushed, ok := answer.(trigger.Pushed); ok && err == nil {
		for _, run := range pushed.Runs {
			w.line("world", "started", "%.7s %s", commit, short(run.Run))
			w.book.token(run.Token)
		}
		w.book.pushed(r, commit, pushed)
	}
}

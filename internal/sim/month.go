package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/trigger"
)

// namesake finds a repository of another tenant that has the same name.
func (w *world) namesake(r *remote) *remote {
	for _, other := range w.remotes {
		if other.name == r.name && other.tenant != r.tenant {
			return other
		}
	}
	return nil
}

// fork asks for a run as a stranger's contribution would: of the lowest tier, which the pool
// does not accept. Triggers of that kind are not built yet, so the core is asked directly
// with what another run rests on.
func (c *client) fork(of domain.RunID, r *remote) {
	q := c.world.book.streams[of.Stream()].run().Request
	if len(q.Invalid) > 0 {
		return
	}
	q.Run = domain.RunID(domain.EncodeID(domain.PrefixRun, c.world.id(c.world.wall())))
	q.Tier, q.Class, q.Number = domain.TierUntrusted, domain.ClassBatch, 0
	q.Trigger.Key = "fork:" + string(q.Run)
	_, _ = c.insist("fork", func(s *served) (any, error) {
		return s.server.engine.Submit(s.ctx(), engine.Envelope{Tenant: r.tenant, Partition: r.partition,
			Stream: q.Run.Stream(), Command: run.RequestRun{Cause: c.cause(), Request: q}, Cause: c.cause(),
			Counter: "runs/" + string(q.Repository) + "/" + q.WorkflowPath})
	})
}

// month lets the replies of keys expire, and every server forget what it remembers. Whoever
// uses an old key again is told so; nothing happens a second time.
func (w *world) month() {
	if _, err := w.store.ExpireKeys(context.Background(), w.wall().Add(365*24*time.Hour), 1<<20); err != nil {
		w.violation(checkActsOnce, "keys can't expire: %v", err)
		return
	}
	w.line("world", "month", "keys expire")
	for _, s := range w.servers {
		s.crash("a month passes")
	}
	w.until(func() bool { return w.serving() })
	const most = 3
	for i, a := range w.book.promises.runs[:min(most, len(w.book.promises.runs))] {
		c := w.clients[i%len(w.clients)]
		c.begin(func() {
			answer, err := c.insist("an old key", func(s *served) (any, error) {
				return s.server.triggers.Run(s.ctx(), trigger.Request{Tenant: a.remote.tenant, Repository: string(a.remote.id),
					Cause: c.cause(), Key: &engine.Key{Scope: engine.ClientScope(a.client, "run"), Key: a.key,
						Body: domain.DigestOf(fmt.Append(nil, a.remote.name, "/"))}})
			})
			if accepted, ok := answer.(trigger.Accepted); ok && err == nil && accepted.Run != a.run {
				w.violation(checkActsOnce, "key %s of %s gave %s, and after a month %s", a.key, a.client, a.run, accepted.Run)
			}
		})
	}
	for i, r := range w.remotes { // a push has no key that expires: whenever it is told, it has its run
		if n := len(r.commits); n > 1 {
			c := w.clients[i%len(w.clients)]
			c.begin(func() {
				answer, err := c.insist("an old push", pushed(r, r.commits[n-2].ID, r.tip()))
				if err != nil {
					w.violation(checkOneRun, "the push of %.7s has a run, and after a month it was refused: %v", r.tip(), err)
				}
				w.started(r, r.tip(), answer, err)
			})
		}
	}
	w.until(func() bool {
		for _, c := range w.clients {
			if c.busy > 0 {
				return false
			}
		}
		return true
	})
}

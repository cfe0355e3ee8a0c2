package sim

import (
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Promises: [CMD-2].
const checkActsOnce = "a command acts at most once, across restarts and change of owner"

// actsOnce looks at keys as they are stored and at what keyed commands did.
func actsOnce(w *world) checker {
	keys := map[string]domain.StreamID{}
	did := map[string]domain.StreamID{}
	once := func(what string, stream domain.StreamID) {
		if before, ok := did[what]; ok {
			w.violation(checkActsOnce, "%s acted on %s and on %s", what, before, stream)
		}
		did[what] = stream
	}
	return checker{
		sentence: checkActsOnce,
		batch: func(b *store.Batch) {
			for _, k := range b.Keys {
				id := fmt.Sprintf("%s %s %s", k.Tenant, k.Scope, k.Key)
				if before, ok := keys[id]; ok {
					w.violation(checkActsOnce, "key %s acted on %s and on %s", id, before, k.Stream)
				}
				keys[id] = k.Stream
			}
		},
		event: func(e *seen) {
			switch event := e.event.(type) {
			case *run.RunRequested:
				q := &event.Request
				once(fmt.Sprintf("key %s of %s in %s", q.Trigger.Key, q.Trigger.Actor.ID, q.Repository), e.history.id)
			case *run.RoundOpened: // every client asks for one rerun of a run, with one key
				once(fmt.Sprintf("the rerun of %s by %s", e.history.id, event.Actor.ID), e.history.id)
			}
		},
		end: func() {
			for _, a := range w.book.promises.runs {
				id := fmt.Sprintf("%s client/%s/run %s", a.remote.tenant, a.client, a.key)
				if keys[id] != a.run.Stream() {
					w.violation(checkActsOnce, "%s was promised %s for %s, and the key leads to %q", a.client, a.run, a.key, keys[id])
				}
			}
		},
	}
}

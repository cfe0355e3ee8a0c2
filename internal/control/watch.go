package control

import (
	"slices"
	"sync"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
)

// Watchers tells whoever looks at a stream that it changed. It carries no content: the
// looker reads the store, so a missed or doubled wake-up can't show anything wrong.
type Watchers struct {
	mu       sync.Mutex
	watching map[domain.StreamID]map[*watch]bool
}

// watch is one looker.
type watch struct {
	changed chan struct{} // something happened
	ended   chan struct{} // the run concluded: the one piece of news that nobody waits for gladly
}

// NewWatchers makes an empty hub. Register it as the engine's observer.
func NewWatchers() *Watchers {
	return &Watchers{watching: map[domain.StreamID]map[*watch]bool{}}
}

// Watch gives a channel that gets a token after the stream changed, and one that gets a
// token after a run concluded; changes coalesce. Call stop when done.
func (w *Watchers) Watch(id domain.StreamID) (changed, ended <-chan struct{}, stop func()) {
	c := &watch{changed: make(chan struct{}, 1), ended: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watching[id] == nil {
		w.watching[id] = map[*watch]bool{}
	}
	w.watching[id][c] = true
	return c.changed, c.ended, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.watching[id], c)
		if len(w.watching[id]) == 0 {
			delete(w.watching, id)
		}
	}
}

// Committed implements engine.Observer.
func (w *Watchers) Committed(rows []engine.Committed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.watching) == 0 {
		return
	}
	for i := range rows {
		for c := range w.watching[rows[i].Stream] {
			tell(c.changed)
			if slices.ContainsFunc(rows[i].Events, concludes) {
				tell(c.ended)
			}
		}
	}
}

// concludes says whether an event ends a round of a run.
func concludes(event any) bool {
	_, ok := event.(*run.RunConcluded)
	return ok
}

func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Loaded implements engine.Observer.
func (w *Watchers) Loaded(engine.Live) {}

// Ready implements engine.Observer.
func (w *Watchers) Ready(domain.PartitionID, bool) {}

// Lost implements engine.Observer.
func (w *Watchers) Lost(domain.PartitionID) {}

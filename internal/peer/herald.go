package peer

import (
	"maps"
	"sync"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// bulletin is one line of news.
type bulletin struct {
	// Positions are how far partitions have come that the teller owns.
	Positions map[domain.PartitionID]store.Position `json:"positions,omitempty"`
}

// Herald tells peers what happened here. What somebody did not take yet is joined, so a
// slow peer costs one entry for each partition and holds nothing up.
type Herald struct {
	mu      sync.Mutex
	at      map[domain.PartitionID]store.Position
	entries map[*entry]bool
}

// entry is one peer that listens.
type entry struct {
	herald *Herald
	news   chan struct{}
	next   bulletin // guarded by the herald's mu
}

// NewHerald makes one with nothing to say.
func NewHerald() *Herald {
	return &Herald{at: map[domain.PartitionID]store.Position{}, entries: map[*entry]bool{}}
}

// Moved tells how far a partition has come. It never blocks.
func (h *Herald) Moved(p domain.PartitionID, at store.Position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at <= h.at[p] {
		return
	}
	h.at[p] = at
	for e := range h.entries {
		if e.next.Positions == nil {
			e.next.Positions = map[domain.PartitionID]store.Position{}
		}
		e.next.Positions[p] = at
		e.wake()
	}
}

// listen adds a peer; its first bulletin is everything that is known.
func (h *Herald) listen() *entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := &entry{herald: h, news: make(chan struct{}, 1), next: bulletin{Positions: maps.Clone(h.at)}}
	h.entries[e] = true
	return e
}

func (h *Herald) leave(e *entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.entries, e)
}

// take gives what there is to say, possibly nothing.
func (e *entry) take() bulletin {
	e.herald.mu.Lock()
	defer e.herald.mu.Unlock()
	b := e.next
	e.next = bulletin{}
	return b
}

func (e *entry) wake() {
	select {
	case e.news <- struct{}{}:
	default:
	}
}

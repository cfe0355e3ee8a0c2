package dispatch

import (
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/placement"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// reserveOf is one slot of so many of a pool that is kept from jobs of the class batch, so that
// a backlog of pushes, however long its jobs take, leaves something open for people who wait. A
// pool with fewer slots keeps none.
const reserveOf = 16

// shares are the slots that are lent or asked for, by whose work they are for.
type shares struct {
	of    map[domain.SlotToken]placement.Share
	holds map[placement.Share]int
}

func newShares() shares {
	return shares{of: map[domain.SlotToken]placement.Share{}, holds: map[placement.Share]int{}}
}

// lend notes whose work a slot is for; it may have been another's.
func (s *shares) lend(slot domain.SlotToken, to placement.Share) {
	s.back(slot)
	s.of[slot] = to
	s.holds[to]++
}

// back notes that a slot is open again.
func (s *shares) back(slot domain.SlotToken) {
	share, lent := s.of[slot]
	if !lent {
		return
	}
	delete(s.of, slot)
	if s.holds[share]--; s.holds[share] == 0 {
		delete(s.holds, share)
	}
}

// reserves are the slots of the pools that batch may not have. Runners come and go, and are
// counted again every second at most.
func (b *board) reserves(now time.Time) map[domain.PoolID]int {
	if age := now.Sub(b.reservedAt); b.reserved != nil && age >= 0 && age < time.Second {
		return b.reserved
	}
	slots := map[domain.PoolID]int{}
	for id, a := range b.agents {
		if a.polling || b.held[id] > 0 {
			slots[a.pool] += a.Capacity
		}
	}
	for id, n := range slots {
		slots[id] = n / reserveOf
	}
	b.reserved, b.reservedAt = slots, now
	return slots
}

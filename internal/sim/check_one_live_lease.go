package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Promises: [LEASE-1], [LEASE-2].
const checkOneLease = "at most one live lease exists per job, and a runner holds no more leases than its capacity"

// clocksApart is how far servers that go by the store's clock may be from it.
const clocksApart = time.Second

func oneLiveLease(w *world) checker {
	live := map[domain.JobID]domain.AttemptID{}
	epochs := map[domain.JobID]uint64{}
	held := map[domain.RunnerID]map[domain.AttemptID]bool{}
	slots := map[domain.SlotToken]domain.AttemptID{}
	var moved time.Duration // when the pool got its last owner
	var movedAt time.Time   // by the store's clock
	late := map[domain.AttemptID]bool{}
	return checker{
		sentence: checkOneLease,
		acquired: func(own store.Ownership) {
			if own.Partition == poolName.Partition() {
				moved, movedAt = w.sched.now, w.storeWall()
			}
		},
		acts: func(a *attempt, begins bool) { // what a runner really executes
			m := a.machine
			for _, other := range m.attempts {
				if begins && other != a && other.alive && other.order.Slot == a.order.Slot {
					w.violation(checkOneLease, "%s executes %s and %s in the slot %s", m.name, a.id, other.id, a.order.Slot)
				}
			}
		},
		event: func(e *seen) {
			if e.number == 0 {
				return
			}
			id := e.attempt()
			job := id.Job()
			switch event := e.event.(type) {
			case *run.LeaseGranted:
				if other, ok := live[job]; ok {
					w.violation(checkOneLease, "%s got a lease while %s has one", id, other)
				}
				if event.Epoch <= epochs[job] {
					w.violation(checkOneLease, "%s has epoch %d after %d", id, event.Epoch, epochs[job])
				}
				// A token whose lease never reached the runner is open still, once that lease is over.
				// And what a leader asked for before it lost the pool may come to the store after the
				// next one has begun, who can't know: then the runner refuses one of two leases (see
				// acts), and nobody but it can.
				late[id] = event.Until.Add(-w.swarm.lease).Before(movedAt.Add(clocksApart)) ||
					w.storeSet > 0 && w.sched.now < moved+commandPatience
				if other, ok := slots[event.Slot]; ok && live[other.Job()] == other {
					if !late[id] && !late[other] {
						w.violation(checkOneLease, "the slot %s was lent to %s and to %s", event.Slot, other, id)
					}
					// Both have the slot that only one of them can use: whichever the runner refuses,
					// its lease stands for nothing, also after the other one has ended.
					late[id], late[other] = true, true
				}
				live[job], epochs[job], slots[event.Slot] = id, event.Epoch, id
				if held[event.Runner] == nil {
					held[event.Runner] = map[domain.AttemptID]bool{}
				}
				held[event.Runner][id] = true
				if m := w.book.runners[event.Runner]; m != nil && len(held[event.Runner]) > m.capacity {
					crossed := slices.ContainsFunc(slices.Collect(maps.Keys(held[event.Runner])),
						func(a domain.AttemptID) bool { return late[a] })
					if !crossed {
						w.violation(checkOneLease, "%s has %d leases with a capacity of %d", m.name, len(held[event.Runner]),
							m.capacity)
					}
				}
			case *run.AttemptHeld: // nobody acts on it any more, and whoever had it has room again
				maps.DeleteFunc(slots, func(_ domain.SlotToken, of domain.AttemptID) bool { return of == id })
				for _, of := range held {
					delete(of, id)
				}
			case *run.AttemptConcluded:
				delete(live, job)
				delete(late, id)
				for _, of := range held {
					delete(of, id)
				}
			}
		},
	}
}

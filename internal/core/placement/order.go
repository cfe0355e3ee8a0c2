package placement

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Share is whose work a slot is given to: slots go round among the shares of a tenant.
type Share struct {
	Tenant     domain.TenantID
	Repository domain.RepositoryID
}

// Share is the share that a head counts against.
func (h *Head) Share() Share { return Share{h.Tenant, h.Repository} }

// Queue gives the heads of one line after another, those that became ready first first; ok is
// false when there are no more. All of them ask for the same and are of one share and class.
type Queue struct {
	Tenant domain.TenantID
	Next   func() (h Head, ok bool)
}

// Queues makes a queue of each head.
func Queues(heads []Head) []Queue {
	out := make([]Queue, len(heads))
	for i := range heads {
		given := false
		out[i] = Queue{heads[i].Tenant, func() (Head, bool) {
			first := !given
			given = true
			return heads[i], first
		}}
	}
	return out
}

// compare ranks heads, given how many slots the shares of each have now. A rollback goes before
// everything. Then a share that has no slot gets its first: a backlog of one repository, however
// long and urgent, keeps another's first job waiting for one slot's turn only. Then the class
// counts, then who has fewer slots, then age, then identifiers so that no tie is left to chance.
func compare(a, b *Head, holdsA, holdsB int, now time.Time) int {
	return cmp.Or(
		first(a.Class == domain.ClassRollback, b.Class == domain.ClassRollback),
		first(holdsA == 0, holdsB == 0),
		cmp.Compare(b.Class.Rank(), a.Class.Rank()),
		cmp.Compare(holdsA, holdsB),
		earlier(a.Since, now).Compare(earlier(b.Since, now)),
		cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Partition, b.Partition),
		cmp.Compare(a.Run, b.Run), cmp.Compare(a.Job, b.Job),
	)
}

func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// ranking gives queues' heads by rank. What a share has grows while slots are given, so that a
// head is ranked anew when its turn comes: it can only have fallen back.
type ranking struct {
	now   time.Time
	holds map[Share]int
	open  []*ranked
}

type ranked struct {
	Head
	holds int // of its share, when it was ranked
	nth   int // of the head's jobs: the next to get a slot
	next  func() (Head, bool)
}

func rank(queues []Queue, holds map[Share]int, now time.Time) *ranking {
	r := &ranking{now: now, holds: make(map[Share]int, len(holds))}
	for _, q := range queues {
		if h, ok := q.Next(); ok {
			share := h.Share()
			r.holds[share] = holds[share]
			r.open = append(r.open, &ranked{Head: h, holds: holds[share], next: q.Next})
		}
	}
	heap.Init(r)
	return r
}

// first is the head that ranks first; nil when there is none.
func (r *ranking) first() *ranked {
	for len(r.open) > 0 {
		top := r.open[0]
		if now := r.holds[top.Share()]; now != top.holds {
			top.holds = now
			heap.Fix(r, 0)
			continue
		}
		return top
	}
	return nil
}

// placed moves on after the first head got a slot; the queue's next takes its place.
func (r *ranking) placed() {
	top := r.open[0]
	r.holds[top.Share()]++
	if top.nth++; top.nth < top.Count {
		return
	}
	h, ok := top.next()
	if !ok {
		r.drop()
		return
	}
	top.Head, top.nth = h, 0
	heap.Fix(r, 0)
}

// drop leaves the queue of the first head: what follows in it asks for the same.
func (r *ranking) drop() { heap.Pop(r) }

// Len implements heap.Interface.
func (r *ranking) Len() int { return len(r.open) }

// Less implements heap.Interface.
func (r *ranking) Less(i, j int) bool {
	a, b := r.open[i], r.open[j]
	return compare(&a.Head, &b.Head, a.holds, b.holds, r.now) < 0
}

// Swap implements heap.Interface.
func (r *ranking) Swap(i, j int) { r.open[i], r.open[j] = r.open[j], r.open[i] }

// Push implements heap.Interface.
func (r *ranking) Push(x any) { r.open = append(r.open, x.(*ranked)) }

// Pop implements heap.Interface.
func (r *ranking) Pop() any {
	last := r.open[len(r.open)-1]
	r.open = slices.Delete(r.open, len(r.open)-1, len(r.open))
	return last
}

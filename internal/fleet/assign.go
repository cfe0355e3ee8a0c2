package fleet

import (
	"cmp"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Assign says which member should own each of the partitions. The same picture gives every
// member the same answer. Loads differ by one at most, and as few partitions move as that
// allows: what a candidate owns it keeps up to its share, and who owns most gets the larger
// shares. Candidates are the live members that don't drain; when there are none, the live
// ones that do; without a live member the answer is empty.
func Assign(p store.Picture, partitions []domain.PartitionID) map[domain.PartitionID]string {
	out := make(map[domain.PartitionID]string, len(partitions))
	candidates := candidates(p)
	if len(candidates) == 0 {
		return out
	}
	parts := slices.Sorted(slices.Values(partitions))
	owner := make(map[domain.PartitionID]string, len(p.Partitions))
	for _, h := range p.Partitions {
		owner[h.Partition] = h.Owner
	}
	held := map[string]int{}
	for _, part := range parts {
		held[owner[part]]++
	}
	share := shares(candidates, held, len(parts))
	var rest []domain.PartitionID
	for _, part := range parts {
		if name := owner[part]; share[name] > 0 {
			share[name]--
			out[part] = name
		} else {
			rest = append(rest, part)
		}
	}
	for _, part := range rest {
		name := slices.MinFunc(candidates, func(a, b string) int {
			return cmp.Or(cmp.Compare(share[b], share[a]), cmp.Compare(a, b))
		})
		share[name]--
		out[part] = name
	}
	return out
}

// candidates are the names of those that may own, in order.
func candidates(p store.Picture) (names []string) {
	for _, draining := range []bool{false, true} {
		for _, m := range p.Members {
			if m.Live && m.Draining == draining {
				names = append(names, m.Name)
			}
		}
		if len(names) > 0 {
			break
		}
	}
	slices.Sort(names)
	return names
}

// shares divides n partitions; the larger shares go to those that hold most already.
func shares(candidates []string, held map[string]int, n int) map[string]int {
	byLoad := slices.SortedFunc(slices.Values(candidates), func(a, b string) int {
		return cmp.Or(cmp.Compare(held[b], held[a]), cmp.Compare(a, b))
	})
	share := make(map[string]int, len(byLoad))
	for i, name := range byLoad {
		share[name] = n / len(byLoad)
		if i < n%len(byLoad) {
			share[name]++
		}
	}
	return share
}

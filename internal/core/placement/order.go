package placement

import (
	"cmp"
	"slices"
	"time"
)

// order ranks heads: class first, then age, then identifiers so that no tie is left to
// chance. Fair shares between tenants will be a key between class and age, computed from
// what each tenant holds now and passed in with the heads; nothing else of Place changes.
func order(heads []Head, now time.Time) []int {
	out := make([]int, len(heads))
	for i := range out {
		out[i] = i
	}
	slices.SortFunc(out, func(a, b int) int { return compare(&heads[a], &heads[b], now) })
	return out
}

func compare(a, b *Head, now time.Time) int {
	return cmp.Or(
		cmp.Compare(b.Class.Rank(), a.Class.Rank()),
		earlier(a.Since, now).Compare(earlier(b.Since, now)),
		cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Partition, b.Partition),
		cmp.Compare(a.Run, b.Run), cmp.Compare(a.Job, b.Job),
	)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

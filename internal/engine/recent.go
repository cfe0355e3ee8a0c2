package engine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// recentKeysMax is how many committed keys an owner remembers. A lookup that began
// before a key was committed may answer "never seen" after it; what was committed in
// between is found here. The store's unique constraint stands behind it.
const recentKeysMax = 20_000

// recentKeys remembers the keys committed last, oldest forgotten first.
type recentKeys struct {
	byID  map[string]*store.Key
	order []string
}

func newRecentKeys() recentKeys { return recentKeys{byID: map[string]*store.Key{}} }

func keyID(tenant domain.TenantID, k Key) string {
	return string(tenant) + "\x00" + k.Scope + "\x00" + k.Key
}

func (r *recentKeys) add(k *store.Key) {
	id := keyID(k.Tenant, Key{Scope: k.Scope, Key: k.Key})
	if _, known := r.byID[id]; !known {
		r.order = append(r.order, id)
	}
	r.byID[id] = k
	if len(r.order) > recentKeysMax {
		half := recentKeysMax / 2
		for _, old := range r.order[:half] {
			delete(r.byID, old)
		}
		r.order = slices.Clone(r.order[half:])
	}
}

func (r *recentKeys) find(tenant domain.TenantID, k Key) (*store.Key, bool) {
	found, ok := r.byID[keyID(tenant, k)]
	return found, ok
}

// Map order must never reach an effect: these give keys in a fixed order.

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func sortedStreams(m map[streamKey]*stream) []streamKey {
	return slices.SortedFunc(maps.Keys(m), compareKeys)
}

func compareKeys(a, b streamKey) int {
	return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.id, b.id))
}

func sortedSick(m map[streamKey]string) []streamKey {
	return slices.SortedFunc(maps.Keys(m), compareKeys)
}

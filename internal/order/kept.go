package order

import (
	"sync"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Bounds of what stays in memory: the jobs of a run start close together, and many runs have
// one plan.
const (
	keptMax     = 1024
	keptBytes   = 64 << 20
	keptEntries = 4 << 20 // bytes; a larger one is read again
)

// objectID names an object of a tenant.
type objectID struct {
	tenant domain.TenantID
	digest domain.Digest
}

// kept remembers the objects that were read last. What a digest names never changes, so
// nothing in it can be out of date.
type kept[V any] struct {
	mu    sync.Mutex
	at    map[objectID]entry[V]
	order []objectID // the oldest first
	bytes int
}

type entry[V any] struct {
	value V
	bytes int
}

func (k *kept[V]) get(id objectID) (V, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, ok := k.at[id]
	return e.value, ok
}

// put keeps a value that takes about so many bytes.
func (k *kept[V]) put(id objectID, value V, bytes int) {
	if bytes > keptEntries {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.at == nil {
		k.at = map[objectID]entry[V]{}
	}
	if _, known := k.at[id]; known {
		return
	}
	k.at[id] = entry[V]{value, bytes}
	k.order = append(k.order, id)
	k.bytes += bytes
	for len(k.order) > keptMax || k.bytes > keptBytes {
		k.bytes -= k.at[k.order[0]].bytes
		delete(k.at, k.order[0])
		k.order = k.order[1:]
	}
}

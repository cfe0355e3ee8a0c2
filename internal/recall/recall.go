// Package recall remembers values that can't be out of date: a function of their key, and of
// nothing else, made them, such as an object by its digest or a plan by what it was compiled
// from.
//
// It is deliberately no cache with times, weights or invalidation: what may change does not
// belong here.
//
// Invariants: bounded in number and in bytes, the oldest goes first; a value that is known is
// never replaced.
//
// Read next: recall_test.go
package recall

import "sync"

// Bounds of one memory.
const (
	most      = 1024     // values
	mostBytes = 64 << 20 // of all values
	eachBytes = 4 << 20  // of one value; a larger one is not kept
)

// Of remembers values by their keys. The zero value is ready; it may be used by many goroutines,
// and nobody may change what is in it.
type Of[K comparable, V any] struct {
	mu    sync.Mutex
	at    map[K]entry[V]
	order []K // the oldest first
	bytes int
}

type entry[V any] struct {
	value V
	bytes int
}

// Get gives the value of a key, if it is remembered.
func (o *Of[K, V]) Get(key K) (V, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e, ok := o.at[key]
	return e.value, ok
}

// Put remembers a value that takes about so many bytes.
func (o *Of[K, V]) Put(key K, value V, bytes int) {
	if bytes > eachBytes {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.at == nil {
		o.at = map[K]entry[V]{}
	}
	if _, known := o.at[key]; known {
		return
	}
	o.at[key] = entry[V]{value, bytes}
	o.order = append(o.order, key)
	o.bytes += bytes
	for len(o.order) > most || o.bytes > mostBytes {
		o.bytes -= o.at[o.order[0]].bytes
		delete(o.at, o.order[0])
		o.order = o.order[1:]
	}
}

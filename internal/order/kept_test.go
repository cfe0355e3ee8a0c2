package order

import (
	"fmt"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// What is kept is found, by tenant; it is bounded in number and in bytes, and the oldest goes.
func TestWhatIsKeptIsBounded(t *testing.T) {
	id := func(n int) objectID { return objectID{"a", domain.Digest(fmt.Sprint(n))} }
	var k kept[int]
	for n := range 3 * keptMax {
		k.put(id(n), n, 1)
		k.put(id(n), -1, 1) // what a digest names does not change
		if v, ok := k.get(id(n)); !ok || v != n {
			t.Fatalf("%d: %d, %v", n, v, ok)
		}
	}
	if _, ok := k.get(objectID{"b", id(3*keptMax - 1).digest}); ok {
		t.Error("another tenant's")
	}
	if _, ok := k.get(id(2*keptMax - 1)); ok || len(k.at) != keptMax || len(k.order) != keptMax || k.bytes != keptMax {
		t.Errorf("%d entries, %d in order, %d bytes", len(k.at), len(k.order), k.bytes)
	}
	k = kept[int]{}
	k.put(id(0), 0, keptEntries+1)
	for n := range 2 * keptBytes / keptEntries {
		k.put(id(n+1), n, keptEntries)
	}
	if _, ok := k.get(id(0)); ok || k.bytes > keptBytes || len(k.at) != keptBytes/keptEntries {
		t.Errorf("%d bytes in %d entries", k.bytes, len(k.at))
	}
}

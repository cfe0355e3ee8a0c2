package recall

import "testing"

// What is remembered is found; it is bounded in number and in bytes, and the oldest goes.
func TestWhatIsRememberedIsBounded(t *testing.T) {
	var o Of[int, int]
	for n := range 3 * most {
		o.Put(n, n, 1)
		o.Put(n, -1, 1) // what a key names does not change
		if v, ok := o.Get(n); !ok || v != n {
			t.Fatalf("%d: %d, %v", n, v, ok)
		}
	}
	if _, ok := o.Get(2*most - 1); ok || len(o.at) != most || len(o.order) != most || o.bytes != most {
		t.Errorf("%d entries, %d in order, %d bytes", len(o.at), len(o.order), o.bytes)
	}
	o = Of[int, int]{}
	o.Put(0, 0, eachBytes+1)
	for n := range 2 * mostBytes / eachBytes {
		o.Put(n+1, n, eachBytes)
	}
	if _, ok := o.Get(0); ok || o.bytes > mostBytes || len(o.at) != mostBytes/eachBytes {
		t.Errorf("%d bytes in %d entries", o.bytes, len(o.at))
	}
}

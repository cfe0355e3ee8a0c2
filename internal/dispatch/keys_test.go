package dispatch

import (
	"crypto/ed25519"
	"fmt"
	"slices"
	"testing"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/core/run"
)

// ids are those of the keys that an answer brings.
func ids(res *runnerv1.ExchangeResponse) (out []string) {
	for _, k := range res.GetKeys() {
		out = append(out, k.GetId())
	}
	return out
}

// pollWith polls as a runner that has these keys.
func (h *hand) pollWith(known ...string) *runnerv1.ExchangeResponse {
	h.y.t.Helper()
	h.offer++
	return h.exchange(&runnerv1.ExchangeRequest{WaitMs: 20_000, KnownKeys: known,
		Offers: []string{fmt.Sprintf("%s/0/%d", h.runner, h.offer)}})
}

// Promises: [ACC-12].
func TestARunnerIsToldTheKeysThatItLacks(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		keys := []Key{{ID: "one", Public: make(ed25519.PublicKey, ed25519.PublicKeySize)}}
		y.dispatch.cfg.Keys = func() []Key { return keys }
		h := y.register("m1", 1)
		if got := ids(h.pollWith("one")); got != nil {
			t.Fatalf("a runner that has every key is told %v", got)
		}
		next := make(ed25519.PublicKey, ed25519.PublicKeySize)
		next[0] = 1
		keys = append(keys, Key{ID: "two", Public: next})
		res := h.pollWith("one")
		if got := ids(res); !slices.Equal(got, []string{"one", "two"}) {
			t.Fatalf("after a rotation it is told %v", got)
		}
		if !next.Equal(ed25519.PublicKey(res.GetKeys()[1].GetEd25519())) {
			t.Error("the key is another one")
		}
		for range 2 {
			if got := ids(h.pollWith("two", "one")); got != nil {
				t.Fatalf("it is told again: %v", got)
			}
		}
		keys = keys[1:]
		if got := ids(h.pollWith("one", "two")); got != nil {
			t.Errorf("it has what is left, and is told %v", got)
		}
		// The reply was lost, or the runner was: it says so, and is told again.
		if got := ids(h.pollWith("one")); !slices.Equal(got, []string{"two"}) {
			t.Errorf("one that has forgotten it is told %v", got)
		}
	})
}

// A key may be younger than the poll that it signs a lease for: after a restore there was no
// time to publish it.
// Promises: [ACC-12].
func TestAKeyThatCameDuringAPollGoesWithItsLease(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		public := make(ed25519.PublicKey, ed25519.PublicKeySize)
		keys := []Key{{ID: "one", Public: public}}
		y.dispatch.cfg.Keys = func() []Key { return keys }
		h := y.register("m1", 1)
		y.request(home, 1, 1, func(*run.JobSkeleton) { keys = []Key{{ID: "two", Public: public}} })
		res := h.pollWith("one")
		if len(res.GetLeases()) != 1 || !slices.Equal(ids(res), []string{"two"}) {
			t.Errorf("%d leases came with the keys %v", len(res.GetLeases()), ids(res))
		}
	})
}

// Promises: [ACC-12].
func TestARunnerThatSaysNothingOfKeysIsToldThemWithEveryLease(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		y.dispatch.cfg.Keys = func() []Key {
			return []Key{{ID: "one", Public: make(ed25519.PublicKey, ed25519.PublicKeySize)}}
		}
		h := y.register("m1", 1)
		if got := ids(h.poll()); got != nil {
			t.Errorf("without a lease it is told %v", got)
		}
		for seed := range byte(2) {
			y.request(home, seed+1, 1, nil)
			res := h.poll()
			if len(res.GetLeases()) != 1 || !slices.Equal(ids(res), []string{"one"}) {
				t.Fatalf("%d leases came with the keys %v", len(res.GetLeases()), ids(res))
			}
			h.exchange(result(res.GetLeases()[0], "success", "r"))
		}
	})
}

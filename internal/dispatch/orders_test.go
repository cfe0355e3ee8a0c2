package dispatch

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"testing"
	"testing/synctest"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/manifest"
)

// countingSigner signs, and counts.
type countingSigner struct {
	key  ed25519.PrivateKey
	made int
}

func (c *countingSigner) Sign(payload []byte) (string, []byte) {
	c.made++
	return "k", ed25519.Sign(c.key, payload)
}

// Leases that go out together have one signature, if the runner says that it takes it; each has
// one of its own otherwise, and when it goes out alone.
// Promises: [LEASE-10].
func TestLeasesThatGoOutTogetherAreSignedTogether(t *testing.T) {
	for _, takes := range []bool{true, false} {
		inYard(t, func(t *testing.T, y *yard) {
			signer := &countingSigner{key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))}
			y.dispatch.cfg.Signer = signer
			ring := manifest.Keyring{"k": signer.key.Public().(ed25519.PublicKey)}
			h := y.register("m1", 4)
			y.request(home, 1, 4, nil)
			var offers []string
			for slot := range 4 {
				offers = append(offers, fmt.Sprintf("%s/%d/0", h.runner, slot))
			}
			// The first answer may come with the first lease; what is left comes with one answer then.
			told, most := []*runnerv1.Renewal(nil), 0
			for len(told) < 4 {
				signer.made = 0
				res := h.exchange(&runnerv1.ExchangeRequest{WaitMs: 20_000, Offers: offers, Renewals: told, TakesBatches: takes})
				synctest.Wait()
				n, b := len(res.GetLeases()), res.GetBatch()
				most = max(most, n)
				together := takes && n > 1
				if want := map[bool]int{true: 1, false: n}[together]; signer.made != want || (b != nil) != together {
					t.Errorf("takes %t: %d signatures for %d leases, want %d; batch %v", takes, signer.made, n, want, b)
				}
				orders := manifest.NewOpener(ring,
					manifest.Batch{Digests: b.GetDigests(), KeyID: b.GetKeyId(), Signature: b.GetSignature()})
				for _, l := range res.GetLeases() {
					m, err := orders.Open(l.GetManifest(), l.GetKeyId(), l.GetSignature())
					if err != nil || string(m.Attempt) != l.GetAttempt() {
						t.Errorf("takes %t: the lease of %s: %v", takes, l.GetAttempt(), err)
					}
					told = append(told, &runnerv1.Renewal{Attempt: l.GetAttempt(), Epoch: l.GetEpoch(), Observed: "running"})
				}
				offers = nil
			}
			if most < 2 {
				t.Error("no two leases went out together")
			}
		})
	}
}

package dispatch

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"testing"

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
// one of its own otherwise, and when there is only one.
// Promises: [LEASE-10].
func TestLeasesThatGoOutTogetherAreSignedTogether(t *testing.T) {
	for _, takes := range []bool{true, false} {
		inYard(t, func(t *testing.T, y *yard) {
			signer := &countingSigner{key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))}
			y.dispatch.cfg.Signer = signer
			ring := manifest.Keyring{"k": signer.key.Public().(ed25519.PublicKey)}
			h := y.register("m1", 4)
			opened := 0
			for round, jobs := range []int{3, 1} {
				y.request(home, byte(round+1), jobs, nil)
				signer.made = 0
				var offers []string
				for slot := range jobs {
					offers = append(offers, fmt.Sprintf("%s/%d/0", h.runner, slot+opened))
				}
				res := h.exchange(&runnerv1.ExchangeRequest{WaitMs: 20_000, Offers: offers, TakesBatches: takes})
				together := takes && jobs > 1
				if len(res.GetLeases()) != jobs || (res.GetBatch() != nil) != together {
					t.Fatalf("takes %t: %d leases of %d, batch %v", takes, len(res.GetLeases()), jobs, res.GetBatch())
				}
				if want := map[bool]int{true: 1, false: jobs}[together]; signer.made != want {
					t.Errorf("takes %t: %d signatures for %d leases, want %d", takes, signer.made, jobs, want)
				}
				b := res.GetBatch()
				orders := manifest.NewOpener(ring,
					manifest.Batch{Digests: b.GetDigests(), KeyID: b.GetKeyId(), Signature: b.GetSignature()})
				for _, l := range res.GetLeases() {
					m, err := orders.Open(l.GetManifest(), l.GetKeyId(), l.GetSignature())
					if err != nil || string(m.Attempt) != l.GetAttempt() {
						t.Errorf("takes %t: the lease of %s: %v", takes, l.GetAttempt(), err)
					}
					h.exchange(result(l, "success", "r"))
				}
				opened += jobs
			}
		})
	}
}

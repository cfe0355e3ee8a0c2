package manifest

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// batchWorld is a key and some manifests.
func batchWorld(t *testing.T) (ed25519.PrivateKey, Keyring, [][]byte) {
	t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	ring := Keyring{}
	if err := ring.Add("k1", key.Public().(ed25519.PublicKey)); err != nil {
		t.Fatal(err)
	}
	var payloads [][]byte
	for n := range 3 {
		data, err := (&Manifest{Version: Version, Attempt: domain.RunID("run_1").Job(n).Attempt(1)}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		payloads = append(payloads, data)
	}
	return key, ring, payloads
}

// Promises: [LEASE-10].
func TestOneSignatureForAll(t *testing.T) {
	key, ring, payloads := batchWorld(t)
	digests := Digests(payloads)
	o := NewOpener(ring, Batch{digests, "k1", ed25519.Sign(key, Statement(digests))})
	for n, p := range payloads {
		m, err := o.Open(p, "", nil)
		if err != nil || m.Attempt != domain.RunID("run_1").Job(n).Attempt(1) {
			t.Errorf("%d: %v, %v", n, m, err)
		}
	}
	if _, err := o.Open(payloads[0], "k1", ed25519.Sign(key, payloads[0])); err != nil {
		t.Errorf("one with a signature of its own: %v", err)
	}
	if _, err := o.Open(bytes.Replace(payloads[0], []byte(`"epoch":0`), []byte(`"epoch":9`), 1), "", nil); !errors.Is(err,
		ErrSignature) {
		t.Errorf("one that is not among them: %v", err)
	}
}

// Whatever differs from what was signed, no manifest is opened.
func TestABatchThatDoesNotVerify(t *testing.T) {
	key, ring, payloads := batchWorld(t)
	digests := Digests(payloads)
	signature := ed25519.Sign(key, Statement(digests))
	other := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))
	for name, b := range map[string]Batch{
		"none":                     {},
		"no signature":             {digests, "k1", nil},
		"another key's":            {digests, "k1", ed25519.Sign(other, Statement(digests))},
		"a key that nobody has":    {digests, "k2", signature},
		"fewer digests":            {digests[:64], "k1", signature},
		"half a digest":            {digests[:40], "k1", ed25519.Sign(key, Statement(digests[:40]))},
		"other digests":            {Digests(payloads[1:]), "k1", signature},
		"without the statement":    {digests, "k1", ed25519.Sign(key, digests)},
		"a manifest as digests":    {payloads[0][:len(payloads[0])/32*32], "k1", ed25519.Sign(key, payloads[0])},
		"more than may be covered": {bytes.Repeat(digests, BatchMax), "k1", signature},
	} {
		if m, err := NewOpener(ring, b).Open(payloads[0], "", nil); err == nil {
			t.Errorf("%s: opened %v", name, m)
		}
	}
}

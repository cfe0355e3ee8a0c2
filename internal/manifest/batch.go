package manifest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
)

// What a batch's signature covers begins with this; no manifest does, so that neither can
// stand for the other.
const statement = "fairlead manifests, one signature\n"

// BatchMax is how many manifests one signature may cover.
const BatchMax = 1024

// Statement is what is signed for manifests of these digests.
func Statement(digests []byte) []byte { return append([]byte(statement), digests...) }

// Digests gives the digests of manifests, one after the other.
func Digests(payloads [][]byte) []byte {
	out := make([]byte, 0, len(payloads)*sha256.Size)
	for _, p := range payloads {
		sum := sha256.Sum256(p)
		out = append(out, sum[:]...)
	}
	return out
}

// Batch is what came with an answer: one signature over several manifests. Its zero value
// covers none.
type Batch struct {
	Digests   []byte // of the manifests
	KeyID     string
	Signature []byte // over Statement(Digests)
}

// Opener opens the manifests of one answer, with one verification for all that have no
// signature of their own.
type Opener struct {
	keys     map[string]ed25519.PublicKey
	batch    Batch
	verified bool
	fault    error
}

// NewOpener makes the opener of an answer.
func NewOpener(keys map[string]ed25519.PublicKey, batch Batch) *Opener {
	return &Opener{keys: keys, batch: batch}
}

// Open verifies the signature over payload, its own or the batch's, and parses it.
//
// Trust: payload is the server's only after the signature verified and covers it.
func (o *Opener) Open(payload []byte, keyID string, signature []byte) (*Manifest, error) {
	if len(signature) > 0 {
		return Open(payload, keyID, signature, o.keys)
	}
	if !o.verified {
		o.fault, o.verified = o.verify(), true
	}
	switch {
	case o.fault != nil:
		return nil, o.fault
	case len(payload) > MaxBytes:
		return nil, fmt.Errorf("open manifest: %w: %d bytes", ErrForm, len(payload))
	case !o.covers(payload):
		return nil, fmt.Errorf("open manifest: %w: it is not among those that were signed together", ErrSignature)
	}
	return parse(payload)
}

func (o *Opener) verify() error {
	b := o.batch
	if len(b.Digests) == 0 {
		return fmt.Errorf("open manifest: %w: there is none", ErrSignature)
	}
	if len(b.Digests)%sha256.Size != 0 || len(b.Digests) > BatchMax*sha256.Size {
		return fmt.Errorf("open manifest: %w: digests of %d bytes", ErrForm, len(b.Digests))
	}
	key, ok := o.keys[b.KeyID]
	if !ok || len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, Statement(b.Digests), b.Signature) {
		return fmt.Errorf("open manifest: %w", ErrSignature)
	}
	return nil
}

func (o *Opener) covers(payload []byte) bool {
	sum := sha256.Sum256(payload)
	for at := 0; at < len(o.batch.Digests); at += sha256.Size {
		if bytes.Equal(o.batch.Digests[at:at+sha256.Size], sum[:]) {
			return true
		}
	}
	return false
}

package credential

import (
	"crypto/ed25519"
	"slices"
	"sync"
	"time"
)

const useManifest = "manifest"

// PublicKey verifies what a Signer signed.
type PublicKey struct {
	ID  string
	Key ed25519.PublicKey
}

// Signer signs job manifests.
type Signer struct {
	folder string
	now    func() time.Time

	mu     sync.RWMutex
	keys   []keyFile   // oldest first, never empty
	public []PublicKey // of keys
	// private are the keys as signing wants them: deriving one costs as much as a signature.
	private []ed25519.PrivateKey
}

// OpenSigner reads DATA/keys/manifest-*.key and makes the first key when there is none.
func OpenSigner(dataFolder string, now func() time.Time) (*Signer, error) {
	keys, err := loadKeys(dataFolder, useManifest, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	s := &Signer{folder: dataFolder, now: now, keys: keys}
	return s, s.Tend()
}

// Tend rotates keys when it is time; call it once a day. Runners learn the next key a day
// before it signs.
func (s *Signer) Tend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys, err := tend(s.folder, useManifest, ed25519.SeedSize,
		reread(s.folder, useManifest, ed25519.SeedSize, s.keys), s.now())
	if len(keys) > 0 {
		s.keys, s.public, s.private = keys, make([]PublicKey, len(keys)), make([]ed25519.PrivateKey, len(keys))
		for i, key := range keys {
			s.private[i] = ed25519.NewKeyFromSeed(key.Secret)
			s.public[i] = PublicKey{ID: key.ID, Key: s.private[i].Public().(ed25519.PublicKey)}
		}
	}
	return err
}

// Sign signs payload with the active key.
func (s *Signer) Sign(payload []byte) (keyID string, signature []byte) {
	s.mu.RLock()
	i := active(s.keys, s.now())
	id, key := s.keys[i].ID, s.private[i]
	s.mu.RUnlock()
	return id, ed25519.Sign(key, payload)
}

// PublicKeys are all keys that may verify a manifest: past, present and next. Every poll of a
// runner asks for them.
func (s *Signer) PublicKeys() []PublicKey {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.public)
}

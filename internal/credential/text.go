package credential

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Prefixes tell people, and scanners that look for leaked secrets, what a token is.
const (
	prefixAdmin        = "fla_"
	prefixAttempt      = "fat_"
	prefixRegistration = "frt_"
	prefixSession      = "fls_"
	prefixCode         = "flc_"
	prefixPeer         = "flp_"
)

// textBytesMax bounds what is compared with a secret; a longer one can't be ours.
const textBytesMax = 1024

// newText makes a token of 256 random bits.
func newText(prefix string) string {
	var bits [32]byte
	_, _ = rand.Read(bits[:]) // never fails: the program ends when the kernel has no randomness
	return prefix + base64.RawURLEncoding.EncodeToString(bits[:])
}

// fingerprint is what is kept of a token.
type fingerprint [sha256.Size]byte

func fingerprintOf(text string) fingerprint { return sha256.Sum256([]byte(text)) }

// equal compares without telling by its duration where the two differ.
func (f fingerprint) equal(g fingerprint) bool { return subtle.ConstantTimeCompare(f[:], g[:]) == 1 }

// NewRegistrationToken makes a one-time token for a runner to register with. Only its
// digest goes into the pool's history; text is shown once.
func NewRegistrationToken() (text domain.Secret, digest domain.Digest) {
	token := newText(prefixRegistration)
	return domain.NewSecret(token), domain.DigestOf([]byte(token))
}

// RegistrationDigest is the digest of a registration token that a runner presented. ok is
// false when the text can't be one.
//
// Trust: text comes from anybody.
func RegistrationDigest(text string) (digest domain.Digest, ok bool) {
	if len(text) != len(prefixRegistration)+43 || text[:len(prefixRegistration)] != prefixRegistration {
		return "", false
	}
	return domain.DigestOf([]byte(text)), true
}

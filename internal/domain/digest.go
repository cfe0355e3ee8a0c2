package domain

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// Digest names bytes by their content: "sha256:" and 64 lower-case hex characters.
type Digest string

// DigestOf computes the digest of data.
func DigestOf(data []byte) Digest {
	sum := sha256.Sum256(data)
	return Digest("sha256:" + hex.EncodeToString(sum[:]))
}

// Valid reports whether d is well formed; only then is it safe in a path.
//
// Trust: d may come from anybody.
func (d Digest) Valid() bool {
	text, ok := strings.CutPrefix(string(d), "sha256:")
	if !ok || len(text) != 64 {
		return false
	}
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Hex is the digest without its algorithm.
func (d Digest) Hex() string { return strings.TrimPrefix(string(d), "sha256:") }

// Checksum is the short checksum of a log chunk: the first eight bytes of its SHA-256.
// It tells a repeat from a conflict; it is no proof against the runner itself.
func Checksum(data []byte) uint64 {
	sum := sha256.Sum256(data)
	return binary.BigEndian.Uint64(sum[:8])
}

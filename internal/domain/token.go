package domain

import (
	"fmt"
	"strconv"
	"strings"
)

// Token is an acknowledgement token: it names the exact point of a partition's log
// that a reply rests on. Whoever presents a token that the server does not hold, with the
// proof that came with it, shows that the server lost acknowledged history.
type Token struct {
	Partition PartitionID
	Epoch     uint64
	Position  uint64
	Digest    Digest // of the batch at Position
	// Proof is that an installation gave this token; empty when nothing proves it. It goes
	// beside the text form, so that a reader which knows nothing of proofs reads the rest.
	Proof Proof `json:",omitempty"`
}

// String writes "partition:epoch:position:hex", without the proof; the zero Token is "".
func (t Token) String() string {
	if t == (Token{}) {
		return ""
	}
	return fmt.Sprintf("%s:%d:%d:%s", t.Partition, t.Epoch, t.Position, t.Digest.Hex())
}

// ParseToken reads the text form.
//
// Trust: text may come from anybody.
func ParseToken(text string) (Token, bool) {
	if text == "" {
		return Token{}, true
	}
	parts := strings.Split(text, ":")
	if len(parts) != 4 || len(parts[0]) > 64 {
		return Token{}, false
	}
	epoch, err1 := strconv.ParseUint(parts[1], 10, 63)
	position, err2 := strconv.ParseUint(parts[2], 10, 63)
	digest := Digest("sha256:" + parts[3])
	if err1 != nil || err2 != nil || !digest.Valid() {
		return Token{}, false
	}
	return Token{Partition: PartitionID(parts[0]), Epoch: epoch, Position: position, Digest: digest}, true
}

// ParseProvenToken reads the text form with the proof that came beside it. A proof that is
// none is as good as no proof.
//
// Trust: both may come from anybody.
func ParseProvenToken(text, proof string) (Token, bool) {
	token, ok := ParseToken(text)
	if ok && token != (Token{}) {
		token.Proof = ParseProof(proof)
	}
	return token, ok
}

// Proof is "key.mac": the id of a key of the installation, and what only its holder can make
// of a token with it.
type Proof string

// Lengths of the parts of a Proof.
const (
	ProofKeyBytes = 16 // hexadecimal text of 8 bytes
	ProofMACBytes = 22 // base64url text of 16 bytes
)

// ParseProof gives text if it has the form of a proof, and none otherwise.
//
// Trust: text may come from anybody.
func ParseProof(text string) Proof {
	if len(text) != ProofKeyBytes+1+ProofMACBytes || text[ProofKeyBytes] != '.' {
		return ""
	}
	for i := range len(text) {
		c := text[i]
		hexadecimal := c >= '0' && c <= '9' || c >= 'a' && c <= 'f'
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_'
		if i < ProofKeyBytes && !hexadecimal || i > ProofKeyBytes && !hexadecimal && !letter {
			return ""
		}
	}
	return Proof(text)
}

// Key is the id of the key that the proof names; "" for none.
func (p Proof) Key() string {
	if len(p) <= ProofKeyBytes {
		return ""
	}
	return string(p[:ProofKeyBytes])
}

// Standing is what a token's proof is worth. Only a proved token can stop a partition.
type Standing string

// Standings.
const (
	// StandingProved: this installation gave the token.
	StandingProved Standing = "proved"
	// StandingUnproved: it has no proof, as those that a version before proofs gave.
	StandingUnproved Standing = "unproved"
	// StandingForeign: the proof names a key that this installation does not have. It may be
	// another's token, or of this one before it lost its keys.
	StandingForeign Standing = "foreign"
	// StandingForged: the proof names a key of this installation and was not made with it.
	StandingForged Standing = "forged"
)

package domain

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Actor is who asked, and how we know.
type Actor struct {
	// Kind is "user", "token", "runner", "reactor", "timer", "reconciler" or "source".
	Kind string `json:"kind"`
	// ID is opaque within the kind; for a reactor or a timer it is its name.
	ID string `json:"id"`
	// Via says how the actor authenticated: "admin_token", "session_cookie",
	// "attempt_token", "runner_session", "internal".
	Via string `json:"via,omitempty"`
}

// Cause is carried by every accepted command and stored beside its events.
type Cause struct {
	Actor   Actor     `json:"actor"`
	Request string    `json:"request,omitempty"` // request id, for correlation with logs
	Policy  string    `json:"policy,omitempty"`  // policy version that admitted it
	At      time.Time `json:"at"`                // time of the decision, UTC
}

// Token is an acknowledgement token: it names the exact point of a partition's log
// that a reply rests on. Whoever presents a token that the server does not hold has
// proof that the server lost acknowledged history.
type Token struct {
	Partition PartitionID
	Epoch     uint64
	Position  uint64
	Digest    Digest // of the batch at Position
}

// String writes "partition:epoch:position:hex"; the zero Token is "".
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
	return Token{PartitionID(parts[0]), epoch, position, digest}, true
}

package logs

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Faults and refusals, told apart with errors.Is.
var (
	// ErrBusy: the queue is full, or the attempt is being sealed; see Busy for how long to wait.
	ErrBusy = errors.New("log gateway busy")
	// ErrSealed: the attempt's log is closed. The chunk was kept as evidence.
	ErrSealed = errors.New("log sealed")
	// ErrChecksum: the bytes are not those the checksum was made of.
	ErrChecksum = errors.New("log chunk checksum mismatch")
	// ErrAhead: too many chunks wait behind a missing one. Send the missing one first.
	ErrAhead = errors.New("log chunk too far ahead")
	// ErrInvalid: a field is outside its limits.
	ErrInvalid = errors.New("log chunk invalid")
	// ErrDamaged: stored bytes are not what was stored; Damage says where.
	ErrDamaged = errors.New("stored log damaged")
	// ErrClosed: the gateway shuts down.
	ErrClosed = errors.New("log gateway closed")
)

// Busy is an ErrBusy that says when to come back.
type Busy struct{ After time.Duration }

// Error implements error.
func (b *Busy) Error() string { return fmt.Sprintf("%v: come back in %v", ErrBusy, b.After) }

// Is makes a Busy an ErrBusy, and a fault that retrying can mend.
func (b *Busy) Is(target error) bool { return target == ErrBusy || target == domain.ErrRetry }

// Damage is an ErrDamaged with its place.
type Damage struct {
	Object string // key of the damaged object
	Offset int64  // in the object
	Next   int64  // where the log goes on (offset of raw bytes); 0 when nothing is known
	Why    string
}

// Error implements error.
func (d *Damage) Error() string {
	return fmt.Sprintf("%v: object %s, byte %d: %s", ErrDamaged, d.Object, d.Offset, d.Why)
}

// Is makes a Damage an ErrDamaged.
func (d *Damage) Is(target error) bool { return target == ErrDamaged }

// Streams of a chunk.
const (
	StreamOut    uint8 = 1
	StreamErr    uint8 = 2
	StreamRunner uint8 = 3
)

// Marks begin with one of these words and a colon; what follows is the rule or the reason.
const (
	// MarkGap stands before the bytes of its chunk: something is missing here.
	MarkGap = "gap"
	// MarkTruncated stands after the bytes of its chunk: the rest was cut by a limit.
	MarkTruncated = "truncated"
	// MarkDamaged is made by reading: a stored block is broken.
	MarkDamaged = "damaged"
)

// markMissing is the mark of chunks that never came.
const markMissing = MarkGap + ":missing"

func gapMark(mark string) bool { return strings.HasPrefix(mark, MarkGap) }

// Chunk is a piece of an attempt's log. Sequence counts from 1 per attempt over all steps.
// A chunk with a gap mark also stands for every missing sequence below its own: they will
// not come. Whoever sends one has sent before it, or sends with it, what he still has below.
type Chunk struct {
	Tenant   domain.TenantID
	Attempt  domain.AttemptID
	Epoch    uint64
	Sequence uint64
	Step     uint32 // index; StepRunner is the runner itself
	Stream   uint8
	At       time.Time
	Data     []byte // belongs to the gateway from Append on: never change it
	Checksum uint64 // domain.Checksum(Data)
	Mark     string // "", "truncated:<rule>" or "gap:<reason>"
	Dropped  uint64 // bytes the mark stands for
	// Ended: the attempt has an outcome already, so its log may be sealed.
	Ended bool
}

// check looks at what a chunk claims.
//
// Trust: everything in a chunk is written by a runner, its data by an attacker.
func (c *Chunk) check() error {
	invalid := func(what string) error {
		return fmt.Errorf("append chunk %d of %.80s: %s: %w", c.Sequence, c.Attempt, what, ErrInvalid)
	}
	if _, _, _, ok := c.Attempt.Split(); !ok {
		return invalid("malformed attempt")
	}
	switch {
	case !validTenant(c.Tenant):
		return invalid("malformed tenant")
	case c.Sequence == 0 || c.Sequence > 1<<48:
		return invalid("sequence out of range")
	case len(c.Data) > ChunkBytesMax:
		return invalid("too long")
	case c.Step >= StepsMax && c.Step != StepRunner:
		return invalid("step out of range")
	case c.Stream < StreamOut || c.Stream > StreamRunner:
		return invalid("unknown stream")
	case len(c.Mark) > MarkBytesMax || !validMark(c.Mark):
		return invalid("malformed mark")
	case domain.Checksum(c.Data) != c.Checksum:
		return fmt.Errorf("append chunk %d of %s: %w", c.Sequence, c.Attempt, ErrChecksum)
	}
	return nil
}

func validTenant(t domain.TenantID) bool {
	return len(t) <= 64 && blob.ValidKey(string(t)) == nil && !strings.Contains(string(t), "/")
}

// validMark accepts no mark, or one of the two words of a runner with a printable rest.
func validMark(mark string) bool {
	if mark == "" {
		return true
	}
	for _, c := range []byte(mark) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	word, _, _ := strings.Cut(mark, ":")
	return word == MarkGap || word == MarkTruncated
}

// Ack answers for one attempt of an Append.
type Ack struct {
	Tenant  domain.TenantID
	Attempt domain.AttemptID
	Epoch   uint64
	// Through: every chunk up to this sequence is durable, or marked as missing.
	Through uint64
	// Conflicts is how many chunks of this call contradicted a durable one. They are kept as
	// evidence and count as dealt with.
	Conflicts int
	// Refused says why chunks of the attempt were not taken: nil, ErrSealed (drop everything),
	// ErrBusy (send again later), ErrAhead (send what is missing first), ErrChecksum (damaged
	// on the way: send again) or ErrInvalid (never send it again). Others of the same attempt
	// may have been taken; Through tells.
	Refused error
}

// Ref is the reference to a sealed log, as events carry it. The bytes are Length bytes of
// the object from Offset.
type Ref struct {
	Object         string
	Offset, Length int64
	Digest         domain.Digest // of those bytes
	Bytes, Lines   int64         // of the log itself
	Truncated      bool
	Gaps           int
}

// SequenceUnknown is the end of a log whose attempt gave no result: what is there is sealed.
const SequenceUnknown = ^uint64(0)

package engine

import (
	"context"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Envelope is a command on its way to a stream's owner. Command is one of the command
// types of the stream's kind (core/run.Command for "run/…").
type Envelope struct {
	Tenant    domain.TenantID
	Partition domain.PartitionID // where the stream lives; see Route
	Stream    domain.StreamID
	Command   any
	Cause     domain.Cause // At is filled in by the owner
	// Key makes the command act at most once for a client or a trigger. Commands of
	// runners and reactors need none: the stream's own state absorbs a repeat.
	Key *Key
	// Counter, when set, is raised by one in the same transaction, and the command gets
	// the new value through Numbered.
	Counter string
	// Term, when set, is by what right it is sent: once the owner has heard of a later term of the
	// same pools it refuses the command with not_owner.
	Term Term
	// Before, when set, is when the command is worth nothing any more: from then on, by its own
	// clock, the owner refuses it with not_owner.
	Before time.Time
}

// Term is the time in which one server leads the pools of a partition: it owns the partition
// under the epoch.
type Term struct {
	Of    domain.PartitionID `json:"of,omitempty"`
	Epoch uint64             `json:"epoch,omitempty"` // 0: no term
}

// Key is an idempotency or dedupe key; see store.Key for its life.
type Key struct {
	Scope string        `json:"scope"`          // ClientScope or TriggerScope
	Key   string        `json:"key"`            // at most 256 bytes
	Body  domain.Digest `json:"body,omitempty"` // of what the client sent: another body with the same key is refused
}

// ClientScope is the scope of a client's idempotency key.
func ClientScope(principal, method string) string { return "client/" + principal + "/" + method }

// TriggerScope is the scope of a trigger's dedupe key.
func TriggerScope(repository domain.RepositoryID) string { return "trigger/" + string(repository) }

// Numbered is implemented by commands that take a counter's value.
type Numbered interface {
	// WithNumber returns the command with its number set.
	WithNumber(n uint64) any
}

// Ack is the answer to an accepted command: it is committed, and Token says where.
type Ack struct {
	Token   domain.Token
	Stream  domain.StreamID // the stream that acted; with Repeat, that of the first time
	Version uint64          // of the stream after the command
	Reply   any             // what the stream's Decide replied; nil with Repeat
	Repeat  bool            // the key had acted before
	Stored  []byte          // with Repeat: the stored reply
	// Refusal is an answer of no that was committed with its evidence.
	Refusal *domain.Rejection
	// Shown says that observers on this server were shown everything up to Token. Without it, a
	// follower is behind its partition's owner, and memory here may not know yet what was done.
	Shown bool
	// Begun are the events of a stream that the command began on this server, so that whoever
	// answers with what there is now need not read it back. Their positions are not told.
	Begun []Recorded
}

// Submitter accepts commands. An error is a *domain.Rejection (an answer) or a fault.
type Submitter interface {
	Submit(ctx context.Context, e Envelope) (Ack, error)
}

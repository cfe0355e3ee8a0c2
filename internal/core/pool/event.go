package pool

import (
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Event is a fact of a pool's history. The set is closed; events are pointers.
type Event interface {
	// Name is the event's type name, as stored.
	Name() string
	// Time is when it was decided.
	Time() time.Time
}

// Base is part of every event.
type Base struct {
	At time.Time `json:"at"`
}

// Time implements Event.
func (b Base) Time() time.Time { return b.At }

// PoolCreated is the first event of every pool.
type PoolCreated struct {
	Base
	Actor  domain.Actor    `json:"actor"`
	Tenant domain.TenantID `json:"tenant"`
	Pool   domain.PoolID   `json:"pool"`
	Config Config          `json:"config"`
}

// RegistrationTokenIssued makes a token good for one registration.
type RegistrationTokenIssued struct {
	Base
	Token Token `json:"token"`
}

// RegistrationTokensExpired ends tokens that nobody used in time.
type RegistrationTokensExpired struct {
	Base
	Tokens []domain.Digest `json:"tokens"`
}

// RunnerRegistered uses a token up and adds a runner.
type RunnerRegistered struct {
	Base
	Runner Runner `json:"runner"`
}

// RunnerRemoved takes a runner out.
type RunnerRemoved struct {
	Base
	Actor  domain.Actor    `json:"actor"`
	Runner domain.RunnerID `json:"runner"`
	Reason string          `json:"reason,omitempty"`
}

// SessionRotated replaces a runner's session.
type SessionRotated struct {
	Base
	Runner  domain.RunnerID  `json:"runner"`
	Session domain.SessionID `json:"session"`
	Resume  domain.Digest    `json:"resume"`
}

// Name implements Event.
func (*PoolCreated) Name() string { return "PoolCreated" }

// Name implements Event.
func (*RegistrationTokenIssued) Name() string { return "RegistrationTokenIssued" }

// Name implements Event.
func (*RegistrationTokensExpired) Name() string { return "RegistrationTokensExpired" }

// Name implements Event.
func (*RunnerRegistered) Name() string { return "RunnerRegistered" }

// Name implements Event.
func (*RunnerRemoved) Name() string { return "RunnerRemoved" }

// Name implements Event.
func (*SessionRotated) Name() string { return "SessionRotated" }

// StateEncoding is the version of EncodeState's form.
const StateEncoding uint32 = 2

// form has every event type that ever was.
var form = codec.FormOf[Event](
	new(PoolCreated),
	new(RegistrationTokenIssued),
	new(RegistrationTokensExpired),
	new(RunnerRegistered),
	new(RunnerRemoved),
	new(SessionRotated),
)

var stateForm = codec.RecordOf[State]()

// EncodeEvents writes events in their stored form, for readers of an event format.
func EncodeEvents(events []Event, format uint32) ([]byte, error) { return form.Encode(events, format) }

// DecodeEvents reads the stored form of any format; an unknown type or field is an error.
func DecodeEvents(data []byte) ([]Event, error) { return form.Decode(data) }

// EncodeState writes a checkpoint. Equal states give equal bytes.
func EncodeState(s *State) []byte {
	data, err := stateForm.Encode(s)
	if err != nil {
		panic("encode state of pool " + string(s.Pool) + ": " + err.Error()) // times are bounded by Decide
	}
	return data
}

// DecodeState reads a checkpoint of the current StateEncoding.
func DecodeState(data []byte) (*State, error) {
	s := New()
	err := stateForm.Decode(data, s)
	s.index = newIndex(s.Runners)
	return s, err
}

package group

import (
	"fmt"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Command asks for something. Decide knows the types below, passed by value, and panics
// on any other.
type Command interface {
	// Name is the command's type name.
	Name() string
}

// Join asks for a place in the group. The same again is acknowledged.
type Join struct {
	Cause      domain.Cause
	Repository domain.RepositoryID
	GroupName  string
	Member     Key
	Who        Successor
	Cancel     bool
	Max        bool
}

// Leave gives the place back: the member has concluded. The same again is acknowledged.
type Leave struct {
	Cause  domain.Cause
	Member Key
}

// Wake is never needed; every kind of stream has it.
type Wake struct{ Cause domain.Cause }

// Name implements Command.
func (Join) Name() string { return "Join" }

// Name implements Command.
func (Leave) Name() string { return "Leave" }

// Name implements Command.
func (Wake) Name() string { return "Wake" }

// EncodeCommand writes a command for its way to the server that owns the group.
func EncodeCommand(c Command) ([]byte, error) { return codec.EncodeOne(c.Name(), c) }

// DecodeCommand reads what EncodeCommand wrote; an unknown type or field is an error.
//
// Trust: data comes from another server of the same fleet.
func DecodeCommand(data []byte) (Command, error) {
	return codec.DecodeOne(data, func(name string, body []byte) (Command, bool, error) {
		switch name {
		case "Join":
			return codec.As(body, func(c Join) Command { return c })
		case "Leave":
			return codec.As(body, func(c Leave) Command { return c })
		case "Wake":
			return codec.As(body, func(c Wake) Command { return c })
		}
		return nil, false, nil
	})
}

// EncodeReply writes what Decide replied, which is nothing: the events say it.
func EncodeReply(reply any) ([]byte, error) {
	if reply != nil {
		return nil, fmt.Errorf("encode reply: no form of %T", reply)
	}
	return nil, nil
}

// DecodeReply reads what EncodeReply wrote.
func DecodeReply(data []byte) (any, error) {
	if len(data) > 0 {
		return nil, fmt.Errorf("decode reply: a group gives none")
	}
	return nil, nil
}

// Event is a fact of a group's history. The set is closed.
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

// Of is part of every event about a member.
type Of struct {
	Base
	Member     Key    `json:"member"`
	Generation uint64 `json:"generation"`
}

// GroupOpened is the first event of every group.
type GroupOpened struct {
	Base
	Repository domain.RepositoryID `json:"repository"`
	GroupName  string              `json:"name"`
}

// MemberJoined says that somebody has a place, behind whoever came before.
type MemberJoined struct {
	Base
	Member Member         `json:"member"`
	Ahead  []domain.RunID `json:"ahead,omitempty"`
}

// MemberAdmitted says that a member may go on, and nobody else until it leaves.
type MemberAdmitted struct{ Of }

// MemberSuperseded says that a member that waited was replaced by a newer one.
type MemberSuperseded struct {
	Of
	By Successor `json:"by"`
}

// CancelWanted says that a newer member asks the admitted one to stop.
type CancelWanted struct {
	Of
	By Successor `json:"by"`
}

// MemberLeft says that a member gave its place back.
type MemberLeft struct{ Of }

// MemberRefused says that somebody got no place, since too many wait.
type MemberRefused struct {
	Base
	Member  Key `json:"member"`
	Waiting int `json:"waiting"`
}

// Name implements Event.
func (*GroupOpened) Name() string { return "GroupOpened" }

// Name implements Event.
func (*MemberJoined) Name() string { return "MemberJoined" }

// Name implements Event.
func (*MemberAdmitted) Name() string { return "MemberAdmitted" }

// Name implements Event.
func (*MemberSuperseded) Name() string { return "MemberSuperseded" }

// Name implements Event.
func (*CancelWanted) Name() string { return "CancelWanted" }

// Name implements Event.
func (*MemberLeft) Name() string { return "MemberLeft" }

// Name implements Event.
func (*MemberRefused) Name() string { return "MemberRefused" }

package repository

import (
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
)

// Commands and replies travel between servers of neighbouring versions in this form: the
// type's name, and its fields under the names that they have in Go. A renamed field is
// another form; a golden file for each type says so. What a receiver does not know it
// refuses as a whole, and the sender tries again after the upgrade.

// EncodeCommand writes a command for its way to the server that owns the repository.
func EncodeCommand(c Command) ([]byte, error) { return codec.EncodeOne(c.Name(), c) }

// DecodeCommand reads what EncodeCommand wrote; an unknown type or field is an error.
//
// Trust: data comes from another server of the same fleet.
func DecodeCommand(data []byte) (Command, error) {
	return codec.DecodeOne(data, func(name string, body []byte) (Command, bool, error) {
		switch name {
		case "Register":
			return codec.As(body, func(c Register) Command { return c })
		case "ObserveRefs":
			return codec.As(body, func(c ObserveRefs) Command { return c })
		case "SetPolling":
			return codec.As(body, func(c SetPolling) Command { return c })
		case "SetComponents":
			return codec.As(body, func(c SetComponents) Command { return c })
		case "Forget":
			return codec.As(body, func(c Forget) Command { return c })
		case "DefineSchedules":
			return codec.As(body, func(c DefineSchedules) Command { return c })
		case "SettleOccurrence":
			return codec.As(body, func(c SettleOccurrence) Command { return c })
		case "Withdraw":
			return codec.As(body, func(c Withdraw) Command { return c })
		case "Reinstate":
			return codec.As(body, func(c Reinstate) Command { return c })
		case "Wake":
			return codec.As(body, func(c Wake) Command { return c })
		}
		return nil, false, nil
	})
}

// EncodeReply writes what Decide replied; no reply is no bytes.
func EncodeReply(reply any) ([]byte, error) {
	switch reply := reply.(type) {
	case nil:
		return nil, nil
	case ObserveReply:
		return codec.EncodeOne("ObserveReply", reply)
	}
	return nil, fmt.Errorf("encode reply: no form of %T", reply)
}

// DecodeReply reads what EncodeReply wrote.
func DecodeReply(data []byte) (any, error) {
	if len(data) == 0 {
		return nil, nil
	}
	return codec.DecodeOne(data, func(name string, body []byte) (any, bool, error) {
		switch name {
		case "ObserveReply":
			return codec.As(body, func(r ObserveReply) any { return r })
		}
		return nil, false, nil
	})
}

package run

import (
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
)

// Commands and replies travel between servers of neighbouring versions in this form: the
// type's name, and its fields under the names that they have in Go. A renamed field is
// another form; a golden file for each type says so. What a receiver does not know it
// refuses as a whole, and the sender tries again after the upgrade.

// EncodeCommand writes a command for its way to the server that owns the run.
func EncodeCommand(c Command) ([]byte, error) { return codec.EncodeOne(c.Name(), c) }

// DecodeCommand reads what EncodeCommand wrote; an unknown type or field is an error.
//
// Trust: data comes from another server of the same fleet.
func DecodeCommand(data []byte) (Command, error) {
	return codec.DecodeOne(data, func(name string, body []byte) (Command, bool, error) {
		switch name {
		case "RequestRun":
			return codec.As(body, func(c RequestRun) Command { return c })
		case "GrantLease":
			return codec.As(body, func(c GrantLease) Command { return c })
		case "DeclineLease":
			return codec.As(body, func(c DeclineLease) Command { return c })
		case "ReportProgress":
			return codec.As(body, func(c ReportProgress) Command { return c })
		case "ReportResult":
			return codec.As(body, func(c ReportResult) Command { return c })
		case "LapseLease":
			return codec.As(body, func(c LapseLease) Command { return c })
		case "RegainLease":
			return codec.As(body, func(c RegainLease) Command { return c })
		case "RequestCancel":
			return codec.As(body, func(c RequestCancel) Command { return c })
		case "Wake":
			return codec.As(body, func(c Wake) Command { return c })
		case "RecordEvaluation":
			return codec.As(body, func(c RecordEvaluation) Command { return c })
		case "RecordMatrix":
			return codec.As(body, func(c RecordMatrix) Command { return c })
		case "RecordCall":
			return codec.As(body, func(c RecordCall) Command { return c })
		case "RecordConcurrency":
			return codec.As(body, func(c RecordConcurrency) Command { return c })
		case "RecordPlace":
			return codec.As(body, func(c RecordPlace) Command { return c })
		case "Rerun":
			return codec.As(body, func(c Rerun) Command { return c })
		case "Settle":
			return codec.As(body, func(c Settle) Command { return c })
		case "RecordLog":
			return codec.As(body, func(c RecordLog) Command { return c })
		case "RefuseAccess":
			return codec.As(body, func(c RefuseAccess) Command { return c })
		}
		return nil, false, nil
	})
}

// EncodeReply writes what Decide replied; no reply is no bytes.
func EncodeReply(reply any) ([]byte, error) {
	switch reply := reply.(type) {
	case nil:
		return nil, nil
	case RequestReply:
		return codec.EncodeOne("RequestReply", reply)
	case LeaseReply:
		return codec.EncodeOne("LeaseReply", reply)
	case ReportReply:
		return codec.EncodeOne("ReportReply", reply)
	case CancelReply:
		return codec.EncodeOne("CancelReply", reply)
	case RoundReply:
		return codec.EncodeOne("RoundReply", reply)
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
		case "RequestReply":
			return codec.As(body, func(r RequestReply) any { return r })
		case "LeaseReply":
			return codec.As(body, func(r LeaseReply) any { return r })
		case "ReportReply":
			return codec.As(body, func(r ReportReply) any { return r })
		case "CancelReply":
			return codec.As(body, func(r CancelReply) any { return r })
		case "RoundReply":
			return codec.As(body, func(r RoundReply) any { return r })
		}
		return nil, false, nil
	})
}

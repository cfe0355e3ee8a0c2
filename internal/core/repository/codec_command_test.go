package repository

import (
	"testing"

	"github.com/fairlead-ci/fairlead/internal/core/codec/codectest"
)

// Promises: [FORMAT-5].
func TestCommandsBetweenServers(t *testing.T) {
	codectest.Form[Command]{
		Source: "command.go", Before: "func (", After: ") Name() string",
		Zero: []Command{
			Register{}, ObserveRefs{}, SetPolling{}, Forget{}, Wake{}, DefineSchedules{}, SettleOccurrence{},
			Withdraw{}, Reinstate{}, SetComponents{},
		},
		Encode: EncodeCommand, Decode: DecodeCommand, Folder: "testdata/command", Rewrite: *rewrite,
	}.Check(t)
}

func TestRepliesBetweenServers(t *testing.T) {
	codectest.Form[any]{
		Source: "command.go", Before: "type ", After: "Reply struct",
		Zero:   []any{ObserveReply{}},
		Encode: EncodeReply, Decode: DecodeReply, Folder: "testdata/command", Rewrite: *rewrite,
	}.Check(t)
	if data, err := EncodeReply(nil); err != nil || data != nil {
		t.Errorf("no reply is %q (%v)", data, err)
	}
	if reply, err := DecodeReply(nil); err != nil || reply != nil {
		t.Errorf("no reply is %v (%v)", reply, err)
	}
	if _, err := EncodeReply("something else"); err == nil {
		t.Error("something else has a form")
	}
}

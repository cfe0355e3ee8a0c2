package run

import (
	"testing"

	"github.com/fairlead-ci/fairlead/internal/core/codec/codectest"
)

// Promises: [FORMAT-5].
func TestCommandsBetweenServers(t *testing.T) {
	codectest.Form[Command]{
		Source: "command.go", Before: "func (", After: ") Name() string",
		Zero:   allCommands(),
		Encode: EncodeCommand, Decode: DecodeCommand, Folder: "testdata/command", Rewrite: *rewrite,
		Newest: map[string]int{"GrantLease": formatRunnerVersion, "RequestRun": formatCall, "ReportResult": formatMatrix},
	}.Check(t)
}

// Promises: [FORMAT-5].
func TestRepliesBetweenServers(t *testing.T) {
	codectest.Form[any]{
		Source: "command.go", Before: "type ", After: "Reply struct",
		Zero:   []any{RequestReply{}, LeaseReply{}, ReportReply{}, CancelReply{}, RoundReply{}},
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

func allCommands() []Command {
	return []Command{
		RequestRun{}, GrantLease{}, DeclineLease{}, ReportProgress{}, ReportResult{}, LapseLease{},
		RegainLease{}, RequestCancel{}, Wake{}, RecordEvaluation{}, Rerun{}, Settle{}, RecordLog{},
		RefuseAccess{}, RecordMatrix{}, RecordCall{}, RecordConcurrency{}, RecordPlace{},
	}
}

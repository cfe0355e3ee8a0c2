package run

import (
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
)

// StateEncoding is the version of EncodeState's form. A checkpoint of another version is
// dropped and the state rebuilt from events. It grows with every change of State.
const StateEncoding uint32 = 4

// form has every event type that ever was: old ones stay here for ever.
var form = codec.FormOf[Event](
	new(RunRequested), new(EvaluationAsked), new(EvaluationRecorded), new(JobHeld), new(JobReady),
	new(LeaseGranted), new(LeaseDeclined), new(ProgressReported), new(LeaseLapsed), new(LeaseRegained),
	new(AttemptHeld), new(AttemptStopRequested), new(AttemptConcluded), new(JobConcluded), new(CancelRequested),
	new(RunConcluded), new(RoundOpened), new(ReconciliationRecorded), new(ReportRefused), new(RefusalsCounted),
	new(ReportConflicted), new(LogSealed), new(MatrixAsked), new(MatrixExpanded),
	new(CallAsked), new(CallOpened),
	new(ConcurrencyAsked), new(GroupAsked), new(GroupJoined), new(GroupAdmitted), new(GroupReplaced), new(GroupLeft),
)

var stateForm = codec.RecordOf[State]()

// EncodeEvents writes events in their stored form, for readers of an event format.
func EncodeEvents(events []Event, format uint32) ([]byte, error) { return form.Encode(events, format) }

// DecodeEvents reads the stored form of any format. An unknown type or field is an error:
// history from a newer release must not be half understood.
func DecodeEvents(data []byte) ([]Event, error) { return form.Decode(data) }

// EncodeState writes a checkpoint. Equal states give equal bytes.
func EncodeState(s *State) []byte {
	data, err := stateForm.Encode(s)
	if err != nil {
		panic(fmt.Sprintf("encode state of run %s: %v", s.Request.Run, err)) // times are bounded by Decide
	}
	return data
}

// DecodeState reads a checkpoint of the current StateEncoding.
func DecodeState(data []byte) (*State, error) {
	s := New()
	if err := stateForm.Decode(data, s); err != nil {
		return nil, fmt.Errorf("decode state: %w", err)
	}
	if len(s.Jobs) != len(s.Request.Skeleton) {
		return nil, fmt.Errorf("decode state: %d jobs, %d in the skeleton", len(s.Jobs), len(s.Request.Skeleton))
	}
	s.dependents, s.called = reverse(s.Request.Skeleton), calledBy(s.Request.Skeleton)
	return s, nil
}

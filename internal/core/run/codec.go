package run

import (
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
)

// StateEncoding is the version of EncodeState's form. A checkpoint of another version is
// dropped and the state rebuilt from events. It grows with every change of State.
const StateEncoding uint32 = 1

// EncodeEvents writes events in their stored form: a JSON list of type and body.
func EncodeEvents(events []Event) ([]byte, error) { return codec.Encode(events) }

// DecodeEvents reads the stored form. An unknown type or field is an error: history from a
// newer release must not be half understood.
func DecodeEvents(data []byte) ([]Event, error) {
	return codec.Decode(data, func(name string) (Event, bool) {
		e := newEvent(name)
		return e, e != nil
	})
}

// newEvent makes an empty event of the named type, nil for an unknown name. Old names stay
// here for ever.
func newEvent(name string) Event {
	switch name {
	case "RunRequested":
		return new(RunRequested)
	case "EvaluationAsked":
		return new(EvaluationAsked)
	case "EvaluationRecorded":
		return new(EvaluationRecorded)
	case "JobHeld":
		return new(JobHeld)
	case "JobReady":
		return new(JobReady)
	case "LeaseGranted":
		return new(LeaseGranted)
	case "LeaseDeclined":
		return new(LeaseDeclined)
	case "ProgressReported":
		return new(ProgressReported)
	case "LeaseLapsed":
		return new(LeaseLapsed)
	case "LeaseRegained":
		return new(LeaseRegained)
	case "AttemptHeld":
		return new(AttemptHeld)
	case "AttemptStopRequested":
		return new(AttemptStopRequested)
	case "AttemptConcluded":
		return new(AttemptConcluded)
	case "JobConcluded":
		return new(JobConcluded)
	case "CancelRequested":
		return new(CancelRequested)
	case "RunConcluded":
		return new(RunConcluded)
	case "RoundOpened":
		return new(RoundOpened)
	case "ReconciliationRecorded":
		return new(ReconciliationRecorded)
	case "ReportRefused":
		return new(ReportRefused)
	case "RefusalsCounted":
		return new(RefusalsCounted)
	case "ReportConflicted":
		return new(ReportConflicted)
	case "LogSealed":
		return new(LogSealed)
	}
	return nil
}

// EncodeState writes a checkpoint. Equal states give equal bytes.
func EncodeState(s *State) []byte {
	data, err := codec.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("encode state of run %s: %v", s.Request.Run, err)) // times are bounded by Decide
	}
	return data
}

// DecodeState reads a checkpoint of the current StateEncoding.
func DecodeState(data []byte) (*State, error) {
	s := New()
	if err := codec.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("decode state: %w", err)
	}
	if len(s.Jobs) != len(s.Request.Skeleton) {
		return nil, fmt.Errorf("decode state: %d jobs, %d in the skeleton", len(s.Jobs), len(s.Request.Skeleton))
	}
	s.dependents = reverse(s.Request.Skeleton)
	return s, nil
}

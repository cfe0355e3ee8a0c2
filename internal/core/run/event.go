package run

import (
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Event is a fact of a run's history. The set is closed; events are pointers to the types
// below. Names and encodings are for ever: codec.go lifts old ones.
type Event interface {
	// Name is the event's type name, as stored and as printed everywhere.
	Name() string
	// Time is when it was decided.
	Time() time.Time
	// JobIndex is the job that it is about, -1 when it is about the run.
	JobIndex() int
	// AttemptNumber is the attempt that it is about, 0 when it is about none.
	AttemptNumber() int
}

// Base is part of every event.
type Base struct {
	At time.Time `json:"at"`
}

// OfJob is part of every event about one job.
type OfJob struct {
	Base
	Job int `json:"job"`
}

// OfAttempt is part of every event about one attempt. Epoch is the lease epoch that the
// attempt was granted under, except in ReportRefused and RefusalsCounted, where it is the
// one that the refused caller showed.
type OfAttempt struct {
	OfJob
	Attempt int    `json:"attempt"`
	Epoch   uint64 `json:"epoch"`
}

// Time implements Event.
func (b Base) Time() time.Time { return b.At }

// JobIndex implements Event.
func (Base) JobIndex() int { return -1 }

// AttemptNumber implements Event.
func (Base) AttemptNumber() int { return 0 }

// JobIndex implements Event.
func (o OfJob) JobIndex() int { return o.Job }

// AttemptNumber implements Event.
func (o OfAttempt) AttemptNumber() int { return o.Attempt }

// RunRequested is the first event of every run. All jobs begin waiting, in round 1.
type RunRequested struct {
	Base
	Actor   domain.Actor `json:"actor"`
	Request Request      `json:"request"`
}

// EvaluationAsked says that a job waits for the value of an expression over values that
// the core does not hold. A reactor answers with RecordEvaluation.
type EvaluationAsked struct {
	OfJob
	Expression  string        `json:"expression"`
	InputDigest domain.Digest `json:"input_digest"` // of EvaluationInputs
	Deadline    time.Time     `json:"deadline"`     // unanswered by then: the job fails
}

// EvaluationRecorded is the answer, with what it was computed from.
type EvaluationRecorded struct {
	OfJob
	Expression  string        `json:"expression"`
	InputDigest domain.Digest `json:"input_digest"`
	Result      bool          `json:"result"`
	Error       string        `json:"error,omitempty"`
}

// MatrixAsked says that a job's condition holds and its legs are not known yet. A reactor
// answers with RecordMatrix. Since format 4.
type MatrixAsked struct {
	OfJob
	InputDigest domain.Digest `json:"input_digest"` // of EvaluationInputs
	Deadline    time.Time     `json:"deadline"`     // unanswered by then: the job fails
}

// MatrixExpanded says that a job's condition holds, and which legs it has in this round, in
// their order. Since format 4.
type MatrixExpanded struct {
	OfJob
	Legs []int `json:"legs"` // indexes of jobs
	// What follows is of a matrix that is expanded while the run goes on: what it was made
	// of, how its legs run, and those of them that are new.
	InputDigest domain.Digest `json:"input_digest,omitempty"`
	FailFast    bool          `json:"fail_fast,omitempty"`
	MaxParallel int           `json:"max_parallel,omitempty"`
	Added       []JobSkeleton `json:"added,omitempty"`
}

// CallAsked says that a job calls a workflow, and that the values of its inputs or of its outputs
// are not known yet. A reactor answers with RecordCall. Since format 5.
type CallAsked struct {
	OfJob
	What        string        `json:"what"`         // CallAsksInputs or CallAsksOutputs
	InputDigest domain.Digest `json:"input_digest"` // of EvaluationInputs, or of CallOutputsInputs
	Deadline    time.Time     `json:"deadline"`     // unanswered by then: the job fails
}

// CallOpened says that a called workflow begins, with the values of its inputs. Since format 5.
type CallOpened struct {
	OfJob
	InputDigest domain.Digest `json:"input_digest,omitempty"` // what they were evaluated from
	Inputs      CallInputs    `json:"inputs"`
}

// ConcurrencyAsked says that a job could start and the name of its concurrency group is not
// known yet. A reactor answers with RecordConcurrency. Since format 5, as are the four below.
type ConcurrencyAsked struct {
	OfJob
	InputDigest domain.Digest `json:"input_digest"` // of EvaluationInputs
	Deadline    time.Time     `json:"deadline"`     // unanswered by then: the job fails
}

// GroupAsked says that a job, or with group.Whole the run, waits for a place in a group. A
// reactor carries it there.
type GroupAsked struct {
	OfJob
	Concurrency Concurrency `json:"concurrency"`
}

// GroupJoined says which place it has, and which runs are ahead of it.
type GroupJoined struct {
	OfJob
	Generation uint64         `json:"generation"`
	Ahead      []domain.RunID `json:"ahead,omitempty"`
}

// GroupAdmitted says that it may go on.
type GroupAdmitted struct {
	OfJob
	Generation uint64 `json:"generation"`
}

// GroupReplaced says that a newer member takes its place: at once if it waited; otherwise when
// it has stopped, which is asked for by this.
type GroupReplaced struct {
	OfJob
	Generation uint64          `json:"generation"`
	By         group.Successor `json:"by"`
}

// GroupLeft says that it has concluded and gives its place back. A reactor carries it there.
type GroupLeft struct {
	OfJob
	Round      int    `json:"round"`
	Group      string `json:"group"`
	Generation uint64 `json:"generation,omitempty"`
}

// JobHeld says that a job could start but for a stated reason, until a stated time.
type JobHeld struct {
	OfJob
	Reason Reason    `json:"reason"`
	Until  time.Time `json:"until"`
}

// JobReady says that a job waits for a runner and nothing else.
type JobReady struct {
	OfJob
	QueueDeadline time.Time `json:"queue_deadline"` // without a runner by then: it fails
}

// LeaseGranted starts an attempt.
type LeaseGranted struct {
	OfAttempt
	Runner     domain.RunnerID `json:"runner"`
	RunnerName string          `json:"runner_name"`
	// RunnerVersion is what the runner said when it was registered; since format 2.
	RunnerVersion string           `json:"runner_version,omitempty"`
	Session       domain.SessionID `json:"session,omitempty"`
	Pool          domain.PoolID    `json:"pool"`
	Alias         string           `json:"alias,omitempty"`
	Slot          domain.SlotToken `json:"slot"`
	Until         time.Time        `json:"until"`
	AbandonBy     time.Time        `json:"abandon_by"`
	Deadline      time.Time        `json:"deadline"` // the server's backstop of the job's timeout
}

// LeaseDeclined says that the runner refused the lease before it began. AttemptConcluded
// follows.
type LeaseDeclined struct {
	OfAttempt
	Reason string `json:"reason,omitempty"`
}

// ProgressReported is what the worker said. Steps holds only those that changed.
type ProgressReported struct {
	OfAttempt
	Observed domain.Observed `json:"observed"`
	Steps    []Step          `json:"steps,omitempty"`
	HeardAt  time.Time       `json:"heard_at"`
}

// LeaseLapsed says that the holder was not heard in time: the attempt is uncertain.
type LeaseLapsed struct {
	OfAttempt
	LastSeen  time.Time `json:"last_seen"`
	AbandonBy time.Time `json:"abandon_by"`
	SettleAt  time.Time `json:"settle_at"` // from then on nobody can be acting on it
}

// LeaseRegained says that the holder was heard again in time.
type LeaseRegained struct {
	OfAttempt
	Until     time.Time `json:"until"`
	AbandonBy time.Time `json:"abandon_by"`
}

// AttemptHeld says that an uncertain attempt of an effectful job stays uncertain until a
// person or a reconciler says what it did.
type AttemptHeld struct{ OfAttempt }

// AttemptStopRequested says that the attempt's desired state is now cancel, and why. It
// is a request; AttemptConcluded is the end.
type AttemptStopRequested struct {
	OfAttempt
	Reason     Reason    `json:"reason"`
	GraceUntil time.Time `json:"grace_until"` // processes may tidy up until then
	RenewUntil time.Time `json:"renew_until"` // no lease renewal may reach beyond
}

// AttemptConcluded is the attempt's immutable result.
type AttemptConcluded struct {
	OfAttempt
	Outcome domain.Outcome      `json:"outcome"`
	Class   domain.FailureClass `json:"class,omitempty"`
	Effect  domain.SideEffect   `json:"effect"`
	Message string              `json:"message,omitempty"`
	Reason  Reason              `json:"reason"`
	Report  domain.Digest       `json:"report,omitempty"` // empty: no report came
	Steps   []Step              `json:"steps,omitempty"`  // those that changed
	LogEnd  uint64              `json:"log_end,omitempty"`
	Outputs []Output            `json:"outputs,omitempty"`
}

// JobConcluded is the job's outcome in this round. Attempt is the one that decided it, 0
// when none did.
type JobConcluded struct {
	OfJob
	Attempt int                 `json:"attempt,omitempty"`
	Outcome domain.Outcome      `json:"outcome"`
	Class   domain.FailureClass `json:"class,omitempty"`
	Reason  Reason              `json:"reason"`
	Outputs []Output            `json:"outputs,omitempty"` // of a call; since format 5
}

// CancelRequested says that somebody asked for the run to stop.
type CancelRequested struct {
	Base
	Actor  domain.Actor `json:"actor"`
	Reason string       `json:"reason,omitempty"`
}

// RunConcluded is the run's outcome in this round.
type RunConcluded struct {
	Base
	Round   int            `json:"round"`
	Outcome domain.Outcome `json:"outcome"`
	Reason  Reason         `json:"reason"`
}

// RoundOpened starts the next pass over the named jobs. Outcomes, attempts and outputs of
// all others stay as they are.
type RoundOpened struct {
	Base
	Actor domain.Actor `json:"actor"`
	Round int          `json:"round"`
	Mode  string       `json:"mode"`
	Jobs  []int        `json:"jobs"`
	// Kept are those of Jobs that keep their condition and their legs, some of which run
	// again. Since format 4.
	Kept []int `json:"kept,omitempty"`
}

// ReconciliationRecorded says what was found to be true of an attempt later on. It edits
// nothing: what follows from it are further events.
type ReconciliationRecorded struct {
	OfAttempt
	Actor  domain.Actor      `json:"actor"`
	Effect domain.SideEffect `json:"effect"`
	Then   string            `json:"then,omitempty"`
	Note   string            `json:"note,omitempty"`
}

// ReportRefused keeps the evidence of a caller that had no current lease.
type ReportRefused struct {
	OfAttempt
	What    string         `json:"what"`
	Code    domain.Code    `json:"code"`
	Message string         `json:"message,omitempty"`
	Outcome domain.Outcome `json:"outcome,omitempty"` // what a refused result claimed
	Report  domain.Digest  `json:"report,omitempty"`
}

// RefusalsCounted adds further refusals of the same attempt, after the recorded ones.
type RefusalsCounted struct {
	OfAttempt
	Count uint64 `json:"count"`
}

// ReportConflicted keeps a report that contradicts the committed one.
type ReportConflicted struct {
	OfAttempt
	Outcome   domain.Outcome      `json:"outcome"`
	Class     domain.FailureClass `json:"class,omitempty"`
	Message   string              `json:"message,omitempty"`
	Report    domain.Digest       `json:"report"`
	Committed domain.Digest       `json:"committed"` // the report that stands
}

// LogSealed says where the attempt's complete log is.
type LogSealed struct {
	OfAttempt
	Log Log `json:"log"`
}

// Name implements Event.
func (*RunRequested) Name() string { return "RunRequested" }

// Name implements Event.
func (*EvaluationAsked) Name() string { return "EvaluationAsked" }

// Name implements Event.
func (*EvaluationRecorded) Name() string { return "EvaluationRecorded" }

// Name implements Event.
func (*MatrixAsked) Name() string { return "MatrixAsked" }

// Name implements Event.
func (*MatrixExpanded) Name() string { return "MatrixExpanded" }

// Name implements Event.
func (*CallAsked) Name() string { return "CallAsked" }

// Name implements Event.
func (*CallOpened) Name() string { return "CallOpened" }

// Name implements Event.
func (*ConcurrencyAsked) Name() string { return "ConcurrencyAsked" }

// Name implements Event.
func (*GroupAsked) Name() string { return "GroupAsked" }

// Name implements Event.
func (*GroupJoined) Name() string { return "GroupJoined" }

// Name implements Event.
func (*GroupAdmitted) Name() string { return "GroupAdmitted" }

// Name implements Event.
func (*GroupReplaced) Name() string { return "GroupReplaced" }

// Name implements Event.
func (*GroupLeft) Name() string { return "GroupLeft" }

// Name implements Event.
func (*JobHeld) Name() string { return "JobHeld" }

// Name implements Event.
func (*JobReady) Name() string { return "JobReady" }

// Name implements Event.
func (*LeaseGranted) Name() string { return "LeaseGranted" }

// Name implements Event.
func (*LeaseDeclined) Name() string { return "LeaseDeclined" }

// Name implements Event.
func (*ProgressReported) Name() string { return "ProgressReported" }

// Name implements Event.
func (*LeaseLapsed) Name() string { return "LeaseLapsed" }

// Name implements Event.
func (*LeaseRegained) Name() string { return "LeaseRegained" }

// Name implements Event.
func (*AttemptHeld) Name() string { return "AttemptHeld" }

// Name implements Event.
func (*AttemptStopRequested) Name() string { return "AttemptStopRequested" }

// Name implements Event.
func (*AttemptConcluded) Name() string { return "AttemptConcluded" }

// Name implements Event.
func (*JobConcluded) Name() string { return "JobConcluded" }

// Name implements Event.
func (*CancelRequested) Name() string { return "CancelRequested" }

// Name implements Event.
func (*RunConcluded) Name() string { return "RunConcluded" }

// Name implements Event.
func (*RoundOpened) Name() string { return "RoundOpened" }

// Name implements Event.
func (*ReconciliationRecorded) Name() string { return "ReconciliationRecorded" }

// Name implements Event.
func (*ReportRefused) Name() string { return "ReportRefused" }

// Name implements Event.
func (*RefusalsCounted) Name() string { return "RefusalsCounted" }

// Name implements Event.
func (*ReportConflicted) Name() string { return "ReportConflicted" }

// Name implements Event.
func (*LogSealed) Name() string { return "LogSealed" }

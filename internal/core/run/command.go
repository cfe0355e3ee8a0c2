package run

import (
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Command asks for something. Decide knows the types below and panics on any other.
// Commands are passed by value: Decide(s, GrantLease{…}, now).
type Command interface {
	// Name is the command's type name, as pages and traces print it.
	Name() string
}

// Request is everything about a run that is decided before it exists and never changes
// afterwards. It is the content of RequestRun, of RunRequested and of State.
type Request struct {
	Run            domain.RunID        `json:"run"`
	Tenant         domain.TenantID     `json:"tenant"`
	Repository     domain.RepositoryID `json:"repository"`
	RepositoryName string              `json:"repository_name"`
	Number         uint64              `json:"number"` // per workflow of the repository, from 1
	Trigger        Trigger             `json:"trigger"`
	Source         Source              `json:"source"`
	WorkflowPath   string              `json:"workflow_path"`
	WorkflowName   string              `json:"workflow_name"`
	Snapshot       domain.Digest       `json:"snapshot,omitempty"` // of the frozen inputs
	Plan           domain.Digest       `json:"plan,omitempty"`     // of plan.Plan's canonical bytes
	Inputs         domain.Digest       `json:"inputs,omitempty"`   // of the trigger's inputs
	Tier           domain.Tier         `json:"tier"`
	Class          domain.Class        `json:"class"`
	// Skeleton is the part of the plan that the core schedules by. Bodies of steps stay
	// in the plan, which is an object named by its digest.
	Skeleton []JobSkeleton `json:"skeleton,omitempty"`
	// Limits are pinned here so that a change of configuration can't change a replay.
	// Zero fields take the defaults of limits.go when the run is requested.
	Limits Limits `json:"limits"`
	// Invalid lists, one sentence each, why the definition can't be executed. When it is
	// not empty the run concludes at once as invalid and has no jobs.
	Invalid []string `json:"invalid,omitempty"`
	// Concurrency is the group that the run joins before any of its jobs begins. Since format 5.
	Concurrency *Concurrency `json:"concurrency,omitempty"`
}

// Trigger is the accepted cause of a run.
type Trigger struct {
	Event      string       `json:"event"` // "push", "workflow_dispatch", …
	Key        string       `json:"key"`   // dedupe key: at most one run per key
	Actor      domain.Actor `json:"actor"` // whom the source names as the cause
	ReceivedAt time.Time    `json:"received_at"`
	Delivery   string       `json:"delivery,omitempty"` // the source's own id of its message
}

// Source is the pinned commit. Ref and Title are labels: what they name may move.
type Source struct {
	Commit string `json:"commit"`
	Ref    string `json:"ref,omitempty"` // full ref; empty for a captured tree
	Title  string `json:"title,omitempty"`
}

// JobSkeleton is what the core knows of a job: SkeletonOf makes it from the plan.
type JobSkeleton struct {
	Index               int      `json:"index"`
	Key                 string   `json:"key"`
	Name                string   `json:"name"`
	Needs               []int    `json:"needs,omitempty"`
	If                  string   `json:"if,omitempty"`
	RunsOn              []string `json:"runs_on,omitempty"`
	TimeoutSeconds      int64    `json:"timeout_seconds"`
	QueueTimeoutSeconds int64    `json:"queue_timeout_seconds"`
	Retry               Retry    `json:"retry"`
	Effectful           bool     `json:"effectful,omitempty"`
	SoftFail            bool     `json:"soft_fail,omitempty"`
	Steps               []string `json:"steps,omitempty"` // names, by step index; of a leg: none, see State.Steps
	Leg                 *Leg     `json:"leg,omitempty"`   // of a job with a matrix
	Group               *Group   `json:"group,omitempty"` // of a job with a matrix: how its legs run
	// Call: the job calls a workflow, or each of its legs does. In is the index of the caller, a job
	// or a leg, whose workflow the job is of, and ID its key there. Since format 5.
	Call *CallSkeleton `json:"call,omitempty"`
	In   *int          `json:"in,omitempty"`
	ID   string        `json:"id,omitempty"`
	// Concurrency is the group that the job, or each of its legs, joins. Since format 5.
	Concurrency *JobConcurrency `json:"concurrency,omitempty"`
}

// Retry says which failures start another attempt without a person.
type Retry struct {
	Max            int                   `json:"max"` // further attempts in a round
	On             []domain.FailureClass `json:"on,omitempty"`
	BackoffSeconds int64                 `json:"backoff_seconds,omitempty"` // doubles each time
}

// RequestRun creates the run. A repeat on an existing run is acknowledged and changes
// nothing. Reply: RequestReply.
type RequestRun struct {
	Cause   domain.Cause
	Request Request
}

// WithNumber returns the command for the run of that number; the engine counts runs.
func (c RequestRun) WithNumber(n uint64) any {
	c.Request.Number = n
	return c
}

// GrantLease gives one runner the right to execute the next attempt of a ready job. The
// same slot token again answers with the attempt it got. Reply: LeaseReply.
type GrantLease struct {
	Cause      domain.Cause
	Job        domain.JobID
	Runner     domain.RunnerID
	RunnerName string
	// RunnerVersion is the program that the runner runs, for the record; since format 2.
	RunnerVersion string `json:",omitempty"`
	Session       domain.SessionID
	Pool          domain.PoolID
	// Tiers are the trust tiers that the pool accepts. It is required: a lease on a pool
	// that does not name the run's tier is refused.
	Tiers     []domain.Tier
	Alias     string // the runs-on label that the pool answered by an alias, if any
	Slot      domain.SlotToken
	Until     time.Time // the runner must be heard again before
	AbandonBy time.Time // without contact the runner has killed the attempt by then
}

// DeclineLease is the runner's refusal of a lease before it did anything with it.
type DeclineLease struct {
	Cause   domain.Cause
	Attempt domain.AttemptID
	Epoch   uint64
	Reason  string
}

// ReportProgress is what the worker says of an attempt that goes on. Reply: ReportReply.
type ReportProgress struct {
	Cause    domain.Cause
	Attempt  domain.AttemptID
	Epoch    uint64
	Observed domain.Observed
	Steps    []Step    // those that changed, by index
	At       time.Time // by the server's clock, when it was heard
}

// ReportResult is the worker's final report. Reply: ReportReply.
type ReportResult struct {
	Cause   domain.Cause
	Attempt domain.AttemptID
	Epoch   uint64
	Digest  domain.Digest // of the report's content: tells a repeat from a contradiction
	Outcome domain.Outcome
	Class   domain.FailureClass
	Message string
	Steps   []Step
	LogEnd  uint64            // sequence of the attempt's last log chunk; 0: none
	Effect  domain.SideEffect // empty: not stated
	Outputs []Output
}

// LapseLease says that the holder of a lease was not heard in time. The lease keeper
// sends it; AbandonBy is the last one that was promised to the runner.
type LapseLease struct {
	Cause     domain.Cause
	Attempt   domain.AttemptID
	Epoch     uint64
	LastSeen  time.Time
	AbandonBy time.Time
}

// RegainLease says that the holder of a lapsed lease was heard again, before its attempt
// was settled and before it had to abandon it.
type RegainLease struct {
	Cause     domain.Cause
	Attempt   domain.AttemptID
	Epoch     uint64
	Until     time.Time
	AbandonBy time.Time
}

// RequestCancel asks for the run to stop. It is a request: attempts end when their
// runners say so, or when nobody can be acting on them any more. Reply: CancelReply.
type RequestCancel struct {
	Cause  domain.Cause
	Reason string
}

// Wake says that time has passed. The engine sends it at NextWake; earlier or more often
// does no harm.
type Wake struct{ Cause domain.Cause }

// RecordEvaluation answers EvaluationAsked. Expression and InputDigest must be those that
// were asked for.
type RecordEvaluation struct {
	Cause       domain.Cause
	Job         domain.JobID
	Expression  string
	InputDigest domain.Digest
	Result      bool
	Error       string // the expression could not be evaluated, and why
}

// RecordMatrix answers MatrixAsked with the legs that the job has in this round, in order.
type RecordMatrix struct {
	Cause       domain.Cause
	Job         domain.JobID
	InputDigest domain.Digest
	FailFast    bool
	MaxParallel int // 0: all
	Legs        []NewLeg
	Error       string // the matrix could not be expanded, and why
}

// RecordCall answers CallAsked: with the inputs of the called workflow, or with its outputs.
type RecordCall struct {
	Cause       domain.Cause
	Job         domain.JobID
	What        string // CallAsksInputs or CallAsksOutputs
	InputDigest domain.Digest
	Inputs      CallInputs
	Outputs     []Output
	Error       string // they could not be evaluated, and why
}

// RecordConcurrency answers ConcurrencyAsked.
type RecordConcurrency struct {
	Cause            domain.Cause
	Job              domain.JobID
	InputDigest      domain.Digest
	Group            string
	CancelInProgress bool
	Error            string // a text could not be evaluated, and why
}

// RecordPlace is what a concurrency group says of the run or of one of its jobs.
type RecordPlace struct {
	Cause      domain.Cause
	Job        int // group.Whole: the run
	Round      int
	Generation uint64
	Phase      string          // PlaceJoined, …
	By         group.Successor // PlaceSuperseded and PlaceYield
	Ahead      []domain.RunID  // PlaceJoined
}

// Modes of a round: RoundFirst is the one that RequestRun opens, the others are Rerun's.
const (
	RoundFirst  = "first"
	RerunAll    = "all"    // every job
	RerunFailed = "failed" // jobs that did not succeed, and what depends on them
	RerunJobs   = "jobs"   // the named jobs, and what depends on them
)

// Rerun opens the next round of a concluded run on the same plan. Retrying one job is
// RerunJobs with that job. Reply: RoundReply.
type Rerun struct {
	Cause domain.Cause
	Mode  string
	Jobs  []domain.JobID // RerunJobs only
}

// What follows from a settled attempt.
const (
	ThenRetry   = "retry"
	ThenSuccess = "success"
	ThenFailure = "failure"
)

// Settle records what a person or a reconciler found out about an attempt without a known
// result, and what follows for its job. On an attempt that was committed as lost with an
// unknown side effect it records the finding only: the job's outcome stands, and Then is
// ignored.
type Settle struct {
	Cause   domain.Cause
	Attempt domain.AttemptID
	Effect  domain.SideEffect // EffectNone, EffectConfirmed or EffectUnknown
	Then    string            // ThenRetry, ThenSuccess or ThenFailure
	Note    string
}

// RecordLog seals an attempt's log after the attempt ended: Log says where its bytes are.
type RecordLog struct {
	Cause   domain.Cause
	Attempt domain.AttemptID
	Log     Log
}

// What can be refused to a caller whose epoch is not the current one.
const (
	RefusedReport = "report"
	RefusedChunk  = "chunk"
	RefusedFetch  = "fetch"
	RefusedSecret = "secret"
)

// RefuseAccess records that the shell refused an attempt's token. The first refusals of an
// attempt are recorded one by one; after those only batches are: the shell counts the
// single ones and sends their number in Count now and then.
type RefuseAccess struct {
	Cause   domain.Cause
	Attempt domain.AttemptID
	Epoch   uint64
	What    string
	Message string
	Count   uint64 // 0 and 1 both mean one
}

// RequestReply answers RequestRun.
type RequestReply struct {
	Run    domain.RunID `json:"run"`
	Repeat bool         `json:"repeat,omitempty"`
}

// LeaseReply answers GrantLease.
type LeaseReply struct {
	Attempt domain.AttemptID `json:"attempt"`
	Number  int              `json:"number"`
	Epoch   uint64           `json:"epoch"`
	Repeat  bool             `json:"repeat,omitempty"`
}

// ReportReply answers ReportProgress and ReportResult. Whatever its fields say, the worker
// need not send the same report again.
type ReportReply struct {
	Desired  domain.Desired `json:"desired,omitempty"` // what the worker should do now
	Outcome  domain.Outcome `json:"outcome,omitempty"` // what is committed
	Repeat   bool           `json:"repeat,omitempty"`
	Conflict bool           `json:"conflict,omitempty"`
}

// CancelReply answers RequestCancel.
type CancelReply struct {
	Repeat bool `json:"repeat,omitempty"`
}

// RoundReply answers Rerun.
type RoundReply struct {
	Round int            `json:"round"`
	Jobs  []domain.JobID `json:"jobs"`
}

// Name implements Command.
func (RequestRun) Name() string { return "RequestRun" }

// Name implements Command.
func (GrantLease) Name() string { return "GrantLease" }

// Name implements Command.
func (DeclineLease) Name() string { return "DeclineLease" }

// Name implements Command.
func (ReportProgress) Name() string { return "ReportProgress" }

// Name implements Command.
func (ReportResult) Name() string { return "ReportResult" }

// Name implements Command.
func (LapseLease) Name() string { return "LapseLease" }

// Name implements Command.
func (RegainLease) Name() string { return "RegainLease" }

// Name implements Command.
func (RequestCancel) Name() string { return "RequestCancel" }

// Name implements Command.
func (Wake) Name() string { return "Wake" }

// Name implements Command.
func (RecordEvaluation) Name() string { return "RecordEvaluation" }

// Name implements Command.
func (RecordMatrix) Name() string { return "RecordMatrix" }

// Name implements Command.
func (RecordCall) Name() string { return "RecordCall" }

// Name implements Command.
func (RecordConcurrency) Name() string { return "RecordConcurrency" }

// Name implements Command.
func (RecordPlace) Name() string { return "RecordPlace" }

// Name implements Command.
func (Rerun) Name() string { return "Rerun" }

// Name implements Command.
func (Settle) Name() string { return "Settle" }

// Name implements Command.
func (RecordLog) Name() string { return "RecordLog" }

// Name implements Command.
func (RefuseAccess) Name() string { return "RefuseAccess" }

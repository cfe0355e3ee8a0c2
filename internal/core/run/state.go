package run

import (
	"slices"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// JobState is where a job is in its round.
type JobState string

// Job states, in the order in which a job passes them.
const (
	StateWaiting   JobState = "waiting"   // its needs or its condition are not decided
	StateHeld      JobState = "held"      // could start, but for a stored reason
	StateReady     JobState = "ready"     // waits for a runner
	StateActive    JobState = "active"    // has an attempt without an outcome
	StateExpanded  JobState = "expanded"  // its legs run, or the jobs that it calls
	StateConcluded JobState = "concluded" // has an outcome in this round
)

// State is a run as its events tell it. Fields are exported for reading; only Evolve
// writes them.
type State struct {
	Version   uint64         `json:"version"` // number of events so far
	Request   Request        `json:"request"` // Run is empty until the run exists
	CreatedAt time.Time      `json:"created_at"`
	CreatedBy domain.Actor   `json:"created_by"`
	LastAt    time.Time      `json:"last_at"` // time of the last event
	Desired   domain.Desired `json:"desired"`
	Cancel    *Cancel        `json:"cancel,omitempty"` // of this round
	Outcome   domain.Outcome `json:"outcome,omitempty"`
	Reason    Reason         `json:"reason,omitzero"` // why that outcome
	Rounds    []Round        `json:"rounds,omitempty"`
	Jobs      []*Job         `json:"jobs,omitempty"`
	Place     *Place         `json:"place,omitempty"` // of the run, in its concurrency group

	// dependents is the reverse of Needs: derived, never stored.
	dependents [][]int
	called     map[int][]int // of each caller, the jobs that name it in In: derived too
}

// Cancel is a request to stop.
type Cancel struct {
	Actor  domain.Actor `json:"actor"`
	Reason string       `json:"reason,omitempty"`
	At     time.Time    `json:"at"`
}

// Round is one pass over the run's jobs.
type Round struct {
	Number      int              `json:"number"`
	Mode        string           `json:"mode,omitempty"` // of Rerun, or RoundFirst
	Actor       domain.Actor     `json:"actor"`
	OpenedAt    time.Time        `json:"opened_at"`
	Jobs        []int            `json:"jobs,omitempty"` // that run in it; nil: all
	Cancel      *Cancel          `json:"cancel,omitempty"`
	Outcome     domain.Outcome   `json:"outcome,omitempty"`
	ConcludedAt time.Time        `json:"concluded_at,omitzero"`
	Outcomes    []domain.Outcome `json:"outcomes,omitempty"` // of every job, once concluded
}

// Job is what changes of a job. What doesn't is in Request.Skeleton at the same index.
type Job struct {
	State   JobState            `json:"state"`
	Round   int                 `json:"round"` // the last round that ran it
	Reason  Reason              `json:"reason"`
	Cause   EventRef            `json:"cause"` // the event that set Reason
	Since   time.Time           `json:"since"` // and when
	Outcome domain.Outcome      `json:"outcome,omitempty"`
	Class   domain.FailureClass `json:"class,omitempty"`
	// Decider is the number of the attempt that decided Outcome; its outputs are the
	// job's. 0: none did.
	Decider       int         `json:"decider,omitempty"`
	ReadyAt       time.Time   `json:"ready_at,omitzero"`
	QueueDeadline time.Time   `json:"queue_deadline,omitzero"` // while ready
	HeldUntil     time.Time   `json:"held_until,omitzero"`     // while held
	Evaluation    *Evaluation `json:"evaluation,omitempty"`    // the last one of this round
	Epoch         uint64      `json:"epoch,omitempty"`         // of the last lease
	Attempts      []Attempt   `json:"attempts,omitempty"`      // number n at n-1
	// Legs are those of this round, in order, of a job with a matrix.
	Legs []int `json:"legs,omitempty"`
	// Inputs are those of a call, once they are known. Its jobs see them when it is expanded.
	Inputs *CallInputs `json:"inputs,omitempty"`
	// Outputs are those of a call that concluded; of other jobs, see Decider.
	Outputs []Output `json:"outputs,omitempty"`
	Place   *Place   `json:"place,omitempty"` // in its concurrency group
}

// EventRef names an event of this stream.
type EventRef struct {
	Event   string `json:"event"`
	Version uint64 `json:"version"`
}

// Evaluation is a condition that somebody else computes.
type Evaluation struct {
	Expression  string        `json:"expression"`
	InputDigest domain.Digest `json:"input_digest"`
	Deadline    time.Time     `json:"deadline"`
	Answered    bool          `json:"answered,omitempty"`
	Result      bool          `json:"result,omitempty"`
	Error       string        `json:"error,omitempty"`
	Matrix      bool          `json:"matrix,omitempty"` // it is not the condition, but what the legs are
	Call        string        `json:"call,omitempty"`   // nor that, but the inputs or outputs of a call
	// Concurrency: it is the name of the concurrency group.
	Concurrency bool `json:"concurrency,omitempty"`
}

// Attempt is one concrete execution. Desired, Observed and Outcome are three facts that
// are never one: what was asked for, what the worker last said, what is committed.
type Attempt struct {
	Number     int              `json:"number"`
	Round      int              `json:"round"`
	Epoch      uint64           `json:"epoch"`
	Runner     domain.RunnerID  `json:"runner"`
	RunnerName string           `json:"runner_name"`
	Session    domain.SessionID `json:"session,omitempty"`
	Pool       domain.PoolID    `json:"pool"`
	Alias      string           `json:"alias,omitempty"`
	Slot       domain.SlotToken `json:"slot"`
	LeasedAt   time.Time        `json:"leased_at"`
	Until      time.Time        `json:"until"` // as granted or regained; renewals are not events
	AbandonBy  time.Time        `json:"abandon_by"`
	Deadline   time.Time        `json:"deadline"`

	Desired    domain.Desired `json:"desired"`
	Stop       Reason         `json:"stop,omitzero"` // why Desired is cancel
	StopAt     time.Time      `json:"stop_at,omitzero"`
	GraceUntil time.Time      `json:"grace_until,omitzero"`
	RenewUntil time.Time      `json:"renew_until,omitzero"`

	Observed   domain.Observed `json:"observed"`
	ObservedAt time.Time       `json:"observed_at"`
	LastSeen   time.Time       `json:"last_seen,omitzero"` // when the lease lapsed
	Steps      []Step          `json:"steps,omitempty"`    // by index, those heard of

	Uncertain bool      `json:"uncertain,omitempty"` // lease lapsed, no result
	SettleAt  time.Time `json:"settle_at,omitzero"`  // while uncertain
	Held      bool      `json:"held,omitempty"`      // uncertain until somebody settles it

	Outcome     domain.Outcome      `json:"outcome,omitempty"`
	Class       domain.FailureClass `json:"class,omitempty"`
	Effect      domain.SideEffect   `json:"effect,omitempty"`
	Message     string              `json:"message,omitempty"`
	Reason      Reason              `json:"reason,omitzero"`
	ConcludedAt time.Time           `json:"concluded_at,omitzero"`
	ConcludedBy EventRef            `json:"concluded_by,omitzero"`
	Report      domain.Digest       `json:"report,omitempty"` // the report that was committed
	Declined    bool                `json:"declined,omitempty"`
	LogEnd      uint64              `json:"log_end,omitempty"`
	Outputs     []Output            `json:"outputs,omitempty"`
	Log         *Log                `json:"log,omitempty"`

	Reconciliations []Reconciliation `json:"reconciliations,omitempty"`
	Conflicts       []Conflict       `json:"conflicts,omitempty"`
	Refused         uint64           `json:"refused,omitempty"`      // refusals, counted ones included
	RefusedKept     int              `json:"refused_kept,omitempty"` // those with an event each
}

// Step is what is known of one step of an attempt.
type Step struct {
	Index int    `json:"index"`
	Name  string `json:"name,omitempty"` // as the worker evaluated it; empty: as in the plan
	// Outcome is what the step did; Conclusion is what it counts as, which differs when
	// the step may fail (continue-on-error). Both are empty while it runs.
	Outcome    domain.Outcome `json:"outcome,omitempty"`
	Conclusion domain.Outcome `json:"conclusion,omitempty"`
	ExitCode   int            `json:"exit_code,omitempty"`
	Started    time.Time      `json:"started,omitzero"` // zero: it never did
	Finished   time.Time      `json:"finished,omitzero"`
	Message    string         `json:"message,omitempty"`
}

// Output is a named value that a job gives to those that need it. A value over the limit
// is an object: then Value is empty, Digest names it and Size is its bytes (since format 4).
type Output struct {
	Name   string        `json:"name"`
	Value  string        `json:"value,omitempty"`
	Digest domain.Digest `json:"digest,omitempty"`
	Size   int64         `json:"size,omitempty"`
}

// Log says where an attempt's sealed log is and what it lacks.
type Log struct {
	Object    string        `json:"object,omitempty"` // blob key; empty when nothing was written
	Offset    int64         `json:"offset,omitempty"`
	Length    int64         `json:"length,omitempty"` // stored bytes
	Digest    domain.Digest `json:"digest,omitempty"`
	Bytes     int64         `json:"bytes,omitempty"` // of the log itself
	Lines     int64         `json:"lines,omitempty"`
	Truncated bool          `json:"truncated,omitempty"`
	Gaps      int           `json:"gaps,omitempty"`
}

// Reconciliation is a finding about an attempt, made later.
type Reconciliation struct {
	Actor  domain.Actor      `json:"actor"`
	At     time.Time         `json:"at"`
	Effect domain.SideEffect `json:"effect"`
	Then   string            `json:"then,omitempty"`
	Note   string            `json:"note,omitempty"`
}

// Conflict is a report that contradicts the committed one.
type Conflict struct {
	At      time.Time           `json:"at"`
	Report  domain.Digest       `json:"report"`
	Outcome domain.Outcome      `json:"outcome"`
	Class   domain.FailureClass `json:"class,omitempty"`
	Message string              `json:"message,omitempty"`
}

// New is the state of a run that nobody has requested yet.
func New() *State { return new(State) }

// Exists reports whether the run was requested.
func (s *State) Exists() bool { return s.Request.Run != "" }

// Concluded reports whether the current round has an outcome.
func (s *State) Concluded() bool { return s.Outcome != domain.OutcomeNone }

// Round is the number of the current round, from 1; 0 before the run exists.
func (s *State) Round() int { return len(s.Rounds) }

// Skeleton is the unchanging part of a job.
func (s *State) Skeleton(job int) *JobSkeleton { return &s.Request.Skeleton[job] }

// JobID is the identifier of the job at that index.
func (s *State) JobID(job int) domain.JobID { return s.Request.Run.Job(job) }

// AttemptID is the identifier of an attempt of the job at that index.
func (s *State) AttemptID(job, number int) domain.AttemptID { return s.JobID(job).Attempt(number) }

// JobByID finds a job of this run.
func (s *State) JobByID(id domain.JobID) (int, bool) {
	run, index, ok := id.Split()
	return index, ok && run == s.Request.Run && index < len(s.Jobs)
}

// AttemptByID finds an attempt of this run. The result is for reading only.
func (s *State) AttemptByID(id domain.AttemptID) (job int, attempt *Attempt, ok bool) {
	run, job, number, ok := id.Split()
	if !ok || run != s.Request.Run || job >= len(s.Jobs) || number > len(s.Jobs[job].Attempts) {
		return 0, nil, false
	}
	return job, &s.Jobs[job].Attempts[number-1], true
}

// Current is the attempt of an active job: the one without an outcome. It is nil for jobs
// in any other state. The result is for reading only.
func (j *Job) Current() *Attempt {
	if n := len(j.Attempts); n > 0 && j.Attempts[n-1].Outcome == domain.OutcomeNone {
		return &j.Attempts[n-1]
	}
	return nil
}

// Outputs are the values that the job at that index gives to those that need it. They are
// those of the attempt that decided it, in whichever round that was; of a job with a matrix,
// those of its legs together; of a call, what the called workflow makes of its jobs'.
func (s *State) Outputs(job int) []Output {
	if s.Skeleton(job).Group != nil {
		return s.mergedOutputs(job)
	}
	if s.Skeleton(job).Call != nil {
		return s.Jobs[job].Outputs
	}
	if n := s.Jobs[job].Decider; n > 0 {
		return s.Jobs[job].Attempts[n-1].Outputs
	}
	return nil
}

// Started reports whether a step of the attempt is known to have started.
func (a *Attempt) Started() bool {
	return slices.ContainsFunc(a.Steps, func(s Step) bool { return !s.Started.IsZero() })
}

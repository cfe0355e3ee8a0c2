package domain

// Tier is a trust tier. The trigger decides it from facts the source vouches for,
// never from anything a workflow says.
type Tier string

// Trust tiers, lowest first.
const (
	TierUntrusted Tier = "untrusted"
	TierTrusted   Tier = "trusted"
	TierProtected Tier = "protected"
)

// Rank orders tiers; an unknown tier ranks below every known one.
func (t Tier) Rank() int {
	switch t {
	case TierUntrusted:
		return 1
	case TierTrusted:
		return 2
	case TierProtected:
		return 3
	}
	return 0
}

// Class says why work is urgent. Trigger and policy decide it, never the workflow.
type Class string

// Classes, most urgent first.
const (
	ClassRollback    Class = "rollback"
	ClassProtected   Class = "protected"
	ClassInteractive Class = "interactive"
	ClassBatch       Class = "batch"
)

// Rank orders classes; a higher rank is served first.
func (c Class) Rank() int {
	switch c {
	case ClassRollback:
		return 4
	case ClassProtected:
		return 3
	case ClassInteractive:
		return 2
	case ClassBatch:
		return 1
	}
	return 0
}

// Outcome is an immutable committed result. Which values are possible depends on what
// it is the outcome of; see the page "states" of the reference.
type Outcome string

// Outcomes of attempts, jobs and runs. The empty Outcome means: none committed yet.
const (
	OutcomeNone        Outcome = ""
	OutcomeSuccess     Outcome = "success"
	OutcomeFailure     Outcome = "failure"
	OutcomeTimedOut    Outcome = "timed_out"
	OutcomeCancelled   Outcome = "cancelled"
	OutcomeLost        Outcome = "lost"         // attempts only: no result came
	OutcomeSoftFailure Outcome = "soft_failure" // jobs only: failed with continue-on-error
	OutcomeSkipped     Outcome = "skipped"      // jobs and steps only
	OutcomeSuperseded  Outcome = "superseded"
	OutcomeInvalid     Outcome = "invalid" // runs only: the definition can't be executed
)

// FailureClass is committed with every unsuccessful attempt; retry policy looks at it.
type FailureClass string

// Failure classes.
const (
	FailureNone       FailureClass = ""
	FailureUserCode   FailureClass = "user_code"
	FailureTimeout    FailureClass = "timeout"
	FailureRunnerLost FailureClass = "runner_lost"
	FailurePlatform   FailureClass = "platform_error"
	FailurePolicy     FailureClass = "policy_denied"
	FailureCancelled  FailureClass = "cancelled"
	FailureSuperseded FailureClass = "superseded"
	FailureInvalid    FailureClass = "invalid"
)

// Observed is what the worker last said of an attempt.
type Observed string

// Observed states of an attempt, in the order in which they usually come.
const (
	ObservedNone        Observed = ""
	ObservedLeased      Observed = "leased"
	ObservedPreparing   Observed = "preparing"
	ObservedRunning     Observed = "running"
	ObservedFinishing   Observed = "finishing"
	ObservedExited      Observed = "exited"
	ObservedUnreachable Observed = "unreachable"
)

// SideEffect is what is known of an attempt's effect on the outside world.
type SideEffect string

// Knowledge of side effects.
const (
	EffectNone       SideEffect = "none"
	EffectUnknown    SideEffect = "unknown"
	EffectConfirmed  SideEffect = "confirmed"
	EffectReconciled SideEffect = "reconciled"
)

// Desired is what somebody asked for.
type Desired string

// What can be asked of a run or an attempt.
const (
	DesiredRun    Desired = "run"
	DesiredCancel Desired = "cancel"
)

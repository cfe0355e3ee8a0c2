package run

import (
	"fmt"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// ReasonCode is a stable name of why something waits or concluded as it did.
type ReasonCode string

// Reasons why something waits. Each is ended by what Waits names for it.
const (
	ReasonNeedsUnfinished  ReasonCode = "needs_unfinished"
	ReasonEvaluating       ReasonCode = "evaluating_condition"
	ReasonRetryBackoff     ReasonCode = "retry_backoff"
	ReasonWaitingForRunner ReasonCode = "waiting_for_runner"
	ReasonExecuting        ReasonCode = "executing"
	ReasonCancelGrace      ReasonCode = "cancel_grace"
	ReasonTimeoutGrace     ReasonCode = "timeout_grace"
	ReasonUncertainUntil   ReasonCode = "uncertain_until_abandoned"
	ReasonUncertainHeld    ReasonCode = "uncertain_held"
	ReasonLogUnsealed      ReasonCode = "log_unsealed"
	ReasonExpanding        ReasonCode = "expanding_matrix"
	ReasonMatrixUnexpanded ReasonCode = "matrix_unexpanded"
	ReasonMaxParallel      ReasonCode = "max_parallel"
	ReasonLegsUnfinished   ReasonCode = "legs_unfinished"
	ReasonFailFastGrace    ReasonCode = "fail_fast_grace"
	ReasonCallUnopened     ReasonCode = "call_unopened"
	ReasonCallInputs       ReasonCode = "evaluating_call_inputs"
	ReasonCallUnfinished   ReasonCode = "call_unfinished"
	ReasonCallOutputs      ReasonCode = "evaluating_call_outputs"
	ReasonGroup            ReasonCode = "concurrency_group"
	ReasonGroupEvaluating  ReasonCode = "evaluating_concurrency"
	ReasonYieldGrace       ReasonCode = "yield_grace"
)

// Reasons why something concluded.
const (
	ReasonSucceeded         ReasonCode = "succeeded"
	ReasonConditionFalse    ReasonCode = "condition_false"
	ReasonDependency        ReasonCode = "dependency_unsuccessful"
	ReasonCancelRequested   ReasonCode = "cancel_requested"
	ReasonTimedOut          ReasonCode = "timed_out"
	ReasonStepFailed        ReasonCode = "step_failed"
	ReasonFailed            ReasonCode = "failed"
	ReasonRunnerLost        ReasonCode = "runner_lost"
	ReasonQueueTimeout      ReasonCode = "queue_timeout"
	ReasonEvaluationFailed  ReasonCode = "evaluation_failed"
	ReasonEvaluationTimeout ReasonCode = "evaluation_timeout"
	ReasonDeclined          ReasonCode = "lease_declined"
	ReasonNotRetried        ReasonCode = "effectful_not_retried"
	ReasonSettled           ReasonCode = "settled"
	ReasonInvalid           ReasonCode = "definition_invalid"
	ReasonJobsFailed        ReasonCode = "jobs_failed"
	ReasonJobsDone          ReasonCode = "jobs_done"
	ReasonMatrixInvalid     ReasonCode = "matrix_invalid"
	ReasonFailFast          ReasonCode = "fail_fast"
	ReasonLegsFailed        ReasonCode = "legs_failed"
	ReasonLegsDone          ReasonCode = "legs_done"
	ReasonCallInvalid       ReasonCode = "call_invalid"
	ReasonCallFailed        ReasonCode = "call_failed"
	ReasonCallDone          ReasonCode = "call_done"
	ReasonSuperseded        ReasonCode = "superseded"
	ReasonYielded           ReasonCode = "cancelled_for_newer"
	ReasonGroupInvalid      ReasonCode = "concurrency_invalid"
	ReasonGroupFull         ReasonCode = "concurrency_full"
)

// Reason is a stored cause. Which fields are set follows from Code; Sentence writes it
// for a person.
type Reason struct {
	Code       ReasonCode     `json:"code"`
	Jobs       []int          `json:"jobs,omitempty"` // the jobs that it is about
	Attempt    int            `json:"attempt,omitempty"`
	Outcome    domain.Outcome `json:"outcome,omitempty"` // of Jobs[0], or of Attempt
	Until      time.Time      `json:"until,omitzero"`
	Step       int            `json:"step,omitempty"` // from 1, as people count
	ExitCode   int            `json:"exit_code,omitempty"`
	Expression string         `json:"expression,omitempty"`
	Actor      *domain.Actor  `json:"actor,omitempty"`
	Message    string         `json:"message,omitempty"`
}

// Waits reports whether the code is a reason to wait; otherwise it is one to conclude.
func (c ReasonCode) Waits() bool {
	switch c {
	case ReasonNeedsUnfinished, ReasonEvaluating, ReasonRetryBackoff,
		ReasonWaitingForRunner, ReasonExecuting, ReasonCancelGrace, ReasonTimeoutGrace,
		ReasonUncertainUntil, ReasonUncertainHeld, ReasonLogUnsealed,
		ReasonExpanding, ReasonMatrixUnexpanded, ReasonMaxParallel, ReasonLegsUnfinished, ReasonFailFastGrace,
		ReasonCallUnopened, ReasonCallInputs, ReasonCallUnfinished, ReasonCallOutputs,
		ReasonGroup, ReasonGroupEvaluating, ReasonYieldGrace:
		return true
	}
	return false
}

// ReasonCodes lists every code, waits first.
func ReasonCodes() []ReasonCode {
	return []ReasonCode{
		ReasonNeedsUnfinished, ReasonEvaluating, ReasonRetryBackoff,
		ReasonWaitingForRunner, ReasonExecuting, ReasonCancelGrace, ReasonTimeoutGrace,
		ReasonUncertainUntil, ReasonUncertainHeld, ReasonLogUnsealed,
		ReasonExpanding, ReasonMatrixUnexpanded, ReasonMaxParallel, ReasonLegsUnfinished, ReasonFailFastGrace,
		ReasonCallUnopened, ReasonCallInputs, ReasonCallUnfinished, ReasonCallOutputs,
		ReasonGroup, ReasonGroupEvaluating, ReasonYieldGrace,
		ReasonSucceeded, ReasonConditionFalse, ReasonDependency, ReasonCancelRequested,
		ReasonTimedOut, ReasonStepFailed, ReasonFailed, ReasonRunnerLost, ReasonQueueTimeout,
		ReasonEvaluationFailed, ReasonEvaluationTimeout, ReasonDeclined, ReasonNotRetried,
		ReasonSettled, ReasonInvalid, ReasonJobsFailed, ReasonJobsDone,
		ReasonMatrixInvalid, ReasonFailFast, ReasonLegsFailed, ReasonLegsDone,
		ReasonCallInvalid, ReasonCallFailed, ReasonCallDone,
		ReasonSuperseded, ReasonYielded, ReasonGroupInvalid, ReasonGroupFull,
	}
}

// Sentence says the reason in words. s is the run it belongs to.
func (s *State) Sentence(r Reason) string {
	return fmt.Sprintf("%s.", s.sentence(r))
}

func (s *State) sentence(r Reason) string {
	if r.Code.Waits() {
		return s.sentenceOfWait(r)
	}
	switch r.Code {
	case ReasonSucceeded:
		return "It succeeded" + attemptSuffix(r)
	case ReasonConditionFalse:
		return "Skipped: its condition is false: " + r.Expression
	case ReasonDependency:
		return fmt.Sprintf("Skipped: it depends on %s, which concluded %s", s.jobKeys(r.Jobs), r.Outcome)
	case ReasonCancelRequested:
		return "Cancelled on request of " + actorText(r.Actor) + messageSuffix(r)
	case ReasonTimedOut:
		return "It ran longer than its timeout allows" + messageSuffix(r)
	case ReasonStepFailed:
		// The worker's own message says the same again, so it stays with the attempt.
		if r.ExitCode == 0 { // then what it says matters, and no code does
			return fmt.Sprintf("Step %d failed", r.Step) + attemptSuffix(r) + messageSuffix(r)
		}
		return fmt.Sprintf("Step %d failed with exit code %d", r.Step, r.ExitCode) + attemptSuffix(r)
	case ReasonFailed:
		return "It failed" + attemptSuffix(r) + messageSuffix(r)
	case ReasonRunnerLost:
		return "Its runner was lost and no result came" + attemptSuffix(r) + messageSuffix(r)
	case ReasonQueueTimeout:
		return "No runner took it before its queue timeout" + messageSuffix(r)
	case ReasonEvaluationFailed:
		return "Its condition could not be evaluated" + messageSuffix(r)
	case ReasonEvaluationTimeout:
		return "Its condition was not evaluated in time: " + r.Expression
	case ReasonDeclined:
		return "The runner declined the lease" + attemptSuffix(r) + messageSuffix(r)
	case ReasonNotRetried:
		return "It failed and may have changed the outside world, so it is not tried again without a person" +
			attemptSuffix(r) + messageSuffix(r)
	case ReasonSettled:
		return fmt.Sprintf("No result came; %s settled it", actorText(r.Actor)) + attemptSuffix(r) + messageSuffix(r)
	case ReasonInvalid:
		return "The definition can't be executed" + messageSuffix(r)
	case ReasonJobsFailed:
		return "Not successful: " + s.jobKeys(r.Jobs)
	case ReasonJobsDone:
		return "No job failed"
	case ReasonMatrixInvalid:
		return "Its matrix can't be expanded" + messageSuffix(r)
	case ReasonFailFast:
		return fmt.Sprintf("Cancelled: %s failed, and fail-fast ends the other legs", s.jobKeys(r.Jobs)) + attemptSuffix(r)
	case ReasonLegsFailed:
		return fmt.Sprintf("Legs that concluded %s: %s", r.Outcome, s.jobKeys(r.Jobs))
	case ReasonLegsDone:
		return "No leg failed"
	case ReasonCallInvalid:
		return fmt.Sprintf("The %s of the workflow that it calls can't be evaluated", r.Expression) + messageSuffix(r)
	case ReasonCallFailed:
		return s.callText(r)
	case ReasonCallDone:
		return "No job that it calls failed"
	case ReasonSuperseded:
		return "Superseded while it waited for its concurrency group, by " + r.Message
	case ReasonYielded:
		return "Cancelled in progress for a newer member of its concurrency group, " + r.Message
	case ReasonGroupInvalid:
		return "It can't join its concurrency group" + messageSuffix(r)
	case ReasonGroupFull:
		return fmt.Sprintf("Cancelled: %d wait already, which is the limit of the concurrency group %s",
			group.PendingMax, r.Message)
	}
	return string(r.Code) + messageSuffix(r)
}

func (s *State) sentenceOfWait(r Reason) string {
	switch r.Code {
	case ReasonNeedsUnfinished:
		return "Waits for " + s.jobKeys(r.Jobs)
	case ReasonEvaluating:
		return "Waits for the value of its condition: " + r.Expression
	case ReasonRetryBackoff:
		return fmt.Sprintf("Attempt %d ended as %s; the next one waits until %s", r.Attempt, r.Outcome, clock(r.Until))
	case ReasonWaitingForRunner:
		return "Waits for a runner until " + clock(r.Until)
	case ReasonExecuting:
		return fmt.Sprintf("Attempt %d is executing; its report is awaited", r.Attempt)
	case ReasonCancelGrace:
		return fmt.Sprintf("%s requested cancellation; attempt %d may tidy up until %s",
			actorText(r.Actor), r.Attempt, clock(r.Until))
	case ReasonTimeoutGrace:
		return fmt.Sprintf("The timeout passed; attempt %d is being stopped and may tidy up until %s",
			r.Attempt, clock(r.Until))
	case ReasonUncertainUntil:
		return fmt.Sprintf("Attempt %d is unreachable and might still act until %s", r.Attempt, clock(r.Until))
	case ReasonUncertainHeld:
		return fmt.Sprintf("Attempt %d is unreachable and may have changed the outside world; "+
			"look at the target, then settle it", r.Attempt)
	case ReasonExpanding:
		return "Waits for the values of its matrix"
	case ReasonMatrixUnexpanded:
		return s.sentenceOfLeg(r)
	case ReasonMaxParallel:
		return fmt.Sprintf("Waits for a place: max-parallel lets only so many legs of %s run at the same time",
			s.jobKeys(r.Jobs))
	case ReasonLegsUnfinished:
		return "Waits for its legs" + s.legKeys(r.Jobs)
	case ReasonCallUnopened:
		return s.sentenceOfLeg(r)
	case ReasonCallInputs:
		return "Waits for the values of the inputs of the workflow that it calls"
	case ReasonCallUnfinished:
		return "Waits for the jobs that it calls" + s.legKeys(r.Jobs)
	case ReasonCallOutputs:
		return "Waits for the values of the outputs of the workflow that it calls"
	case ReasonFailFastGrace:
		return fmt.Sprintf("%s failed, and fail-fast ends the other legs; attempt %d may tidy up until %s",
			s.jobKeys(r.Jobs), r.Attempt, clock(r.Until))
	case ReasonGroup:
		return "Waits for its place in the concurrency group " + r.Message
	case ReasonGroupEvaluating:
		return "Waits for the name of its concurrency group"
	case ReasonYieldGrace:
		return fmt.Sprintf("A newer member of its concurrency group wants it to stop, %s; attempt %d may tidy up until %s",
			r.Message, r.Attempt, clock(r.Until))
	case ReasonLogUnsealed:
		return fmt.Sprintf("The log of attempt %d is not sealed yet", r.Attempt)
	}
	return string(r.Code)
}

// sentenceOfLeg says why a leg, or a job that is called, waits whose job has not begun: for what the job waits for.
func (s *State) sentenceOfLeg(r Reason) string {
	if len(r.Jobs) == 1 && r.Jobs[0] >= 0 && r.Jobs[0] < len(s.Jobs) {
		of := s.Jobs[r.Jobs[0]].Reason
		if of.Code.Waits() && of.Code != ReasonMatrixUnexpanded {
			return fmt.Sprintf("Waits until %s begins, which %s", s.jobKeys(r.Jobs), lower(s.sentenceOfWait(of)))
		}
	}
	return "Waits until " + s.jobKeys(r.Jobs) + " begins"
}

func lower(sentence string) string { return strings.ToLower(sentence[:1]) + sentence[1:] }

// legKeys lists a few legs.
func (s *State) legKeys(legs []int) string {
	const shown = 5
	switch {
	case len(legs) == 0:
		return ""
	case len(legs) > shown:
		return fmt.Sprintf(": %s and %d more", s.jobKeys(legs[:shown]), len(legs)-shown)
	}
	return ": " + s.jobKeys(legs)
}

func (s *State) jobKeys(jobs []int) string {
	var keys []string
	for _, j := range jobs {
		if j >= 0 && j < len(s.Request.Skeleton) {
			keys = append(keys, s.Request.Skeleton[j].Key)
		}
	}
	return strings.Join(keys, ", ")
}

func attemptSuffix(r Reason) string {
	if r.Attempt == 0 {
		return ""
	}
	return fmt.Sprintf(" (attempt %d)", r.Attempt)
}

func messageSuffix(r Reason) string {
	if r.Message == "" {
		return ""
	}
	return ": " + strings.TrimSuffix(r.Message, ".")
}

func actorText(a *domain.Actor) string {
	if a == nil || *a == (domain.Actor{}) {
		return "somebody"
	}
	return a.Kind + " " + a.ID
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

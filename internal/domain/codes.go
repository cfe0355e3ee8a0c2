package domain

// Code is a stable, snake_case name of a refusal. Codes are for ever: scripts match
// on them, and one search for a code finds the decision, its test and its page.
type Code string

// Codes.
const (
	CodeNotFound            Code = "not_found"
	CodeInvalidArgument     Code = "invalid_argument"
	CodeUnauthenticated     Code = "unauthenticated"
	CodeIdempotencyMismatch Code = "idempotency_mismatch"
	CodeIdempotencyExpired  Code = "idempotency_key_expired"
	CodeAlreadyExists       Code = "already_exists"
	CodeRunConcluded        Code = "run_concluded"
	CodeRunNotConcluded     Code = "run_not_concluded"
	CodeJobNotReady         Code = "job_not_ready"
	CodeJobNotRetryable     Code = "job_not_retryable"
	CodeAttemptNotUncertain Code = "attempt_not_uncertain"
	CodeAttemptNotFound     Code = "attempt_not_found"
	CodeLeaseEpochStale     Code = "lease_epoch_stale"
	CodeLeaseNotLive        Code = "lease_not_live"
	CodeReportConflicted    Code = "report_conflicted"
	CodeLeaseStillHeld      Code = "lease_still_held"
	CodeTierNotAccepted     Code = "tier_not_accepted"
	CodeNothingToRerun      Code = "nothing_to_rerun"
	CodeWorkflowInvalid     Code = "workflow_invalid"
	CodeWorkflowNotFound    Code = "workflow_not_found"
	CodeWorkflowDisabled    Code = "workflow_disabled"
	CodeWorkflowAmbiguous   Code = "workflow_ambiguous"
	CodeEventNotDeclared    Code = "event_not_declared"
	CodeCommitNotFound      Code = "commit_not_found"
	CodeRegistrationInvalid Code = "registration_token_invalid"
	CodeProtocolUnsupported Code = "protocol_unsupported"
	CodeHistoryLost         Code = "history_lost"
	CodeTokenUnproved       Code = "token_unproved"
	CodeStreamQuarantined   Code = "stream_quarantined"
	CodeNotOwner            Code = "not_owner"
	CodeTooLarge            Code = "too_large"
	CodeEvaluationMismatch  Code = "evaluation_mismatch"
	CodeStorageFull         Code = "storage_full"
	CodeUpgradeUnfinished   Code = "upgrade_unfinished"
	CodeObjectDamaged       Code = "object_damaged"
	CodeLogExpired          Code = "log_expired"
	CodeTooManyOpenJobs     Code = "too_many_open_jobs"
	CodeOverloaded          Code = "overloaded"
)

// Codes lists every code with one sentence; docs/reference/errors.md is made from it.
func Codes() []struct {
	Code  Code
	Means string
} {
	return []struct {
		Code  Code
		Means string
	}{
		{CodeNotFound, "There is no such thing, or the caller may not know that there is."},
		{CodeInvalidArgument, "A field of the request is missing, malformed or out of its bounds."},
		{CodeUnauthenticated, "No valid credential came with the request."},
		{CodeIdempotencyMismatch, "The idempotency key was used before with another request body."},
		{CodeIdempotencyExpired, "The idempotency key is so old that its reply is gone; it is never executed anew."},
		{CodeAlreadyExists, "Something with that name exists already."},
		{CodeRunConcluded, "The run has a committed outcome, so there is nothing left to change."},
		{CodeRunNotConcluded, "The run has no committed outcome yet; rerun it once it has."},
		{CodeJobNotReady, "The job is not waiting for a runner, so no lease can be granted."},
		{CodeJobNotRetryable, "The job's latest attempt can't be followed by another one now."},
		{CodeAttemptNotUncertain, "Only an attempt without a known result can be settled by a person."},
		{CodeAttemptNotFound, "The run has no such attempt."},
		{CodeLeaseEpochStale, "The caller's lease is not the current one; its report is kept as evidence, not as result."},
		{CodeReportConflicted,
			"The attempt has another committed result; the contradicting report is kept as a conflict record."},
		{CodeLeaseNotLive, "The attempt has no live lease."},
		{CodeLeaseStillHeld, "The lease has not run out, or its holder might still act."},
		{CodeTierNotAccepted, "The pool does not accept work of that trust tier."},
		{CodeNothingToRerun, "No job of the run failed, so there is nothing to rerun."},
		{CodeWorkflowInvalid, "The workflow can't be executed; its diagnostics say where and why."},
		{CodeWorkflowNotFound, "The commit has no such workflow, or none that the event starts."},
		{CodeWorkflowDisabled, "The workflow, or something that it uses, was disabled; the message says by whom and why."},
		{CodeWorkflowAmbiguous, "Several workflows match; name one."},
		{CodeEventNotDeclared, "The workflow does not declare that event."},
		{CodeCommitNotFound, "The repository has no such commit, or it can't be reached."},
		{CodeRegistrationInvalid, "The registration token is unknown, used or expired."},
		{CodeProtocolUnsupported, "Runner and server speak no common protocol version."},
		{CodeHistoryLost, "The server holds less than it had acknowledged; the partition is stopped."},
		{CodeTokenUnproved,
			"The acknowledgement token names history that the server does not hold, and nothing proves that it gave the token."},
		{CodeStreamQuarantined, "A broken invariant was found in this stream; an operator must look at it."},
		{CodeNotOwner, "This server does not own the partition now; try again."},
		{CodeTooLarge, "The request is over a documented limit."},
		{CodeEvaluationMismatch, "The recorded evaluation does not belong to what the job waits for."},
		{CodeStorageFull, "The server has no space left to store this durably; free space and try again."},
		{CodeUpgradeUnfinished,
			"Servers of two versions run together, and the older ones do not know this yet; try again after the upgrade."},
		{CodeObjectDamaged,
			"The object store holds something else under a name that this needs; fairlead admin verify finds it."},
		{CodeLogExpired,
			"Logs of that class are not kept so long: the log was removed, and everything else about the run stays."},
		{CodeTooManyOpenJobs,
			"As many jobs are open as the server takes; wait for some to end or cancel runs, and try again when it says."},
		{CodeOverloaded,
			"More new work waits than the server can begin in time; running work goes on; try again when it says."},
	}
}

package run

import "time"

// Skew is what two clocks may differ by. Nothing starts before an earlier attempt's
// abandonBy plus Skew; at the limit an attempt waits that much longer than it needed to.
const Skew = 10 * time.Second

// Limits of one run, pinned in its first event.
type Limits struct {
	// QueueTimeoutSeconds: a job that is ready for so long without a runner fails with the
	// reason queue_timeout. A job's own value goes first.
	QueueTimeoutSeconds int64 `json:"queue_timeout_seconds"`
	// CancelGraceSeconds: how long processes may tidy up after a stop was requested. The
	// runner kills them then.
	CancelGraceSeconds int64 `json:"cancel_grace_seconds"`
	// TimeoutGraceSeconds: how long after a job's timeout the server waits for the runner
	// to stop it before the server asks for the stop itself.
	TimeoutGraceSeconds int64 `json:"timeout_grace_seconds"`
	// BackoffMaxSeconds: the longest wait between two attempts.
	BackoffMaxSeconds int64 `json:"backoff_max_seconds"`
	// EvaluationSeconds: how long a job waits for the value of its condition. It fails
	// with the reason evaluation_timeout then.
	EvaluationSeconds int64 `json:"evaluation_seconds"`
}

// Default limits.
const (
	QueueTimeoutDefault = 24 * time.Hour   // a forgotten label is noticed within a day
	CancelGraceDefault  = 10 * time.Second // what people wait for after pressing cancel
	TimeoutGraceDefault = time.Minute      // the runner's own timer fires first
	BackoffMaxDefault   = time.Hour        // longer looks like a hang
	EvaluationDefault   = time.Hour        // a reactor that is down for longer is an outage
)

// Fixed limits.
const (
	// stopSlack: how long leases of a stopped attempt may be renewed beyond its grace
	// period, for the final report to arrive. After it the lease lapses.
	stopSlack = time.Minute
	// jobsMax: jobs of a run; a request with more is rejected as too_large.
	jobsMax = 4096
	// stepsMax: steps of a job; a request or report with more is rejected as too_large.
	stepsMax = 1000
	// roundsMax: rounds of a run; a rerun beyond is rejected as too_large.
	roundsMax = 100
	// attemptsMax: attempts of a job over all rounds; GrantLease beyond is rejected.
	attemptsMax = 1000
	// declinesMax: refused leases of a job in a round; one more fails the job, because
	// something is wrong that another runner does not mend.
	declinesMax = 8
	// declineBackoff is the wait after the second refused lease; it doubles.
	declineBackoff = time.Second
	// refusalsKept: refusals and conflicts of an attempt that get an event each; further
	// ones are only counted, so that a confused runner can't fill the history.
	refusalsKept = 10
	// reconciliationsMax: findings about one attempt.
	reconciliationsMax = 20
	// textBytesMax: a message, note or reason in an event; longer ones are cut, visibly.
	textBytesMax = 1024
	// nameBytesMax: a name of a job or step in the skeleton; longer ones are cut.
	nameBytesMax = 200
	// expressionBytesMax: a condition; longer is rejected as too_large.
	expressionBytesMax = 21000
	// legsMax: legs of one matrix; a job with more fails.
	legsMax = 256
	// matrixBytesMax: the values of one leg; matricesBytesMax: those of all legs of a matrix, which
	// one long value in each could make hundreds of times as long as the output that it is from.
	// A job whose matrix exceeds one of them fails.
	matrixBytesMax   = 256 << 10
	matricesBytesMax = 4 << 20
	// OutputBytesMax: the value of an output in an event; a longer one must be an object.
	OutputBytesMax = 4096
	// outputsBytesMax: all outputs of a job; runOutputsBytesMax: those of all jobs of a run. A
	// job that exceeds one of them fails.
	outputsBytesMax    = 1 << 20
	runOutputsBytesMax = 50 << 20
	// nestingMax: how many calls may lead to a job.
	nestingMax = 10
	// callInputsBytesMax: the inputs of a called workflow; a call with more fails.
	callInputsBytesMax = 1 << 20
	// outputsMax: outputs of a job.
	outputsMax = 1000
)

// DefaultLimits are the limits of a run whose request names none.
func DefaultLimits() Limits { return Limits{}.withDefaults() }

func (l Limits) withDefaults() Limits {
	set := func(v *int64, d time.Duration) {
		if *v <= 0 {
			*v = int64(d / time.Second)
		}
	}
	set(&l.QueueTimeoutSeconds, QueueTimeoutDefault)
	set(&l.CancelGraceSeconds, CancelGraceDefault)
	set(&l.TimeoutGraceSeconds, TimeoutGraceDefault)
	set(&l.BackoffMaxSeconds, BackoffMaxDefault)
	set(&l.EvaluationSeconds, EvaluationDefault)
	return l
}

// seconds turns a pinned number into a duration; numbers that would overflow are capped
// at a year, which no limit of a run reaches.
func seconds(n int64) time.Duration {
	const year = 365 * 24 * 60 * 60
	return time.Duration(min(max(n, 0), year)) * time.Second
}

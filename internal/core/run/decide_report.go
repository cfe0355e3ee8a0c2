package run

import (
	"slices"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

func (d *draft) reportProgress(c ReportProgress) (Decision, *domain.Rejection) {
	j, a, r := d.attempt(c.Attempt)
	if r != nil {
		return Decision{}, r
	}
	switch {
	case foreign(a, c.Cause):
		return d.refuse(j, a, refusal{epoch: c.Epoch, what: RefusedReport, message: "progress by another runner"}), nil
	case c.Epoch == a.Epoch && a.Report != "":
		// Overtaken by the attempt's own result, which is committed: nothing to add.
		return Decision{Reply: ReportReply{Desired: a.Desired, Outcome: a.Outcome, Repeat: true}}, nil
	case c.Epoch != a.Epoch || a.Outcome != domain.OutcomeNone:
		return d.refuse(j, a, refusal{epoch: c.Epoch, what: RefusedReport, message: "progress: " + string(c.Observed)}), nil
	case observedRank(c.Observed) <= 0:
		return Decision{}, invalidArgument("observed", "A worker can't be seen as %q.", c.Observed)
	}
	steps, r := changedSteps(d.s.Steps(j), a.Steps, c.Steps)
	if r != nil {
		return Decision{}, r
	}
	observed := c.Observed
	if a.Observed != domain.ObservedUnreachable && observedRank(a.Observed) > observedRank(observed) {
		observed = a.Observed // an older report that arrived late
	}
	if observed != a.Observed || len(steps) > 0 {
		heard := utc(c.At)
		if heard.IsZero() {
			heard = d.now
		}
		d.emit(&ProgressReported{OfAttempt: d.ofAttempt(j, a), Observed: observed, Steps: steps, HeardAt: heard})
	}
	return Decision{Reply: ReportReply{Desired: a.Desired, Repeat: len(d.events) == 0}}, nil
}

// foreign says that a runner speaks of an attempt that was granted to another one. Epochs
// are small numbers and no secret, so who holds the lease is asked as well.
func foreign(a *Attempt, c domain.Cause) bool {
	return c.Actor.Kind == actorRunner && c.Actor.ID != string(a.Runner)
}

// actorRunner is the kind of actor that a lease is granted to.
const actorRunner = "runner"

// observedRank orders what a worker may say of an attempt; what it may not is 0 or less.
func observedRank(o domain.Observed) int {
	return slices.Index([]domain.Observed{
		domain.ObservedNone, domain.ObservedLeased, domain.ObservedPreparing, domain.ObservedRunning,
		domain.ObservedFinishing, domain.ObservedExited,
	}, o)
}

func (d *draft) reportResult(c ReportResult) (Decision, *domain.Rejection) {
	j, a, r := d.attempt(c.Attempt)
	if r != nil {
		return Decision{}, r
	}
	switch {
	case foreign(a, c.Cause):
		return d.refuse(j, a, refusal{
			epoch: c.Epoch, what: RefusedReport, message: clip("by another runner: "+c.Message, textBytesMax),
			outcome: c.Outcome, report: c.Digest,
		}), nil
	case c.Epoch != a.Epoch || (a.Outcome != domain.OutcomeNone && a.Report == ""):
		return d.refuse(j, a, refusal{
			epoch: c.Epoch, what: RefusedReport, message: c.Message, outcome: c.Outcome, report: c.Digest,
		}), nil
	case a.Report != "" && a.Report == c.Digest:
		return Decision{Reply: ReportReply{Desired: a.Desired, Outcome: a.Outcome, Repeat: true}}, nil
	case a.Report != "":
		return d.conflict(j, a, c), nil
	}
	result, r := d.result(j, a, c)
	if r != nil {
		return Decision{}, r
	}
	d.emit(result)
	reply := ReportReply{Desired: a.Desired, Outcome: result.Outcome}
	d.afterAttempt(j, a.Number)
	return Decision{Reply: reply}, nil
}

// result makes the committed result from what the worker reported. A worker's word on how
// its attempt ended stands, with one exception: "cancelled" means that somebody asked.
func (d *draft) result(j int, a *Attempt, c ReportResult) (*AttemptConcluded, *domain.Rejection) {
	if !c.Digest.Valid() {
		return nil, invalidArgument("digest", "A result names the digest of its report.")
	}
	k := d.s.Skeleton(j)
	changed, r := changedSteps(d.s.Steps(j), a.Steps, c.Steps)
	if r == nil {
		r = validOutputs(c.Outputs)
	}
	if r != nil {
		return nil, r
	}
	outcome, class, message := c.Outcome, c.Class, clip(c.Message, textBytesMax)
	switch {
	case outcome == domain.OutcomeSuccess:
		class = domain.FailureNone
	case outcome == domain.OutcomeTimedOut:
		class = domain.FailureTimeout
	case outcome == domain.OutcomeCancelled && a.Desired != domain.DesiredCancel:
		outcome, class = domain.OutcomeFailure, domain.FailurePlatform
		message = clip("the runner stopped it though nobody had asked: "+c.Message, textBytesMax)
	case outcome == domain.OutcomeCancelled && a.Stop.Code == ReasonTimeoutGrace:
		outcome, class = domain.OutcomeTimedOut, domain.FailureTimeout
	case outcome == domain.OutcomeCancelled:
		class = domain.FailureCancelled
	case outcome != domain.OutcomeFailure:
		return nil, invalidArgument("outcome", "An attempt can't end as %q.", c.Outcome)
	case !failureReportable(class):
		return nil, invalidArgument("class", "A failure can't be of class %q.", c.Class)
	}
	outputs := slices.Clone(c.Outputs)
	if problem := d.s.outputsOver(j, outputs); problem != "" {
		outputs = nil
		if outcome == domain.OutcomeSuccess {
			outcome, class, message = domain.OutcomeFailure, domain.FailureUserCode, problem
		}
	}
	steps := mergeSteps(a.Steps, changed)
	return &AttemptConcluded{
		OfAttempt: d.ofAttempt(j, a), Outcome: outcome, Class: class, Message: message,
		Effect: effectOf(k.Effectful, outcome, class, c.Effect, steps),
		Reason: d.reasonOf(a, outcome, class, message, steps),
		Report: c.Digest, Steps: changed, LogEnd: c.LogEnd, Outputs: outputs,
	}, nil
}

func failureReportable(c domain.FailureClass) bool {
	switch c {
	case domain.FailureUserCode, domain.FailurePlatform, domain.FailurePolicy, domain.FailureRunnerLost,
		domain.FailureInvalid:
		return true
	}
	return false
}

// effectOf is what is known of the attempt's effect on the outside. The worker's word goes
// first; without it, an effectful attempt that started a step and did not succeed may have
// done anything, and so may one whose runner lost sight of it.
func effectOf(
	effectful bool, o domain.Outcome, class domain.FailureClass, said domain.SideEffect, steps []Step,
) domain.SideEffect {
	switch {
	case said == domain.EffectNone || said == domain.EffectUnknown || said == domain.EffectConfirmed:
		return said
	case !effectful || (class != domain.FailureRunnerLost && !anyStarted(steps)):
		return domain.EffectNone
	case o == domain.OutcomeSuccess:
		return domain.EffectConfirmed
	}
	return domain.EffectUnknown
}

func (d *draft) reasonOf(
	a *Attempt, o domain.Outcome, class domain.FailureClass, message string, steps []Step,
) Reason {
	r := Reason{Code: ReasonFailed, Attempt: a.Number, Outcome: o, Message: message}
	switch {
	case o == domain.OutcomeSuccess:
		return Reason{Code: ReasonSucceeded, Attempt: a.Number}
	case o == domain.OutcomeTimedOut:
		r.Code = ReasonTimedOut
	case o == domain.OutcomeCancelled && a.Stop.Code == ReasonFailFastGrace:
		r = Reason{Code: ReasonFailFast, Jobs: a.Stop.Jobs, Attempt: a.Number}
	case o == domain.OutcomeCancelled:
		r = d.s.cancelReason()
		r.Attempt = a.Number
	case class == domain.FailureRunnerLost:
		r.Code = ReasonRunnerLost
	case class == domain.FailureUserCode:
		i := slices.IndexFunc(steps, func(s Step) bool { return s.Conclusion == domain.OutcomeFailure })
		// A step can fail though its program did not, by a command file for instance: then
		// only the worker's message says why.
		if i >= 0 && (steps[i].ExitCode != 0 || message == "") {
			r.Code, r.Step, r.ExitCode = ReasonStepFailed, steps[i].Index+1, steps[i].ExitCode
		}
	}
	return r
}

// afterAttempt decides what follows for the job of an attempt that has just concluded.
func (d *draft) afterAttempt(j, number int) {
	a := d.afresh(j, number)
	outcome, class, reason := a.Outcome, a.Class, a.Reason
	switch outcome {
	case domain.OutcomeSuccess, domain.OutcomeCancelled:
		d.concludeJob(j, number, outcome, class, reason)
		return
	case domain.OutcomeLost:
		switch {
		case d.stopping(j):
			d.concludeJob(j, number, domain.OutcomeCancelled, domain.FailureCancelled, d.stopReason(j))
			return
		case a.Desired == domain.DesiredCancel: // it was being stopped for its timeout
			d.concludeJob(j, number, domain.OutcomeTimedOut, domain.FailureTimeout,
				Reason{Code: ReasonTimedOut, Attempt: number, Message: "and then its runner was lost"})
			return
		}
		outcome = domain.OutcomeFailure
	}
	k := d.s.Skeleton(j)
	used := d.job(j).attemptsIn(d.s.Round(), false) - 1
	switch {
	case d.stopping(j) || !slices.Contains(k.Retry.On, class) || used >= k.Retry.Max:
		d.concludeJob(j, number, outcome, class, reason)
	case k.Effectful && (a.Started() || class == domain.FailureRunnerLost || a.Effect != domain.EffectNone):
		reason.Code = ReasonNotRetried
		d.concludeJob(j, number, outcome, class, reason)
	default:
		d.retry(j, number, backoff(k.Retry.BackoffSeconds, used, d.limits().BackoffMaxSeconds))
	}
}

func (d *draft) retry(j, number int, wait time.Duration) {
	if wait == 0 {
		d.admit(j)
		return
	}
	d.hold(j, Reason{Code: ReasonRetryBackoff, Attempt: number, Outcome: d.afresh(j, number).Outcome}, d.now.Add(wait))
}

// backoff doubles the first wait for each retry that was used before, up to a limit.
func backoff(first int64, used int, limit int64) time.Duration {
	wait := first
	for ; used > 0 && wait < limit; used-- {
		wait *= 2
	}
	return seconds(min(wait, limit))
}

// refusal is what is kept of a caller that had no current lease.
type refusal struct {
	epoch   uint64
	what    string
	message string
	outcome domain.Outcome
	report  domain.Digest
	count   uint64
}

func (d *draft) refuse(j int, a *Attempt, r refusal) Decision {
	at := d.ofAttempt(j, a)
	at.Epoch = r.epoch
	switch {
	case r.count > 1:
		d.emit(&RefusalsCounted{OfAttempt: at, Count: r.count})
	case a.RefusedKept < refusalsKept:
		d.emit(&ReportRefused{
			OfAttempt: at, What: r.what, Code: domain.CodeLeaseEpochStale, Message: clip(r.message, textBytesMax),
			Outcome: domain.Outcome(clip(string(r.outcome), nameBytesMax)),
			Report:  domain.Digest(clip(string(r.report), nameBytesMax)),
		})
	}
	return Decision{
		Reply: ReportReply{Desired: domain.DesiredCancel, Outcome: a.Outcome},
		Refusal: domain.Reject(domain.CodeLeaseEpochStale,
			"The lease is not the current one; the report is kept as evidence."),
	}
}

func (d *draft) conflict(j int, a *Attempt, c ReportResult) Decision {
	known := slices.ContainsFunc(a.Conflicts, func(k Conflict) bool { return k.Report == c.Digest })
	if !known && len(a.Conflicts) < refusalsKept {
		d.emit(&ReportConflicted{
			OfAttempt: d.ofAttempt(j, a), Outcome: domain.Outcome(clip(string(c.Outcome), nameBytesMax)),
			Class:   domain.FailureClass(clip(string(c.Class), nameBytesMax)),
			Message: clip(c.Message, textBytesMax), Report: domain.Digest(clip(string(c.Digest), nameBytesMax)),
			Committed: a.Report,
		})
	}
	return Decision{
		Reply: ReportReply{Desired: a.Desired, Outcome: a.Outcome, Repeat: known, Conflict: true},
		Refusal: domain.Reject(domain.CodeReportConflicted,
			"The attempt is committed as "+string(a.Outcome)+"; the contradicting report is kept as a conflict record."),
	}
}

func (d *draft) refuseAccess(c RefuseAccess) (Decision, *domain.Rejection) {
	j, a, r := d.attempt(c.Attempt)
	if r != nil {
		return Decision{}, r
	}
	switch c.What {
	case RefusedReport, RefusedChunk, RefusedFetch, RefusedSecret:
	default:
		return Decision{}, invalidArgument("what", "Access of kind %q is unknown.", clip(c.What, nameBytesMax))
	}
	d.refuse(j, a, refusal{epoch: c.Epoch, what: c.What, message: c.Message, count: c.Count})
	return Decision{}, nil
}

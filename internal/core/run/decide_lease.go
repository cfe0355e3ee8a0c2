package run

import (
	"slices"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

func (d *draft) grantLease(c GrantLease) (Decision, *domain.Rejection) {
	j, ok := d.s.JobByID(c.Job)
	if !ok {
		return Decision{}, domain.Reject(domain.CodeNotFound, "The run has no such job.")
	}
	job := d.job(j)
	if c.Slot == "" || c.Runner == "" || c.Pool == "" {
		return Decision{}, invalidArgument("slot", "A lease names a pool, a runner and a slot.")
	}
	if a := job.lastIn(c.Slot); a != nil && !a.unheard() {
		return Decision{Reply: d.leaseReply(j, a, true)}, nil
	}
	if r := d.refusesLease(j, c); r != nil {
		return Decision{}, r
	}
	k := d.s.Skeleton(j)
	d.emit(&LeaseGranted{
		OfAttempt: OfAttempt{OfJob: d.ofJob(j), Attempt: len(job.Attempts) + 1, Epoch: job.Epoch + 1},
		Runner:    c.Runner, RunnerName: clip(c.RunnerName, nameBytesMax), Session: c.Session, Pool: c.Pool,
		RunnerVersion: clip(c.RunnerVersion, nameBytesMax),
		Alias:         clip(c.Alias, nameBytesMax), Slot: c.Slot, Until: utc(c.Until), AbandonBy: utc(c.AbandonBy),
		Deadline: d.now.Add(seconds(k.TimeoutSeconds) + seconds(d.limits().TimeoutGraceSeconds)),
	})
	return Decision{Reply: d.leaseReply(j, d.job(j).Current(), false)}, nil
}

// lastIn is the newest attempt that got the slot, nil when none did.
func (j *Job) lastIn(slot domain.SlotToken) *Attempt {
	for i := len(j.Attempts) - 1; i >= 0; i-- {
		if j.Attempts[i].Slot == slot {
			return &j.Attempts[i]
		}
	}
	return nil
}

// unheard says that the attempt was given up without a word of its runner: the lease may
// never have arrived, and then the slot is open still, and stays so until a lease comes.
func (a *Attempt) unheard() bool { return a.Outcome == domain.OutcomeLost && a.Report == "" }

func (d *draft) leaseReply(j int, a *Attempt, repeat bool) LeaseReply {
	return LeaseReply{Attempt: d.s.AttemptID(j, a.Number), Number: a.Number, Epoch: a.Epoch, Repeat: repeat}
}

func (d *draft) refusesLease(j int, c GrantLease) *domain.Rejection {
	job := d.job(j)
	switch {
	case d.s.Concluded():
		return domain.Reject(domain.CodeRunConcluded, "The run has an outcome; nothing of it is left to execute.")
	case job.State == StateActive:
		return domain.Reject(domain.CodeLeaseStillHeld, "An attempt of the job has no outcome yet.")
	case job.State != StateReady:
		return domain.Reject(domain.CodeJobNotReady, "Only a ready job gets a lease; this one is "+string(job.State)+".")
	case !d.late(job.clearAt()):
		// No path leads here: an attempt is committed as lost no earlier than this. It is
		// asked again because a second deployment beside a first can't be taken back.
		return domain.Reject(domain.CodeLeaseStillHeld, "An earlier attempt of the job might still act.")
	case !slices.Contains(c.Tiers, d.s.Request.Tier):
		return domain.Reject(domain.CodeTierNotAccepted, "The pool does not accept "+string(d.s.Request.Tier)+" work.")
	case !c.Until.After(d.now) || c.AbandonBy.Before(c.Until):
		return invalidArgument("until", "A lease runs out in the future, and is abandoned no earlier than that.")
	case len(job.Attempts) >= attemptsMax:
		return tooLarge("job", "The job has had %d attempts, which is the limit.", attemptsMax)
	}
	return nil
}

func (d *draft) declineLease(c DeclineLease) (Decision, *domain.Rejection) {
	j, a, r := d.attempt(c.Attempt)
	if r != nil {
		return Decision{}, r
	}
	reason := clip(c.Reason, textBytesMax)
	switch {
	case foreign(a, c.Cause):
		return d.refuse(j, a, refusal{epoch: c.Epoch, what: RefusedReport, message: "declined by another runner"}), nil
	case c.Epoch == a.Epoch && a.Declined:
		return Decision{}, nil
	case c.Epoch != a.Epoch || a.Outcome != domain.OutcomeNone:
		return d.refuse(j, a, refusal{epoch: c.Epoch, what: RefusedReport, message: "declined: " + reason}), nil
	case a.Started():
		return Decision{}, invalidArgument("attempt", "An attempt that has started a step can't be declined.")
	}
	d.emit(&LeaseDeclined{OfAttempt: d.ofAttempt(j, a), Reason: reason})
	cause := Reason{Code: ReasonDeclined, Attempt: a.Number, Outcome: domain.OutcomeFailure, Message: reason}
	d.emit(&AttemptConcluded{
		OfAttempt: d.ofAttempt(j, a), Outcome: domain.OutcomeFailure, Class: domain.FailurePlatform,
		Effect: domain.EffectNone, Message: reason, Reason: cause,
	})
	declines := d.job(j).attemptsIn(d.s.Round(), true)
	switch {
	case d.stopping(j):
		d.concludeJob(j, a.Number, domain.OutcomeCancelled, domain.FailureCancelled, d.stopReason(j))
	case declines > declinesMax:
		d.concludeJob(j, a.Number, domain.OutcomeFailure, domain.FailurePlatform, cause)
	case declines > 1:
		cause.Code = ReasonRetryBackoff
		d.hold(j, cause, d.now.Add(declineBackoff<<(declines-2)))
	default:
		d.admit(j)
	}
	return Decision{}, nil
}

// attemptsIn counts the job's attempts of a round, either the declined ones or the others.
func (j *Job) attemptsIn(round int, declined bool) int {
	n := 0
	for i := range j.Attempts {
		if a := &j.Attempts[i]; a.Round == round && a.Declined == declined {
			n++
		}
	}
	return n
}

func (d *draft) lapseLease(c LapseLease) (Decision, *domain.Rejection) {
	j, a, r := d.attempt(c.Attempt)
	switch {
	case r != nil:
		return Decision{}, r
	case a.Epoch != c.Epoch || a.Outcome != domain.OutcomeNone:
		return Decision{}, domain.Reject(domain.CodeLeaseNotLive, "The attempt has no live lease with that epoch.")
	case a.Uncertain:
		return Decision{}, nil
	case !d.late(a.Until):
		return Decision{}, domain.Reject(domain.CodeLeaseStillHeld, "The lease has not run out.")
	case !c.AbandonBy.IsZero() && c.AbandonBy.Before(a.AbandonBy) && !d.late(a.AbandonBy):
		// It was sent before the lease was regained, and knows nothing of what was promised since.
		return Decision{}, domain.Reject(domain.CodeLeaseStillHeld, "The holder was heard since.")
	}
	lastSeen := utc(c.LastSeen)
	if lastSeen.IsZero() {
		lastSeen = a.ObservedAt
	}
	abandonBy := later(a.AbandonBy, utc(c.AbandonBy))
	d.emit(&LeaseLapsed{
		OfAttempt: d.ofAttempt(j, a), LastSeen: lastSeen, AbandonBy: abandonBy, SettleAt: abandonBy.Add(Skew),
	})
	return Decision{}, nil
}

func (d *draft) regainLease(c RegainLease) (Decision, *domain.Rejection) {
	j, a, r := d.attempt(c.Attempt)
	switch {
	case r != nil:
		return Decision{}, r
	case a.Epoch != c.Epoch || a.Outcome != domain.OutcomeNone:
		return Decision{}, domain.Reject(domain.CodeLeaseEpochStale, "The attempt has no live lease with that epoch.")
	case !a.Uncertain:
		return Decision{}, nil
	case d.late(a.AbandonBy) || (a.Desired == domain.DesiredCancel && d.late(a.RenewUntil)):
		return Decision{}, domain.Reject(domain.CodeLeaseNotLive,
			"The runner had to abandon the attempt by now; it can only report how it ended.")
	case !c.Until.After(d.now) || c.AbandonBy.Before(c.Until):
		return Decision{}, invalidArgument("until", "A lease runs out in the future, and is abandoned no earlier than that.")
	}
	d.emit(&LeaseRegained{
		OfAttempt: d.ofAttempt(j, a), Until: utc(c.Until), AbandonBy: later(a.AbandonBy, utc(c.AbandonBy)),
	})
	return Decision{}, nil
}

// stop asks a live attempt to end. Its lease may be renewed a little beyond the grace
// period, so that the report of the end can arrive; then the lease lapses by itself.
func (d *draft) stop(j int, r Reason) {
	a := d.job(j).Current()
	if a.Desired == domain.DesiredCancel {
		return
	}
	grace := d.now.Add(seconds(d.limits().CancelGraceSeconds))
	r.Attempt, r.Until = a.Number, grace
	d.emit(&AttemptStopRequested{
		OfAttempt: d.ofAttempt(j, a), Reason: r, GraceUntil: grace, RenewUntil: grace.Add(stopSlack),
	})
}

func (d *draft) requestCancel(c RequestCancel) (Decision, *domain.Rejection) {
	if d.s.Concluded() {
		return Decision{}, domain.Reject(domain.CodeRunConcluded, "The run has an outcome; there is nothing to cancel.")
	}
	if d.cancelling() {
		return Decision{Reply: CancelReply{Repeat: true}}, nil
	}
	d.emit(&CancelRequested{Base: d.base(), Actor: c.Cause.Actor, Reason: clip(c.Reason, textBytesMax)})
	cause := d.s.cancelReason()
	for j := range d.s.Jobs {
		switch d.job(j).State {
		case StateConcluded, StateExpanded: // the latter as its legs do, or the jobs that it calls
		case StateActive:
			d.stop(j, Reason{Code: ReasonCancelGrace, Actor: cause.Actor})
			if a := d.job(j).Current(); a.Uncertain && d.late(a.SettleAt) {
				d.lose(j)
			}
		default:
			d.concludeJob(j, 0, domain.OutcomeCancelled, domain.FailureCancelled, cause)
		}
	}
	return Decision{Reply: CancelReply{}}, nil
}

func (d *draft) wake() (Decision, *domain.Rejection) {
	if d.s.Concluded() {
		return Decision{}, nil
	}
	for j := range d.s.Jobs {
		d.wakeJob(j)
	}
	return Decision{}, nil
}

func (d *draft) wakeJob(j int) {
	job := d.job(j)
	due, ok := job.wakeAt()
	if !ok || !d.late(due) {
		return
	}
	switch job.State {
	case StateExpanded:
		d.concludeJob(j, 0, domain.OutcomeFailure, domain.FailurePlatform,
			Reason{Code: ReasonCallInvalid, Expression: job.Evaluation.Call, Message: "they were not evaluated in time"})
	case StateWaiting:
		if job.Evaluation.Matrix {
			d.concludeJob(j, 0, domain.OutcomeFailure, domain.FailurePlatform,
				Reason{Code: ReasonMatrixInvalid, Message: "it was not evaluated in time"})
			return
		}
		d.concludeJob(j, 0, domain.OutcomeFailure, domain.FailurePlatform,
			Reason{Code: ReasonEvaluationTimeout, Expression: clip(job.Evaluation.Expression, textBytesMax)})
	case StateHeld:
		if job.Reason.Code == ReasonGroupEvaluating {
			d.concludeJob(j, 0, domain.OutcomeFailure, domain.FailurePlatform,
				Reason{Code: ReasonGroupInvalid, Message: "its name was not evaluated in time"})
			return
		}
		d.admit(j)
	case StateReady:
		d.concludeJob(j, 0, domain.OutcomeFailure, domain.FailurePlatform,
			Reason{Code: ReasonQueueTimeout, Until: job.QueueDeadline, Message: queueText(d.s.Skeleton(j))})
	case StateActive:
		a := job.Current()
		switch {
		case !a.Uncertain:
			d.stop(j, Reason{Code: ReasonTimeoutGrace})
		case d.s.Skeleton(j).Effectful && (a.Desired != domain.DesiredCancel || a.Stop.Code == ReasonYieldGrace):
			d.emit(&AttemptHeld{OfAttempt: d.ofAttempt(j, a)})
		default:
			d.lose(j)
		}
	}
}

func queueText(k *JobSkeleton) string {
	if len(k.RunsOn) == 0 {
		return ""
	}
	text := "it asks for"
	for _, label := range k.RunsOn {
		text += " " + clip(label, nameBytesMax)
	}
	return clip(text, textBytesMax)
}

// lose commits that no result came of an uncertain attempt, once nobody can be acting on
// it, and decides what follows for its job.
func (d *draft) lose(j int) {
	a := d.job(j).Current()
	effect := domain.EffectNone
	if d.s.Skeleton(j).Effectful {
		effect = domain.EffectUnknown // silence is no proof that no step had started
	}
	d.emit(&AttemptConcluded{
		OfAttempt: d.ofAttempt(j, a), Outcome: domain.OutcomeLost, Class: domain.FailureRunnerLost, Effect: effect,
		Reason: Reason{Code: ReasonRunnerLost, Attempt: a.Number, Message: "last heard at " + clock(a.LastSeen)},
	})
	d.afterAttempt(j, a.Number)
}

// wakeAt is when time alone changes the job.
func (j *Job) wakeAt() (time.Time, bool) {
	switch j.State {
	case StateWaiting, StateExpanded:
		if e := j.Evaluation; e != nil && !e.Answered {
			return e.Deadline, true
		}
	case StateHeld:
		return j.HeldUntil, !j.HeldUntil.IsZero()
	case StateReady:
		return j.QueueDeadline, true
	case StateActive:
		switch a := j.Current(); {
		case a.Held:
		case a.Uncertain:
			return a.SettleAt, true
		case a.Desired != domain.DesiredCancel:
			return a.Deadline, true
		}
	}
	return time.Time{}, false
}

// NextWake is when the shell must send Wake, if nothing happens before.
func NextWake(s *State) (time.Time, bool) {
	var next time.Time
	if s.Concluded() {
		return next, false
	}
	found := false
	for _, job := range s.Jobs {
		if t, ok := job.wakeAt(); ok && (!found || t.Before(next)) {
			next, found = t, true
		}
	}
	return next, found
}

package run

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Decision is an accepted command: what happened, and the answer. Events may be empty: a
// repeat is acknowledged and changes nothing. Refusal is an answer of no that is committed
// with its evidence; without events it was not kept, and the caller counts it.
type Decision struct {
	Events  []Event
	Reply   any
	Refusal *domain.Rejection
}

// Decide says what follows from a command. It changes nothing: the caller commits the
// events and then gives them to Evolve. A Rejection means that nothing happened.
//
// now must not be earlier than the last event; an earlier one counts as that event's time.
func Decide(s *State, c Command, now time.Time) (Decision, *domain.Rejection) {
	now = utc(now)
	if now.Before(s.LastAt) {
		now = s.LastAt
	}
	d := &draft{s: s, now: now}
	decision, rejection := d.decide(c)
	if rejection != nil {
		return Decision{}, rejection
	}
	if len(d.events) > 0 {
		d.flow()
	}
	decision.Events = d.events
	return decision, nil
}

func (d *draft) decide(c Command) (Decision, *domain.Rejection) {
	if c, ok := c.(RequestRun); ok {
		return d.requestRun(c)
	}
	if !d.s.Exists() {
		return Decision{}, domain.Reject(domain.CodeNotFound, "There is no such run.")
	}
	switch c := c.(type) {
	case GrantLease:
		return d.grantLease(c)
	case DeclineLease:
		return d.declineLease(c)
	case ReportProgress:
		return d.reportProgress(c)
	case ReportResult:
		return d.reportResult(c)
	case LapseLease:
		return d.lapseLease(c)
	case RegainLease:
		return d.regainLease(c)
	case RequestCancel:
		return d.requestCancel(c)
	case Wake:
		return d.wake()
	case RecordEvaluation:
		return d.recordEvaluation(c)
	case RecordMatrix:
		return d.recordMatrix(c)
	case RecordCall:
		return d.recordCall(c)
	case RecordConcurrency:
		return d.recordConcurrency(c)
	case RecordPlace:
		return d.recordPlace(c)
	case Rerun:
		return d.rerun(c)
	case Settle:
		return d.settle(c)
	case RecordLog:
		return d.recordLog(c)
	case RefuseAccess:
		return d.refuseAccess(c)
	}
	panic(fmt.Sprintf("decide run %s: unknown command %T", d.s.Request.Run, c))
}

// draft is a decision in the making. It evolves a copy, so that each further event is
// decided on what the ones before it led to, while the caller's state stays untouched.
// Only what an event changes is copied: a run may have thousands of jobs.
type draft struct {
	s         *State
	now       time.Time
	events    []Event
	owned     []bool // jobs that are copies
	concluded []int  // jobs whose dependents were not looked at yet
}

func (d *draft) base() Base            { return Base{At: d.now} }
func (d *draft) ofJob(j int) OfJob     { return OfJob{Base: d.base(), Job: j} }
func (d *draft) job(j int) *Job        { return d.s.Jobs[j] }
func (d *draft) cancelling() bool      { return d.s.Desired == domain.DesiredCancel }
func (d *draft) limits() *Limits       { return &d.s.Request.Limits }
func (d *draft) late(t time.Time) bool { return !d.now.Before(t) }

func (d *draft) ofAttempt(j int, a *Attempt) OfAttempt {
	return OfAttempt{OfJob: d.ofJob(j), Attempt: a.Number, Epoch: a.Epoch}
}

func (d *draft) emit(e Event) {
	if len(d.events) == 0 {
		copied := *d.s
		copied.Jobs = slices.Clone(d.s.Jobs)
		copied.Rounds = slices.Clone(d.s.Rounds)
		d.s = &copied
		d.owned = make([]bool, len(copied.Jobs))
	}
	if j := e.JobIndex(); j >= 0 {
		d.own(j)
	}
	switch e := e.(type) {
	case *GroupAsked, *GroupJoined, *GroupAdmitted, *GroupReplaced:
		for j := range d.s.Jobs {
			if e.JobIndex() == group.Whole { // it says of all jobs why they wait
				d.own(j)
			}
		}
	case *RoundOpened:
		for _, j := range e.Jobs {
			d.own(j)
		}
	case *CallOpened:
		for _, j := range d.s.called[e.Job] {
			d.own(j)
		}
	case *MatrixExpanded:
		for _, j := range e.Legs {
			if j < len(d.owned) {
				d.own(j)
			}
		}
	}
	d.events = append(d.events, e)
	Evolve(d.s, e)
	for len(d.owned) < len(d.s.Jobs) { // jobs that the event made are this draft's
		d.owned = append(d.owned, true)
	}
}

func (d *draft) own(j int) {
	if !d.owned[j] {
		copied := *d.s.Jobs[j]
		copied.Attempts = slices.Clone(copied.Attempts)
		d.s.Jobs[j] = &copied
		d.owned[j] = true
	}
}

// flow follows every conclusion to the jobs that waited for it, and the last one to the
// run's outcome. A queue, not recursion: a plan may be thousands of jobs deep.
func (d *draft) flow() {
	for len(d.concluded) > 0 {
		j := d.concluded[0]
		d.concluded = d.concluded[1:]
		k := d.s.Skeleton(j)
		switch {
		case k.Group != nil:
			d.abandonLegs(j)
		case k.Call != nil:
			d.abandonCalled(j)
		}
		if k.Leg != nil {
			d.legConcluded(j)
		} else {
			d.calledConcluded(j)
		}
		for _, dependent := range d.s.dependents[j] {
			d.consider(dependent)
		}
	}
	if d.s.Concluded() {
		return
	}
	for _, job := range d.s.Jobs {
		if job.State != StateConcluded {
			return
		}
	}
	outcome, reason := d.s.outcome()
	d.emit(&RunConcluded{Base: d.base(), Round: d.s.Round(), Outcome: outcome, Reason: reason})
	d.leave(group.Whole)
}

// outcome is what the run's jobs add up to once all of them are concluded.
func (s *State) outcome() (domain.Outcome, Reason) {
	var unsuccessful []int
	cancelled, superseded := false, -1
	for i, job := range s.Jobs {
		if s.inner(i) {
			continue // what it is part of says what they add up to
		}
		switch job.Outcome {
		case domain.OutcomeFailure, domain.OutcomeTimedOut:
			unsuccessful = append(unsuccessful, s.blamed(i)...)
		case domain.OutcomeCancelled:
			cancelled = true
		case domain.OutcomeSuperseded:
			superseded = i
		}
	}
	switch {
	case len(unsuccessful) > 0:
		return domain.OutcomeFailure, Reason{Code: ReasonJobsFailed, Jobs: unsuccessful}
	case cancelled && s.Cancel != nil:
		return domain.OutcomeCancelled, s.cancelReason()
	case superseded >= 0:
		return domain.OutcomeSuperseded, s.Jobs[superseded].Reason
	case cancelled: // kept from a cancelled round that this one did not run again
		return domain.OutcomeCancelled, Reason{Code: ReasonJobsFailed, Jobs: s.withOutcome(domain.OutcomeCancelled)}
	}
	return domain.OutcomeSuccess, Reason{Code: ReasonJobsDone}
}

// inner reports whether a job is a leg, or of a called workflow.
func (s *State) inner(j int) bool {
	_, leg := s.GroupOf(j)
	return leg || s.Skeleton(j).In != nil
}

// blamed are the jobs that a failed one is listed by: its failed legs and called jobs, if it has any.
func (s *State) blamed(j int) []int {
	var parts []int
	for _, part := range s.parts(j) {
		if failed(s.Jobs[part].Outcome) {
			parts = append(parts, s.blamed(part)...)
		}
	}
	if len(parts) == 0 {
		return []int{j}
	}
	return parts
}

func (s *State) withOutcome(o domain.Outcome) []int {
	var jobs []int
	for i, job := range s.Jobs {
		if job.Outcome == o && !s.inner(i) {
			jobs = append(jobs, i)
		}
	}
	return jobs
}

func (s *State) cancelReason() Reason {
	r := Reason{Code: ReasonCancelRequested}
	if s.yielding(group.Whole) && s.Place.Admitted {
		return Reason{Code: ReasonYielded, Message: s.Place.By.Text()}
	}
	if s.Cancel != nil {
		actor := s.Cancel.Actor
		r.Actor, r.Message = &actor, s.Cancel.Reason
	}
	return r
}

// concludeJob commits a job's outcome. A failure of a job that may fail counts as soft.
func (d *draft) concludeJob(j, attempt int, o domain.Outcome, class domain.FailureClass, r Reason) {
	if d.s.Skeleton(j).SoftFail && (o == domain.OutcomeFailure || o == domain.OutcomeTimedOut) {
		o = domain.OutcomeSoftFailure
	}
	d.emit(&JobConcluded{OfJob: d.ofJob(j), Attempt: attempt, Outcome: o, Class: class, Reason: r})
	d.concluded = append(d.concluded, j)
	d.leave(j)
}

// admit lets a job wait for a runner, and for nothing else.
func (d *draft) admit(j int) {
	d.emit(&JobReady{OfJob: d.ofJob(j), QueueDeadline: d.now.Add(d.queueTimeout(j))})
}

func (d *draft) hold(j int, r Reason, until time.Time) {
	r.Until = until
	d.emit(&JobHeld{OfJob: d.ofJob(j), Reason: r, Until: until})
}

func (d *draft) queueTimeout(j int) time.Duration {
	if n := d.s.Skeleton(j).QueueTimeoutSeconds; n > 0 {
		return seconds(n)
	}
	return seconds(d.limits().QueueTimeoutSeconds)
}

// clearAt is when no earlier attempt can be acting any more. An attempt that reported its
// end is over; one that didn't is over at abandonBy plus skew.
func (j *Job) clearAt() time.Time {
	var until time.Time
	for i := range j.Attempts {
		if a := &j.Attempts[i]; a.Report == "" && !a.Declined {
			until = later(until, a.AbandonBy.Add(Skew))
		}
	}
	return until
}

// attempt finds the attempt that a worker's command is about.
func (d *draft) attempt(id domain.AttemptID) (int, *Attempt, *domain.Rejection) {
	j, a, ok := d.s.AttemptByID(id)
	if !ok {
		return 0, nil, domain.Reject(domain.CodeAttemptNotFound, "The run has no such attempt.")
	}
	return j, a, nil
}

// afresh is the attempt as the events so far left it; pointers from before are stale.
func (d *draft) afresh(j, number int) *Attempt { return &d.s.Jobs[j].Attempts[number-1] }

func utc(t time.Time) time.Time { return domain.PlainTime(t) }

func later(a, b time.Time) time.Time { return domain.Later(a, b) }

func clip(text string, limit int) string { return domain.Clip(text, limit) }

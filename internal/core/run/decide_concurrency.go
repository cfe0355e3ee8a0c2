package run

import (
	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// start lets a job go on that may run now: into its concurrency group first, if it has one.
func (d *draft) start(j int) {
	switch c := d.s.Skeleton(j).Concurrency; {
	case c == nil:
		d.enter(j)
	case c.Later:
		d.emit(&ConcurrencyAsked{OfJob: d.ofJob(j), InputDigest: EvaluationInputs(d.s, j).Digest(),
			Deadline: d.now.Add(seconds(d.limits().EvaluationSeconds))})
	default:
		d.join(j, c.Concurrency)
	}
}

// join asks for a place in a group, or says why there can be none.
func (d *draft) join(j int, c Concurrency) {
	why := group.Wrong(c.Group)
	switch {
	case why != "":
	case d.s.around(j, c.Group):
		why = "its own run, or a call that it is of, holds the concurrency group " + clip(c.Group, nameBytesMax) +
			", so it would wait for itself"
	case c.Cancel && c.Max:
		why = "queue: max keeps everybody waiting, and cancel-in-progress ends whoever runs"
	default:
		d.emit(&GroupAsked{OfJob: d.ofJob(j), Concurrency: c})
		return
	}
	d.concludeJob(j, 0, domain.OutcomeFailure, domain.FailureInvalid, Reason{Code: ReasonGroupInvalid, Message: why})
}

// joinRun asks for the place of the run as a whole, in each round.
func (d *draft) joinRun() {
	if c := d.s.Request.Concurrency; c != nil {
		d.emit(&GroupAsked{OfJob: d.ofJob(group.Whole), Concurrency: *c})
	}
}

// leave gives back the place of what has concluded.
func (d *draft) leave(j int) {
	if p := d.s.place(j); p != nil && !p.Left {
		d.emit(&GroupLeft{OfJob: d.ofJob(j), Round: p.Round, Group: p.Group, Generation: p.Generation})
	}
}

func (d *draft) recordConcurrency(c RecordConcurrency) (Decision, *domain.Rejection) {
	j, ok := d.s.JobByID(c.Job)
	if !ok {
		return Decision{}, domain.Reject(domain.CodeNotFound, "The run has no such job.")
	}
	job := d.job(j)
	asked := job.Evaluation
	if asked == nil || !asked.Concurrency || asked.Answered || asked.InputDigest != c.InputDigest ||
		job.State != StateHeld {
		return Decision{}, domain.Reject(domain.CodeEvaluationMismatch,
			"The job does not wait for the name of a group over these inputs.")
	}
	if message := clip(c.Error, textBytesMax); message != "" {
		d.concludeJob(j, 0, domain.OutcomeFailure, domain.FailureInvalid,
			Reason{Code: ReasonGroupInvalid, Message: message})
		return Decision{}, nil
	}
	d.join(j, Concurrency{Group: c.Group, Cancel: c.CancelInProgress, Max: d.s.Skeleton(j).Concurrency.Max})
	return Decision{}, nil
}

// recordPlace takes what the group says. A place of another round or generation is none.
func (d *draft) recordPlace(c RecordPlace) (Decision, *domain.Rejection) {
	stale := domain.Reject(domain.CodeEvaluationMismatch, "Nobody has or awaits this place in the group.")
	if c.Job < group.Whole || c.Job >= len(d.s.Jobs) || c.Round != d.s.Round() || d.s.Concluded() {
		return Decision{}, stale
	}
	p := d.s.place(c.Job)
	if p == nil || p.Left || p.Generation != 0 && p.Generation != c.Generation && c.Phase != PlaceRefused {
		return Decision{}, stale
	}
	of := d.ofJob(c.Job)
	switch c.Phase {
	case PlaceJoined:
		if p.Generation == 0 {
			d.emit(&GroupJoined{OfJob: of, Generation: c.Generation, Ahead: c.Ahead})
		}
	case PlaceAdmitted:
		if !p.Admitted && p.By == nil {
			d.emit(&GroupAdmitted{OfJob: of, Generation: c.Generation})
			d.admitted(c.Job)
		}
	case PlaceSuperseded:
		if !p.Admitted && p.By == nil {
			d.emit(&GroupReplaced{OfJob: of, Generation: c.Generation, By: c.By})
			d.give(c.Job, domain.OutcomeSuperseded, domain.FailureSuperseded,
				Reason{Code: ReasonSuperseded, Message: c.By.Text()})
		}
	case PlaceYield:
		if p.Admitted && p.By == nil && !(c.Job == group.Whole && d.cancelling()) {
			d.emit(&GroupReplaced{OfJob: of, Generation: c.Generation, By: c.By})
			d.yield(c.Job)
		}
	case PlaceRefused:
		if p.Generation == 0 {
			d.give(c.Job, domain.OutcomeCancelled, domain.FailureCancelled,
				Reason{Code: ReasonGroupFull, Message: clip(p.Group, nameBytesMax)})
		}
	default:
		return Decision{}, invalidArgument("phase", "A group does not say %q.", clip(c.Phase, nameBytesMax))
	}
	return Decision{}, nil
}

// admitted lets go on what the group held.
func (d *draft) admitted(j int) {
	if j != group.Whole {
		d.enter(j)
		return
	}
	for k := range d.s.Jobs {
		if d.job(k).State == StateExpanded && d.s.Skeleton(k).Group != nil { // kept from an earlier round
			d.fill(k)
			continue
		}
		d.consider(k)
	}
}

// give concludes what waited for its group.
func (d *draft) give(j int, o domain.Outcome, class domain.FailureClass, r Reason) {
	if j != group.Whole {
		d.concludeJob(j, 0, o, class, r)
		return
	}
	for k := range d.s.Jobs {
		if d.job(k).State == StateWaiting {
			d.concludeJob(k, 0, o, class, r)
		}
	}
}

// yield asks what runs to stop for a newer member. It is a request, as a person's is, with one
// difference: an attempt that may have changed the outside world stays for a person to settle.
func (d *draft) yield(j int) {
	if j != group.Whole {
		d.yieldJob(j)
		return
	}
	for k := range d.s.Jobs {
		d.yieldJob(k)
	}
}

func (d *draft) yieldJob(j int) {
	switch d.job(j).State {
	case StateConcluded:
	case StateExpanded: // as its legs do, or the jobs that it calls
		for _, part := range d.s.parts(j) {
			d.yieldJob(part)
		}
	case StateActive:
		d.stop(j, Reason{Code: ReasonYieldGrace, Message: d.successor(j)})
		if a := d.job(j).Current(); a.Uncertain && d.late(a.SettleAt) && !d.s.Skeleton(j).Effectful {
			d.lose(j)
		}
	default:
		d.concludeJob(j, 0, domain.OutcomeCancelled, domain.FailureCancelled, d.stopReason(j))
	}
}

// successor names who a job yields to, itself or with its run.
func (d *draft) successor(j int) string {
	for _, of := range []int{j, group.Whole} {
		if by := d.s.yieldsTo(of); by != nil {
			return by.Text()
		}
	}
	return ""
}

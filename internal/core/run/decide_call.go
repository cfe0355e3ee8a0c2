package run

import "github.com/fairlead-ci/fairlead/internal/domain"

// enter lets a job go on that has its place: to a runner, or to what it calls.
func (d *draft) enter(j int) {
	if d.s.Calls(j) {
		d.call(j)
		return
	}
	d.admit(j)
}

// call opens a called workflow, or asks for its inputs first. A call that is kept from an earlier
// round has them.
func (d *draft) call(j int) {
	job, k := d.job(j), d.s.Skeleton(j)
	switch {
	case job.Inputs != nil:
		d.open(j, "", *job.Inputs)
	case k.Call.Ask:
		d.emit(&CallAsked{
			OfJob: d.ofJob(j), What: CallAsksInputs, InputDigest: EvaluationInputs(d.s, j).Digest(),
			Deadline: d.now.Add(seconds(d.limits().EvaluationSeconds)),
		})
	default:
		d.open(j, "", CallInputs{Value: k.Call.Inputs})
	}
}

// open begins a called workflow with the values of its inputs.
func (d *draft) open(c int, from domain.Digest, inputs CallInputs) {
	d.emit(&CallOpened{OfJob: d.ofJob(c), InputDigest: from, Inputs: inputs})
	for _, j := range d.s.called[c] {
		if d.job(j).State == StateExpanded { // its legs were kept
			d.fill(j)
			continue
		}
		d.consider(j)
	}
}

func (d *draft) recordCall(c RecordCall) (Decision, *domain.Rejection) {
	j, ok := d.s.JobByID(c.Job)
	if !ok {
		return Decision{}, domain.Reject(domain.CodeNotFound, "The run has no such job.")
	}
	job := d.job(j)
	asked := job.Evaluation
	if asked == nil || asked.Call == "" || asked.Call != c.What || asked.Answered ||
		asked.InputDigest != c.InputDigest || job.State != StateExpanded {
		return Decision{}, domain.Reject(domain.CodeEvaluationMismatch,
			"The job does not wait for values of its call over these inputs.")
	}
	message := clip(c.Error, textBytesMax)
	if r := validCallValues(c); r != nil && message == "" {
		// Asked again the answer would be the same, as with a matrix.
		message = clip(r.Message, textBytesMax)
	}
	if message == "" && c.What == CallAsksOutputs {
		message = d.s.outputsOver(j, c.Outputs)
	}
	switch {
	case message != "":
		d.concludeJob(j, 0, domain.OutcomeFailure, domain.FailureInvalid,
			Reason{Code: ReasonCallInvalid, Expression: c.What, Message: message})
	case c.What == CallAsksInputs:
		d.open(j, c.InputDigest, c.Inputs)
	default:
		outcome, class, reason := d.s.outcomeOfCall(j)
		d.concludeCall(j, outcome, class, reason, c.Outputs)
	}
	return Decision{}, nil
}

func validCallValues(c RecordCall) *domain.Rejection {
	if c.What == CallAsksOutputs {
		return validOutputs(c.Outputs)
	}
	switch in := c.Inputs; {
	case in.Digest == "" && in.Value == "":
		return invalidArgument("inputs", "The call has no inputs.")
	case len(in.Value) > OutputBytesMax:
		return tooLarge("inputs", "The inputs of the call have %d bytes; over %d they are an object.", len(in.Value),
			OutputBytesMax)
	case in.Digest != "" && (!in.Digest.Valid() || in.Value != "" || in.Size < 0):
		return invalidArgument("inputs", "The inputs of the call have no valid digest.")
	case in.Size > callInputsBytesMax:
		return tooLarge("inputs", "The inputs of the call have %d bytes; the limit is %d.", in.Size, callInputsBytesMax)
	case !valid(in.Value):
		return invalidArgument("inputs", "The inputs of the call are not UTF-8.")
	}
	return nil
}

// concludeCall commits the outcome of a call with its outputs.
func (d *draft) concludeCall(
	c int, o domain.Outcome, class domain.FailureClass, r Reason, outputs []Output,
) {
	if d.s.Skeleton(c).SoftFail && failed(o) {
		o = domain.OutcomeSoftFailure
	}
	d.emit(&JobConcluded{OfJob: d.ofJob(c), Outcome: o, Class: class, Reason: r, Outputs: outputs})
	d.concluded = append(d.concluded, c)
}

// calledConcluded decides what the end of a job means for the call that it is of. Outputs are
// asked for whatever the outcome, as those of a job are: unless nothing ran.
func (d *draft) calledConcluded(j int) {
	c, ok := d.s.CallerOf(j)
	if !ok || d.job(c).State != StateExpanded || len(d.s.openCalled(c)) > 0 {
		return
	}
	if e := d.job(c).Evaluation; e != nil && e.Call == CallAsksOutputs {
		return
	}
	outcome, class, reason := d.s.outcomeOfCall(c)
	if d.s.Skeleton(c).Call.Outputs && d.job(c).Inputs != nil && outcome != domain.OutcomeSkipped {
		d.emit(&CallAsked{
			OfJob: d.ofJob(c), What: CallAsksOutputs, InputDigest: CallOutputsInputs(d.s, c).Digest(),
			Deadline: d.now.Add(seconds(d.limits().EvaluationSeconds)),
		})
		return
	}
	d.concludeJob(c, 0, outcome, class, reason)
}

// abandonCalled concludes the jobs of a call that ended before it was opened.
func (d *draft) abandonCalled(c int) {
	call := d.job(c)
	for _, j := range d.s.called[c] {
		if d.job(j).State != StateWaiting {
			continue
		}
		reason := call.Reason
		if call.Outcome != domain.OutcomeSkipped {
			reason = Reason{Code: ReasonDependency, Jobs: []int{c}, Outcome: call.Outcome}
		}
		d.concludeJob(j, 0, domain.OutcomeSkipped, domain.FailureNone, reason)
	}
}

// end brings a job to its end, and all that it is made of: what waits is cancelled, what runs is
// asked to stop.
func (d *draft) end(j int, cause []int) {
	switch d.job(j).State {
	case StateConcluded:
		return
	case StateActive:
		d.stop(j, Reason{Code: ReasonFailFastGrace, Jobs: cause})
		if a := d.job(j).Current(); a.Uncertain && d.late(a.SettleAt) {
			d.lose(j)
		}
		return
	case StateExpanded:
	default:
		d.concludeJob(j, 0, domain.OutcomeCancelled, domain.FailureCancelled, Reason{Code: ReasonFailFast, Jobs: cause})
	}
	for _, part := range d.s.parts(j) {
		d.end(part, cause)
	}
}

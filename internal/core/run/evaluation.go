package run

import (
	"encoding/json"
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Inputs is everything that the value of a job's condition may depend on. Whoever
// evaluates it uses exactly these values, so that the recorded answer can be replayed.
type Inputs struct {
	Run    domain.RunID  `json:"run"`
	Round  int           `json:"round"`
	Job    int           `json:"job"`
	Event  string        `json:"event"`
	Commit string        `json:"commit"`
	Ref    string        `json:"ref"`
	Inputs domain.Digest `json:"inputs,omitempty"`
	Status Status        `json:"status"` // what the status functions yield
	Needs  []NeedValue   `json:"needs"`  // direct needs, in the plan's order
	// Call names the inputs of the called workflow that the job is of; of the outputs of a call, its
	// own, and Jobs are those of the called workflow.
	Call domain.Digest `json:"call,omitempty"`
	Jobs []NeedValue   `json:"jobs,omitempty"`
}

// NeedValue is one entry of the needs context.
type NeedValue struct {
	Key     string         `json:"key"`
	Outcome domain.Outcome `json:"outcome"`
	Outputs []Output       `json:"outputs,omitempty"`
}

// Digest names the inputs by their canonical bytes.
func (in Inputs) Digest() domain.Digest {
	data, err := json.Marshal(in)
	if err != nil {
		panic(fmt.Sprintf("encode inputs of %s: %v", in.Run.Job(in.Job), err)) // strings and numbers only
	}
	return domain.DigestOf(data)
}

// EvaluationInputs are the inputs of the condition of the job at that index, all of whose
// needs are committed.
func EvaluationInputs(s *State, job int) Inputs {
	st, _ := s.statusOf(job)
	in := Inputs{
		Run: s.Request.Run, Round: s.Round(), Job: job, Event: s.Request.Trigger.Event,
		Commit: s.Request.Source.Commit, Ref: s.Request.Source.Ref, Inputs: s.Request.Inputs,
		Status: st, Needs: []NeedValue{},
	}
	if of := s.InputsOf(job); of != nil {
		in.Call = of.digest()
	}
	for _, need := range s.Needs(job) {
		in.Needs = append(in.Needs, NeedValue{s.KeyInWorkflow(need), s.Jobs[need].Outcome, s.Outputs(need)})
	}
	return in
}

func (d *draft) recordEvaluation(c RecordEvaluation) (Decision, *domain.Rejection) {
	j, ok := d.s.JobByID(c.Job)
	if !ok {
		return Decision{}, domain.Reject(domain.CodeNotFound, "The run has no such job.")
	}
	job := d.job(j)
	asked := job.Evaluation
	if asked == nil || asked.Matrix || asked.Call != "" || asked.Expression != c.Expression ||
		asked.InputDigest != c.InputDigest {
		return Decision{}, domain.Reject(domain.CodeEvaluationMismatch,
			"The job does not wait for this expression over these inputs.")
	}
	message := clip(c.Error, textBytesMax)
	if asked.Answered {
		if asked.Result == c.Result && asked.Error == message {
			return Decision{}, nil
		}
		return Decision{}, domain.Reject(domain.CodeEvaluationMismatch, "The expression was answered before, differently.")
	}
	if job.State != StateWaiting {
		return Decision{}, domain.Reject(domain.CodeEvaluationMismatch, "The job does not wait for an evaluation any more.")
	}
	d.emit(&EvaluationRecorded{
		OfJob: d.ofJob(j), Expression: c.Expression, InputDigest: c.InputDigest, Result: c.Result, Error: message,
	})
	switch {
	case message != "":
		d.concludeJob(j, 0, domain.OutcomeFailure, domain.FailureInvalid,
			Reason{Code: ReasonEvaluationFailed, Expression: clip(c.Expression, textBytesMax), Message: message})
	case c.Result:
		d.begin(j)
	default:
		d.concludeJob(j, 0, domain.OutcomeSkipped, domain.FailureNone,
			Reason{Code: ReasonConditionFalse, Expression: clip(c.Expression, textBytesMax)})
	}
	return Decision{}, nil
}

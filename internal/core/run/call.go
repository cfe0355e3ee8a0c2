package run

import (
	"fmt"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// A job that calls a workflow is a group with a scope: others need it, its condition is decided
// once, its inputs become values, and then the jobs of the called workflow run among themselves.
// It never gets a lease; it concludes when they have.

// CallSkeleton is how a job calls a workflow, as far as the core has to know.
type CallSkeleton struct {
	// Inputs is the context inputs of the called workflow as JSON, when nothing of it has to be
	// evaluated; Ask: it is asked for when the condition holds.
	Inputs string `json:"inputs,omitempty"`
	Ask    bool   `json:"ask,omitempty"`
	// Outputs: the called workflow has outputs, which are asked for when its jobs have concluded.
	Outputs bool `json:"outputs,omitempty"`
}

// CallInputs are the values that a called workflow was opened with: the context inputs as JSON.
// What is over the limit of an output is an object: then Value is empty and Digest names it.
type CallInputs struct {
	Value  string        `json:"value,omitempty"`
	Digest domain.Digest `json:"digest,omitempty"`
	Size   int64         `json:"size,omitempty"`
}

// digest names the values, wherever they are.
func (c *CallInputs) digest() domain.Digest {
	if c.Digest != "" {
		return c.Digest
	}
	return domain.DigestOf([]byte(c.Value))
}

// What of a call is asked for.
const (
	CallAsksInputs  = "inputs"
	CallAsksOutputs = "outputs"
)

// CallerOf is the index of the job or leg that calls the workflow which the job at that index is
// of; ok is false for jobs of the run's own workflow.
func (s *State) CallerOf(job int) (caller int, ok bool) {
	group, _ := s.GroupOf(job)
	if in := s.Skeleton(group).In; in != nil {
		return *in, true
	}
	return -1, false
}

// Calls reports whether the job at that index calls a workflow itself: one with a matrix leaves
// that to its legs.
func (s *State) Calls(job int) bool {
	k := s.Skeleton(job)
	return k.Call != nil && k.Group == nil
}

// Called lists the jobs of the workflow that the job at that index calls, in index order, and no
// legs of theirs. The result is for reading only.
func (s *State) Called(job int) []int { return s.called[job] }

// KeyInWorkflow is the key by which the other jobs of its workflow know a job.
func (s *State) KeyInWorkflow(job int) string {
	if k := s.Skeleton(job); k.ID == "" {
		return k.Key
	} else {
		return k.ID
	}
}

// InputsOf are the inputs of the called workflow that the job at that index is of; nil for a job
// of the run's own workflow, and before the call was opened.
func (s *State) InputsOf(job int) *CallInputs {
	if c, ok := s.CallerOf(job); ok {
		return s.Jobs[c].Inputs
	}
	return nil
}

// opened reports whether the workflow that the job is of has begun.
func (s *State) opened(j int) bool {
	c, ok := s.CallerOf(j)
	return !ok || s.Jobs[c].State == StateExpanded && s.Jobs[c].Inputs != nil
}

// parts are the jobs that one which runs nothing itself is made of: its legs, or what it calls.
func (s *State) parts(j int) []int {
	if s.Skeleton(j).Group != nil {
		return s.Jobs[j].Legs
	}
	return s.called[j]
}

// called lists for each caller the jobs that it calls.
func calledBy(jobs []JobSkeleton) map[int][]int {
	var out map[int][]int
	for i := range jobs {
		if in := jobs[i].In; in != nil {
			if out == nil {
				out = map[int][]int{}
			}
			out[*in] = append(out[*in], i)
		}
	}
	return out
}

// openCalled lists the jobs that a call waits for.
func (s *State) openCalled(c int) []int {
	return slices.DeleteFunc(slices.Clone(s.called[c]), func(j int) bool { return s.Jobs[j].State == StateConcluded })
}

// CallOutputsInputs is everything that the outputs of a call may depend on.
func CallOutputsInputs(s *State, job int) Inputs {
	in := EvaluationInputs(s, job)
	in.Needs, in.Call = []NeedValue{}, s.Jobs[job].Inputs.digest()
	for _, j := range s.called[job] {
		in.Jobs = append(in.Jobs, NeedValue{s.KeyInWorkflow(j), s.Jobs[j].Outcome, s.Outputs(j)})
	}
	return in
}

// outcomeOfCall is what the jobs of a called workflow add up to: the worst of them.
func (s *State) outcomeOfCall(c int) (domain.Outcome, domain.FailureClass, Reason) {
	worst, class, jobs := s.worst(s.called[c])
	switch worst {
	case domain.OutcomeFailure, domain.OutcomeTimedOut, domain.OutcomeCancelled, domain.OutcomeSuperseded:
		return worst, class, Reason{Code: ReasonCallFailed, Jobs: jobs, Outcome: worst}
	}
	return worst, domain.FailureNone, Reason{Code: ReasonCallDone, Outcome: worst}
}

// evolveOpened lets the jobs of a called workflow begin, as their needs do.
func (s *State) evolveOpened(e *CallOpened) {
	job := s.Jobs[e.Job]
	inputs := e.Inputs
	job.State, job.Inputs = StateExpanded, &inputs
	s.answered(job)
	s.because(job, e, Reason{Code: ReasonCallUnfinished})
	for _, j := range s.called[e.Job] {
		if called := s.Jobs[j]; called.State == StateWaiting {
			s.because(called, e, Reason{Code: ReasonNeedsUnfinished, Jobs: s.Skeleton(j).Needs})
		}
	}
}

// answered marks what the job asked for as told.
func (s *State) answered(job *Job) {
	if job.Evaluation != nil && !job.Evaluation.Answered {
		answered := *job.Evaluation
		answered.Answered, answered.Result = true, true
		job.Evaluation = &answered
	}
}

// validCall checks what ties a caller and the jobs of the called workflow to each other.
func validCall(jobs []JobSkeleton, i int) *domain.Rejection {
	k := &jobs[i]
	for _, need := range k.Needs {
		if need >= 0 && need < len(jobs) && !same(jobs[need].In, k.In) {
			return invalidArgument("skeleton", "Job %q needs a job of another workflow.", k.Key)
		}
	}
	calls := func(i int) bool { return i >= 0 && i < len(jobs) && jobs[i].Call != nil && jobs[i].Group == nil }
	switch {
	case k.In != nil && !calls(*k.In):
		return invalidArgument("skeleton", "Job %q is called by job %d, which calls none.", k.Key, *k.In)
	case k.In != nil && k.Leg != nil:
		return invalidArgument("skeleton", "Leg %q is in another workflow than its job.", k.Key)
	case k.In != nil && k.ID == "":
		return invalidArgument("skeleton", "Job %q has no key in its workflow.", k.Key)
	case nesting(jobs, i) > nestingMax:
		return tooLarge("skeleton", "Job %q is called over more than %d levels.", k.Key, nestingMax)
	case k.Leg != nil && (k.Call != nil) != (jobs[k.Leg.Of].Call != nil):
		return invalidArgument("skeleton", "Only one of job %q and its leg calls a workflow.", k.Key)
	case k.Call == nil:
		return nil
	case len(k.Steps) > 0 || k.Effectful:
		return invalidArgument("skeleton", "Job %q calls a workflow and has steps.", k.Key)
	case k.Group != nil && k.Group.Later:
		return invalidArgument("skeleton", "Job %q calls a workflow, and its legs are not known.", k.Key)
	case len(k.Call.Inputs) > OutputBytesMax:
		return tooLarge("skeleton", "The inputs of the call %q are over %d bytes.", k.Key, OutputBytesMax)
	case !valid(k.Call.Inputs, k.ID):
		return invalidArgument("skeleton", "A text of job %d is not UTF-8.", i)
	case k.Group == nil && !slices.ContainsFunc(jobs, func(j JobSkeleton) bool { return j.In != nil && *j.In == i }):
		return invalidArgument("skeleton", "Job %q calls a workflow without jobs.", k.Key)
	}
	return nil
}

func same(a, b *int) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// nesting is how many calls lead to a job, no more than nestingMax+1.
func nesting(jobs []JobSkeleton, i int) int {
	for n := 0; ; n++ {
		if leg := jobs[i].Leg; leg != nil && leg.Of >= 0 && leg.Of < len(jobs) {
			i = leg.Of
		}
		in := jobs[i].In
		if in == nil || *in < 0 || *in >= len(jobs) || n > nestingMax {
			return n
		}
		i = *in
	}
}

// callText names the jobs that a call was about.
func (s *State) callText(r Reason) string {
	return fmt.Sprintf("Jobs that it calls and that concluded %s: %s", r.Outcome, s.jobKeys(r.Jobs))
}

package run

import (
	"slices"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// NewLeg is a leg of a matrix that was expanded while the run went on.
type NewLeg struct {
	Name           string
	Matrix         string // the context matrix, as JSON
	RunsOn         []string
	TimeoutSeconds int64 // 0: that of the job
	SoftFail       bool
}

func (d *draft) recordMatrix(c RecordMatrix) (Decision, *domain.Rejection) {
	j, ok := d.s.JobByID(c.Job)
	if !ok {
		return Decision{}, domain.Reject(domain.CodeNotFound, "The run has no such job.")
	}
	job := d.job(j)
	asked := job.Evaluation
	if asked == nil || !asked.Matrix || asked.Answered || asked.InputDigest != c.InputDigest ||
		job.State != StateWaiting {
		return Decision{}, domain.Reject(domain.CodeEvaluationMismatch,
			"The job does not wait for a matrix over these inputs.")
	}
	message := clip(c.Error, textBytesMax)
	if r := validLegs(c); r != nil && message == "" {
		// The values come from other jobs, and asked again the answer is the same: were it refused,
		// the job would wait for one until its deadline, and end without saying why.
		message = clip(r.Message, textBytesMax)
	}
	if message == "" && len(d.s.Jobs)+len(c.Legs) > jobsMax {
		message = tooLarge("", "the run would have more than %d jobs with the %d legs of the matrix", jobsMax,
			len(c.Legs)).Message
	}
	if message != "" || len(c.Legs) == 0 {
		d.concludeJob(j, 0, domain.OutcomeFailure, domain.FailureInvalid, Reason{Code: ReasonMatrixInvalid, Message: message})
		return Decision{}, nil
	}
	d.emit(d.expanded(j, c))
	d.fill(j)
	return Decision{}, nil
}

func validLegs(c RecordMatrix) *domain.Rejection {
	if len(c.Legs) > legsMax {
		return tooLarge("legs", "The matrix has %d legs; the limit is %d.", len(c.Legs), legsMax)
	}
	if c.MaxParallel < 0 {
		return invalidArgument("max_parallel", "The number of legs at the same time is negative.")
	}
	bytes := 0
	for i := range c.Legs {
		l := &c.Legs[i]
		bytes += len(l.Matrix)
		switch {
		case bytes > matricesBytesMax:
			return tooLarge("legs", "The %d legs of the matrix have more than %d bytes of values.", len(c.Legs),
				matricesBytesMax)
		case l.TimeoutSeconds < 0:
			return invalidArgument("legs", "Leg %d has a negative timeout.", i+1)
		case l.Matrix == "" || len(l.Matrix) > matrixBytesMax:
			return tooLarge("legs", "Leg %d has no values, or more than %d bytes of them.", i+1, matrixBytesMax)
		case !valid(l.Name, l.Matrix) || !valid(l.RunsOn...):
			return invalidArgument("legs", "A text of leg %d is not UTF-8.", i+1)
		}
	}
	return nil
}

// expanded is the event that makes the legs. One with the values of a leg of an earlier round
// is that leg again, with its attempts; a number is never used for other values.
func (d *draft) expanded(g int, c RecordMatrix) *MatrixExpanded {
	group := d.s.Skeleton(g)
	e := &MatrixExpanded{OfJob: d.ofJob(g), InputDigest: c.InputDigest, FailFast: c.FailFast, MaxParallel: c.MaxParallel}
	number := 0
	known := map[string][]int{}
	for j := range d.s.Jobs {
		if leg := d.s.Skeleton(j).Leg; leg != nil && leg.Of == g {
			number++
			known[leg.Matrix] = append(known[leg.Matrix], j)
		}
	}
	for i := range c.Legs {
		l := &c.Legs[i]
		if at := slices.IndexFunc(known[l.Matrix], func(j int) bool { return d.s.fits(j, g, l) }); at >= 0 {
			e.Legs = append(e.Legs, known[l.Matrix][at])
			known[l.Matrix] = slices.Delete(known[l.Matrix], at, at+1)
			continue
		}
		number++
		k := legSkeleton(group, l)
		k.Index, k.Key = len(d.s.Jobs)+len(e.Added), legKey(group.Key, number)
		k.Leg = &Leg{Of: g, Matrix: l.Matrix}
		e.Legs, e.Added = append(e.Legs, k.Index), append(e.Added, k)
	}
	return e
}

// fits reports whether a leg of an earlier expansion is what a new one would be.
func (s *State) fits(j, g int, l *NewLeg) bool {
	k, want := s.Skeleton(j), legSkeleton(s.Skeleton(g), l)
	return k.Name == want.Name && slices.Equal(k.RunsOn, want.RunsOn) && k.TimeoutSeconds == want.TimeoutSeconds &&
		k.SoftFail == want.SoftFail
}

// legSkeleton is a leg's part of the skeleton, without its place.
func legSkeleton(group *JobSkeleton, l *NewLeg) JobSkeleton {
	k := JobSkeleton{
		Name: clip(l.Name, nameBytesMax), RunsOn: slices.Clone(l.RunsOn), TimeoutSeconds: l.TimeoutSeconds,
		QueueTimeoutSeconds: group.QueueTimeoutSeconds, Retry: group.Retry, Effectful: group.Effectful, SoftFail: l.SoftFail,
		Concurrency: group.Concurrency,
	}
	if len(k.RunsOn) == 0 {
		k.RunsOn = group.RunsOn
	}
	if k.TimeoutSeconds == 0 {
		k.TimeoutSeconds = group.TimeoutSeconds
	}
	return k
}

// evolveExpanded gives a group its legs of this round.
func (s *State) evolveExpanded(e *MatrixExpanded) {
	g := e.Job
	if s.Skeleton(g).Group.Later {
		skeleton := append(slices.Clone(s.Request.Skeleton), e.Added...) // others may share what was there
		skeleton[g].Group = &Group{FailFast: e.FailFast, MaxParallel: e.MaxParallel, Later: true}
		s.Request.Skeleton = skeleton
		s.dependents = append(slices.Clip(s.dependents), make([][]int, len(e.Added))...)
		for range e.Added {
			s.Jobs = append(s.Jobs, &Job{})
		}
	}
	job := s.Jobs[g]
	job.State, job.Legs = StateExpanded, e.Legs
	s.answered(job)
	s.because(job, e, Reason{Code: ReasonLegsUnfinished})
	for _, l := range e.Legs {
		before := s.Jobs[l]
		leg := &Job{State: StateWaiting, Round: s.Round(), Epoch: before.Epoch, Attempts: before.Attempts}
		s.because(leg, e, Reason{Code: ReasonMaxParallel, Jobs: []int{g}})
		s.Jobs[l] = leg
	}
}

package run

import (
	"slices"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// A job with a matrix is a group: others need it, its condition and its matrix are decided
// once, and then its legs run. It never gets a lease itself; it concludes when they have.

// Leg says whose leg a job is. Needs, steps and outputs are those of that job.
type Leg struct {
	Of int `json:"of"`
	// Matrix is the context matrix as JSON, of a leg that was made while the run went on.
	// That of the others is in the plan.
	Matrix string `json:"matrix,omitempty"`
}

// Group is how the legs of a job run.
type Group struct {
	FailFast    bool `json:"fail_fast,omitempty"`
	MaxParallel int  `json:"max_parallel,omitempty"` // 0: all
	// Later: the legs are made when the condition holds, by MatrixExpanded.
	Later bool `json:"later,omitempty"`
}

// GroupOf is the index of the job whose leg the job at that index is; ok is false for others.
func (s *State) GroupOf(job int) (group int, ok bool) {
	if leg := s.Skeleton(job).Leg; leg != nil {
		return leg.Of, true
	}
	return job, false
}

// Needs are the jobs that the job at that index waits for. The result is for reading only.
func (s *State) Needs(job int) []int {
	group, _ := s.GroupOf(job)
	return s.Skeleton(group).Needs
}

// Steps are the names of the steps of the job at that index. The result is for reading only.
func (s *State) Steps(job int) []string {
	group, _ := s.GroupOf(job)
	return s.Skeleton(group).Steps
}

// begin lets a job whose condition holds go on: to a runner, to its legs, or to what it calls.
func (d *draft) begin(j int) {
	group := d.s.Skeleton(j).Group
	switch {
	case group == nil:
		d.start(j)
	case group.Later:
		d.emit(&MatrixAsked{
			OfJob: d.ofJob(j), InputDigest: EvaluationInputs(d.s, j).Digest(),
			Deadline: d.now.Add(seconds(d.limits().EvaluationSeconds)),
		})
	default:
		d.emit(&MatrixExpanded{OfJob: d.ofJob(j), Legs: slices.Clone(d.job(j).Legs)})
		d.fill(j)
	}
}

// fill admits legs in their order, as many as may run at the same time.
func (d *draft) fill(g int) {
	if !d.s.opened(g) {
		return
	}
	room := d.s.room(g)
	if d.s.blocked() {
		return
	}
	for _, l := range d.job(g).Legs {
		if room <= 0 {
			return
		}
		if d.job(l).State == StateWaiting {
			d.start(l)
			room--
		}
	}
}

// room is how many more legs of a group may run now. A leg that waits for its next attempt
// keeps its place.
func (s *State) room(g int) int {
	room := s.Skeleton(g).Group.MaxParallel
	if room == 0 {
		return len(s.Jobs[g].Legs)
	}
	for _, l := range s.Jobs[g].Legs {
		if state := s.Jobs[l].State; state != StateWaiting && state != StateConcluded {
			room--
		}
	}
	return room
}

// legConcluded decides what the end of a leg means for the others and for its group.
func (d *draft) legConcluded(leg int) {
	g, _ := d.s.GroupOf(leg)
	if d.job(g).State != StateExpanded {
		return
	}
	if d.s.failedFast(g) >= 0 {
		d.failFast(g)
	}
	for _, l := range d.job(g).Legs {
		if d.job(l).State != StateConcluded {
			if !d.cancelling() && d.s.failedFast(g) < 0 { // a leg that yields ends itself only
				d.fill(g)
			}
			return
		}
	}
	outcome, class, reason := d.s.outcomeOfLegs(g)
	d.concludeJob(g, 0, outcome, class, reason)
}

// failedFast is the leg whose failure in this round ends the others, or -1.
func (s *State) failedFast(g int) int {
	if !s.Skeleton(g).Group.FailFast {
		return -1
	}
	for _, l := range s.Jobs[g].Legs {
		job := s.Jobs[l]
		if job.State == StateConcluded && job.Round == s.Round() && failed(job.Outcome) {
			return l
		}
	}
	return -1
}

func failed(o domain.Outcome) bool { return o == domain.OutcomeFailure || o == domain.OutcomeTimedOut }

// failFast ends the legs that have not concluded.
func (d *draft) failFast(g int) {
	cause := []int{d.s.failedFast(g)}
	for _, l := range d.job(g).Legs {
		d.end(l, cause)
	}
}

// stopping reports whether the job shall end and not be tried again: the run is being
// cancelled, or a leg failed and ends it, beside it or beside a call that it is of.
func (d *draft) stopping(j int) bool { return d.cancelling() || d.s.yielding(j) || d.s.endedBy(j) >= 0 }

// endedBy is the leg whose failure ends the job, or -1.
func (s *State) endedBy(j int) int {
	for {
		if g, ok := s.GroupOf(j); ok {
			if leg := s.failedFast(g); leg >= 0 {
				return leg
			}
		}
		c, ok := s.CallerOf(j)
		if !ok {
			return -1
		}
		j = c
	}
}

// stopReason is why a job ends that is stopping.
func (d *draft) stopReason(j int) Reason {
	if d.s.yielding(j) {
		return Reason{Code: ReasonYielded, Message: d.successor(j)}
	}
	if leg := d.s.endedBy(j); leg >= 0 && !d.cancelling() {
		return Reason{Code: ReasonFailFast, Jobs: []int{leg}}
	}
	return d.s.cancelReason()
}

// outcomeOfLegs is what the legs of a group add up to: the worst of them.
func (s *State) outcomeOfLegs(g int) (domain.Outcome, domain.FailureClass, Reason) {
	worst, class, legs := s.worst(s.Jobs[g].Legs)
	switch worst {
	case domain.OutcomeFailure, domain.OutcomeTimedOut, domain.OutcomeCancelled, domain.OutcomeSuperseded:
		return worst, class, Reason{Code: ReasonLegsFailed, Jobs: legs, Outcome: worst}
	}
	return worst, domain.FailureNone, Reason{Code: ReasonLegsDone, Outcome: worst}
}

// worst is the worst outcome of some jobs, and which of them have it.
func (s *State) worst(of []int) (domain.Outcome, domain.FailureClass, []int) {
	worst, class := domain.OutcomeSkipped, domain.FailureNone
	var jobs []int
	for _, j := range of {
		job := s.Jobs[j]
		switch rank, least := badness(job.Outcome), badness(worst); {
		case rank > least:
			worst, class, jobs = job.Outcome, job.Class, []int{j}
		case rank == least:
			jobs = append(jobs, j)
		}
	}
	return worst, class, jobs
}

// badness orders outcomes of legs.
func badness(o domain.Outcome) int {
	return slices.Index([]domain.Outcome{
		domain.OutcomeSkipped, domain.OutcomeSuccess, domain.OutcomeSoftFailure, domain.OutcomeSuperseded,
		domain.OutcomeCancelled,
		domain.OutcomeTimedOut, domain.OutcomeFailure,
	}, o)
}

// abandonLegs concludes the legs of a group that ended before they began.
func (d *draft) abandonLegs(g int) {
	group := d.job(g)
	for _, l := range group.Legs {
		if d.job(l).State != StateWaiting {
			continue
		}
		reason := group.Reason
		if group.Outcome != domain.OutcomeSkipped {
			reason = Reason{Code: ReasonDependency, Jobs: []int{g}, Outcome: group.Outcome}
		}
		d.concludeJob(l, 0, domain.OutcomeSkipped, domain.FailureNone, reason)
	}
}

// mergedOutputs are the outputs of a group: of each name the value of the last leg, in the
// order of the legs, that set it.
func (s *State) mergedOutputs(g int) []Output {
	var out []Output
	places := map[string]int{}
	for _, l := range s.Jobs[g].Legs {
		for _, o := range s.Outputs(l) {
			at, known := places[o.Name]
			switch {
			case o.Value == "" && o.Digest == "":
			case known:
				out[at] = o
			default:
				places[o.Name] = len(out)
				out = append(out, o)
			}
		}
	}
	return out
}

// openLegs lists the legs of a group without an outcome.
func (s *State) openLegs(g int) []int {
	var out []int
	for _, l := range s.Jobs[g].Legs {
		if s.Jobs[l].State != StateConcluded {
			out = append(out, l)
		}
	}
	return out
}

// runningLegs lists the legs of a group that have a place among those that may run.
func (s *State) runningLegs(g int) []int {
	return slices.DeleteFunc(s.openLegs(g), func(l int) bool { return s.Jobs[l].State == StateWaiting })
}

package run

import (
	"slices"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

func (d *draft) rerun(c Rerun) (Decision, *domain.Rejection) {
	switch {
	case !d.s.Concluded():
		return Decision{}, domain.Reject(domain.CodeRunNotConcluded, "The run has no outcome yet.")
	case d.s.Outcome == domain.OutcomeInvalid:
		return Decision{}, domain.Reject(domain.CodeWorkflowInvalid,
			"The definition can't be executed, so there is nothing to run again; request a new run once it is mended.")
	case d.s.Round() >= roundsMax:
		return Decision{}, tooLarge("run", "The run has had %d rounds, which is the limit.", roundsMax)
	}
	roots, r := d.rerunRoots(c)
	if r != nil {
		return Decision{}, r
	}
	jobs, kept := d.s.again(roots)
	for _, j := range d.s.withLegs(jobs) {
		if n := d.s.unreconciled(j); n > 0 {
			return Decision{}, &domain.Rejection{
				Code: domain.CodeJobNotRetryable, Field: "jobs",
				Message: "Job " + d.s.Skeleton(j).Key + " was lost while it may have changed the outside world; " +
					"look at the target and settle attempt " + string(d.s.AttemptID(j, n)) + " first.",
			}
		}
	}
	reply := RoundReply{Round: d.s.Round() + 1}
	for _, j := range jobs {
		reply.Jobs = append(reply.Jobs, d.s.JobID(j))
	}
	d.emit(&RoundOpened{Base: d.base(), Actor: c.Cause.Actor, Round: reply.Round, Mode: c.Mode, Jobs: jobs, Kept: kept})
	d.joinRun()
	for _, j := range jobs {
		d.consider(j)
	}
	for _, g := range kept {
		if d.job(g).State == StateExpanded && d.s.Skeleton(g).Group != nil {
			d.fill(g)
		}
	}
	return Decision{Reply: reply}, nil
}

func (d *draft) rerunRoots(c Rerun) ([]int, *domain.Rejection) {
	var roots []int
	switch c.Mode {
	case RerunAll:
		for j := range d.s.Jobs {
			if !d.s.inner(j) {
				roots = append(roots, j)
			}
		}
	case RerunFailed:
		for j := range d.s.Jobs {
			if !d.s.inner(j) {
				roots = append(roots, d.s.unsuccessful(j)...)
			}
		}
	case RerunJobs:
		for _, id := range c.Jobs {
			j, ok := d.s.JobByID(id)
			if !ok {
				return nil, &domain.Rejection{Code: domain.CodeNotFound, Field: "jobs", Message: "The run has no such job."}
			}
			roots = append(roots, j)
		}
	default:
		return nil, invalidArgument("mode", "A run can't be run again by %q.", clip(c.Mode, nameBytesMax))
	}
	if len(roots) == 0 {
		return nil, domain.Reject(domain.CodeNothingToRerun, "No job of the run is left to run again.")
	}
	return roots, nil
}

// unsuccessful is what runs again of a job that did not succeed: of its legs, or of
// the jobs that it calls, those that didn't either, if there are any.
func (s *State) unsuccessful(j int) []int {
	bad := func(o domain.Outcome) bool {
		return failed(o) || o == domain.OutcomeCancelled || o == domain.OutcomeSuperseded
	}
	if !bad(s.Jobs[j].Outcome) {
		return nil
	}
	var parts []int
	for _, part := range s.parts(j) {
		parts = append(parts, s.unsuccessful(part)...)
	}
	if len(parts) == 0 {
		return []int{j}
	}
	return parts
}

// again adds to the roots everything that depends on them, in index order. A job of which
// only some legs, or called jobs, run again keeps its condition and its matrix or inputs: those are
// the kept ones.
func (s *State) again(roots []int) (jobs, kept []int) {
	seen := make([]bool, len(s.Jobs))
	whole := make([]bool, len(s.Jobs)) // from its condition on
	type step struct {
		job  int
		part bool // reached from a leg of it
	}
	var stack []step
	for _, j := range roots {
		stack = append(stack, step{job: j})
	}
	for len(stack) > 0 {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		j := at.job
		if seen[j] && (at.part || whole[j]) {
			continue
		}
		first := !seen[j]
		seen[j], whole[j] = true, whole[j] || !at.part
		if !at.part && s.Calls(j) {
			for _, called := range s.called[j] {
				stack = append(stack, step{job: called})
			}
		}
		if g, leg := s.GroupOf(j); leg {
			stack = append(stack, step{g, s.resumes(g, j)})
			continue
		}
		if c, called := s.CallerOf(j); called {
			stack = append(stack, step{c, s.reopens(c)})
		}
		if group := s.Skeleton(j).Group; group != nil && !at.part && !group.Later {
			for _, l := range s.Jobs[j].Legs {
				stack = append(stack, step{job: l})
			}
		}
		if first {
			for _, dependent := range s.dependents[j] {
				stack = append(stack, step{job: dependent})
			}
		}
	}
	for j, in := range seen {
		g, leg := s.GroupOf(j)
		switch {
		case !in, leg && s.Skeleton(g).Group.Later && whole[g]: // the latter as its group finds
		case (s.Skeleton(j).Group != nil || s.Calls(j)) && !whole[j]:
			jobs, kept = append(jobs, j), append(kept, j)
		default:
			jobs = append(jobs, j)
		}
	}
	return jobs, kept
}

// resumes reports whether a leg may run again without its group being decided anew: the
// group came to its end by its legs, and this is one of them.
func (s *State) resumes(g, leg int) bool {
	code := s.Jobs[g].Reason.Code
	return (code == ReasonLegsFailed || code == ReasonLegsDone) && slices.Contains(s.Jobs[g].Legs, leg)
}

// reopens reports whether jobs of a called workflow may run again without the call being decided
// anew: it was opened, and came to its end by them.
func (s *State) reopens(c int) bool {
	code := s.Jobs[c].Reason.Code
	return (code == ReasonCallFailed || code == ReasonCallDone) && s.Jobs[c].Inputs != nil
}

// withLegs adds all legs of the jobs that have any.
func (s *State) withLegs(jobs []int) []int {
	out := slices.Clone(jobs)
	for j := range s.Jobs {
		if g, leg := s.GroupOf(j); leg && s.Skeleton(g).Group.Later && slices.Contains(jobs, g) && !slices.Contains(out, j) {
			out = append(out, j)
		}
	}
	return out
}

// unreconciled is the number of an attempt of the job that nobody heard the end of and
// whose effect on the outside is still unknown; 0: none.
func (s *State) unreconciled(j int) int {
	for i := range s.Jobs[j].Attempts {
		a := &s.Jobs[j].Attempts[i]
		// An unknown finding is a finding too: whoever recorded it took the decision.
		if a.Outcome == domain.OutcomeLost && a.Effect == domain.EffectUnknown && len(a.Reconciliations) == 0 {
			return a.Number
		}
	}
	return 0
}

func (d *draft) settle(c Settle) (Decision, *domain.Rejection) {
	j, a, r := d.attempt(c.Attempt)
	open := r == nil && a.Outcome == domain.OutcomeNone && a.Uncertain
	past := r == nil && a.Outcome == domain.OutcomeLost && a.Effect == domain.EffectUnknown
	switch {
	case r != nil:
		return Decision{}, r
	case !open && !past:
		return Decision{}, domain.Reject(domain.CodeAttemptNotUncertain, "What became of the attempt is known.")
	case c.Effect != domain.EffectNone && c.Effect != domain.EffectConfirmed && c.Effect != domain.EffectUnknown:
		return Decision{}, invalidArgument("effect", "A finding is none, confirmed or unknown, not %q.", c.Effect)
	case len(a.Reconciliations) >= reconciliationsMax:
		return Decision{}, tooLarge("attempt", "There are %d findings about the attempt, which is the limit.",
			reconciliationsMax)
	}
	found := &ReconciliationRecorded{
		OfAttempt: d.ofAttempt(j, a), Actor: c.Cause.Actor, Effect: c.Effect, Note: clip(c.Note, textBytesMax),
	}
	if past {
		d.emit(found)
		return Decision{}, nil
	}
	switch {
	case c.Then != ThenRetry && c.Then != ThenSuccess && c.Then != ThenFailure:
		return Decision{}, invalidArgument("then", "What follows is retry, success or failure, not %q.", c.Then)
	case !d.late(a.SettleAt):
		return Decision{}, domain.Reject(domain.CodeLeaseStillHeld,
			"The runner might still act, or be heard again, until "+clock(a.SettleAt)+".")
	}
	found.Then = c.Then
	d.emit(found)
	d.settled(j, a.Number, found)
	return Decision{}, nil
}

// settled commits the attempt as lost, which is true whatever was found out, and gives the
// job the outcome that the finding led to.
func (d *draft) settled(j, number int, found *ReconciliationRecorded) {
	actor := found.Actor
	reason := Reason{Code: ReasonSettled, Attempt: number, Actor: &actor, Message: found.Note}
	d.emit(&AttemptConcluded{
		OfAttempt: found.OfAttempt, Outcome: domain.OutcomeLost, Class: domain.FailureRunnerLost,
		Effect: effectFound(found.Effect), Reason: reason,
	})
	switch {
	case found.Then == ThenSuccess:
		d.concludeJob(j, number, domain.OutcomeSuccess, domain.FailureNone, reason)
	case found.Then == ThenFailure:
		d.concludeJob(j, number, domain.OutcomeFailure, domain.FailureRunnerLost, reason)
	case d.stopping(j):
		d.concludeJob(j, number, domain.OutcomeCancelled, domain.FailureCancelled, d.stopReason(j))
	default:
		d.admit(j)
	}
}

func effectFound(finding domain.SideEffect) domain.SideEffect {
	if finding == domain.EffectUnknown {
		return domain.EffectUnknown
	}
	return domain.EffectReconciled
}

func (d *draft) recordLog(c RecordLog) (Decision, *domain.Rejection) {
	j, a, r := d.attempt(c.Attempt)
	switch {
	case r != nil:
		return Decision{}, r
	case a.Outcome == domain.OutcomeNone:
		return Decision{}, domain.Reject(domain.CodeLeaseStillHeld, "The attempt has not ended; its log may still grow.")
	case a.Log != nil && *a.Log == c.Log:
		return Decision{}, nil
	case a.Log != nil:
		return Decision{}, domain.Reject(domain.CodeAlreadyExists, "The attempt's log is sealed, with other content.")
	case c.Log.Length < 0 || c.Log.Offset < 0 || c.Log.Bytes < 0 || c.Log.Lines < 0 || c.Log.Gaps < 0:
		return Decision{}, invalidArgument("log", "A length of the log is negative.")
	case c.Log.Length > 0 && (c.Log.Object == "" || !c.Log.Digest.Valid()):
		return Decision{}, invalidArgument("log", "A log with bytes names its object and digest.")
	}
	d.emit(&LogSealed{OfAttempt: d.ofAttempt(j, a), Log: c.Log})
	return Decision{}, nil
}

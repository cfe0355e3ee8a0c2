package run

import (
	"fmt"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Check finds a broken invariant in a state as it is between decisions. Numbers in the
// errors are those of the invariants in the design of the domain.
func Check(s *State) error {
	if !s.Exists() {
		if s.Version != 0 {
			return fmt.Errorf("check run: %d events and no run", s.Version)
		}
		return nil
	}
	if err := checkAlways(s); err != nil {
		return err
	}
	open := 0
	for j, job := range s.Jobs {
		if job.State != StateConcluded {
			open++
		}
		if err := s.checkJob(j); err != nil {
			return fmt.Errorf("check run %s job %s: %w", s.Request.Run, s.Skeleton(j).Key, err)
		}
	}
	if s.Concluded() != (open == 0) {
		return fmt.Errorf("check run %s: outcome %q with %d jobs open", s.Request.Run, s.Outcome, open)
	}
	if s.Concluded() && s.Outcome != domain.OutcomeInvalid {
		if want, _ := s.outcome(); want != s.Outcome {
			return fmt.Errorf("check run %s: outcome %q, its jobs add up to %q", s.Request.Run, s.Outcome, want)
		}
	}
	if s.Concluded() && s.Reason.Code == "" {
		return fmt.Errorf("check run %s: concluded without a reason (16)", s.Request.Run)
	}
	return nil
}

// checkAlways holds after every single event, also between events of one decision.
func checkAlways(s *State) error {
	if len(s.Jobs) != len(s.Request.Skeleton) || len(s.Rounds) == 0 {
		return fmt.Errorf("check run %s: %d jobs for %d, %d rounds",
			s.Request.Run, len(s.Jobs), len(s.Request.Skeleton), len(s.Rounds))
	}
	for j, job := range s.Jobs {
		if err := s.checkAttempts(j); err != nil {
			return fmt.Errorf("check run %s job %s: %w", s.Request.Run, s.Skeleton(j).Key, err)
		}
		if job.State == StateReady || job.State == StateActive || job.State == StateHeld || job.State == StateExpanded {
			if open := s.unfinished(j); len(open) > 0 {
				return fmt.Errorf("check run %s job %s: %s on uncommitted results of %s (6)",
					s.Request.Run, s.Skeleton(j).Key, job.State, s.jobKeys(open))
			}
		}
	}
	return nil
}

func (s *State) checkAttempts(j int) error {
	job := s.Jobs[j]
	var epoch uint64
	for i := range job.Attempts {
		a := &job.Attempts[i]
		last := i == len(job.Attempts)-1
		switch {
		case a.Number != i+1:
			return fmt.Errorf("attempt %d has number %d", i+1, a.Number)
		case a.Epoch <= epoch || a.Epoch > job.Epoch:
			return fmt.Errorf("attempt %d: epoch %d after %d, job has %d (5)", a.Number, a.Epoch, epoch, job.Epoch)
		case a.Outcome == domain.OutcomeNone && !last:
			return fmt.Errorf("attempt %d has no outcome, and attempt %d exists (5)", a.Number, len(job.Attempts))
		case a.Outcome == domain.OutcomeNone && job.State != StateActive:
			return fmt.Errorf("attempt %d has no outcome, and the job is %s", a.Number, job.State)
		}
		if err := s.checkAttempt(j, a); err != nil {
			return fmt.Errorf("attempt %d: %w", a.Number, err)
		}
		if i > 0 && s.Skeleton(j).Effectful {
			before := &job.Attempts[i-1]
			if before.Report == "" && !before.Declined && a.LeasedAt.Before(before.AbandonBy.Add(Skew)) {
				return fmt.Errorf("attempt %d began while attempt %d might still act (10)", a.Number, before.Number)
			}
		}
		epoch = a.Epoch
	}
	return nil
}

func (s *State) checkAttempt(j int, a *Attempt) error {
	failed := a.Outcome != domain.OutcomeNone && a.Outcome != domain.OutcomeSuccess
	switch {
	case failed != (a.Class != domain.FailureNone):
		return fmt.Errorf("outcome %q with class %q", a.Outcome, a.Class)
	case a.Outcome != domain.OutcomeNone && (a.Reason.Code == "" || a.Effect == ""):
		return fmt.Errorf("outcome %q without a reason or a word on side effects (16)", a.Outcome)
	case a.Outcome != domain.OutcomeNone && (a.Uncertain || a.Held):
		return fmt.Errorf("outcome %q and uncertain", a.Outcome)
	case a.Outcome == domain.OutcomeLost && a.Report != "":
		return fmt.Errorf("lost, with a report")
	case a.Uncertain && a.SettleAt.Before(a.AbandonBy.Add(Skew)):
		return fmt.Errorf("settles at %s, before abandonBy and skew (10)", clock(a.SettleAt))
	case a.Held && (!a.Uncertain || !s.Skeleton(j).Effectful):
		return fmt.Errorf("held, but not uncertain and effectful")
	case a.Desired == domain.DesiredCancel && (a.GraceUntil.IsZero() || a.Stop.Code == ""):
		return fmt.Errorf("to be stopped, without a reason or an end of grace (15)")
	case a.AbandonBy.Before(a.Until):
		return fmt.Errorf("abandoned before its lease runs out (10)")
	}
	return nil
}

func (s *State) checkJob(j int) error {
	job := s.Jobs[j]
	concluded := job.State == StateConcluded
	switch {
	case concluded != (job.Outcome != domain.OutcomeNone):
		return fmt.Errorf("state %s with outcome %q", job.State, job.Outcome)
	case job.Reason.Code == "" || job.Reason.Code.Waits() == concluded:
		return fmt.Errorf("state %s with reason %q (14, 16)", job.State, job.Reason.Code)
	case job.Cause.Version == 0 || job.Cause.Version > s.Version || job.Since.IsZero():
		return fmt.Errorf("reason %q without the event that caused it (14)", job.Reason.Code)
	case (job.State == StateActive) != (job.Current() != nil):
		return fmt.Errorf("state %s, live attempt: %t", job.State, job.Current() != nil)
	case !concluded && job.Round != s.Round():
		return fmt.Errorf("open in round %d of %d", job.Round, s.Round())
	case job.Decider > len(job.Attempts):
		return fmt.Errorf("decided by attempt %d of %d", job.Decider, len(job.Attempts))
	}
	if err := s.checkGroup(j); err != nil {
		return err
	}
	if err := s.checkCall(j); err != nil {
		return err
	}
	_, leg := s.GroupOf(j)
	if job.State == StateWaiting && job.Evaluation == nil && !leg && s.opened(j) && !s.blocked() &&
		len(s.unfinished(j)) == 0 {
		return fmt.Errorf("waits for needs that are all committed (14)")
	}
	if s.Desired == domain.DesiredCancel && !s.Concluded() {
		if !slices.Contains([]JobState{StateActive, StateConcluded, StateExpanded}, job.State) {
			return fmt.Errorf("state %s after cancellation was requested (15)", job.State)
		}
		if a := job.Current(); a != nil && a.Desired != domain.DesiredCancel {
			return fmt.Errorf("attempt %d was not asked to stop (15)", a.Number)
		}
	}
	if len(s.endings(j)) == 0 && !concluded {
		return fmt.Errorf("nothing ends %q (14)", job.Reason.Code)
	}
	return nil
}

// checkGroup holds between a job with a matrix and its legs.
func (s *State) checkGroup(j int) error {
	job, k := s.Jobs[j], s.Skeleton(j)
	if k.Call != nil && k.Group == nil {
		return nil
	}
	if (job.State == StateExpanded) != (job.Reason.Code == ReasonLegsUnfinished) {
		return fmt.Errorf("state %s with reason %q", job.State, job.Reason.Code)
	}
	if k.Group == nil {
		if len(job.Legs) > 0 || job.State == StateExpanded {
			return fmt.Errorf("state %s with %d legs, and it is no group", job.State, len(job.Legs))
		}
		return nil
	}
	if len(job.Attempts) > 0 || job.Epoch > 0 {
		return fmt.Errorf("a job with legs has an attempt of its own")
	}
	open, root, room := s.openLegs(j), s.failedFast(j), s.room(j)
	if !s.opened(j) {
		room = 0 // its legs wait for what calls them
	}
	switch {
	case job.State == StateExpanded && len(open) == 0:
		return fmt.Errorf("all legs are concluded, and it is not")
	case job.State == StateConcluded && len(open) > 0:
		return fmt.Errorf("concluded before its legs %s", s.jobKeys(open))
	case job.State == StateExpanded && room < 0:
		return fmt.Errorf("more legs run than may at the same time")
	}
	if job.State != StateExpanded || s.blocked() {
		return nil
	}
	for _, l := range open {
		leg := s.Jobs[l]
		switch a := leg.Current(); {
		case leg.State == StateWaiting && (root >= 0 || s.Desired == domain.DesiredCancel || room > 0):
			return fmt.Errorf("leg %s waits, and nothing keeps it", s.Skeleton(l).Key)
		case root >= 0 && !s.Calls(l) && (a == nil || a.Desired != domain.DesiredCancel):
			return fmt.Errorf("leg %s goes on after %s failed", s.Skeleton(l).Key, s.Skeleton(root).Key)
		}
	}
	return nil
}

// checkCall holds between a job that calls a workflow and the jobs of that.
func (s *State) checkCall(j int) error {
	job := s.Jobs[j]
	if s.Skeleton(j).In != nil && !s.opened(j) && !slices.Contains([]JobState{StateWaiting, StateConcluded}, job.State) &&
		s.Skeleton(j).Group == nil {
		return fmt.Errorf("state %s in a workflow that has not begun", job.State)
	}
	if !s.Calls(j) {
		return nil
	}
	if len(job.Attempts) > 0 || job.Epoch > 0 {
		return fmt.Errorf("a job that calls a workflow has an attempt of its own")
	}
	open := s.openCalled(j)
	waits := slices.Contains([]ReasonCode{ReasonCallInputs, ReasonCallUnfinished, ReasonCallOutputs}, job.Reason.Code)
	switch {
	case (job.State == StateExpanded) != waits:
		return fmt.Errorf("state %s with reason %q", job.State, job.Reason.Code)
	case job.State == StateExpanded && (len(open) == 0) != (job.Reason.Code == ReasonCallOutputs):
		return fmt.Errorf("%d of the jobs that it calls are open, with reason %q", len(open), job.Reason.Code)
	case job.State == StateConcluded && len(open) > 0:
		return fmt.Errorf("concluded before %s that it calls", s.jobKeys(open))
	}
	return nil
}

package run

import (
	"slices"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Evolve applies a committed event. It decides nothing: whatever an event says is so.
func Evolve(s *State, e Event) {
	s.Version++
	s.LastAt = e.Time()
	switch e := e.(type) {
	case *RunRequested:
		s.evolveRequested(e)
	case *RoundOpened:
		s.evolveRound(e)
	case *CancelRequested:
		s.Desired = domain.DesiredCancel
		s.Cancel = &Cancel{Actor: e.Actor, Reason: e.Reason, At: e.At}
		s.Rounds[len(s.Rounds)-1].Cancel = s.Cancel
	case *RunConcluded:
		s.evolveConcluded(e)
	default:
		if s.evolvePlace(e) {
			return
		}
		job := s.Jobs[e.JobIndex()]
		if n := e.AttemptNumber(); n > 0 && n <= len(job.Attempts) {
			s.evolveAttempt(job, &job.Attempts[n-1], e)
		} else {
			s.evolveJob(job, e)
		}
	}
}

func (s *State) evolveRequested(e *RunRequested) {
	s.Request = e.Request
	s.CreatedAt, s.CreatedBy = e.At, e.Actor
	s.Desired = domain.DesiredRun
	s.Rounds = []Round{{Number: 1, Mode: RoundFirst, Actor: e.Actor, OpenedAt: e.At}}
	s.Jobs = make([]*Job, len(e.Request.Skeleton))
	for i := range s.Jobs {
		s.Jobs[i] = &Job{}
		s.evolveWaiting(i, e, 1)
	}
	s.dependents, s.called = reverse(e.Request.Skeleton), calledBy(e.Request.Skeleton)
	for i := range s.Jobs {
		if leg := e.Request.Skeleton[i].Leg; leg != nil {
			s.Jobs[leg.Of].Legs = append(s.Jobs[leg.Of].Legs, i)
		}
	}
}

func (s *State) evolveWaiting(i int, e Event, round int) {
	before := s.Jobs[i]
	job := &Job{State: StateWaiting, Round: round, Epoch: before.Epoch, Attempts: before.Attempts}
	k := &s.Request.Skeleton[i]
	switch {
	case k.Leg != nil:
		s.because(job, e, Reason{Code: ReasonMatrixUnexpanded, Jobs: []int{k.Leg.Of}})
	case k.In != nil:
		s.because(job, e, Reason{Code: ReasonCallUnopened, Jobs: []int{*k.In}})
	default:
		s.because(job, e, Reason{Code: ReasonNeedsUnfinished, Jobs: k.Needs})
	}
	if k.Group != nil && !k.Group.Later {
		job.Legs = before.Legs // those of the others are made again
	}
	s.Jobs[i] = job
}

func (s *State) evolveRound(e *RoundOpened) {
	s.Desired, s.Cancel = domain.DesiredRun, nil
	s.Outcome, s.Reason = domain.OutcomeNone, Reason{}
	s.Rounds = append(slices.Clip(s.Rounds), Round{
		Number: e.Round, Mode: e.Mode, Actor: e.Actor, OpenedAt: e.At, Jobs: e.Jobs,
	})
	for _, j := range e.Jobs {
		legs, inputs := s.Jobs[j].Legs, s.Jobs[j].Inputs
		s.evolveWaiting(j, e, e.Round)
		switch job := s.Jobs[j]; {
		case !slices.Contains(e.Kept, j):
		case s.Calls(j):
			job.Inputs = inputs // CallOpened follows when it has its turn
		default:
			job.State, job.Legs = StateExpanded, legs
			s.because(job, e, Reason{Code: ReasonLegsUnfinished})
		}
	}
	for _, g := range e.Kept {
		for _, l := range s.Jobs[g].Legs {
			if leg := s.Jobs[l]; leg.State == StateWaiting {
				s.because(leg, e, Reason{Code: ReasonMaxParallel, Jobs: []int{g}})
			}
		}
	}
}

func (s *State) evolveConcluded(e *RunConcluded) {
	s.Outcome, s.Reason = e.Outcome, e.Reason
	round := &s.Rounds[len(s.Rounds)-1]
	round.Outcome, round.ConcludedAt = e.Outcome, e.At
	round.Outcomes = make([]domain.Outcome, 0, len(s.Jobs))
	for _, job := range s.Jobs {
		round.Outcomes = append(round.Outcomes, job.Outcome)
	}
}

// because stores why a job is as it is, since when, and which event says so.
func (s *State) because(job *Job, e Event, r Reason) {
	job.Reason, job.Since = r, e.Time()
	job.Cause = EventRef{Event: e.Name(), Version: s.Version}
}

func (s *State) evolveJob(job *Job, e Event) {
	switch e := e.(type) {
	case *EvaluationAsked:
		job.Evaluation = &Evaluation{Expression: e.Expression, InputDigest: e.InputDigest, Deadline: e.Deadline}
		s.because(job, e, Reason{
			Code: ReasonEvaluating, Expression: clip(e.Expression, textBytesMax), Until: e.Deadline,
		})
	case *EvaluationRecorded:
		answered := *job.Evaluation
		answered.Answered, answered.Result, answered.Error = true, e.Result, e.Error
		job.Evaluation = &answered
	case *MatrixAsked:
		job.Evaluation = &Evaluation{Matrix: true, InputDigest: e.InputDigest, Deadline: e.Deadline}
		s.because(job, e, Reason{Code: ReasonExpanding, Until: e.Deadline})
	case *MatrixExpanded:
		s.evolveExpanded(e)
	case *CallAsked:
		job.State = StateExpanded
		job.Evaluation = &Evaluation{Call: e.What, InputDigest: e.InputDigest, Deadline: e.Deadline}
		code := ReasonCallInputs
		if e.What == CallAsksOutputs {
			code = ReasonCallOutputs
		}
		s.because(job, e, Reason{Code: code, Until: e.Deadline})
	case *CallOpened:
		s.evolveOpened(e)
	case *ConcurrencyAsked:
		job.Evaluation = &Evaluation{Concurrency: true, InputDigest: e.InputDigest, Deadline: e.Deadline}
		job.State, job.HeldUntil = StateHeld, e.Deadline
		s.because(job, e, Reason{Code: ReasonGroupEvaluating, Until: e.Deadline})
	case *JobHeld:
		job.State, job.HeldUntil = StateHeld, e.Until
		s.because(job, e, e.Reason)
	case *JobReady:
		job.State, job.ReadyAt, job.QueueDeadline = StateReady, e.At, e.QueueDeadline
		s.because(job, e, Reason{Code: ReasonWaitingForRunner, Until: e.QueueDeadline})
	case *JobConcluded:
		job.State, job.Outcome, job.Class, job.Decider = StateConcluded, e.Outcome, e.Class, e.Attempt
		job.Outputs = e.Outputs
		if job.Evaluation != nil && job.Evaluation.Call != "" {
			s.answered(job)
		}
		s.because(job, e, e.Reason)
	case *LeaseGranted:
		job.State, job.Epoch = StateActive, e.Epoch
		job.Attempts = append(slices.Clip(job.Attempts), Attempt{
			Number: e.Attempt, Round: s.Round(), Epoch: e.Epoch, Runner: e.Runner, RunnerName: e.RunnerName,
			Session: e.Session, Pool: e.Pool, Alias: e.Alias, Slot: e.Slot, LeasedAt: e.At, Until: e.Until,
			AbandonBy: e.AbandonBy, Deadline: e.Deadline, Desired: domain.DesiredRun,
			Observed: domain.ObservedLeased, ObservedAt: e.At,
		})
		s.because(job, e, Reason{Code: ReasonExecuting, Attempt: e.Attempt})
	}
}

func (s *State) evolveAttempt(job *Job, a *Attempt, e Event) {
	switch e := e.(type) {
	case *LeaseDeclined:
		a.Declined = true
	case *ProgressReported:
		a.Observed, a.ObservedAt = e.Observed, e.HeardAt
		a.Steps = mergeSteps(a.Steps, e.Steps)
	case *LeaseLapsed:
		a.Observed, a.ObservedAt, a.LastSeen = domain.ObservedUnreachable, e.At, e.LastSeen
		a.Uncertain, a.AbandonBy, a.SettleAt = true, e.AbandonBy, e.SettleAt
		s.because(job, e, Reason{Code: ReasonUncertainUntil, Attempt: a.Number, Until: e.SettleAt})
	case *LeaseRegained:
		a.Uncertain, a.Until, a.AbandonBy = false, e.Until, e.AbandonBy
		a.Observed, a.ObservedAt = observedAgain(a.Steps), e.At
		s.because(job, e, Reason{Code: ReasonExecuting, Attempt: a.Number})
		if a.Desired == domain.DesiredCancel {
			s.because(job, e, a.Stop)
		}
	case *AttemptHeld:
		a.Held = true
		s.because(job, e, Reason{Code: ReasonUncertainHeld, Attempt: a.Number})
	case *AttemptStopRequested:
		a.Desired, a.Stop, a.StopAt = domain.DesiredCancel, e.Reason, e.At
		a.GraceUntil, a.RenewUntil = e.GraceUntil, e.RenewUntil
		if !a.Uncertain {
			s.because(job, e, e.Reason)
		}
	case *AttemptConcluded:
		a.Uncertain, a.Held = false, false
		a.Outcome, a.Class, a.Effect = e.Outcome, e.Class, e.Effect
		a.Message, a.Reason, a.ConcludedAt = e.Message, e.Reason, e.At
		a.ConcludedBy = EventRef{Event: e.Name(), Version: s.Version}
		a.Report, a.LogEnd, a.Outputs = e.Report, e.LogEnd, e.Outputs
		a.Steps = mergeSteps(a.Steps, e.Steps)
		if e.Report != "" {
			a.Observed, a.ObservedAt = domain.ObservedExited, e.At
		}
	default:
		s.evolveRecord(a, e)
	}
}

// evolveRecord keeps evidence beside an attempt; nothing of it changes what is committed.
func (s *State) evolveRecord(a *Attempt, e Event) {
	switch e := e.(type) {
	case *ReconciliationRecorded:
		a.Reconciliations = append(slices.Clip(a.Reconciliations), Reconciliation{
			Actor: e.Actor, At: e.At, Effect: e.Effect, Then: e.Then, Note: e.Note,
		})
		if a.Outcome != domain.OutcomeNone {
			a.Effect = effectFound(e.Effect)
		}
	case *ReportRefused:
		a.Refused++
		a.RefusedKept++
	case *RefusalsCounted:
		a.Refused += e.Count
	case *ReportConflicted:
		a.Conflicts = append(slices.Clip(a.Conflicts), Conflict{
			At: e.At, Report: e.Report, Outcome: e.Outcome, Class: e.Class, Message: e.Message,
		})
	case *LogSealed:
		sealed := e.Log
		a.Log = &sealed
	}
}

// observedAgain is what is known of a worker that came back: what it says next will be
// more exact.
func observedAgain(steps []Step) domain.Observed {
	if anyStarted(steps) {
		return domain.ObservedRunning
	}
	return domain.ObservedLeased
}

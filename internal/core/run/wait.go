package run

import (
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Wait is one thing that has not happened yet: why, since which event, and what ends it.
type Wait struct {
	Job      int
	Attempt  int // 0: no attempt is concerned
	State    JobState
	Reason   Reason
	Since    time.Time
	CausedBy EventRef
	EndedBy  []Ending
}

// Kinds of Ending.
const (
	EndsByEvent  = "event"
	EndsByTimer  = "timer"
	EndsByPerson = "person"
)

// Ending is one way in which a wait ends.
type Ending struct {
	Kind string
	What string    // an event's name, or a command's for a timer or a person
	Jobs []int     // of an event: the jobs it must be about
	At   time.Time // of a timer
}

// Waits lists everything in the run that waits, jobs in index order. A concluded run waits
// for nothing but the sealing of its logs.
func Waits(s *State) []Wait {
	var out []Wait
	for j, job := range s.Jobs {
		if job.State != StateConcluded {
			w := Wait{
				Job: j, State: job.State, Reason: job.Reason, Since: job.Since, CausedBy: job.Cause, EndedBy: s.endings(j),
			}
			if a := job.Current(); a != nil {
				w.Attempt = a.Number
			}
			switch w.Reason.Code {
			case ReasonNeedsUnfinished:
				w.Reason.Jobs = s.unfinished(j)
			case ReasonLegsUnfinished:
				w.Reason.Jobs = s.openLegs(j)
			case ReasonCallUnfinished:
				w.Reason.Jobs = s.openCalled(j)
			}
			out = append(out, w)
		}
		for i := range job.Attempts {
			if a := &job.Attempts[i]; a.logOpen() {
				out = append(out, Wait{
					Job: j, Attempt: a.Number, State: job.State, Since: a.ConcludedAt, CausedBy: a.ConcludedBy,
					Reason:  Reason{Code: ReasonLogUnsealed, Attempt: a.Number},
					EndedBy: []Ending{{Kind: EndsByEvent, What: "LogSealed", Jobs: []int{j}}},
				})
			}
		}
	}
	return out
}

// logOpen reports whether the attempt ended and its log is not sealed. A declined attempt
// never ran, so it has no log.
func (a *Attempt) logOpen() bool {
	return a.Outcome != domain.OutcomeNone && !a.Declined && a.Log == nil
}

// endings lists what ends the wait of a job that is not concluded.
func (s *State) endings(j int) []Ending {
	job := s.Jobs[j]
	event := func(name string) Ending { return Ending{Kind: EndsByEvent, What: name, Jobs: []int{j}} }
	timer := func(at time.Time) Ending { return Ending{Kind: EndsByTimer, What: "Wake", At: at} }
	var out []Ending
	switch job.Reason.Code {
	case ReasonNeedsUnfinished:
		if open := s.unfinished(j); len(open) > 0 {
			out = append(out, Ending{Kind: EndsByEvent, What: "JobConcluded", Jobs: open})
		}
	case ReasonEvaluating:
		out = append(out, event("EvaluationRecorded"), timer(job.Evaluation.Deadline))
	case ReasonExpanding:
		out = append(out, event("MatrixExpanded"), timer(job.Evaluation.Deadline))
	case ReasonMatrixUnexpanded:
		g, _ := s.GroupOf(j)
		out = append(out, Ending{Kind: EndsByEvent, What: "MatrixExpanded", Jobs: []int{g}},
			Ending{Kind: EndsByEvent, What: "JobConcluded", Jobs: []int{g}})
	case ReasonMaxParallel:
		g, _ := s.GroupOf(j)
		if running := s.runningLegs(g); len(running) > 0 {
			out = append(out, Ending{Kind: EndsByEvent, What: "JobConcluded", Jobs: running})
		} else if c, called := s.CallerOf(g); called && !s.opened(g) {
			out = append(out, Ending{Kind: EndsByEvent, What: "CallOpened", Jobs: []int{c}})
		}
	case ReasonLegsUnfinished:
		if open := s.openLegs(j); len(open) > 0 {
			out = append(out, Ending{Kind: EndsByEvent, What: "JobConcluded", Jobs: open})
		}
	case ReasonCallUnopened:
		c, _ := s.CallerOf(j)
		out = append(out, Ending{Kind: EndsByEvent, What: "CallOpened", Jobs: []int{c}},
			Ending{Kind: EndsByEvent, What: "JobConcluded", Jobs: []int{c}})
	case ReasonCallInputs:
		out = append(out, event("CallOpened"), timer(job.Evaluation.Deadline))
	case ReasonCallUnfinished:
		if open := s.openCalled(j); len(open) > 0 {
			out = append(out, Ending{Kind: EndsByEvent, What: "JobConcluded", Jobs: open})
		}
	case ReasonCallOutputs:
		out = append(out, event("JobConcluded"), timer(job.Evaluation.Deadline))
	case ReasonGroup:
		whole := j
		if s.blocked() {
			whole = group.Whole
		}
		out = append(out, Ending{Kind: EndsByEvent, What: "GroupAdmitted", Jobs: []int{whole}},
			Ending{Kind: EndsByEvent, What: "GroupReplaced", Jobs: []int{whole}})
	case ReasonGroupEvaluating:
		out = append(out, event("GroupAsked"), timer(job.Evaluation.Deadline))
	case ReasonRetryBackoff:
		out = append(out, timer(job.HeldUntil))
	case ReasonWaitingForRunner:
		out = append(out, event("LeaseGranted"), timer(job.QueueDeadline))
	case ReasonExecuting:
		out = append(out, event("AttemptConcluded"), event("LeaseLapsed"), timer(job.Current().Deadline))
	case ReasonCancelGrace, ReasonTimeoutGrace, ReasonFailFastGrace, ReasonYieldGrace:
		// No timer of the core: the runner kills at the end of the grace period, and if it
		// doesn't say so, its lease can't be renewed and lapses.
		out = append(out, event("AttemptConcluded"), event("LeaseLapsed"))
	case ReasonUncertainUntil:
		out = append(out, event("LeaseRegained"), event("AttemptConcluded"), timer(job.Current().SettleAt))
	case ReasonUncertainHeld:
		out = append(out, Ending{Kind: EndsByPerson, What: "Settle"}, event("AttemptConcluded"))
	}
	if len(out) > 0 && s.Desired != domain.DesiredCancel {
		out = append(out, Ending{Kind: EndsByPerson, What: "RequestCancel"})
	}
	return out
}

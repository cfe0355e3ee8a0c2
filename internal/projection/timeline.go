package projection

import (
	"fmt"
	"strings"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
)

// Kinds of sentences: what happened to the work, for filters and icons.
const (
	kindRun       = "run"
	kindSkip      = "skip"
	kindWait      = "wait"
	kindRetry     = "retry"
	kindFail      = "fail"
	kindRequest   = "request"
	kindLease     = "lease"
	kindReport    = "report"
	kindRefuse    = "refuse"
	kindReconcile = "reconcile"
	kindLog       = "log"
)

// Timeline writes a run's history as sentences, one for every event.
func Timeline(s *run.State, events []engine.Recorded) []*fairleadv1.Sentence {
	out := make([]*fairleadv1.Sentence, 0, len(events))
	for _, rec := range events {
		e, ok := rec.Event.(run.Event)
		if !ok {
			continue
		}
		text, kind, by := sentence(s, e)
		line := &fairleadv1.Sentence{At: Stamp(e.Time()), Text: text, Kind: kind, Event: e.Name(), Version: rec.Version}
		if by != nil {
			line.Actor = actor(*by)
		}
		if i := e.JobIndex(); i >= 0 {
			line.Job = string(s.JobID(i))
			if n := e.AttemptNumber(); n > 0 {
				line.Attempt = string(s.AttemptID(i, n))
			}
		}
		out = append(out, line)
	}
	return out
}

// sentence says one event in words, with its kind and the person behind it, if any.
func sentence(s *run.State, e run.Event) (text, kind string, by *domain.Actor) {
	if i := e.JobIndex(); i >= 0 {
		key := s.Skeleton(i).Key
		if n := e.AttemptNumber(); n > 0 {
			return ofAttempt(s, e, fmt.Sprintf("%s, attempt %d", key, n))
		}
		return ofJob(s, e, key)
	}
	switch e := e.(type) {
	case *run.RunRequested:
		q := &e.Request
		text = fmt.Sprintf("%s asked for a run of %s at commit %s (%s).", actor(e.Actor), q.WorkflowPath,
			short(q.Source.Commit), q.Trigger.Event)
		return text, kindRequest, &e.Actor
	case *run.CancelRequested:
		text = actor(e.Actor) + " requested cancellation"
		if e.Reason != "" {
			text += ": " + e.Reason
		}
		return text + ". What runs goes on until its runner says that it stopped.", kindRequest, &e.Actor
	case *run.RoundOpened:
		var keys []string
		for _, j := range e.Jobs {
			keys = append(keys, s.Skeleton(j).Key)
		}
		return fmt.Sprintf("%s opened round %d (%s): %s run again on the same plan.", actor(e.Actor), e.Round,
			e.Mode, strings.Join(keys, ", ")), kindRetry, &e.Actor
	case *run.RunConcluded:
		return fmt.Sprintf("The run concluded: %s. %s", e.Outcome, s.Sentence(e.Reason)), outcomeKind(e.Outcome), nil
	}
	if text, kind, ok := ofGroup(e, "The run"); ok {
		return text, kind, nil
	}
	return e.Name() + ".", kindRun, nil
}

func ofJob(s *run.State, e run.Event, key string) (string, string, *domain.Actor) {
	if text, kind, ok := ofGroup(e, key); ok {
		return text, kind, nil
	}
	switch e := e.(type) {
	case *run.EvaluationAsked:
		return fmt.Sprintf("%s: its condition is being evaluated: %s.", key, e.Expression), kindWait, nil
	case *run.EvaluationRecorded:
		if e.Error != "" {
			return fmt.Sprintf("%s: its condition could not be evaluated: %s.", key, e.Error), kindFail, nil
		}
		return fmt.Sprintf("%s: its condition %s is %t.", key, e.Expression, e.Result), kindRun, nil
	case *run.MatrixAsked:
		return fmt.Sprintf("%s: its condition holds; its matrix is being expanded.", key), kindWait, nil
	case *run.MatrixExpanded:
		legs := "legs"
		if len(e.Legs) == 1 {
			legs = "leg"
		}
		return fmt.Sprintf("%s has %d %s: %s.", key, len(e.Legs), legs, someKeys(s, e.Legs)), kindRun, nil
	case *run.CallAsked:
		if e.What == run.CallAsksOutputs {
			return fmt.Sprintf("%s: what it calls has ended; its outputs are being evaluated.", key), kindWait, nil
		}
		return fmt.Sprintf("%s: its condition holds; the inputs of what it calls are being evaluated.", key), kindWait, nil
	case *run.CallOpened:
		return fmt.Sprintf("%s begins what it calls: %s.", key, someKeys(s, s.Called(e.Job))), kindRun, nil
	case *run.JobHeld:
		return fmt.Sprintf("%s is held. %s", key, s.Sentence(e.Reason)), kindRetry, nil
	case *run.JobReady:
		return fmt.Sprintf("%s is ready and waits for a runner%s.", key, onLabels(s.Skeleton(e.Job).RunsOn)), kindWait, nil
	case *run.JobConcluded:
		kind := outcomeKind(e.Outcome)
		return fmt.Sprintf("%s concluded: %s. %s", key, e.Outcome, s.Sentence(e.Reason)), kind, nil
	}
	return key + ": " + e.Name() + ".", kindRun, nil
}

// someKeys lists the first of many jobs.
func someKeys(s *run.State, jobs []int) string {
	const shown = 10
	var keys []string
	for _, j := range jobs[:min(len(jobs), shown)] {
		keys = append(keys, s.Skeleton(j).Key)
	}
	text := strings.Join(keys, ", ")
	if more := len(jobs) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func onLabels(labels []string) string {
	if len(labels) == 0 {
		return ""
	}
	return " with " + strings.Join(labels, ", ")
}

func ofAttempt(s *run.State, e run.Event, who string) (string, string, *domain.Actor) {
	switch e := e.(type) {
	case *run.LeaseGranted:
		runner := e.RunnerName
		if e.RunnerVersion != "" {
			runner += " (version " + e.RunnerVersion + ")"
		}
		text := fmt.Sprintf("%s: leased to runner %s of pool %s until %s", who, runner, e.Pool, clock(e.Until))
		if e.Alias != "" {
			text += fmt.Sprintf(" (the pool answers the label %s by an alias)", e.Alias)
		}
		return text + ".", kindLease, nil
	case *run.LeaseDeclined:
		return fmt.Sprintf("%s: the runner declined the lease: %s.", who, e.Reason), kindLease, nil
	case *run.ProgressReported:
		return who + ": " + progress(s, e), kindReport, nil
	case *run.LeaseLapsed:
		return fmt.Sprintf("%s: unreachable. The runner was last heard at %s; whether the work goes on is not known. "+
			"It must stop by itself before %s.", who, clock(e.LastSeen), clock(e.AbandonBy)), kindWait, nil
	case *run.LeaseRegained:
		return fmt.Sprintf("%s: heard again; the lease goes on until %s.", who, clock(e.Until)), kindLease, nil
	case *run.AttemptHeld:
		return who + ": stays uncertain, since it may have changed the outside world. " +
			"Somebody must look at the target and settle it.", kindWait, nil
	case *run.AttemptStopRequested:
		return fmt.Sprintf("%s: asked to stop. %s", who, s.Sentence(e.Reason)), kindRequest, e.Reason.Actor
	case *run.AttemptConcluded:
		text := fmt.Sprintf("%s: committed as %s", who, e.Outcome)
		if e.Class != domain.FailureNone {
			text += fmt.Sprintf(" (%s)", e.Class)
		}
		text += ". " + s.Sentence(e.Reason)
		if e.Effect == domain.EffectUnknown {
			text += " What it did to the outside world is not known."
		}
		return text, outcomeKind(e.Outcome), nil
	case *run.ReconciliationRecorded:
		text := fmt.Sprintf("%s: %s recorded what was found: side effect %s", who, actor(e.Actor), e.Effect)
		if e.Then != "" {
			text += ", then " + e.Then
		}
		if e.Note != "" {
			text += ": " + strings.TrimSuffix(e.Note, ".")
		}
		return text + ".", kindReconcile, &e.Actor
	case *run.ReportRefused:
		text := fmt.Sprintf("%s: a %s with lease epoch %d was refused (%s) and kept as evidence",
			who, e.What, e.Epoch, e.Code)
		if e.Outcome != "" {
			text += fmt.Sprintf("; it claimed %s", e.Outcome)
		}
		return text + ".", kindRefuse, nil
	case *run.RefusalsCounted:
		return fmt.Sprintf("%s: %d more refused.", who, e.Count), kindRefuse, nil
	case *run.ReportConflicted:
		return fmt.Sprintf("%s: a second report contradicts the committed one (it claimed %s). "+
			"The committed result stands; the conflict is recorded.", who, e.Outcome), kindRefuse, nil
	case *run.LogSealed:
		text := fmt.Sprintf("%s: log sealed, %d lines, %d bytes", who, e.Log.Lines, e.Log.Bytes)
		if e.Log.Truncated {
			text += ", truncated"
		}
		if e.Log.Gaps > 0 {
			text += fmt.Sprintf(", %d gaps", e.Log.Gaps)
		}
		return text + ".", kindLog, nil
	}
	return who + ": " + e.Name() + ".", kindRun, nil
}

func progress(s *run.State, e *run.ProgressReported) string {
	parts := []string{"the runner says " + string(e.Observed)}
	names := s.Steps(e.Job)
	for _, st := range e.Steps {
		name := fmt.Sprintf("step %d", st.Index+1)
		if st.Index < len(names) && names[st.Index] != "" {
			name += " (" + names[st.Index] + ")"
		}
		switch {
		case st.Outcome == "":
			parts = append(parts, name+" started")
		case st.Outcome == domain.OutcomeFailure && st.ExitCode != 0:
			parts = append(parts, fmt.Sprintf("%s failed with exit code %d", name, st.ExitCode))
		case st.Outcome == domain.OutcomeFailure: // its program did not fail, or was never started
			parts = append(parts, name+" failed")
		default:
			parts = append(parts, fmt.Sprintf("%s %s", name, st.Outcome))
		}
	}
	return strings.Join(parts, "; ") + "."
}

func outcomeKind(o domain.Outcome) string {
	switch o {
	case domain.OutcomeSuccess:
		return kindRun
	case domain.OutcomeSkipped:
		return kindSkip
	}
	return kindFail
}

func short(commit string) string {
	if len(commit) > 12 {
		return commit[:12]
	}
	return commit
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05") + " UTC" }

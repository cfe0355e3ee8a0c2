package run

import (
	"fmt"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

func since(t time.Time) string {
	d := t.Sub(start)
	return fmt.Sprintf("%02d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

// traceEvent is one line per event, in the words of the domain.
func traceEvent(s *State, e Event) string {
	head := e.Name()
	if j := e.JobIndex(); j >= 0 {
		head += " " + s.Request.Skeleton[j].Key
	}
	if n := e.AttemptNumber(); n > 0 {
		head += fmt.Sprintf(" a%d", n)
	}
	return strings.TrimSpace(head + " " + traceRest(s, e))
}

func traceRest(s *State, e Event) string {
	switch e := e.(type) {
	case *RunRequested:
		return "by " + e.Actor.ID
	case *EvaluationAsked:
		return fmt.Sprintf("%q deadline=%s", e.Expression, since(e.Deadline))
	case *EvaluationRecorded:
		return strings.TrimSpace(fmt.Sprint(e.Result, " ", e.Error))
	case *MatrixAsked:
		return "deadline=" + since(e.Deadline)
	case *MatrixExpanded:
		text := s.jobKeys(e.Legs)
		if len(e.Added) > 0 {
			text += fmt.Sprintf(" added=%d", len(e.Added))
		}
		return text
	case *CallAsked:
		return e.What + " deadline=" + since(e.Deadline)
	case *CallOpened:
		return e.Inputs.Value
	case *JobHeld:
		return fmt.Sprintf("%s until=%s", e.Reason.Code, since(e.Until))
	case *JobReady:
		return "queue-deadline=" + since(e.QueueDeadline)
	case *LeaseGranted:
		return traceLease(e)
	case *LeaseDeclined:
		return fmt.Sprintf("%q", e.Reason)
	case *ProgressReported:
		return strings.TrimSpace(string(e.Observed) + traceSteps(e.Steps))
	case *LeaseLapsed:
		return fmt.Sprintf("last-seen=%s abandon-by=%s settle-at=%s", since(e.LastSeen), since(e.AbandonBy),
			since(e.SettleAt))
	case *LeaseRegained:
		return "until=" + since(e.Until)
	case *AttemptStopRequested:
		return fmt.Sprintf("%s grace-until=%s renew-until=%s", e.Reason.Code, since(e.GraceUntil), since(e.RenewUntil))
	case *AttemptConcluded:
		return traceResult(e.Outcome, e.Class) + " effect=" + string(e.Effect) + traceSteps(e.Steps)
	case *JobConcluded:
		text := traceResult(e.Outcome, e.Class) + ": " + s.Sentence(e.Reason)
		for _, o := range e.Outputs {
			text += fmt.Sprintf(" %s=%s", o.Name, o.Value)
		}
		return text
	case *CancelRequested:
		return strings.TrimSpace(fmt.Sprintf("by %s %s", e.Actor.ID, e.Reason))
	case *RunConcluded:
		return string(e.Outcome) + ": " + s.Sentence(e.Reason)
	case *RoundOpened:
		text := fmt.Sprintf("%d %s by %s: %s", e.Round, e.Mode, e.Actor.ID, s.jobKeys(e.Jobs))
		if len(e.Kept) > 0 {
			text += " kept=" + s.jobKeys(e.Kept)
		}
		return text
	case *ReconciliationRecorded:
		return strings.TrimSpace(fmt.Sprintf("by %s effect=%s then=%s %s", e.Actor.ID, e.Effect, e.Then, e.Note))
	case *ReportRefused:
		return strings.TrimSpace(fmt.Sprintf("epoch=%d %s %s %s", e.Epoch, e.What, e.Code, e.Outcome))
	case *RefusalsCounted:
		return fmt.Sprintf("+%d", e.Count)
	case *ReportConflicted:
		return traceResult(e.Outcome, e.Class)
	case *LogSealed:
		return fmt.Sprintf("bytes=%d lines=%d", e.Log.Bytes, e.Log.Lines)
	}
	return ""
}

func traceLease(e *LeaseGranted) string {
	text := fmt.Sprintf("epoch=%d runner=%s until=%s abandon-by=%s deadline=%s",
		e.Epoch, e.RunnerName, since(e.Until), since(e.AbandonBy), since(e.Deadline))
	if e.Alias != "" {
		text += " alias=" + e.Alias
	}
	return text
}

func traceResult(o domain.Outcome, class domain.FailureClass) string {
	return strings.TrimSpace(string(o) + " " + string(class))
}

func traceSteps(steps []Step) string {
	var out []string
	for _, s := range steps {
		text := fmt.Sprintf("%d:started", s.Index+1)
		if s.Outcome != "" {
			text = fmt.Sprintf("%d:%s", s.Index+1, s.Outcome)
		}
		if s.ExitCode != 0 {
			text += fmt.Sprintf(":%d", s.ExitCode)
		}
		if s.Conclusion != s.Outcome {
			text += "(counts as " + string(s.Conclusion) + ")"
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return ""
	}
	return " steps=" + strings.Join(out, ",")
}

// show prints the three facts of every attempt apart, as every page must.
func (t *teller) show() []string {
	s := t.live
	out := []string{fmt.Sprintf("run: requested=%s committed=%s attention=%t", s.Desired, dash(s.Outcome), Attention(s))}
	for j, job := range s.Jobs {
		out = append(out, fmt.Sprintf("%s: %s %s %s", s.Skeleton(j).Key, job.State, dash(job.Outcome),
			s.Sentence(job.Reason)))
		for i := range job.Attempts {
			a := &job.Attempts[i]
			line := fmt.Sprintf("  a%d on %s: requested=%s observed=%s at %s committed=%s",
				a.Number, a.RunnerName, a.Desired, a.Observed, since(a.ObservedAt), dash(a.Outcome))
			if a.Effect != "" {
				line += " side effect=" + string(a.Effect)
			}
			if a.Uncertain {
				line += " uncertain"
			}
			if n := len(a.Conflicts); n > 0 {
				line += fmt.Sprintf(" conflicts=%d", n)
			}
			if a.Refused > 0 {
				line += fmt.Sprintf(" refused=%d", a.Refused)
			}
			out = append(out, line)
		}
		for _, o := range s.Outputs(j) {
			out = append(out, fmt.Sprintf("  output %s=%s", o.Name, o.Value))
		}
	}
	return out
}

func dash[T ~string](v T) string {
	if v == "" {
		return "-"
	}
	return string(v)
}

// waits prints what waits, why, and what ends it.
func (t *teller) waits() []string {
	var out []string
	for _, w := range Waits(t.live) {
		line := fmt.Sprintf("%s: %s Caused by %s (event %d). Ended by:",
			t.live.Skeleton(w.Job).Key, t.live.Sentence(w.Reason), w.CausedBy.Event, w.CausedBy.Version)
		for _, e := range w.EndedBy {
			line += " " + e.Kind + " " + e.What
			if len(e.Jobs) > 0 && e.What == "JobConcluded" {
				line += " " + t.live.jobKeys(e.Jobs)
			}
			if e.Kind == EndsByTimer {
				line += " at " + since(e.At)
			}
			line += ";"
		}
		out = append(out, strings.TrimSuffix(line, ";"))
	}
	if len(out) == 0 {
		out = append(out, "nothing waits")
	}
	return out
}

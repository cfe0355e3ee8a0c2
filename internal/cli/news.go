package cli

import (
	"fmt"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// news is one thing that happened to a job, in words.
type news struct {
	job  *fairleadv1.Job
	text string
	tone tone
}

// newsOf compares two versions of a run. before is nil at the first.
func newsOf(before, now *fairleadv1.Run) []news {
	var out []news
	for i, job := range now.GetJobs() {
		var was *fairleadv1.Job
		if i < len(before.GetJobs()) {
			was = before.GetJobs()[i]
		}
		for n, attempt := range job.GetAttempts() {
			var old *fairleadv1.Attempt
			if n < len(was.GetAttempts()) {
				old = was.GetAttempts()[n]
			}
			if attempt.GetRound() < now.GetSummary().GetRound() {
				continue // of an earlier round: no news
			}
			if concludedBetween(was, job) && n == len(job.GetAttempts())-1 && attempt.GetOutcome() != "" && old != nil {
				continue // how the job ended says it all
			}
			for _, item := range attemptNews(old, attempt) {
				item.job = job
				out = append(out, item)
			}
		}
		if job.GetState() == "held" && job.GetReason() != was.GetReason() {
			out = append(out, news{job, "held: " + job.GetReason(), warn})
		}
		if concludedBetween(was, job) {
			out = append(out, conclusion(job))
		}
	}
	return out
}

// concludedBetween says whether a job got its outcome between two versions.
func concludedBetween(was, now *fairleadv1.Job) bool {
	return now.GetOutcome() != "" && (was.GetOutcome() == "" || was.GetRound() != now.GetRound())
}

// conclusion says how a job ended.
func conclusion(job *fairleadv1.Job) news {
	text := job.GetOutcome()
	if n := len(job.GetAttempts()); n > 0 && job.GetOutcome() != "skipped" {
		last := job.GetAttempts()[n-1]
		if took := span(last.GetStarted(), last.GetConcluded(), time.Time{}); took != "" && last.GetConcluded() != "" {
			text += " in " + took
		}
	}
	if job.GetOutcome() != "success" && job.GetReason() != "" {
		text += ": " + job.GetReason()
	}
	return news{job, text, toneOf(job.GetOutcome())}
}

// attemptNews says what changed in an attempt. The three facts stay apart: what was asked
// for, what was seen, what was committed.
func attemptNews(old, now *fairleadv1.Attempt) []news {
	var out []news
	say := func(t tone, format string, args ...any) {
		out = append(out, news{text: fmt.Sprintf(format, args...), tone: t})
	}
	number := now.GetNumber()
	if old == nil {
		runner := now.GetRunnerName()
		if runner == "" {
			runner = now.GetRunner()
		}
		say(faint, "attempt %d on %s", number, dash(runner))
	}
	if now.GetRequested().GetDesired() == "cancel" && old.GetRequested().GetDesired() != "cancel" &&
		now.GetOutcome() == "" {
		say(warn, "attempt %d: cancellation requested by %s; it has not stopped yet", number,
			dash(now.GetRequested().GetBy()))
	}
	if now.GetObserved().GetState() == "unreachable" && old.GetObserved().GetState() != "unreachable" &&
		now.GetOutcome() == "" {
		say(warn, "attempt %d: its runner is unreachable, so what happens there is not known", number)
	}
	if now.GetUncertain() && !old.GetUncertain() {
		say(warn, "attempt %d is uncertain: it has no result. %s", number, now.GetNextStep())
	}
	if now.GetOutcome() != "" && old.GetOutcome() == "" && now.GetOutcome() != "success" {
		text := fmt.Sprintf("attempt %d: %s", number, now.GetOutcome())
		if now.GetFailureClass() != "" {
			text += " (" + now.GetFailureClass() + ")"
		}
		if now.GetMessage() != "" {
			text += ": " + now.GetMessage()
		}
		say(toneOf(now.GetOutcome()), "%s", text)
	}
	return out
}

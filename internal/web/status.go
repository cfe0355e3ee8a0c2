package web

import (
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// status is how a state looks everywhere: an icon with its own shape, a word and a
// tone. No state is told by its colour alone.
type status struct {
	Key  string // names the icon
	Word string
	Tone string // wait, live, ok, bad, soft, doubt, off
}

// statuses is the one fixed set of looks.
var statuses = map[string]status{
	"queued":           {"queued", "queued", "wait"},
	"waiting":          {"waiting", "waiting", "wait"},
	"held":             {"held", "held", "wait"},
	"ready":            {"ready", "waiting for a runner", "wait"},
	"expanded":         {"running", "its legs run", "live"},
	"calling":          {"running", "what it calls runs", "live"},
	"backoff":          {"backoff", "retrying soon", "wait"},
	"leased":           {"running", "starting", "live"},
	"preparing":        {"running", "preparing", "live"},
	"running":          {"running", "running", "live"},
	"finishing":        {"running", "finishing", "live"},
	"exited":           {"running", "exited, not committed", "live"},
	"unreachable":      {"unreachable", "unreachable", "doubt"},
	"uncertain":        {"uncertain", "uncertain", "doubt"},
	"attention":        {"uncertain", "needs a person", "doubt"},
	"cancel_requested": {"cancelling", "cancel requested", "doubt"},
	"success":          {"success", "success", "ok"},
	"failure":          {"failure", "failure", "bad"},
	"soft_failure":     {"soft_failure", "soft failure", "soft"},
	"timed_out":        {"timed_out", "timed out", "bad"},
	"lost":             {"lost", "lost", "bad"},
	"invalid":          {"invalid", "invalid", "bad"},
	"cancelled":        {"cancelled", "cancelled", "off"},
	"skipped":          {"skipped", "skipped", "off"},
	"superseded":       {"superseded", "superseded", "off"},
}

// statusOf looks a state up. A word this release does not know is shown as it is.
func statusOf(key string) status {
	if s, ok := statuses[key]; ok {
		return s
	}
	if key == "" {
		return status{"waiting", "not yet", "wait"}
	}
	return status{"waiting", key, "wait"}
}

func statusOfSummary(s *fairleadv1.RunSummary) status {
	switch {
	case s.GetOutcome() != "":
		return statusOf(s.GetOutcome())
	case s.GetState() == "attention":
		return statusOf("attention")
	case s.GetDesired() == string(domain.DesiredCancel):
		return statusOf("cancel_requested")
	}
	return statusOf(s.GetState())
}

// statusOfRun prefers what is committed, then what waits for a person, then what was
// asked, then what is observed.
func statusOfRun(run *fairleadv1.Run) status {
	switch {
	case run.GetOutcome() != "":
		return statusOf(run.GetOutcome())
	case run.GetAttention():
		return statusOf("attention")
	case run.GetDesired() == string(domain.DesiredCancel):
		return statusOf("cancel_requested")
	}
	return statusOf(run.GetSummary().GetState())
}

func statusOfJob(job *fairleadv1.Job) status {
	if job.GetState() == "concluded" {
		return statusOf(job.GetOutcome())
	}
	if job.GetState() == "active" {
		if last := latest(job); last != nil {
			return statusOfAttempt(last)
		}
		return statusOf("running")
	}
	if job.GetState() == "expanded" && len(job.GetLegs()) == 0 {
		return statusOf("calling")
	}
	if segments := job.GetSegments(); len(segments) > 0 {
		if last := segments[len(segments)-1]; last.GetTo() == "" && last.GetKind() == "backoff" {
			return statusOf("backoff")
		}
	}
	return statusOf(job.GetState())
}

func statusOfAttempt(attempt *fairleadv1.Attempt) status {
	observed := attempt.GetObserved().GetState()
	switch {
	case attempt.GetOutcome() != "":
		return statusOf(attempt.GetOutcome())
	case attempt.GetUncertain():
		return statusOf("uncertain")
	case observed == string(domain.ObservedUnreachable):
		return statusOf("unreachable")
	case attempt.GetRequested().GetDesired() == string(domain.DesiredCancel):
		return statusOf("cancel_requested")
	case observed == "":
		return statusOf("leased")
	}
	return statusOf(observed)
}

// latest is the attempt with the highest number, or nil.
func latest(job *fairleadv1.Job) *fairleadv1.Attempt {
	var last *fairleadv1.Attempt
	for _, attempt := range job.GetAttempts() {
		if last == nil || attempt.GetNumber() > last.GetNumber() {
			last = attempt
		}
	}
	return last
}

// failureWords says in words what a failure class means.
var failureWords = map[domain.FailureClass]string{
	domain.FailureUserCode:   "a step failed",
	domain.FailureTimeout:    "a time limit was reached",
	domain.FailureRunnerLost: "the runner was lost",
	domain.FailurePlatform:   "the platform failed",
	domain.FailurePolicy:     "policy denied it",
	domain.FailureCancelled:  "it was cancelled",
	domain.FailureSuperseded: "newer work replaced it",
	domain.FailureInvalid:    "the definition can't be executed",
}

// effectWords says what is known of the outside world.
var effectWords = map[domain.SideEffect]string{
	domain.EffectNone:       "no side effect",
	domain.EffectUnknown:    "side effect unknown",
	domain.EffectConfirmed:  "side effect confirmed",
	domain.EffectReconciled: "side effect reconciled",
}

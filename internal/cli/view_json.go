package cli

import (
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// jsonView writes one object a line.
type jsonView struct {
	app *app
	run string
}

type jobEvent struct {
	Event   string  `json:"event"` // "job"
	Run     string  `json:"run"`
	Job     string  `json:"job"`
	Key     string  `json:"key"`
	State   string  `json:"state"`
	Outcome *string `json:"outcome"`
	Reason  string  `json:"reason"`
}

type attemptEvent struct {
	Event        string  `json:"event"` // "attempt"
	Run          string  `json:"run"`
	Job          string  `json:"job"`
	Key          string  `json:"key"`
	Attempt      string  `json:"attempt"`
	Number       int32   `json:"number"`
	Requested    string  `json:"requested"`
	Observed     string  `json:"observed"`
	Uncertain    bool    `json:"uncertain"`
	Outcome      *string `json:"outcome"`
	FailureClass *string `json:"failure_class"`
	Message      string  `json:"message"`
}

type lineEvent struct {
	Event   string `json:"event"` // "line"
	Run     string `json:"run"`
	Job     string `json:"job"`
	Key     string `json:"key"`
	Attempt string `json:"attempt"`
	Number  int32  `json:"number"`
	Offset  int64  `json:"offset"`
	Text    string `json:"text"`
	Partial bool   `json:"partial,omitempty"` // the line goes on in the next object
	Missing int64  `json:"missing,omitempty"` // bytes that the server lost here
}

type noteEvent struct {
	Event string `json:"event"` // "note"
	Run   string `json:"run"`
	Text  string `json:"text"`
}

// changed implements view.
func (v *jsonView) changed(before, now *fairleadv1.Run) {
	v.run = now.GetRun()
	for i, job := range now.GetJobs() {
		var was *fairleadv1.Job
		if before != nil && i < len(before.GetJobs()) {
			was = before.GetJobs()[i]
		}
		for n, attempt := range job.GetAttempts() {
			var old *fairleadv1.Attempt
			if n < len(was.GetAttempts()) {
				old = was.GetAttempts()[n]
			}
			event := v.attempt(job, attempt)
			if old == nil || event != v.attempt(job, old) {
				_ = v.app.printJSON(event.full())
			}
		}
		event := jobEvent{Event: "job", Run: v.run, Job: job.GetId(), Key: job.GetKey(), State: job.GetState(),
			Outcome: orNull(job.GetOutcome()), Reason: job.GetReason()}
		if was.GetState() != job.GetState() || was.GetOutcome() != job.GetOutcome() || was.GetReason() != job.GetReason() {
			_ = v.app.printJSON(event)
		}
	}
}

// attempt is the event without its pointers, so that two can be compared.
func (v *jsonView) attempt(job *fairleadv1.Job, a *fairleadv1.Attempt) comparableAttempt {
	return comparableAttempt{attemptEvent{Event: "attempt", Run: v.run, Job: job.GetId(), Key: job.GetKey(),
		Attempt: a.GetId(), Number: a.GetNumber(), Requested: a.GetRequested().GetDesired(),
		Observed: a.GetObserved().GetState(), Uncertain: a.GetUncertain(), Message: a.GetMessage()},
		a.GetOutcome(), a.GetFailureClass()}
}

type comparableAttempt struct {
	attemptEvent
	outcome, class string
}

func (c comparableAttempt) full() attemptEvent {
	event := c.attemptEvent
	event.Outcome, event.FailureClass = orNull(c.outcome), orNull(c.class)
	return event
}

// lines implements view.
func (v *jsonView) lines(job *fairleadv1.Job, attempt *fairleadv1.Attempt, pieces []piece) {
	for _, p := range pieces {
		_ = v.app.printJSON(lineEvent{Event: "line", Run: v.run, Job: job.GetId(), Key: job.GetKey(),
			Attempt: attempt.GetId(), Number: attempt.GetNumber(), Offset: p.offset, Text: string(p.text),
			Partial: !p.end, Missing: p.gap})
	}
}

// idle implements view: the events say what is waited for.
func (v *jsonView) idle(*fairleadv1.Run) {}

// note implements view.
func (v *jsonView) note(text string) { _ = v.app.printJSON(noteEvent{"note", v.run, text}) }

// flush implements view.
func (v *jsonView) flush() {}

package projection

import (
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
)

// bar collects one job's segments while its events pass by.
type bar struct {
	segments []*fairleadv1.Segment
	open     *fairleadv1.Segment
}

// to ends the open segment and, unless kind is empty, begins the next.
func (b *bar) to(kind, reason string, attempt int, at time.Time) {
	if b.open != nil {
		if b.open.Kind == kind && int(b.open.Attempt) == attempt {
			return
		}
		b.open.To = Stamp(at)
		b.open = nil
	}
	if kind != "" {
		b.open = &fairleadv1.Segment{Kind: kind, From: Stamp(at), Reason: reason, Attempt: int32(attempt)}
		b.segments = append(b.segments, b.open)
	}
}

// waterfall gives every job its bar: stretches of time with one reason each.
func waterfall(s *run.State, events []engine.Recorded) [][]*fairleadv1.Segment {
	bars := make([]bar, len(s.Jobs))
	for _, rec := range events {
		e, ok := rec.Event.(run.Event)
		if !ok {
			continue
		}
		switch e := e.(type) {
		case *run.RunRequested:
			for i := range e.Request.Skeleton {
				bars[i].to(startKind(s, i), "", 0, e.At)
			}
		case *run.RoundOpened:
			for _, i := range e.Jobs {
				bars[i].to("needs", "", 0, e.At)
			}
		case *run.MatrixExpanded:
			bars[e.Job].to("running", "its legs run", 0, e.At)
			for _, i := range e.Legs {
				bars[i].to("held", "waits for a place among the legs that may run", 0, e.At)
			}
		case *run.GroupAsked:
			if e.Job != group.Whole {
				bars[e.Job].to("held", "waits for its place in the concurrency group "+e.Concurrency.Group, 0, e.At)
				continue
			}
			for i := range bars {
				if startKind(s, i) == startsAtOnce && bars[i].open != nil {
					bars[i].to("held", "the run waits for its place in the concurrency group "+e.Concurrency.Group, 0, e.At)
				}
			}
		default:
			if i := e.JobIndex(); i >= 0 && i < len(bars) {
				bars[i].note(s, e)
			}
		}
	}
	out := make([][]*fairleadv1.Segment, len(bars))
	for i := range bars {
		out[i] = bars[i].segments
	}
	return out
}

func startKind(s *run.State, job int) string {
	if _, called := s.CallerOf(job); called || len(s.Needs(job)) > 0 {
		return "needs"
	}
	return startsAtOnce
}

// startsAtOnce is the kind of a job that waits for nothing but a runner.
const startsAtOnce = "no_runner"

func (b *bar) note(s *run.State, e run.Event) {
	n := e.AttemptNumber()
	switch e := e.(type) {
	case *run.EvaluationAsked:
		b.to("held", "its condition is being evaluated", 0, e.At)
	case *run.ConcurrencyAsked:
		b.to("held", "the name of its concurrency group is being evaluated", 0, e.At)
	case *run.CallAsked:
		b.to("held", "the "+e.What+" of what it calls are being evaluated", 0, e.At)
	case *run.CallOpened:
		b.to("running", "what it calls runs", 0, e.At)
	case *run.JobHeld:
		b.to("backoff", s.Sentence(e.Reason), 0, e.At)
	case *run.JobReady:
		b.to(startsAtOnce, "waiting for a runner", 0, e.At)
	case *run.LeaseGranted:
		b.to("preparing", "leased to "+e.RunnerName, n, e.At)
	case *run.ProgressReported:
		switch e.Observed {
		case domain.ObservedRunning:
			b.to("running", "steps run", n, e.At)
		case domain.ObservedFinishing, domain.ObservedExited:
			b.to("finishing", "the runner tidies up", n, e.At)
		}
	case *run.LeaseLapsed:
		b.to("uncertain", "the runner is unreachable", n, e.At)
	case *run.LeaseRegained:
		b.to("running", "the runner was heard again", n, e.At)
	case *run.AttemptConcluded:
		b.to("", "", 0, e.At)
	case *run.JobConcluded:
		b.to("", "", 0, e.At)
	}
}

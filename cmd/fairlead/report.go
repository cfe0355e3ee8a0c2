package main

import (
	"context"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/telemetry"
)

// reporter tells metrics and traces of what concluded. It is a reactor, so a restart
// loses no run; a repeat after a crash counts one twice, which metrics can bear.
type reporter struct{ server *server }

// Name implements engine.Reactor.
func (r *reporter) Name() string { return "telemetry" }

// React implements engine.Reactor.
func (r *reporter) React(ctx context.Context, row engine.Committed) error {
	for _, e := range row.Events {
		switch e := e.(type) {
		case *run.ReportRefused:
			r.server.metrics.ReportRefused(e.Code)
		case *run.RunConcluded:
			h, err := r.server.engine.Read(ctx, row.Tenant, row.Stream, false)
			if err != nil {
				return err
			}
			s := h.State.(*run.State)
			r.server.metrics.RunConcluded(s.Request.WorkflowPath, e.Outcome, e.At.Sub(s.Rounds[e.Round-1].OpenedAt))
			r.server.traces.Export(traceOf(s, e, r.server.url))
		}
	}
	return nil
}

// traceOf writes a concluded round as spans: run, jobs, attempts and steps with the times
// their events carry.
func traceOf(s *run.State, e *run.RunConcluded, url string) telemetry.RunTrace {
	q := &s.Request
	t := telemetry.RunTrace{Run: q.Run, Tenant: q.Tenant, Repository: q.RepositoryName, Workflow: q.WorkflowPath,
		Event: q.Trigger.Event, Ref: q.Source.Ref, Commit: q.Source.Commit, URL: url + "/runs/" + string(q.Run),
		Round: e.Round, Outcome: e.Outcome, Created: s.Rounds[e.Round-1].OpenedAt, Concluded: e.At}
	for i, j := range s.Jobs {
		if j.Round != e.Round {
			continue
		}
		job := telemetry.JobTrace{
			ID:        s.JobID(i),
			Name:      s.Skeleton(i).Name,
			Outcome:   j.Outcome,
			Ready:     j.ReadyAt,
			Concluded: j.Since,
		}
		for n := range j.Attempts {
			a := &j.Attempts[n]
			if a.Round != e.Round {
				continue
			}
			at := telemetry.AttemptTrace{
				ID:           s.AttemptID(i, a.Number),
				Number:       a.Number,
				Runner:       a.Runner,
				RunnerName:   a.RunnerName,
				Outcome:      a.Outcome,
				FailureClass: a.Class,
				Started:      a.LeasedAt,
				Concluded:    a.ConcludedAt,
			}
			for _, st := range a.Steps {
				name := ""
				if st.Index < len(s.Skeleton(i).Steps) {
					name = s.Skeleton(i).Steps[st.Index]
				}
				at.Steps = append(at.Steps, telemetry.StepTrace{Index: st.Index, Name: name, Outcome: st.Outcome,
					ExitCode: st.ExitCode, Started: st.Started, Finished: st.Finished})
			}
			job.Attempts = append(job.Attempts, at)
		}
		t.Jobs = append(t.Jobs, job)
	}
	return t
}

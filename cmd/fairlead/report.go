package main

import (
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/telemetry"
)

// reporter tells metrics and traces of what concluded here. What a server committed in the
// moment of its death is missing in both: history has it, and they are for looking at load.
type reporter struct{ server *server }

// Committed implements engine.Observer. The state is at hand here, so that no run is read back
// from the store for the sake of a number.
func (r *reporter) Committed(rows []engine.Committed) {
	for i := range rows {
		if !rows[i].Owned {
			continue // the owner counts
		}
		for _, e := range rows[i].Events {
			switch e := e.(type) {
			case *run.ReportRefused:
				r.server.metrics.ReportRefused(e.Code)
			case *run.RunConcluded:
				s := rows[i].State.(*run.State)
				r.server.metrics.RunConcluded(s.Request.WorkflowPath, e.Outcome, e.At.Sub(s.Rounds[e.Round-1].OpenedAt))
				if r.server.traces != nil {
					r.server.traces.Export(traceOf(s, e, r.server.url))
				}
			}
		}
	}
}

// Loaded implements engine.Observer.
func (*reporter) Loaded(engine.Live) {}

// Ready implements engine.Observer.
func (*reporter) Ready(domain.PartitionID, bool) {}

// Lost implements engine.Observer.
func (*reporter) Lost(domain.PartitionID) {}

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
				if names := s.Steps(i); st.Index < len(names) {
					name = names[st.Index]
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

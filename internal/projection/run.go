package projection

import (
	"fmt"
	"strings"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Stamp writes a time as the API does; "" for the zero time.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000Z")
}

// RunRow is the run as lists show it; it commits with the run's events.
func RunRow(s *run.State, at engine.Place) store.RunRow {
	q := &s.Request
	row := store.RunRow{
		Tenant: at.Tenant, Partition: at.Partition, Run: q.Run, Number: q.Number,
		Repository: q.Repository, RepositoryName: q.RepositoryName,
		Workflow: q.WorkflowPath, WorkflowName: q.WorkflowName,
		Event: q.Trigger.Event, Ref: q.Source.Ref, Commit: q.Source.Commit, Title: q.Source.Title,
		Actor: q.Trigger.Actor.ID, State: listState(s), Desired: s.Desired, Outcome: s.Outcome,
		Round: s.Round(), Created: s.CreatedAt,
	}
	if s.Concluded() && len(s.Rounds) > 0 {
		row.Concluded = s.Rounds[len(s.Rounds)-1].ConcludedAt
	}
	return row
}

// listState is the one word of a list: queued, running, attention or concluded.
func listState(s *run.State) string {
	switch {
	case s.Concluded():
		return "concluded"
	case run.Attention(s):
		return "attention"
	}
	for _, j := range s.Jobs {
		if j.State == run.StateActive || (j.State == run.StateConcluded && j.Round == s.Round()) {
			return "running"
		}
	}
	return "queued"
}

// Summary is a list row in the API's form.
func Summary(r *store.RunRow) *fairleadv1.RunSummary {
	return &fairleadv1.RunSummary{
		Run: string(r.Run), Number: r.Number, Repository: string(r.Repository),
		RepositoryName: r.RepositoryName, Workflow: r.Workflow, WorkflowName: r.WorkflowName,
		Event: r.Event, Ref: r.Ref, Commit: r.Commit, Title: r.Title, Actor: r.Actor,
		State: r.State, Desired: string(r.Desired), Outcome: string(r.Outcome),
		Round: int32(r.Round), Created: Stamp(r.Created), Concluded: Stamp(r.Concluded),
	}
}

// Run is the whole run as the API shows it. Events may be nil: then there is no timeline
// and the waterfall has no history.
func Run(s *run.State, h engine.History, partition domain.PartitionID) *fairleadv1.Run {
	row := RunRow(s, engine.Place{Partition: partition, Tenant: s.Request.Tenant, Stream: s.Request.Run.Stream(),
		Version: h.Version})
	out := &fairleadv1.Run{
		Run: string(s.Request.Run), Summary: Summary(&row), Outcome: string(s.Outcome),
		Reason: runReason(s), Desired: string(s.Desired), Tier: string(s.Request.Tier),
		Class: string(s.Request.Class), PlanDigest: string(s.Request.Plan),
		SnapshotDigest: string(s.Request.Snapshot), Version: h.Version, Attention: run.Attention(s),
		Diagnostics: s.Request.Invalid,
	}
	segments := waterfall(s, h.Events)
	waits := map[int][]run.Wait{}
	for _, w := range run.Waits(s) {
		waits[w.Job] = append(waits[w.Job], w)
	}
	for i := range s.Jobs {
		j := job(s, i, waits[i])
		j.Segments = segments[i]
		if h.Events != nil && i < storiesMax {
			j.Story = storyOf(s, i)
		}
		out.Jobs = append(out.Jobs, j)
	}
	for i := range s.Rounds {
		out.Rounds = append(out.Rounds, round(&s.Rounds[i]))
	}
	out.Timeline = Timeline(s, h.Events)
	return out
}

func runReason(s *run.State) string {
	if s.Concluded() {
		return s.Sentence(s.Reason)
	}
	if run.Attention(s) {
		return "An attempt has no known result and waits for a person."
	}
	if s.Desired == domain.DesiredCancel {
		return "Cancellation was requested; what runs is being stopped."
	}
	counts := map[run.JobState]int{}
	for _, j := range s.Jobs {
		counts[j.State]++
	}
	var parts []string
	for _, st := range []run.JobState{run.StateActive, run.StateReady, run.StateHeld, run.StateWaiting} {
		if n := counts[st]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, st))
		}
	}
	return "Jobs: " + strings.Join(parts, ", ") + fmt.Sprintf(", %d concluded.", counts[run.StateConcluded])
}

func round(r *run.Round) *fairleadv1.Round {
	mode := r.Mode
	if mode == "" {
		mode = "first"
	}
	return &fairleadv1.Round{Number: int32(r.Number), Outcome: string(r.Outcome), Opened: Stamp(r.OpenedAt),
		Concluded: Stamp(r.ConcludedAt), By: actor(r.Actor), Mode: mode}
}

func actor(a domain.Actor) string {
	if a.ID == "" {
		return a.Kind
	}
	return a.Kind + " " + a.ID
}

func job(s *run.State, i int, waits []run.Wait) *fairleadv1.Job {
	j, skel := s.Jobs[i], s.Skeleton(i)
	out := &fairleadv1.Job{
		Id: string(s.JobID(i)), Index: int32(i), Key: skel.Key, Name: skel.Name,
		State: string(j.State), Outcome: string(j.Outcome), Reason: s.Sentence(j.Reason),
		ReasonCode: string(j.Reason.Code), RunsOn: skel.RunsOn, Effectful: skel.Effectful,
		Ready: Stamp(j.ReadyAt), Round: int32(j.Round), Steps: s.Steps(i),
	}
	if of, ok := s.GroupOf(i); ok {
		out.LegOf = s.Skeleton(of).Key
	}
	if c, ok := s.CallerOf(i); ok {
		out.In = s.Skeleton(c).Key
	}
	for _, l := range j.Legs {
		out.Legs = append(out.Legs, s.Skeleton(l).Key)
	}
	for _, o := range s.Outputs(i) {
		out.Outputs = append(out.Outputs, &fairleadv1.Output{Name: o.Name, Value: o.Value,
			Bytes: max(o.Size, int64(len(o.Value)))})
	}
	for _, n := range s.Needs(i) {
		out.Needs = append(out.Needs, s.Skeleton(n).Key)
	}
	if j.State == run.StateConcluded {
		out.Concluded = Stamp(j.Since)
	}
	var ends []string
	for _, w := range waits {
		if w.Reason.Code != run.ReasonLogUnsealed {
			for _, e := range endings(s, w) {
				ends = append(ends, e.Text)
			}
		}
	}
	out.EndsBy = strings.Join(ends, "; ")
	for n := range j.Attempts {
		out.Attempts = append(out.Attempts, attempt(s, i, &j.Attempts[n]))
	}
	return out
}

func attempt(s *run.State, index int, a *run.Attempt) *fairleadv1.Attempt {
	out := &fairleadv1.Attempt{
		Id: string(s.AttemptID(index, a.Number)), Number: int32(a.Number), Round: int32(a.Round), Epoch: a.Epoch,
		Requested: requested(s, a), Observed: &fairleadv1.Observation{State: string(a.Observed), At: Stamp(a.ObservedAt)},
		Outcome: string(a.Outcome), FailureClass: string(a.Class), SideEffect: string(a.Effect),
		Uncertain: a.Uncertain && a.Outcome == domain.OutcomeNone, Runner: string(a.Runner), RunnerName: a.RunnerName,
		Pool: string(a.Pool), Started: Stamp(a.LeasedAt), Concluded: Stamp(a.ConcludedAt), Message: a.Message,
		Refused: int32(min(a.Refused, 1<<30)), Conflicts: int32(len(a.Conflicts)),
		Until: Stamp(a.Until), AbandonBy: Stamp(a.AbandonBy),
	}
	if out.Message == "" && a.Outcome != domain.OutcomeNone && a.Outcome != domain.OutcomeSuccess {
		out.Message = s.Sentence(a.Reason)
	}
	out.NextStep = nextStep(a)
	names := s.Steps(index)
	for i := range a.Steps {
		out.Steps = append(out.Steps, step(&a.Steps[i], names))
	}
	if a.Log != nil {
		out.Log = &fairleadv1.LogInfo{Sealed: true, Bytes: a.Log.Bytes, Lines: a.Log.Lines,
			Truncated: a.Log.Truncated, Gaps: int32(a.Log.Gaps)}
	} else {
		out.Log = &fairleadv1.LogInfo{Sealed: a.Declined} // such a one never began
	}
	return out
}

func requested(s *run.State, a *run.Attempt) *fairleadv1.Requested {
	if a.Desired != domain.DesiredCancel {
		return &fairleadv1.Requested{Desired: string(domain.DesiredRun), At: Stamp(a.LeasedAt),
			By: actor(s.Request.Trigger.Actor)}
	}
	out := &fairleadv1.Requested{Desired: string(a.Desired), At: Stamp(a.StopAt), Reason: s.Sentence(a.Stop)}
	if a.Stop.Actor != nil {
		out.By = actor(*a.Stop.Actor)
	}
	return out
}

// nextStep says what can be done about an attempt whose result is not known.
func nextStep(a *run.Attempt) string {
	switch {
	case !a.Uncertain || a.Outcome != domain.OutcomeNone:
		return ""
	case a.Held:
		return "It may have changed the outside world. Look at the target, then settle the attempt: " +
			"fairlead settle, or the form on this page."
	}
	return "Its runner may still come back. At " + Stamp(a.SettleAt) +
		" nobody can be acting on it any more, and what follows is decided then."
}

func step(st *run.Step, names []string) *fairleadv1.Step {
	name := fmt.Sprintf("step %d", st.Index+1)
	if st.Index < len(names) && names[st.Index] != "" {
		name = names[st.Index]
	}
	return &fairleadv1.Step{Index: int32(st.Index), Name: name, Outcome: string(st.Outcome),
		Conclusion: string(st.Conclusion), ExitCode: int32(st.ExitCode), Started: Stamp(st.Started),
		Finished: Stamp(st.Finished), Message: st.Message}
}

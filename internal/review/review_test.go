package review

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/order"
	"github.com/fairlead-ci/fairlead/internal/reactor"
	"github.com/fairlead-ci/fairlead/internal/testkit/yard"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
	"github.com/fairlead-ci/fairlead/internal/workflow"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
	"github.com/fairlead-ci/fairlead/internal/workflow/replay"
)

// text has conditions of all kinds, a matrix that only a result tells, and outputs.
const text = `on:
  workflow_dispatch:
    inputs:
      level: {type: number, default: 3}
jobs:
  list:
    runs-on: linux
    outputs: {names: x, big: x}
    steps: [checkout]
  each:
    needs: list
    runs-on: linux
    strategy: {matrix: {name: '${{ fromJSON(needs.list.outputs.names) }}'}, max-parallel: 1}
    steps: [checkout]
  never:
    needs: list
    if: ${{ needs.list.outputs.big == 'small' || github.ref == 'refs/heads/none' }}
    runs-on: linux
    steps: [checkout]
  cleanup:
    needs: [each, never]
    if: always() && inputs.level == 3
    runs-on: linux
    steps: [checkout]
  failed:
    needs: each
    if: failure()
    runs-on: linux
    steps: [checkout]
`

// composed has a concurrency group of the run, one of a job that a result tells, and a called workflow
// whose inputs and outputs are told by results.
const composed = `on: {workflow_dispatch: {inputs: {level: {type: number, default: 3}}}}
concurrency: {group: 'ci-${{ github.ref }}-${{ inputs.level }}', cancel-in-progress: true}
jobs:
  list: {runs-on: linux, outputs: {names: x, big: x}, steps: [checkout]}
  ship:
    needs: list
    uses: ./.github/workflows/ship.yml
    with: {names: '${{ needs.list.outputs.names }}', big: '${{ needs.list.outputs.big }}'}
  last:
    needs: [list, ship]
    if: needs.ship.outputs.first == 'a'
    runs-on: linux
    concurrency: 'last-${{ needs.ship.outputs.first }}'
    steps: [checkout]
`

const ship = `on:
  workflow_call:
    inputs: {names: {type: string}, big: {type: string}}
    outputs:
      first: {value: '${{ fromJSON(inputs.names)[0] }}'}
      big: {value: '${{ inputs.big }}'}
jobs:
  go: {runs-on: linux, if: "startsWith(inputs.big, 'x')", steps: [checkout]}
  never: {runs-on: linux, if: inputs.names == 'none', steps: [checkout]}
`

// world is a small server whose runs can be driven to their end.
type world struct {
	*yard.World
	*Reviewer
	n     int
	calls map[string]string // workflows that may be called, by path
}

func onSQLite(t *testing.T, test func(w *world)) {
	yard.OnSQLite(t, func(_ *testing.T, y *yard.World) { test(&world{World: y, Reviewer: New(y.Engine, y.Blobs)}) })
}

func (w *world) request(text, level string, change func(*snapshot.Snapshot)) domain.RunID {
	w.T.Helper()
	w.n++
	id := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{2, 15: byte(w.n)}))
	s := &snapshot.Snapshot{Version: snapshot.Version, Evaluator: plan.Evaluator, Tenant: yard.Tenant,
		Repository: yard.Repo, RepositoryName: "app", Source: snapshot.Source{Commit: strings.Repeat("a", 40),
			Ref: "refs/heads/main"}, Workflow: snapshot.Workflow{Path: "ci.yml", Name: "ci.yml", Digest: w.Put(text)},
		Tier: domain.TierTrusted, Class: domain.ClassInteractive, Trigger: snapshot.Trigger{Event: "workflow_dispatch",
			Actor: w.Cause().Actor}, Github: json.RawMessage(`{"ref":"refs/heads/main","actor":"ann"}`)}
	if level != "" {
		s.Given = []snapshot.Binding{{Name: "level", Value: level}}
	}
	p, list := workflow.Compile(workflow.Source{Path: "ci.yml", Text: []byte(text)}, workflow.Inputs{
		Event: "workflow_dispatch", Ref: s.Source.Ref, SHA: s.Source.Commit, Repository: "app", Actor: "ann",
		Dispatch: map[string]string{"level": "3"}, Components: w.components(s)}, workflow.Limits{})
	q := run.Request{Run: id, Tenant: yard.Tenant, Repository: yard.Repo, RepositoryName: "app", WorkflowPath: "ci.yml",
		WorkflowName: "ci.yml", Trigger: run.Trigger{Event: "workflow_dispatch", Key: string(id), Actor: w.Cause().Actor},
		Source: run.Source{Commit: s.Source.Commit, Ref: s.Source.Ref}, Tier: s.Tier, Class: s.Class,
		Inputs: w.Put(`{"level":3}`)}
	if p != nil {
		s.Inputs = p.Inputs
		q.Plan, q.Skeleton = w.Put(string(p.Encode())), run.SkeletonOf(p)
		if p.Concurrency != nil {
			got, err := workflow.GroupOfRun(p.Concurrency, s.Github, []byte(`{"level":3}`))
			if err != nil {
				w.T.Fatal(err)
			}
			q.Concurrency = &run.Concurrency{Group: got.Group, Cancel: got.Cancel, Max: got.Max}
		}
	} else {
		q.Invalid = []string{list[0].String()}
	}
	if change != nil {
		change(s)
	}
	q.Snapshot = w.Put(string(s.Encode()))
	w.Submit(yard.Home, id.Stream(), run.RequestRun{Cause: w.Cause(), Request: q})
	return id
}

func (w *world) components(s *snapshot.Snapshot) workflow.Components {
	out := workflow.Components{}
	for path, text := range w.calls {
		r := workflow.Reference{Path: path}
		out[r.String()] = workflow.Component{Reference: r, File: path, Text: []byte(text)}
		s.Components = append(s.Components, snapshot.Component{Name: r.String(), File: path, Text: w.Put(text)})
	}
	return out
}

// admit lets everybody into the group that asks for a place.
func (w *world) admit(s *run.State) {
	for j := group.Whole; j < len(s.Jobs); j++ {
		if p := s.PlaceOf(j); p != nil && !p.Admitted {
			w.Submit(yard.Home, s.Request.Run.Stream(), run.RecordPlace{Cause: w.Cause(), Job: j, Round: p.Round, Generation: 1,
				Phase: run.PlaceAdmitted})
		}
	}
}

// drive executes all jobs; those that are named fail.
func (w *world) drive(id domain.RunID, fail ...string) *run.State {
	w.T.Helper()
	answers := &reactor.Evaluator{Engine: w.Engine, Read: w.Engine, Contexts: &order.Frozen{Blobs: w.Blobs},
		Plans: &order.Plans{Blobs: w.Blobs}, Blobs: w.Blobs}
	for range 100 {
		h, err := w.Engine.Read(w.T.Context(), yard.Tenant, id.Stream(), true)
		if err != nil {
			w.T.Fatal(err)
		}
		s := h.State.(*run.State)
		if s.Concluded() {
			return s
		}
		w.admit(s)
		for _, j := range run.ReadyJobs(s) {
			w.execute(s, j, slices.Contains(fail, s.Skeleton(j).Key))
		}
		row := engine.Committed{Partition: yard.Home, Tenant: yard.Tenant, Stream: id.Stream(), First: 1}
		for _, rec := range h.Events {
			row.Events = append(row.Events, rec.Event)
		}
		if err := answers.React(w.T.Context(), row); err != nil {
			w.T.Fatal(err)
		}
	}
	w.T.Fatal("the run does not end")
	return nil
}

func (w *world) execute(s *run.State, j int, fail bool) {
	w.T.Helper()
	now := w.Engine.Now()
	ack := w.Submit(yard.Home, s.Request.Run.Stream(), run.GrantLease{Cause: w.Cause(), Job: s.JobID(j), Runner: "rnr_1",
		Pool: "default", Slot: domain.SlotToken(fmt.Sprintf("rnr_1/0/%s/%d", s.JobID(j), len(s.Jobs[j].Attempts))),
		Tiers: []domain.Tier{domain.TierTrusted}, Until: now.Add(time.Hour), AbandonBy: now.Add(2 * time.Hour)})
	reply := ack.Reply.(run.LeaseReply)
	report := run.ReportResult{Cause: w.Cause(), Attempt: reply.Attempt, Epoch: reply.Epoch,
		Digest: domain.DigestOf([]byte(reply.Attempt)), Outcome: domain.OutcomeSuccess, Effect: domain.EffectNone}
	if fail {
		report.Outcome, report.Class = domain.OutcomeFailure, domain.FailureUserCode
	}
	if s.Skeleton(j).Key == "list" {
		big := strings.Repeat("x", 100_000)
		report.Outputs = []run.Output{{Name: "names", Value: `["a","b"]`},
			{Name: "big", Digest: w.Put(big), Size: int64(len(big))}}
	}
	w.Submit(yard.Home, s.Request.Run.Stream(), report)
}

func (w *world) replayed(id domain.RunID) replay.Result {
	w.T.Helper()
	_, result, err := w.Replay(w.T.Context(), yard.Tenant, id)
	if err != nil {
		w.T.Fatal(err)
	}
	return result
}

// told is a finding in one line.
func told(r replay.Result) string {
	out := []string{string(r.Answer)}
	for _, f := range r.Findings {
		out = append(out, fmt.Sprintf("%s of %d: %s, not %s", f.What, f.Job, f.Recorded, f.Now))
	}
	return strings.Join(out, "; ")
}

// Promises: [REPLAY-1].
func TestARunIsVerifiedAlsoWhenArchived(t *testing.T) {
	onSQLite(t, func(w *world) {
		id := w.request(text, "3", nil)
		s := w.drive(id)
		if s.Outcome != domain.OutcomeSuccess || len(s.Jobs) != 7 {
			t.Fatalf("%s with %d jobs", s.Outcome, len(s.Jobs))
		}
		w.Submit(yard.Home, id.Stream(), run.Rerun{Cause: w.Cause(), Mode: run.RerunAll})
		w.drive(id, "each.1")
		before := w.replayed(id)
		if told(before) != "verified" || before.Decisions < 35 {
			t.Errorf("%s after %d decisions: %s", told(before), before.Decisions, before.Sentence)
		}
		for range 3 { // further history, because the last batches stay
			w.request(text, "3", nil)
		}
		if len(w.Archive()) == 0 {
			t.Fatal("nothing was archived")
		}
		if after := w.replayed(id); told(after) != "verified" || after.Decisions != before.Decisions {
			t.Errorf("archived: %s after %d decisions", told(after), after.Decisions)
		}
	})
}

// The inputs and outputs of a call and the names of groups are decisions as conditions are.
// Promises: [REPLAY-1].
func TestCallsAndGroupsAreReplayed(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.calls = map[string]string{".github/workflows/ship.yml": ship}
		id := w.request(composed, "3", nil)
		if s := w.drive(id); s.Outcome != domain.OutcomeSuccess || len(s.Outputs(1)) != 2 {
			t.Fatalf("%s with %+v", s.Outcome, s.Outputs(1))
		}
		h, err := w.Engine.Read(t.Context(), yard.Tenant, id.Stream(), true)
		if err != nil {
			t.Fatal(err)
		}
		honest := w.replayed(id)
		if told(honest) != "verified" || honest.Decisions < 28 {
			t.Errorf("%s after %d decisions", told(honest), honest.Decisions)
		}
		changed := 0
		for n, rec := range h.Events {
			want := ""
			lie := rec.Event
			switch e := rec.Event.(type) {
			case *run.CallOpened:
				other := *e
				other.Inputs = run.CallInputs{Value: `{"names":"[]"}`}
				lie, want = &other, replay.WhatCall
			case *run.GroupAsked:
				other := *e
				other.Concurrency.Group = "another"
				lie, want = &other, replay.WhatGroup
			case *run.JobConcluded:
				if len(e.Outputs) > 0 {
					other := *e
					other.Outputs = []run.Output{{Name: "first", Value: "b"}}
					lie, want = &other, replay.WhatCall
				}
			}
			if want == "" {
				continue
			}
			changed++
			var events []run.Event
			for i, r := range h.Events {
				if e := r.Event.(run.Event); i != n {
					events = append(events, e)
				} else {
					events = append(events, lie.(run.Event))
				}
			}
			s := h.State.(*run.State)
			result, err := w.replay(t.Context(), yard.Tenant, s, events)
			if err != nil || result.Answer != replay.Differs || result.Findings[0].What != want {
				t.Errorf("%s changed: %s, %v", lie.(run.Event).Name(), told(result), err)
			}
		}
		if changed != 4 {
			t.Errorf("%d events were changed", changed)
		}
	})
}

// The jobs of a call that never began were not judged, then or now.
// Promises: [REPLAY-1].
func TestACallThatNeverBeganIsReplayed(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.calls = map[string]string{".github/workflows/ship.yml": `on: {workflow_call: {inputs: {n: {type: number}}}}
jobs:
  go: {runs-on: linux, if: inputs.n > 1, steps: [checkout]}
  after: {needs: go, runs-on: linux, if: always(), steps: [checkout]}
`}
		id := w.request(`on: {workflow_dispatch: {inputs: {level: {type: number, default: 3}}}}
jobs:
  list: {runs-on: linux, outputs: {names: x, big: x}, steps: [checkout]}
  ship: {needs: list, uses: ./.github/workflows/ship.yml, with: {n: '${{ needs.list.outputs.names }}'}}
  again: {needs: ship, uses: ./.github/workflows/ship.yml, with: {n: 2}}
`, "3", nil)
		if s := w.drive(id); s.Outcome != domain.OutcomeFailure {
			t.Fatalf("%s", s.Outcome)
		}
		if honest := w.replayed(id); told(honest) != "verified" {
			t.Errorf("%s", told(honest))
		}
	})
}

// Each event is changed in what it decided, and the replay names that decision.
// Promises: [REPLAY-1].
func TestATamperedHistoryIsFound(t *testing.T) {
	onSQLite(t, func(w *world) {
		id := w.request(text, "3", nil)
		w.drive(id)
		for name, one := range map[string]struct {
			change func(run.Event) run.Event
			want   string
		}{
			"condition": {func(e run.Event) run.Event {
				if e, ok := e.(*run.EvaluationRecorded); ok && e.Job == 2 {
					c := *e
					c.Result = true
					return &c
				}
				return e
			}, "differs; condition of 2: true, not false"},
			"error": {func(e run.Event) run.Event {
				if e, ok := e.(*run.EvaluationRecorded); ok && e.Job == 2 {
					c := *e
					c.Error = "no"
					return &c
				}
				return e
			}, "differs; condition of 2: no value: no, not false"},
			"expression": {func(e run.Event) run.Event {
				if e, ok := e.(*run.EvaluationAsked); ok && e.Job == 3 {
					c := *e
					c.Expression = "true"
					return &c
				}
				return e
			}, "differs; expression of 3: true, not always() && inputs.level == 3"},
			"inputs": {func(e run.Event) run.Event {
				if e, ok := e.(*run.AttemptConcluded); ok && e.Job == 0 {
					c := *e
					c.Outputs = slices.Clone(e.Outputs)
					c.Outputs[0].Value = `["a","c"]`
					return &c
				}
				return e
			}, "differs; inputs of 1: sha256:"},
			"matrix": {func(e run.Event) run.Event {
				if e, ok := e.(*run.MatrixExpanded); ok {
					c := *e
					c.MaxParallel = 2
					return &c
				}
				return e
			}, "differs; matrix of 1: 2 legs (fail-fast true, max-parallel 2)"},
			"core": {func(e run.Event) run.Event {
				if e, ok := e.(*run.JobConcluded); ok && e.Job == 4 {
					return &run.JobReady{OfJob: e.OfJob}
				}
				return e
			}, "differs; condition of 4: true, not false"},
			"jobs": {func(e run.Event) run.Event {
				if e, ok := e.(*run.RunRequested); ok {
					c := *e
					c.Request.Skeleton = slices.Clone(e.Request.Skeleton)
					c.Request.Skeleton[3].RunsOn = []string{"windows"}
					return &c
				}
				return e
			}, "differs; jobs of -1: job cleanup"},
			"commit": {func(e run.Event) run.Event {
				if e, ok := e.(*run.RunRequested); ok {
					c := *e
					c.Request.Tier = domain.TierProtected
					return &c
				}
				return e
			}, "differs; source of -1: tier protected, not tier trusted"},
		} {
			s, events, err := w.history(t.Context(), yard.Tenant, id)
			if err != nil {
				t.Fatal(err)
			}
			for i := range events {
				events[i] = one.change(events[i])
			}
			got, err := w.replay(t.Context(), yard.Tenant, s, events)
			if err != nil || !strings.HasPrefix(told(got), one.want) {
				t.Errorf("%s: %s (%v)", name, told(got), err)
			}
		}
	})
}

func TestAnotherPlanIsNamedByItsJobs(t *testing.T) {
	onSQLite(t, func(w *world) {
		id := w.request(text, "3", func(s *snapshot.Snapshot) {
			s.Workflow.Digest = w.Put(strings.Replace(text, "always() && ", "success() && ", 1))
		})
		w.drive(id)
		got := w.replayed(id)
		if !strings.HasPrefix(told(got), "differs; plan of -1: job cleanup: if = always() && inputs.level == 3, not "+
			"job cleanup: if = success() && inputs.level == 3") || got.Stored == got.Now {
			t.Error(told(got))
		}
		broken := w.request(text, "3", func(s *snapshot.Snapshot) { s.Workflow.Digest = w.Put("on: push\njobs: []\n") })
		if got := w.replayed(broken); !strings.Contains(told(got), "does not compile") {
			t.Error(told(got))
		}
	})
}

// Promises: [REPLAY-2].
func TestWhatCanNotBeTold(t *testing.T) {
	onSQLite(t, func(w *world) {
		future := w.request(text, "3", func(s *snapshot.Snapshot) { s.Evaluator = 99 })
		if got := w.replayed(future); got.Answer != replay.Unsupported || got.Evaluator != 99 || got.Use == "" {
			t.Errorf("%s: %s", told(got), got.Sentence)
		}
		old := w.request(text, "3", func(s *snapshot.Snapshot) { s.Evaluator = 1 })
		if got := w.replayed(old); got.Answer != replay.Unsupported || !strings.Contains(got.Use, "0121") {
			t.Errorf("%s: %s", told(got), got.Use)
		}
		lost := w.request(text, "3", nil)
		s := w.drive(lost)
		remove := func(digest domain.Digest) {
			if err := w.Blobs.Delete(t.Context(), blob.ObjectKey(yard.Tenant, digest)); err != nil {
				t.Fatal(err)
			}
		}
		remove(s.Request.Plan)
		if got := w.replayed(lost); told(got) != "verified" {
			t.Errorf("what compiles to the digest of history is the plan: %s", told(got))
		}
		remove(s.Outputs(0)[1].Digest)
		if got := w.replayed(lost); got.Answer != replay.Unknown || len(got.Findings) == 0 {
			t.Errorf("%s: %s", told(got), got.Sentence)
		}
		remove(s.Request.Snapshot)
		if got := w.replayed(lost); got.Answer != replay.Unknown || !strings.Contains(got.Sentence, "is missing") {
			t.Errorf("%s: %s", told(got), got.Sentence)
		}
		invalid := w.request("on: workflow_dispatch\njobs: []\n", "", nil)
		if got := w.replayed(invalid); told(got) != "verified" {
			t.Errorf("%s: %s", told(got), got.Sentence)
		}
		none := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{9}))
		for _, id := range []domain.RunID{"", "run_x", "../etc", none} {
			_, _, err := w.Replay(t.Context(), yard.Tenant, id)
			if no, ok := domain.AsRejection(err); !ok || no.Code != domain.CodeNotFound {
				t.Errorf("%q: %v", id, err)
			}
		}
		if _, _, err := w.Replay(t.Context(), "tnt_other", lost); err == nil {
			t.Error("another tenant's run was replayed")
		}
	})
}

func TestTwoRunsAreCompared(t *testing.T) {
	onSQLite(t, func(w *world) {
		a, b := w.request(text, "3", nil), w.request(strings.Replace(text, "max-parallel: 1", "max-parallel: 2", 1), "3",
			func(s *snapshot.Snapshot) { s.Github = json.RawMessage(`{"ref":"refs/heads/main","actor":"bob"}`) })
		w.drive(a)
		w.drive(b, "list")
		c, err := w.Diff(t.Context(), yard.Tenant, a, b)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range c.Differences {
			if d.Name != "text" {
				got = append(got, fmt.Sprintf("%s %s %s %s>%s", d.Part, d.Kind, d.Name, d.Before, d.After))
			}
		}
		for _, want := range []string{"event changed actor ann>bob", "plan changed job each: strategy.later.max_parallel 1>2",
			"outcome changed run success>failure", "outcome changed job list success>failure",
			"outcome removed job each.1 success>"} {
			if !slices.Contains(got, want) {
				t.Errorf("no %q in %q", want, got)
			}
		}
		if len(c.Lines) != 10 || len(c.Notes) != 0 {
			t.Errorf("lines %v, notes %q", c.Lines, c.Notes)
		}
		c, err = w.Diff(t.Context(), yard.Tenant, a, a)
		if err != nil || len(c.Differences)+len(c.Lines)+len(c.Notes) > 0 {
			t.Errorf("a run differs from itself: %+v (%v)", c, err)
		}
	})
}

// Package replay compiles a run's workflow again from what the run rests on, evaluates what its
// history decided again, and says whether both come to the same.
//
// It is deliberately without storage and without an evaluator of its own: it gets bytes, events and
// the functions that answered when the run was made. What the steps of a job did is not replayed:
// their outputs are taken as history has them.
//
// Invariants: the same bytes and events give the same result; what is missing or can't be read is
// never a difference; decisions are evaluated from the stored plan, whatever the workflow compiles
// to now; the work is bounded.
//
// Read next: internal/workflow/replay/decide.go, internal/review/review.go
package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
	"github.com/fairlead-ci/fairlead/internal/workflow"
	"github.com/fairlead-ci/fairlead/internal/workflow/compare"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// Answer is what a replay comes to.
type Answer string

// Answers.
const (
	Verified    Answer = "verified"    // the same plan, and the same of every decision
	Differs     Answer = "differs"     // something comes out otherwise
	Unsupported Answer = "unsupported" // this program can't tell, another one can
	Unknown     Answer = "unknown"     // something that it takes is missing or damaged
)

// Bounds, and what happens at each: the rest is not examined, and the answer says so.
const (
	decisionsMax = 20_000 // evaluated again
	findingsMax  = 100    // listed; further ones are counted
	// comparedMax bytes of a plan are compared key by key; of a larger one the digests are shown.
	comparedMax = 16 << 20
)

// What a finding is about.
const (
	WhatSource     = "source"     // what the snapshot says of the run
	WhatPlan       = "plan"       // what the workflow compiles to
	WhatJobs       = "jobs"       // what the core was told of the plan's jobs
	WhatExpression = "expression" // what a job waited for the value of
	WhatInputs     = "inputs"     // what that value was computed from
	WhatCondition  = "condition"
	WhatMatrix     = "matrix"
	WhatCall       = "call"        // the inputs or outputs of a called workflow
	WhatGroup      = "concurrency" // the name of a concurrency group
)

// Finding is something that does not come out as it is recorded, or that can't be told.
type Finding struct {
	Answer        Answer // Differs or Unknown
	What          string
	Job           int // -1: of the run
	Round         int
	Event         string
	Version       uint64
	Recorded, Now string // shortened; Now of an unknown one says why
}

// Result is the whole answer.
type Result struct {
	Answer    Answer
	Sentence  string
	Evaluator int           // of the run; 0: not known
	Use       string        // of Unsupported: which release to ask
	Stored    domain.Digest // of the plan
	Now       domain.Digest // what the workflow compiles to
	Decisions int           // that were evaluated again
	Findings  []Finding
	More      int // further findings
}

// Evaluator answers what the core does not answer itself, from recorded inputs alone.
type Evaluator struct {
	// Condition gives the value of a condition of a job whose needs are committed. problem is a
	// sentence when it has none; unknown says what is missing to tell.
	Condition func(s *run.State, job int, text string) (holds bool, problem, unknown string)
	// Matrix expands a matrix that only results tell.
	Matrix func(s *run.State, job int, p *plan.Plan) (c run.RecordMatrix, unknown string)
	// Call evaluates the inputs or the outputs of a call; what is too long for an event is named by its
	// digest.
	Call func(s *run.State, job int, what string, p *plan.Plan) (c run.RecordCall, unknown string)
	// Concurrency names the concurrency group of a job, and Group that of the run.
	Concurrency func(s *run.State, job int, p *plan.Plan) (c run.RecordConcurrency, unknown string)
	Group       func(p *plan.Plan) (c run.Concurrency, problem, unknown string)
}

// Input is everything that a replay takes.
type Input struct {
	Snapshot   []byte
	Workflow   []byte // the file that Snapshot names
	Components workflow.Components
	Plan       []byte // nil: it is missing, or the run has none
	PlanLost   string // why Plan is nil although the run has one
	Events     []run.Event
	Evaluator  Evaluator
	// Stop is asked between decisions; nil: never.
	Stop func() bool
}

// releases says who can replay what this program can't. It grows with plan.Evaluator.
var releases = map[int]string{
	1: "a build from before the decision 0121 (evaluator 2)",
	2: "a build from before the decision 0130 (evaluator 3)",
}

// Open reads a snapshot. When it can't be replayed here, the result says why and the snapshot is
// nil.
func Open(data []byte) (*snapshot.Snapshot, *Result) {
	s, err := snapshot.Decode(data)
	if err != nil {
		// Who wrote it may still be told from it, whatever else it has.
		var head struct{ Version, Evaluator int }
		if json.Unmarshal(data, &head) != nil || head.Version <= snapshot.Version && head.Evaluator <= plan.Evaluator {
			return nil, &Result{Answer: Unsupported, Evaluator: head.Evaluator, Use: "the release that wrote it",
				Sentence: "The run's snapshot can't be read by this server: " + compare.Shorten(err.Error()) + "."}
		}
		return nil, newer(head.Evaluator, fmt.Sprintf("snapshot form %d", head.Version))
	}
	switch {
	case s.Evaluator > plan.Evaluator:
		return nil, newer(s.Evaluator, fmt.Sprintf("evaluator %d", s.Evaluator))
	case s.Evaluator < plan.Evaluator:
		use, known := releases[s.Evaluator]
		if !known {
			use = fmt.Sprintf("a release with evaluator %d", s.Evaluator)
		}
		return nil, &Result{Answer: Unsupported, Evaluator: s.Evaluator, Use: use, Sentence: fmt.Sprintf(
			"The run was made with evaluator %d, and this server has evaluator %d, by which the same text may mean "+
				"something else. Ask %s.", s.Evaluator, plan.Evaluator, use)}
	}
	return s, nil
}

func newer(evaluator int, has string) *Result {
	use := fmt.Sprintf("a release with evaluator %d", evaluator)
	return &Result{Answer: Unsupported, Evaluator: evaluator, Use: use, Sentence: fmt.Sprintf(
		"The run was made by a newer release (%s), and this server has evaluator %d. Ask %s.", has, plan.Evaluator, use)}
}

// Run replays a run.
//
// Preconditions: Events is the whole history, of which the run's state can be made.
// Trust: the bytes are objects of the run; what is in them may come from anybody.
func Run(in Input) Result {
	frozen, refused := Open(in.Snapshot)
	if refused != nil {
		return *refused
	}
	if len(in.Events) == 0 {
		return Result{Answer: Unknown, Evaluator: frozen.Evaluator, Sentence: "The run has no history."}
	}
	first, ok := in.Events[0].(*run.RunRequested)
	if !ok {
		return Result{Answer: Unknown, Evaluator: frozen.Evaluator, Sentence: "The run's history does not begin with it."}
	}
	w := &walk{in: in, s: run.New(), asked: map[int]asked{}, judged: map[int]int{},
		result: Result{Evaluator: frozen.Evaluator, Stored: first.Request.Plan}}
	w.source(frozen, &first.Request)
	if !w.compile(frozen, &first.Request) {
		return w.result
	}
	w.history()
	w.conclude()
	return w.result
}

// inputsOf is what the workflow was compiled with. Where a snapshot has components, whoever reads
// the objects that it names gives what they hold.
func inputsOf(s *snapshot.Snapshot, components workflow.Components) workflow.Inputs {
	in := workflow.Inputs{Event: s.Trigger.Event, Ref: s.Source.Ref, SHA: s.Source.Commit,
		Repository: s.RepositoryName, Actor: s.Trigger.Actor.ID, Components: components}
	if len(s.Given) > 0 {
		in.Dispatch = make(map[string]string, len(s.Given))
		for _, g := range s.Given {
			in.Dispatch[g.Name] = g.Value
		}
	}
	return in
}

// source compares what the snapshot says of the run with what its history says.
func (w *walk) source(s *snapshot.Snapshot, q *run.Request) {
	ref := s.Source.Ref
	if s.Source.Captured {
		ref = "" // history shows none
	}
	for _, one := range []struct{ name, recorded, now string }{
		{"snapshot", string(q.Snapshot), string(domain.DigestOf(w.in.Snapshot))},
		{"workflow file", string(s.Workflow.Digest), string(domain.DigestOf(w.in.Workflow))},
		{"tenant", string(q.Tenant), string(s.Tenant)}, {"repository", string(q.Repository), string(s.Repository)},
		{"repository name", q.RepositoryName, s.RepositoryName}, {"commit", q.Source.Commit, s.Source.Commit},
		{"ref", q.Source.Ref, ref}, {"workflow", q.WorkflowPath, s.Workflow.Path},
		{"event", q.Trigger.Event, s.Trigger.Event}, {"tier", string(q.Tier), string(s.Tier)},
		{"class", string(q.Class), string(s.Class)},
	} {
		w.result.Decisions++
		if one.recorded != one.now {
			w.find(Finding{Answer: Differs, What: WhatSource, Job: -1, Event: "RunRequested", Version: 1,
				Recorded: one.name + " " + one.recorded, Now: one.name + " " + one.now})
		}
	}
}

// compile makes the plan again and takes the stored one for what follows. It reports whether
// anything follows.
func (w *walk) compile(s *snapshot.Snapshot, q *run.Request) bool {
	made, found := workflow.Compile(workflow.Source{Path: s.Workflow.Path, Text: w.in.Workflow},
		inputsOf(s, w.in.Components), workflow.DefaultLimits())
	if made != nil {
		w.result.Now = made.Digest()
	}
	w.result.Decisions++
	if q.Plan == "" {
		return w.withoutPlan(made, q)
	}
	finding := Finding{Answer: Differs, What: WhatPlan, Job: -1, Event: "RunRequested", Version: 1,
		Recorded: string(q.Plan)}
	if w.in.Plan != nil {
		stored, err := plan.Decode(w.in.Plan)
		switch {
		case err != nil:
			w.result.Answer, w.result.Use = Unsupported, "the release that wrote it"
			w.result.Sentence = "The run's plan can't be read by this server: " + compare.Shorten(err.Error()) + "."
			return false
		case domain.DigestOf(w.in.Plan) != q.Plan:
			w.find(Finding{Answer: Differs, What: WhatPlan, Job: -1, Event: "RunRequested", Version: 1,
				Recorded: string(q.Plan), Now: "the stored plan is " + string(domain.DigestOf(w.in.Plan))})
		}
		if !wellFormed(stored) {
			w.find(Finding{Answer: Differs, What: WhatPlan, Job: -1, Event: "RunRequested", Version: 1,
				Recorded: string(q.Plan), Now: "its jobs name jobs that it does not have"})
			w.conclude()
			return false
		}
		w.plan = stored
	}
	same := sameAs(made, q.Plan)
	if same != nil {
		w.result.Now = q.Plan
		if w.plan == nil {
			w.plan = same // the digest says that it is the one that is missing
		}
		return true
	}
	if made == nil {
		finding.Now = "the workflow does not compile: " + firstError(found)
		w.find(finding)
	} else {
		w.differ(finding, made)
	}
	if w.plan == nil {
		w.result.Answer, w.result.Sentence = Differs, "The workflow compiles to another plan than the run has, and the "+
			"run's own is not there to evaluate its decisions: "+w.in.PlanLost
		return false
	}
	return true
}

// wellFormed reports whether all indexes of a plan lead somewhere.
func wellFormed(p *plan.Plan) bool {
	for i := range p.Jobs {
		for _, n := range p.Jobs[i].Needs {
			if n < 0 || n >= len(p.Jobs) {
				return false
			}
		}
	}
	return !slices.ContainsFunc(p.Legs, func(l plan.Leg) bool { return l.Of < 0 || l.Of >= len(p.Jobs) })
}

// sameAs is the plan in the form that has that digest: while older servers are in the fleet, plans
// are stored as those read them. It is nil when no form has it.
func sameAs(p *plan.Plan, digest domain.Digest) *plan.Plan {
	if p == nil {
		return nil
	}
	if p.Digest() == digest {
		return p
	}
	for _, lower := range []func() (*plan.Plan, bool){p.FormTwo, p.FormOne} {
		if l, ok := lower(); ok && l.Digest() == digest {
			return l
		}
	}
	return nil
}

// differ names the parts of the plan that are others now.
func (w *walk) differ(f Finding, made *plan.Plan) {
	var differences []compare.Difference
	if w.plan != nil && len(w.in.Plan) <= comparedMax {
		differences = compare.Plans(w.plan, made)
	}
	if len(differences) == 0 {
		f.Now = string(made.Digest())
		w.find(f)
		return
	}
	for _, d := range differences {
		f.Recorded, f.Now = d.Name+" = "+d.Before, d.Name+" = "+d.After
		switch d.Kind {
		case compare.Added:
			f.Recorded = d.Name + " is not there"
		case compare.Removed:
			f.Now = d.Name + " is not there"
		}
		w.find(f)
	}
}

// withoutPlan judges a run that never had a plan: its definition was refused, or something else was.
func (w *walk) withoutPlan(made *plan.Plan, q *run.Request) bool {
	if made == nil || len(q.Invalid) > 0 && len(plan.Requires(made)) > 0 {
		w.conclude()
		return false
	}
	why := ""
	if len(q.Invalid) > 0 {
		why = ": " + compare.Shorten(q.Invalid[0])
	}
	w.result.Answer, w.result.Sentence = Unknown, "The run has no plan, and its workflow compiles. What kept it from "+
		"starting is not in what it rests on"+why
	return false
}

func firstError(found []workflow.Diagnostic) string {
	for _, d := range found {
		if d.Severity == workflow.Error {
			return compare.Shorten(d.String())
		}
	}
	return "no reason is given"
}

// find keeps a finding.
func (w *walk) find(f Finding) {
	if f.Answer == Differs {
		w.differs++
	}
	f.Recorded, f.Now = compare.Shorten(f.Recorded), compare.Shorten(f.Now)
	if len(w.result.Findings) < findingsMax {
		w.result.Findings = append(w.result.Findings, f)
		return
	}
	w.result.More++
}

// conclude says what it all comes to.
func (w *walk) conclude() {
	r := &w.result
	all := len(r.Findings) + r.More
	switch {
	case w.differs > 0:
		r.Answer = Differs
		r.Sentence = fmt.Sprintf("Of %d decisions that were made again, %d came out otherwise.", r.Decisions, w.differs)
	case all > 0 || w.ended != "":
		r.Answer = Unknown
		r.Sentence = fmt.Sprintf("%d decisions came out as they are recorded", r.Decisions-all)
		if all > 0 {
			r.Sentence += fmt.Sprintf(", and of %d it can't be told", all)
		}
		if w.ended != "" {
			r.Sentence += "; " + w.ended
		}
		r.Sentence += "."
	case r.Stored == "":
		r.Answer, r.Sentence = Verified, "The run has no plan, and its workflow is refused now as it was then."
	default:
		r.Answer = Verified
		r.Sentence = fmt.Sprintf("The workflow compiles to the same plan, and all %d decisions came out as they are "+
			"recorded.", r.Decisions)
	}
}

// same compares two values by what is stored of them.
func same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

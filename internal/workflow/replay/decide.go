package replay

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// walk goes through a history, and keeps the state before each event.
type walk struct {
	in      Input
	s       *run.State
	plan    *plan.Plan
	version uint64 // of the event at hand
	asked   map[int]asked
	judged  map[int]int // by job: the round in which its condition was judged
	differs int
	ended   string // why not all was examined
	result  Result
}

// asked is what a job waits for the value of, with the value that comes out. It is worked out when
// it is asked, because nothing of the run moves for it from there on.
type asked struct {
	inputs  domain.Digest
	holds   bool
	problem string
	unknown string
	matrix  *run.RecordMatrix
}

func (w *walk) history() {
	for n, e := range w.in.Events {
		w.version = uint64(n + 1)
		if w.ended == "" {
			switch {
			case w.result.Decisions >= decisionsMax:
				w.ended = fmt.Sprintf("no more than %d are examined", decisionsMax)
			case w.in.Stop != nil && w.in.Stop():
				w.ended = "the rest was not examined in the time that there was"
			}
		}
		if w.ended != "" {
			return
		}
		w.before(e)
		run.Evolve(w.s, e)
	}
}

// before examines what an event records, by the state that it met.
func (w *walk) before(e run.Event) {
	if first, ok := e.(*run.RunRequested); ok {
		w.jobs(first)
		return
	}
	j := e.JobIndex()
	if j < 0 || j >= len(w.plan.Jobs) || j >= len(w.s.Jobs) {
		return // legs are decided with their job, and the rest is of the run
	}
	switch e := e.(type) {
	case *run.EvaluationAsked:
		w.expression(e)
		w.ask(j, e.InputDigest, e, w.condition(j))
	case *run.EvaluationRecorded:
		w.evaluated(e)
	case *run.MatrixAsked:
		w.judge(j, e, true)
		w.ask(j, e.InputDigest, e, w.expansion(j))
	case *run.MatrixExpanded:
		if e.InputDigest == "" {
			w.judge(j, e, true)
			return
		}
		w.expanded(j, e)
	case *run.JobReady:
		w.judge(j, e, true)
	case *run.JobConcluded:
		w.concluded(j, e)
	}
}

// jobs compares what the core was told of the plan's jobs with what it would be told.
func (w *walk) jobs(e *run.RunRequested) {
	w.result.Decisions++
	now := run.SkeletonOf(w.plan)
	for i := range max(len(now), len(e.Request.Skeleton)) {
		f := Finding{Answer: Differs, What: WhatJobs, Job: -1, Recorded: "no job", Now: "no job"}
		if i < len(e.Request.Skeleton) {
			f.Recorded = described(&e.Request.Skeleton[i])
		}
		if i < len(now) {
			f.Now = described(&now[i])
		}
		if i < len(now) && i < len(e.Request.Skeleton) && same(now[i], e.Request.Skeleton[i]) {
			continue
		}
		w.at(e, f)
	}
}

func described(k *run.JobSkeleton) string {
	return fmt.Sprintf("job %s: if %q, runs on %v, needs %v, %d steps", k.Key, k.If, k.RunsOn, k.Needs, len(k.Steps))
}

// at keeps a finding about an event.
func (w *walk) at(e run.Event, f Finding) {
	f.Event, f.Version, f.Round = e.Name(), w.version, w.s.Round()
	w.find(f)
}

// ask remembers what comes out for what is asked, and checks what it is computed from.
func (w *walk) ask(j int, inputs domain.Digest, e run.Event, a asked) {
	w.result.Decisions++
	if now := run.EvaluationInputs(w.s, j).Digest(); now != inputs {
		w.at(e, Finding{Answer: Differs, What: WhatInputs, Job: j, Recorded: string(inputs), Now: string(now)})
	}
	a.inputs = inputs
	w.asked[j] = a
}

// expression checks that the value of the plan's condition was asked for.
func (w *walk) expression(e *run.EvaluationAsked) {
	w.result.Decisions++
	text := w.plan.Jobs[e.Job].If
	inner := strings.TrimSpace(text)
	if rest, opened := strings.CutPrefix(text, "${{"); opened {
		if rest, closed := strings.CutSuffix(rest, "}}"); closed {
			inner = strings.TrimSpace(rest)
		}
	}
	if e.Expression != text && e.Expression != inner {
		w.at(e, Finding{Answer: Differs, What: WhatExpression, Job: e.Job, Recorded: e.Expression, Now: text})
	}
}

func (w *walk) condition(j int) (a asked) {
	a.holds, a.problem, a.unknown = w.in.Evaluator.Condition(w.s, j, w.plan.Jobs[j].If)
	return a
}

func (w *walk) expansion(j int) (a asked) {
	c, unknown := w.in.Evaluator.Matrix(w.s, j, w.plan)
	return asked{matrix: &c, unknown: unknown}
}

// evaluated compares a recorded value with the one that came out.
func (w *walk) evaluated(e *run.EvaluationRecorded) {
	w.result.Decisions++
	a, ok := w.asked[e.Job]
	recorded := valueText(e.Result, e.Error)
	f := Finding{Answer: Differs, What: WhatCondition, Job: e.Job, Recorded: recorded}
	switch {
	case !ok || a.matrix != nil || a.inputs != e.InputDigest:
		f.Now = "nothing was asked for these inputs"
	case a.unknown != "":
		f.Answer, f.Now = Unknown, a.unknown
	case a.holds != e.Result || (a.problem == "") != (e.Error == "") || !clipped(e.Error, a.problem):
		f.Now = valueText(a.holds, a.problem)
	default:
		w.judged[e.Job] = w.s.Round()
		return
	}
	w.judged[e.Job] = w.s.Round()
	w.at(e, f)
}

// clipped reports whether recorded is the text, or the beginning of it that history keeps.
func clipped(recorded, text string) bool {
	return recorded == text || recorded != "" && len(recorded) < len(text) &&
		strings.HasPrefix(text, strings.TrimRight(recorded, "…"))
}

func valueText(holds bool, problem string) string {
	if problem != "" {
		return "no value: " + problem
	}
	return strconv.FormatBool(holds)
}

// judge compares a decision of the core about a job's condition with what the expression language
// says of it. Each is judged once in a round: what follows are retries.
func (w *walk) judge(j int, e run.Event, began bool) {
	round := w.s.Round()
	if _, leg := w.s.GroupOf(j); leg || w.judged[j] == round {
		return
	}
	w.judged[j] = round
	w.result.Decisions++
	a := w.condition(j)
	f := Finding{Answer: Differs, What: WhatCondition, Job: j, Recorded: strconv.FormatBool(began)}
	switch {
	case a.unknown != "":
		f.Answer, f.Now = Unknown, a.unknown
	case a.problem != "" || a.holds != began:
		f.Now = valueText(a.holds, a.problem)
	default:
		return
	}
	w.at(e, f)
}

// concluded examines a job that ended without an attempt, where an expression decided that.
func (w *walk) concluded(j int, e *run.JobConcluded) {
	switch e.Reason.Code {
	case run.ReasonConditionFalse, run.ReasonDependency:
		w.judge(j, e, false)
	case run.ReasonMatrixInvalid:
		w.expanded(j, e)
	}
}

// expanded compares the answer to a matrix with what the core makes of the one that comes out.
func (w *walk) expanded(j int, e run.Event) {
	w.result.Decisions++
	a, ok := w.asked[j]
	f := Finding{Answer: Differs, What: WhatMatrix, Job: j, Recorded: matrixText(e)}
	switch {
	case !ok || a.matrix == nil:
		f.Now = "nothing was asked for"
		w.at(e, f)
		return
	case a.unknown != "":
		f.Answer, f.Now = Unknown, a.unknown
		w.at(e, f)
		return
	}
	c := *a.matrix
	c.Job, c.InputDigest = w.s.JobID(j), a.inputs
	decision, no := run.Decide(w.s, c, e.Time())
	switch {
	case no != nil:
		f.Now = no.Message
	case len(decision.Events) == 0:
		f.Now = "nothing"
	case same(decision.Events[0], e) && decision.Events[0].Name() == e.Name():
		return
	default:
		f.Now = matrixText(decision.Events[0])
	}
	w.at(e, f)
}

func matrixText(e run.Event) string {
	switch e := e.(type) {
	case *run.MatrixExpanded:
		var legs []string
		for i := range e.Added {
			leg := e.Added[i].Name
			if e.Added[i].Leg != nil {
				leg += " " + e.Added[i].Leg.Matrix
			}
			legs = append(legs, leg)
		}
		return fmt.Sprintf("%d legs (fail-fast %t, max-parallel %d): %s", len(e.Legs), e.FailFast, e.MaxParallel,
			strings.Join(legs, ", "))
	case *run.JobConcluded:
		return "no legs: " + e.Reason.Message
	}
	return e.Name()
}

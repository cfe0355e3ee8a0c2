package replay

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/core/group"
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
	// command answers what is no condition: a matrix, a call or a concurrency group.
	command run.Command
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
	if asked, ok := e.(*run.GroupAsked); ok && j == group.Whole {
		w.wholeGroup(asked)
	}
	if j < 0 || j >= len(w.s.Jobs) {
		return // of the run
	}
	switch e := e.(type) {
	case *run.CallAsked:
		w.judge(j, e, true)
		w.askCall(j, e)
		return
	case *run.ConcurrencyAsked:
		w.judge(j, e, true)
		w.ask(j, e.InputDigest, e, w.name(j))
		return
	case *run.CallOpened:
		w.judge(j, e, true)
		if e.InputDigest != "" {
			w.answered(j, e, WhatCall)
		}
		return
	case *run.GroupAsked:
		w.judge(j, e, true)
		if w.s.Jobs[j].Evaluation != nil && w.s.Jobs[j].Evaluation.Concurrency {
			w.answered(j, e, WhatGroup)
		}
		return
	case *run.JobConcluded:
		w.concluded(j, e)
		return
	}
	if j >= len(w.plan.Jobs) {
		return // legs are decided with their job
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
		w.answered(j, e, WhatMatrix)
	case *run.JobReady:
		w.judge(j, e, true)
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
	w.askOver(j, inputs, run.EvaluationInputs(w.s, j).Digest(), e, a)
}

func (w *walk) askCall(j int, e *run.CallAsked) {
	over := run.EvaluationInputs(w.s, j).Digest()
	if e.What == run.CallAsksOutputs {
		over = run.CallOutputsInputs(w.s, j).Digest()
	}
	c, unknown := w.in.Evaluator.Call(w.s, j, e.What, w.plan)
	w.askOver(j, e.InputDigest, over, e, asked{command: c, unknown: unknown})
}

// wholeGroup compares the group that the run as a whole joins with what its text says.
func (w *walk) wholeGroup(e *run.GroupAsked) {
	w.result.Decisions++
	f := Finding{Answer: Differs, What: WhatGroup, Job: -1, Recorded: groupText(e.Concurrency), Now: "none"}
	if w.plan.Concurrency != nil {
		c, problem, unknown := w.in.Evaluator.Group(w.plan)
		switch {
		case unknown != "":
			f.Answer, f.Now = Unknown, unknown
		case problem != "":
			f.Now = "no value: " + problem
		case c == e.Concurrency:
			return
		default:
			f.Now = groupText(c)
		}
	}
	w.at(e, f)
}

func groupText(c run.Concurrency) string {
	return fmt.Sprintf("group %q (cancel-in-progress %t, all wait %t)", c.Group, c.Cancel, c.Max)
}

func (w *walk) name(j int) asked {
	c, unknown := w.in.Evaluator.Concurrency(w.s, j, w.plan)
	return asked{command: c, unknown: unknown}
}

func (w *walk) askOver(j int, inputs, now domain.Digest, e run.Event, a asked) {
	w.result.Decisions++
	if now != inputs {
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
	return asked{command: c, unknown: unknown}
}

// evaluated compares a recorded value with the one that came out.
func (w *walk) evaluated(e *run.EvaluationRecorded) {
	w.result.Decisions++
	a, ok := w.asked[e.Job]
	recorded := valueText(e.Result, e.Error)
	f := Finding{Answer: Differs, What: WhatCondition, Job: e.Job, Recorded: recorded}
	switch {
	case !ok || a.command != nil || a.inputs != e.InputDigest:
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
	if _, leg := w.s.GroupOf(j); leg || w.judged[j] == round || j >= len(w.plan.Jobs) {
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
		if c, called := w.s.CallerOf(j); called && (w.s.Jobs[c].Inputs == nil || w.s.Jobs[c].State == run.StateConcluded) {
			return // its call never began, so nobody asked for its condition
		}
		w.judge(j, e, false)
	case run.ReasonMatrixInvalid:
		w.answered(j, e, WhatMatrix)
	case run.ReasonGroupInvalid:
		if asks := w.s.Jobs[j].Evaluation; asks != nil && asks.Concurrency {
			w.answered(j, e, WhatGroup)
		}
	case run.ReasonCallInvalid, run.ReasonCallDone, run.ReasonCallFailed:
		if asks := w.s.Jobs[j].Evaluation; asks != nil && asks.Call != "" && !asks.Answered {
			w.answered(j, e, WhatCall)
		}
	}
}

// answered compares what was recorded as an answer with what the core makes of the one that comes out.
func (w *walk) answered(j int, e run.Event, what string) {
	w.result.Decisions++
	a, ok := w.asked[j]
	f := Finding{Answer: Differs, What: what, Job: j, Recorded: answerText(e)}
	switch {
	case !ok || a.command == nil:
		f.Now = "nothing was asked for"
		w.at(e, f)
		return
	case a.unknown != "":
		f.Answer, f.Now = Unknown, a.unknown
		w.at(e, f)
		return
	}
	decision, no := run.Decide(w.s, over(a.command, w.s.JobID(j), a.inputs), e.Time())
	switch {
	case no != nil:
		f.Now = no.Message
	case len(decision.Events) == 0:
		f.Now = "nothing"
	case same(decision.Events[0], e) && decision.Events[0].Name() == e.Name():
		return
	default:
		f.Now = answerText(decision.Events[0])
	}
	w.at(e, f)
}

// over is an answer of a job over the inputs that it was asked for.
func over(c run.Command, job domain.JobID, inputs domain.Digest) run.Command {
	switch c := c.(type) {
	case run.RecordMatrix:
		c.Job, c.InputDigest = job, inputs
		return c
	case run.RecordConcurrency:
		c.Job, c.InputDigest = job, inputs
		return c
	case run.RecordCall:
		c.Job, c.InputDigest = job, inputs
		return c
	}
	return c
}

func answerText(e run.Event) string {
	switch e := e.(type) {
	case *run.GroupAsked:
		return groupText(e.Concurrency)
	case *run.CallOpened:
		return "inputs " + e.Inputs.Value + string(e.Inputs.Digest)
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
		var outputs []string
		for _, o := range e.Outputs {
			outputs = append(outputs, o.Name+"="+o.Value+string(o.Digest))
		}
		return strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Outcome, e.Reason.Message, strings.Join(outputs, ", ")))
	}
	return e.Name()
}

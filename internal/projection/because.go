package projection

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// Bounds of a tree of causes; the timeline has the rest.
const (
	becauseMax      = 300 // facts
	becauseDepth    = 30
	childrenMax     = 20 // of one fact; further ones are counted
	contextValueMax = 200
	storyDepth      = 8
	storyValues     = 3
	attemptsTold    = 3
	storiesMax      = 200 // jobs of a run that have one when the whole run is shown
)

// Contexts gives the contexts github and inputs of a run; what is not there is empty. It is asked
// only when an expression referred to them, and may be nil.
type Contexts func() (github, inputs json.RawMessage)

// fact is one node of the tree, with what a story needs of it.
type fact struct {
	*fairleadv1.Because
	is       string // "was skipped", after the name
	why      string // "its condition … was false", after "because"
	children []*fact
}

// causes builds trees of causes.
type causes struct {
	s        *run.State
	contexts Contexts
	place    Place
	left     int // facts that may still be told
	told     map[int]bool
	github   *expr.Value
	inputs   *expr.Value
}

func newCauses(s *run.State, place Place, contexts Contexts) *causes {
	return &causes{s: s, contexts: contexts, place: place, left: becauseMax, told: map[int]bool{}}
}

// run is why the run is as it is.
func (c *causes) run() *fact {
	s := c.s
	f := &fact{Because: &fairleadv1.Because{Subject: string(s.Request.Run), Text: strings.TrimSuffix(runReason(s), ".")}}
	f.is = "concluded " + string(s.Outcome)
	jobs := s.Reason.Jobs
	if !s.Concluded() {
		f.is, jobs = "goes on", nil
		for j := range s.Jobs {
			if s.Jobs[j].State != run.StateConcluded && s.Skeleton(j).Leg == nil {
				jobs = append(jobs, j)
			}
		}
	}
	f.why = lowerFirst(f.Text)
	c.add(f, jobs, 1)
	return f
}

// add puts the causes of other jobs below a fact.
func (c *causes) add(f *fact, jobs []int, depth int) {
	for n, j := range jobs {
		if n == childrenMax || c.left <= 0 || depth > becauseDepth {
			f.Because.Because = append(f.Because.Because, &fairleadv1.Because{
				Text: fmt.Sprintf("and of %d more, which are not told here", len(jobs)-n)})
			return
		}
		if j < 0 || j >= len(c.s.Jobs) {
			continue
		}
		child := c.job(j, depth)
		f.children = append(f.children, child)
		f.Because.Because = append(f.Because.Because, child.Because)
	}
}

// job is why a job is as it is. What was told once is not told again.
func (c *causes) job(j, depth int) *fact {
	s, job, key := c.s, c.s.Jobs[j], c.s.Skeleton(j).Key
	c.left--
	f := &fact{Because: &fairleadv1.Because{Subject: string(s.JobID(j)), Name: key, Event: job.Cause.Event,
		Version: job.Cause.Version}}
	c.words(f, j)
	f.Text = key + " " + f.is
	if f.why != "" {
		f.Text += " because " + f.why
	}
	if c.told[j] {
		return f
	}
	c.told[j] = true
	c.attempts(f, j)
	c.add(f, c.led(f, j), depth+1)
	return f
}

// words says what a job is, and why.
func (c *causes) words(f *fact, j int) {
	s, job := c.s, c.s.Jobs[j]
	r := job.Reason
	f.is = "concluded " + string(job.Outcome)
	switch job.Outcome {
	case domain.OutcomeSuccess:
		f.is = "succeeded"
		return
	case domain.OutcomeSkipped:
		f.is = "was skipped"
	case domain.OutcomeCancelled:
		f.is = "was cancelled"
	case domain.OutcomeFailure:
		f.is = "failed"
	case domain.OutcomeNone:
		f.is = map[run.JobState]string{run.StateReady: "waits", run.StateHeld: "is held", run.StateActive: "runs",
			run.StateExpanded: "runs"}[job.State]
		if f.is == "" {
			f.is = "waits"
		}
	}
	switch r.Code {
	case run.ReasonConditionFalse:
		f.why = "its condition `" + condition(r.Expression) + "` was false"
	case run.ReasonDependency:
		f.why = fmt.Sprintf("it depends on %s, which concluded %s", someKeys(s, r.Jobs), r.Outcome)
	case run.ReasonStepFailed:
		f.why = c.step(j, r) + c.history(j, r.Attempt)
	case run.ReasonRunnerLost, run.ReasonFailed, run.ReasonTimedOut, run.ReasonNotRetried, run.ReasonDeclined:
		r.Attempt = 0
		f.why = lowerFirst(strings.TrimSuffix(s.Sentence(r), ".")) + c.history(j, job.Reason.Attempt)
	default:
		sentence := lowerFirst(strings.TrimSuffix(s.Sentence(r), "."))
		switch {
		case strings.HasPrefix(sentence, "waits "):
			f.is = sentence
		case strings.HasPrefix(sentence, "cancelled"):
			f.is = "was " + sentence
		default:
			f.why = sentence
		}
	}
	if job.State == run.StateReady && c.place != nil {
		if text := c.place(s.JobID(j)); text != "" {
			f.why = lowerFirst(strings.TrimSuffix(text, "."))
		}
	}
}

// condition is the text of a condition that may be none.
func condition(text string) string {
	if text == "" {
		return "success()"
	}
	return strings.Join(strings.Fields(text), " ")
}

func (c *causes) step(j int, r run.Reason) string {
	name := fmt.Sprintf("step %d", r.Step)
	if names := c.s.Steps(j); r.Step >= 1 && r.Step <= len(names) && names[r.Step-1] != "" {
		name += " '" + names[r.Step-1] + "'"
	}
	switch {
	case r.ExitCode != 0:
		return fmt.Sprintf("%s exited with %d", name, r.ExitCode)
	case r.Message != "":
		return name + " failed: " + strings.TrimSuffix(r.Message, ".")
	}
	return name + " failed"
}

// round are the attempts of a job in the round of the one with that number, up to it.
func (c *causes) round(j, number int) []*run.Attempt {
	var out []*run.Attempt
	attempts := c.s.Jobs[j].Attempts
	if number < 1 || number > len(attempts) {
		return nil
	}
	for i := range attempts[:number] {
		if attempts[i].Round == attempts[number-1].Round {
			out = append(out, &attempts[i])
		}
	}
	return out
}

// history says in brackets which attempt it was, and what came of those before it.
func (c *causes) history(j, number int) string {
	all := c.round(j, number)
	if len(all) < 2 {
		return ""
	}
	parts := []string{fmt.Sprintf("attempt %d of %d", number, all[len(all)-1].Number)}
	before := all[:len(all)-1]
	if n := len(before) - attemptsTold; n > 0 {
		parts = append(parts, fmt.Sprintf("%d before", n))
		before = before[n:]
	}
	for _, a := range before {
		parts = append(parts, fmt.Sprintf("attempt %d: %s, retried by itself", a.Number, ended(a)))
	}
	return " (" + strings.Join(parts, "; ") + ")"
}

func ended(a *run.Attempt) string {
	if a.Class != domain.FailureNone {
		return string(a.Class)
	}
	return string(a.Outcome)
}

// attempts puts the earlier attempts of a job's round below it, the last one first.
func (c *causes) attempts(f *fact, j int) {
	job := c.s.Jobs[j]
	if job.Outcome == domain.OutcomeSuccess {
		return
	}
	all := c.round(j, len(job.Attempts))
	if n := len(all); n > 0 && all[n-1].Outcome != domain.OutcomeNone && job.State != run.StateConcluded {
		all = append(all, nil) // it is to be tried again
	}
	for i := len(all) - 2; i >= 0 && c.left > 0; i-- {
		a := all[i]
		c.left--
		text := fmt.Sprintf("attempt %d ended as %s", a.Number, a.Outcome)
		if a.Class != domain.FailureNone {
			text += fmt.Sprintf(" (%s)", a.Class)
		}
		f.Because.Because = append(f.Because.Because, &fairleadv1.Because{Subject: string(c.s.AttemptID(j, a.Number)),
			Name: f.Name, Event: a.ConcludedBy.Event, Version: a.ConcludedBy.Version,
			Text: text + " and was retried by itself: " + lowerFirst(strings.TrimSuffix(c.s.Sentence(a.Reason), "."))})
	}
}

// led are the jobs that led to what a job is, and notes the values that its condition had.
func (c *causes) led(f *fact, j int) []int {
	r := c.s.Jobs[j].Reason
	if r.Code != run.ReasonConditionFalse && r.Code != run.ReasonEvaluationFailed {
		return r.Jobs
	}
	parsed, err := expr.ParseCondition(r.Expression)
	if err != nil {
		return nil // it was cut
	}
	var keys []string
	status := parsed.Implicit()
	if t := parsed.Template(); t != nil {
		for _, ref := range t.References() {
			if c.value(f, j, ref.Path); ref.Path[0] == "needs" && len(ref.Path) > 1 {
				keys = append(keys, ref.Path[1])
			}
		}
		for _, call := range t.Calls() {
			if call.Status {
				status = true
				c.status(f, j, call.Name)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(c.s.Needs(j)), func(need int) bool {
		named := slices.ContainsFunc(keys, func(k string) bool {
			return k == "*" || strings.EqualFold(k, c.s.Skeleton(need).Key)
		})
		return !named && (!status || plan.NeedResult(c.s.Jobs[need].Outcome) == "success")
	})
}

// status notes what a status function said.
func (c *causes) status(f *fact, j int, name string) {
	st := run.EvaluationInputs(c.s, j).Status
	holds, known := map[string]bool{"success": st.Success, "failure": st.Failure, "cancelled": st.Cancelled,
		"always": true}[name]
	c.note(f, name+"()", strconv.FormatBool(holds), known)
}

func (c *causes) note(f *fact, path, value string, known bool) {
	if len(f.Values) >= childrenMax ||
		slices.ContainsFunc(f.Values, func(v *fairleadv1.ContextValue) bool { return v.GetPath() == path }) {
		return
	}
	if len(value) > contextValueMax {
		value = domain.Clip(value, contextValueMax) + "…"
	}
	f.Values = append(f.Values, &fairleadv1.ContextValue{Path: path, Value: value, Known: known})
}

// value notes what a reference of a job's condition came to.
func (c *causes) value(f *fact, j int, path []string) {
	name := strings.Join(path, ".")
	switch path[0] {
	case "needs":
		if len(path) < 3 {
			c.note(f, name, "", false)
			return
		}
		for _, need := range c.s.Needs(j) {
			if strings.EqualFold(c.s.Skeleton(need).Key, path[1]) {
				value, known := c.need(need, path[2:])
				c.note(f, name, value, known)
				return
			}
		}
		c.note(f, name, "null", true)
	case "github", "inputs":
		v, known := c.context(path[0])
		for _, part := range path[1:] {
			if known = known && part != "*"; known {
				v, _ = v.Field(part) // what is not there is null
			}
		}
		c.note(f, name, shown(v), known)
	default:
		c.note(f, name, "", false)
	}
}

// need is the value at a path of needs.<job>.
func (c *causes) need(need int, path []string) (value string, known bool) {
	switch {
	case strings.EqualFold(path[0], "result") && len(path) == 1:
		return shown(expr.String(plan.NeedResult(c.s.Jobs[need].Outcome))), true
	case strings.EqualFold(path[0], "outputs") && len(path) == 2:
		for _, o := range c.s.Outputs(need) {
			if strings.EqualFold(o.Name, path[1]) {
				return shown(expr.String(o.Value)), o.Digest == ""
			}
		}
		return "null", true
	}
	return "", false
}

// context is the context github or inputs, read once.
func (c *causes) context(name string) (expr.Value, bool) {
	if c.github == nil {
		c.github, c.inputs = new(expr.Value), new(expr.Value)
		if c.contexts != nil {
			github, inputs := c.contexts()
			*c.github, _ = expr.FromJSON(string(github))
			*c.inputs, _ = expr.FromJSON(string(inputs))
		}
	}
	v := *c.github
	if name == "inputs" {
		v = *c.inputs
	}
	return v, !v.IsNull()
}

// shown is a value as an expression would write it.
func shown(v expr.Value) string {
	switch v.Kind() {
	case expr.KindString:
		return "'" + v.Text() + "'"
	case expr.KindArray, expr.KindObject:
		return strings.Join(strings.Fields(domain.Clip(v.JSON(), 4*contextValueMax)), " ")
	case expr.KindNull:
		return "null"
	}
	return v.Text()
}

// valuesTold are the values for a story. Results of other jobs come last: what follows is about them.
func (f *fact) valuesTold() []string {
	var results, others []string
	for _, v := range f.Values {
		text := v.GetPath() + " was " + v.GetValue()
		switch {
		case !v.GetKnown() || v.GetPath() == "always()":
		case strings.HasPrefix(v.GetPath(), "needs.") && strings.HasSuffix(v.GetPath(), ".result"):
			results = append(results, text)
		default:
			others = append(others, text)
		}
	}
	results = results[:min(len(results), storyValues)]
	return append(others[:min(len(others), storyValues-len(results))], results...)
}

// story is a fact with its nearest causes in one sentence.
func (f *fact) story() string {
	var out strings.Builder
	out.WriteString(f.Text)
	for depth := 0; ; depth++ {
		values := f.valuesTold()
		if len(values) > 0 {
			out.WriteString(": " + strings.Join(values, ", "))
		}
		if len(f.children) == 0 || depth == storyDepth {
			break
		}
		named := len(values) > 0 || strings.Contains(f.why, f.children[0].Name)
		f = f.children[0]
		if named && f.why != "" {
			out.WriteString(", because " + f.why)
		} else {
			out.WriteString("; " + f.Text)
		}
	}
	return out.String() + "."
}

// storyOf is why a job ended as it did, in one sentence; empty where its reason says all.
func storyOf(s *run.State, j int) string {
	job := s.Jobs[j]
	if job.Outcome == domain.OutcomeSuccess || job.Outcome == domain.OutcomeNone {
		return "" // what waits says so in its reason, with what ends it
	}
	c := newCauses(s, nil, nil)
	c.left = 2 * storyDepth
	f := c.job(j, becauseDepth-storyDepth)
	if len(f.children) == 0 && len(f.Because.Because) == 0 && len(f.Values) == 0 {
		return ""
	}
	return f.story()
}

func lowerFirst(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToLower(text[:1]) + text[1:]
}

// Package forecast says before a run which of a plan's jobs would run, and why.
//
// It is deliberately a forecast: it takes every job that runs for one that succeeds, and what
// can't be known before (outputs, results of others, secrets) stays open instead of being
// guessed. The core decides when the time comes.
//
// Invariants: a job is said to run or to be skipped only if nothing that is unknown could
// change that, as long as jobs succeed; the same plan and event give the same forecast.
//
// Read next: internal/core/run/condition.go
package forecast

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// Answer is what becomes of a job.
type Answer string

// Answers.
const (
	Runs  Answer = "runs"
	Skips Answer = "skips"
	Open  Answer = "open" // what it depends on is known later
)

// Job is the forecast of one job of a plan.
type Job struct {
	Answer Answer
	Reason string // a sentence without its end
}

// Known is what is known of the event: the contexts github and inputs, as far as they are. A
// value that is missing in github is unknown, not null.
type Known struct {
	Github, Inputs expr.Value
}

// Of gives the forecast of every job of a plan, by index.
func Of(p *plan.Plan, known Known) []Job {
	f := &forecast{plan: p, known: known, jobs: make([]Job, len(p.Jobs))}
	for i := range p.Jobs {
		f.job(i)
	}
	return f.jobs
}

type forecast struct {
	plan  *plan.Plan
	known Known
	jobs  []Job // Answer "" is not asked yet
}

// job answers for a job after all that it needs; the plan has no circles.
func (f *forecast) job(i int) Job {
	if f.jobs[i].Answer == "" {
		for _, need := range f.plan.Jobs[i].Needs {
			f.job(need)
		}
		f.jobs[i] = f.answer(i)
	}
	return f.jobs[i]
}

func (f *forecast) answer(i int) Job {
	job := &f.plan.Jobs[i]
	condition, err := expr.ParseCondition(job.If)
	if err != nil {
		return Job{Open, fmt.Sprintf("its condition can't be read: %v", err)}
	}
	status := f.status(i)
	if condition.Implicit() && status.skipped != "" {
		return Job{Skips, fmt.Sprintf("%s, which it needs, is skipped", status.skipped)}
	}
	if why := f.unknown(i, condition, status); why != "" {
		return Job{Open, why}
	}
	verdict, err := condition.Eval(expr.Env{Context: f.context(i), Status: status})
	switch {
	case err != nil:
		return Job{Open, fmt.Sprintf("its condition can't be answered before: %s", said(err))}
	case verdict.Holds && job.If == "":
		return Job{Runs, afterNeeds(f.plan, job)}
	case verdict.Holds:
		return Job{Runs, fmt.Sprintf("its condition holds: %s", oneLine(job.If))}
	}
	return Job{Skips, fmt.Sprintf("its condition does not hold: %s", oneLine(job.If))}
}

// said is what an error says, without the place in the text, which is not shown.
func said(err error) string {
	var of *expr.Error
	if errors.As(err, &of) {
		return of.Message
	}
	return err.Error()
}

func afterNeeds(p *plan.Plan, job *plan.Job) string {
	if len(job.Needs) == 0 {
		return "it needs no other job"
	}
	return "it needs " + names(p, job.Needs) + ", and runs when they have succeeded"
}

func names(p *plan.Plan, indexes []int) string {
	var out []string
	for _, i := range indexes {
		out = append(out, p.Jobs[i].Key)
	}
	return strings.Join(out, ", ")
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// status is what the status functions say, as long as jobs succeed.
type status struct {
	skipped string // the first ancestor that is skipped
	open    bool   // of some ancestor it is not known
}

func (f *forecast) status(i int) status {
	var s status
	for _, a := range f.plan.Ancestors(i) {
		switch f.job(a).Answer {
		case Skips:
			s.skipped = cmp.Or(s.skipped, f.plan.Jobs[a].Key)
		case Open:
			s.open = true
		}
	}
	return s
}

// Success implements expr.Status. A skipped ancestor is no success.
func (s status) Success([]string) bool { return s.skipped == "" }

// Failure implements expr.Status.
func (status) Failure([]string) bool { return false }

// Cancelled implements expr.Status.
func (status) Cancelled() bool { return false }

// unknown says what keeps a condition from being answered now; empty when nothing does.
func (f *forecast) unknown(i int, condition *expr.Condition, s status) string {
	statusMatters := condition.Implicit()
	if t := condition.Template(); t != nil {
		for _, call := range t.Calls() {
			statusMatters = statusMatters || strings.EqualFold(call.Name, "success") && call.Args == 0
			if call.Status && call.Args > 0 {
				return "it asks for the status of single jobs"
			}
		}
		for _, r := range t.References() {
			if !f.has(i, r.Path) {
				return fmt.Sprintf("it depends on %s, which is known when it is its turn", strings.Join(r.Path, "."))
			}
		}
	}
	if statusMatters && s.open && s.skipped == "" {
		return "a job that it needs is open itself"
	}
	return ""
}

// has reports whether the value at a path is known to a job.
func (f *forecast) has(i int, path []string) bool {
	switch path[0] {
	case "github":
		return has(f.known.Github, path[1:])
	case "inputs":
		return true
	case "needs":
		return len(path) == 3 && strings.EqualFold(path[2], "result") && f.results(i, path[1])
	}
	return false
}

// results reports whether it is known how a job that job i needs will end; "*" is all of them.
func (f *forecast) results(i int, key string) bool {
	known := false
	for _, need := range f.plan.Jobs[i].Needs {
		if key != "*" && !strings.EqualFold(f.plan.Jobs[need].Key, key) {
			continue
		}
		if f.job(need).Answer == Open {
			return false
		}
		known = true
	}
	return known
}

// has walks down a value; what is below a value that has no parts is null, which is known. A
// list is known whole.
func has(v expr.Value, path []string) bool {
	for at, name := range path {
		switch v.Kind() {
		case expr.KindArray:
			if name == "*" {
				return all(v, path[at+1:])
			}
			index, err := strconv.Atoi(name)
			if err != nil || index < 0 || index >= v.Len() {
				return true
			}
			v = v.At(index)
		case expr.KindObject:
			field, ok := v.Field(name)
			if !ok {
				return false
			}
			v = field
		default:
			return true
		}
	}
	return v.Kind() != expr.KindObject || len(path) > 0
}

// all reports whether the values at a path are known of every element.
func all(list expr.Value, path []string) bool {
	for i := range list.Len() {
		if len(path) > 0 && !has(list.At(i), path) {
			return false
		}
	}
	return true
}

func (f *forecast) context(i int) func(string) (expr.Value, bool) {
	return func(name string) (expr.Value, bool) {
		switch name {
		case "github":
			return f.known.Github, true
		case "inputs":
			return f.known.Inputs, true
		case "needs":
			var fields []expr.Field
			for _, need := range f.plan.Jobs[i].Needs {
				result := map[Answer]string{Runs: "success", Skips: "skipped"}[f.job(need).Answer]
				fields = append(fields, expr.Field{Name: f.plan.Jobs[need].Key,
					Value: expr.Object(expr.Field{Name: "result", Value: expr.String(result)})})
			}
			return expr.Object(fields...), true
		}
		return expr.Value{}, false
	}
}

// Joins names the concurrency group that a run or job joins. Where that depends on what is known
// later it stays the text that was written, and later is what it depends on.
func Joins(c *plan.Concurrency, known Known) (group, later string) {
	t, err := expr.ParseTemplate(c.Group)
	if err != nil {
		return c.Group, said(err)
	}
	for _, r := range t.References() {
		if r.Path[0] != "inputs" && (r.Path[0] != "github" || !has(known.Github, r.Path[1:])) {
			return c.Group, strings.Join(r.Path, ".")
		}
	}
	name, err := expr.Interpolate(c.Group, expr.Env{Context: func(context string) (expr.Value, bool) {
		if context == "github" {
			return known.Github, true
		}
		return known.Inputs, context == "inputs"
	}})
	if err != nil {
		return c.Group, said(err)
	}
	return name, ""
}

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/internal/dag"
	"github.com/fairlead-ci/fairlead/internal/workflow"
	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/forecast"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// planned is a workflow as `fairlead plan` shows it.
type planned struct {
	Path   string       `json:"path"`
	Name   string       `json:"name"`
	Starts bool         `json:"starts"`
	Reason string       `json:"reason"`
	Group  string       `json:"concurrency_group,omitempty"` // of the run, with ${{ }} where it is known later
	Jobs   []plannedJob `json:"jobs"`

	joins string // sentence about the group
}

// plannedJob is a job, or a leg of one: legs have the id of their job, and stand in its place.
type plannedJob struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Matrix   json.RawMessage `json:"matrix,omitempty"`
	Needs    []string        `json:"needs,omitempty"`
	RunsOn   []string        `json:"runs_on,omitempty"`
	If       string          `json:"if,omitempty"`
	Forecast string          `json:"forecast"`
	Reason   string          `json:"reason"`
	Group    string          `json:"concurrency_group,omitempty"`

	of    int // index of the job
	needs []int
}

// asked is the event that a plan is made for.
type asked struct {
	event, ref, payload, cron string
	changed                   []string
	inputs                    map[string]string
}

func (a *app) cmdPlan() *cobra.Command {
	var q asked
	var svg bool
	command := a.withJSON(&cobra.Command{
		Use:   "plan [FILE|FOLDER]...",
		Short: "Show what an event would run, and why, without a server",
		Long: `Show which workflows an event would start, with the graph of their jobs, and what would become of each job as
long as jobs succeed: "runs", "skips", or "open" where what it depends on is known later. Nothing is sent anywhere.

Without arguments the workflows of the repository that you stand in are asked. Of the context github what the flags say
is known, and with --payload the event; of everything else nothing is guessed.

--json prints one object with the workflows and their jobs in the order of the plan, --svg the graph of the one
workflow that starts. Exit code 1: a file has errors (fairlead lint shows them). 2: the command line makes no sense.`,
		Example: "  fairlead plan\n  fairlead plan --event push --ref refs/tags/v1\n  fairlead plan --changed docs/a.md\n" +
			"  fairlead plan release.yml --event workflow_dispatch --input level=3\n  fairlead plan ci.yml --svg >ci.svg",
	})
	flags := command.Flags()
	flags.StringVarP(&q.event, "event", "e", "push", "the event: push, schedule or workflow_dispatch")
	flags.StringVar(&q.ref, "ref", "refs/heads/main", "branch or full ref that it is about")
	flags.StringSliceVar(&q.changed, "changed", nil, "a `path` that a push changes; can be repeated (default not known)")
	flags.StringVar(&q.cron, "cron", "", "of a schedule: which one")
	flags.StringVar(&q.payload, "payload", "", "`file` with the event as JSON, for github.event; - is standard input")
	flags.StringToStringVar(&q.inputs, "input", nil, "`name=value` of an input; can be repeated")
	flags.BoolVar(&svg, "svg", false, "print the graph as a picture")
	command.MarkFlagsMutuallyExclusive("json", "svg")
	events := []string{workflow.EventPush, workflow.EventSchedule, workflow.EventDispatch}
	fixed(command, "event", events...)
	command.RunE = a.do(func(_ context.Context, args []string) error {
		if err := oneOf("event", q.event, events...); err != nil {
			return err
		}
		if !strings.HasPrefix(q.ref, "refs/") {
			q.ref = "refs/heads/" + q.ref
		}
		paths, notes, err := lintPaths(args)
		if err != nil {
			return err
		}
		for _, text := range notes {
			a.note("note: %s", clean(text))
		}
		known, err := a.known(&q)
		if err != nil {
			return err
		}
		var all []planned
		for _, path := range paths {
			one, err := a.planOne(path, &q, known, len(args) > 0)
			if err != nil {
				return err
			}
			all = append(all, one)
		}
		return a.printPlans(all, svg)
	})
	return command
}

// known is the context github as far as the command line has it.
func (a *app) known(q *asked) (forecast.Known, error) {
	name, kind := workflow.RefName(q.ref)
	fields := []expr.Field{{Name: "event_name", Value: expr.String(q.event)}, {Name: "ref", Value: expr.String(q.ref)},
		{Name: "ref_name", Value: expr.String(name)}, {Name: "ref_type", Value: expr.String(kind)},
		{Name: "base_ref", Value: expr.String("")}, {Name: "head_ref", Value: expr.String("")}}
	if q.payload != "" {
		text, err := a.readJSON(q.payload)
		if err != nil {
			return forecast.Known{}, err
		}
		event, err := expr.FromJSON(string(text))
		if err != nil {
			return forecast.Known{}, usagef("%s is no JSON: %v", q.payload, err)
		}
		fields = append(fields, expr.Field{Name: "event", Value: event})
	}
	return forecast.Known{Github: expr.Object(fields...)}, nil
}

// planOne asks one workflow. named: the caller means this file, so it is shown whether or not
// the event starts it.
func (a *app) planOne(path string, q *asked, known forecast.Known, named bool) (planned, error) {
	text, err := a.readWorkflow(path)
	if err != nil {
		return planned{}, err
	}
	src := workflow.Source{Path: filepath.ToSlash(path), Text: text}
	triggers, found := workflow.Inspect(src, workflow.DefaultLimits())
	event := workflow.Event{Name: q.event, Ref: q.ref, Cron: q.cron, Changed: q.changed}
	if q.changed == nil {
		event.Unknown = "which files it changes was not said"
	}
	if q.event == workflow.EventSchedule && q.cron == "" && len(triggers.Schedules) > 0 {
		event.Cron = triggers.Schedules[0].Cron
	}
	out := planned{Path: src.Path, Name: triggers.Name, Jobs: []plannedJob{}}
	out.Starts, out.Reason = triggers.Match(event)
	if !out.Starts && !named && !workflow.Failed(found) {
		return out, nil
	}
	in := workflow.Inputs{Ref: q.ref, Dispatch: q.inputs}
	if out.Starts {
		in.Event = q.event
	}
	p, found := workflow.Compile(src, in, workflow.DefaultLimits())
	if p == nil {
		fmt.Fprint(a.Stderr, workflow.Render(found, text))
		return planned{}, &ended{ExitFailed}
	}
	known.Inputs = inputsOf(p)
	out.Group, out.joins = joins(p.Concurrency, known)
	jobs := forecast.Of(p, known)
	for i := range p.Jobs {
		job := &p.Jobs[i]
		one := plannedJob{ID: job.Key, Name: job.Name, RunsOn: job.RunsOn, If: job.If, Forecast: string(jobs[i].Answer),
			Reason: jobs[i].Reason, of: i, needs: job.Needs}
		for _, need := range job.Needs {
			one.Needs = append(one.Needs, p.Jobs[need].Key)
		}
		var text string
		if one.Group, text = joins(job.Concurrency, known); text != "" && jobs[i].Answer != forecast.Skips {
			one.Reason += "; it " + text
		}
		legs := p.LegsOf(i)
		for _, n := range legs {
			leg := one
			leg.Name, leg.Matrix = p.Legs[n].Name, p.Legs[n].Matrix
			if len(p.Legs[n].RunsOn) > 0 {
				leg.RunsOn = p.Legs[n].RunsOn
			}
			out.Jobs = append(out.Jobs, leg)
		}
		if len(legs) > 0 {
			continue
		}
		if job.Strategy != nil && job.Strategy.Later != nil {
			one.Reason += "; its matrix is known when it is its turn"
		}
		out.Jobs = append(out.Jobs, one)
	}
	return out, nil
}

// joins says which concurrency group a run or job joins; empty without one.
func joins(c *plan.Concurrency, known forecast.Known) (group, text string) {
	if c == nil {
		return "", ""
	}
	group, later := forecast.Joins(c, known)
	text = "joins the concurrency group " + group
	if later != "" {
		text += ", which is known when it is its turn"
	}
	return group, text
}

// inputsOf is the context inputs of a plan.
func inputsOf(p *plan.Plan) expr.Value {
	var fields []expr.Field
	for _, in := range p.Inputs {
		value := expr.String(in.Value)
		if in.Type == plan.InputBoolean || in.Type == plan.InputNumber {
			if parsed, err := expr.FromJSON(in.Value); err == nil {
				value = parsed
			}
		}
		fields = append(fields, expr.Field{Name: in.Name, Value: value})
	}
	return expr.Object(fields...)
}

func (a *app) printPlans(all []planned, svg bool) error {
	switch {
	case a.json:
		text, err := json.MarshalIndent(map[string]any{"workflows": all}, "", "  ")
		if err != nil {
			return fmt.Errorf("print plan: %w", err)
		}
		_, err = fmt.Fprintf(a.out, "%s\n", text)
		return err
	case svg:
		return a.printPicture(all)
	}
	for i, one := range all {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		verb := "starts"
		if !one.Starts {
			verb = "does not start"
		}
		fmt.Fprintf(a.out, "%s\n  %s: %s\n", a.out.paint(strong, clean(one.Path)), verb, clean(one.Reason))
		if one.joins != "" {
			fmt.Fprintf(a.out, "  the run %s\n", clean(one.joins))
		}
		var rows [][]string
		for _, job := range one.Jobs {
			rows = append(rows, []string{job.Name, job.Forecast, dash(strings.Join(job.RunsOn, ",")),
				dash(strings.Join(job.Needs, ", ")), job.Reason})
		}
		if rows != nil {
			fmt.Fprint(a.out, a.out.table([]string{"JOB", "FORECAST", "ON", "NEEDS", "WHY"}, rows))
		}
	}
	return nil
}

// printPicture draws the graph of the one workflow that has jobs to show.
func (a *app) printPicture(all []planned) error {
	var of *planned
	for i := range all {
		if len(all[i].Jobs) == 0 {
			continue
		}
		if of != nil {
			return usagef("%s and %s both start; name the one to draw", of.Path, all[i].Path)
		}
		of = &all[i]
	}
	if of == nil {
		return usagef("nothing starts, so there is nothing to draw; name a file to draw it all the same")
	}
	_, err := fmt.Fprint(a.out, picture(of.Jobs))
	return err
}

// picture is a graph of jobs as an SVG document of its own.
func picture(jobs []plannedJob) string {
	const margin, letters = 16, 26
	size := dag.Size{Width: 220, Height: 40, GapX: 48, GapY: 16}
	needs := make([][]int, len(jobs))
	for i, job := range jobs {
		for at, other := range jobs { // whoever needs a job needs all its legs
			if slices.Contains(job.needs, other.of) {
				needs[i] = append(needs[i], at)
			}
		}
	}
	drawing := dag.Layout(needs, size)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="%d %d %d %d" width="%[3]d" height="%[4]d" `+
		`font-family="sans-serif" font-size="13">`+"\n", -margin, -margin, drawing.Width+2*margin, drawing.Height+2*margin)
	fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="#fff"/>`+"\n", -margin, -margin,
		drawing.Width+2*margin, drawing.Height+2*margin)
	for _, e := range drawing.Edges {
		b.WriteString(`<polyline fill="none" stroke="#8a8f98" points="`)
		for _, at := range e.Points {
			fmt.Fprintf(&b, "%d,%d ", at.X, at.Y)
		}
		b.WriteString(`"/>` + "\n")
	}
	strokes := map[string]string{string(forecast.Runs): "#1a7f37", string(forecast.Skips): "#8a8f98",
		string(forecast.Open): "#9a6700"}
	for i, job := range jobs {
		at, name := drawing.Nodes[i], clean(job.Name)
		if runes := []rune(name); len(runes) > letters {
			name = string(runes[:letters-1]) + "…"
		}
		dashes := ""
		if job.Forecast != string(forecast.Runs) {
			dashes = ` stroke-dasharray="4 3"`
		}
		fmt.Fprintf(&b, `<g><title>%s: %s, %s</title><rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="#f6f8fa" `+
			`stroke="%s"%s/><text x="%d" y="%d">%s</text><text x="%d" y="%d" font-size="10" fill="#57606a">%s</text></g>`+"\n",
			html.EscapeString(clean(job.ID)), job.Forecast, html.EscapeString(clean(job.Reason)), at.X, at.Y,
			size.Width, size.Height,
			strokes[job.Forecast], dashes, at.X+10, at.Y+17, html.EscapeString(name), at.X+10, at.Y+32, job.Forecast)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

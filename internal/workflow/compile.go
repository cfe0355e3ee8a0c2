package workflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
	"github.com/fairlead-ci/fairlead/internal/workflow/rule"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// Compile turns a workflow file into the plan of one run. All problems come back at
// once, in the order of the file; the plan is nil if any of them is an error.
//
// Trust: src and the values of in may come from anybody. The cost is bounded by lim.
func Compile(src Source, in Inputs, lim Limits) (*plan.Plan, []Diagnostic) {
	c := &compiler{in: in, lim: lim.lowered(), reports: syntax.NewReports(src.Path), path: src.Path,
		reference: Reference{Path: src.Path}, calls: &calls{read: map[string]*called{}}}
	c.root = c
	out := c.compileFile(src.Text)
	list := append(c.reports.Sorted(), c.calls.others...)
	if out == nil || c.reports.Failed() || c.failed {
		return nil, list
	}
	c.settle()
	c.requirements()
	return out, append(c.reports.Sorted(), c.calls.others...)
}

// compileFile compiles one file: that of the run, or a called one. Callers that are legs are left for
// settle. It is nil for what is no file of the language.
func (c *compiler) compileFile(text []byte) *plan.Plan {
	root := syntax.Load(text, c.lim.bounds(), c.reports)
	if root == nil {
		c.failed = true
		return nil
	}
	c.file = syntax.Read(root, c.reports)
	c.triggers = readTriggers(Source{Path: c.path, Text: text}, c.file, c.reports)
	for _, spec := range slices.Concat(c.triggers.Inputs, c.triggers.called) {
		c.inputsKnown = append(c.inputsKnown, rule.Input{Name: spec.Name, Type: spec.Type})
	}
	c.plan = &plan.Plan{
		Evaluator: plan.Evaluator,
		Name:      c.triggers.Name,
		Path:      c.path,
		Event:     c.in.Event,
	}
	if c.caller == nil {
		c.event()
		c.plan.Inputs = c.inputs()
	}
	c.call()
	c.head()
	c.jobs()
	return c.plan
}

// compiler is the state of one compilation.
type compiler struct {
	in       Inputs
	lim      Limits
	reports  *syntax.Reports
	file     *syntax.Workflow
	triggers Triggers
	plan     *plan.Plan

	path      string // of the file, as reports name it
	reference Reference
	caller    *caller   // of a called file
	root      *compiler // of the run's own file
	calls     *calls    // of all files
	called    []*called // by the jobs of the file; nil where nothing is called or followed
	failed    bool      // a called file has an error

	inputsKnown []rule.Input // to the expressions: those of all events that have inputs
	jobIDs      []string     // of the whole file, in its order
	needIDs     []string     // of the job at hand
	defaults    runDefaults
	planBytes   int
	unmet       []plan.Unmet // of the job or step at hand
	expanded    int          // steps of the job at hand, those of actions included
	frame       *frame
	actions     map[string]parsed // by reference
	// outputIDs are the outputs of every job with steps, by its id in upper case.
	outputIDs map[string][]string
	// matrixKeys are the properties of the context matrix in the job at hand; nil: not known.
	matrixKeys []string
}

// event checks that the workflow declares the event that starts it.
func (c *compiler) event() {
	if c.in.Event == "" || c.file.On == nil || c.triggers.Declares(c.in.Event) {
		return
	}
	hint := "add it under on"
	if len(c.triggers.Events) > 0 {
		hint += ", or start the workflow by one of its events: " + strings.Join(c.triggers.Events, ", ")
	}
	c.reports.Add(syntax.CodeEventNotDeclared, c.onRange(),
		fmt.Sprintf("the workflow does not declare the event %s", syntax.Quote(c.in.Event)), hint)
}

// head compiles what the file says of the run as a whole.
func (c *compiler) head() {
	if n := c.file.RunName; n != nil {
		c.template(n, at(expr.SiteRunName, "run-name"))
		c.plan.RunName = scalarText(n)
		c.charge(n.Range, c.plan.RunName)
	}
	c.plan.Concurrency = c.concurrency(c.file.Concurrency, at(expr.SiteWorkflowConcurrency, "concurrency"))
	c.whole(c.file.EnvFrom, workflowEnvScope())
	c.token()
}

// token says once that permissions have no effect yet: a job has no token, which is less
// than anything that permissions can ask for.
func (c *compiler) token() {
	first := c.file.Permissions
	for _, job := range c.file.Jobs {
		if first == nil {
			first = job.Permissions
		}
	}
	if first != nil {
		c.reports.Add(syntax.CodeNoToken, first.Key.Range, "permissions are recorded, and jobs get no token at all yet",
			"a step that needs a token must get it another way")
	}
}

// whole records an expression in the place of a mapping, which this release does not evaluate.
func (c *compiler) whole(n *syntax.Node, s scope) {
	if n == nil {
		return
	}
	c.template(n, s)
	text := scalarText(n)
	c.charge(n.Range, text)
	c.unmet = append(c.unmet, plan.Unmet{Code: plan.RequireDynamic, Key: s.key, Text: text})
}

// record keeps keys that have no effect yet: texts as they are written, anything else as JSON.
func (c *compiler) record(keys []syntax.Unmet, s scope) {
	for _, k := range keys {
		value := written(k.Pair.Value)
		text := value.Text()
		switch k.Pair.Value.Kind {
		case syntax.Scalar:
			s.key = k.Pair.Key.Value
			c.template(k.Pair.Value, s)
		default:
			data, err := value.MarshalJSON()
			if err != nil {
				c.reports.Add(syntax.CodeInvalidValue, k.Pair.Value.Range, err.Error(), "")
			}
			text = string(data)
		}
		c.charge(k.Pair.Key.Range, text)
		c.unmet = append(c.unmet, plan.Unmet{Code: string(k.Code), Key: k.Pair.Key.Value, Text: text})
	}
}

// written is a value as it is in the file, expressions as text.
func written(n *syntax.Node) expr.Value {
	switch n.Kind {
	case syntax.Sequence:
		items := make([]expr.Value, len(n.Items))
		for i, item := range n.Items {
			items[i] = written(item)
		}
		return expr.Array(items...)
	case syntax.Mapping:
		fields := make([]expr.Field, len(n.Pairs))
		for i, pair := range n.Pairs {
			fields[i] = expr.Field{Name: pair.Key.Value, Value: written(pair.Value)}
		}
		return expr.Object(fields...)
	}
	return scalarValue(n)
}

// requirements warns of what keeps the plan from being executed.
func (c *compiler) requirements() {
	for _, r := range plan.Requires(c.plan) {
		own := c.ownJob(r.Job)
		job := c.file.Jobs[own]
		at := job.ID.Range
		if own != r.Job {
			at = job.Call.Uses.Range
		} else if r.Step >= 0 && r.Step < len(job.Steps) {
			at = syntax.Range{Start: job.Steps[r.Step].Node.Start}
		}
		c.reports.Add(syntax.Code(r.Code), at, r.Message, r.Hint)
	}
}

// ownJob is the job of the file at hand by which the plan has that one: itself, or its caller.
func (c *compiler) ownJob(job int) int {
	for in := c.plan.Jobs[job].In; in != nil; in = c.plan.Jobs[job].In {
		if job = *in; job >= len(c.plan.Jobs) {
			job = c.plan.Legs[job-len(c.plan.Jobs)].Of
		}
	}
	return job
}

// jobs compiles every job and then connects them.
func (c *compiler) jobs() {
	if len(c.file.Jobs) > c.lim.Jobs {
		c.reports.Add(syntax.CodeTooManyJobs, c.file.Jobs[c.lim.Jobs].ID.Range,
			fmt.Sprintf("the workflow has %d jobs; at most %d are allowed", len(c.file.Jobs), c.lim.Jobs),
			"split the workflow")
		return
	}
	c.callees()
	c.outputIDs = make(map[string][]string, len(c.file.Jobs))
	for i, job := range c.file.Jobs {
		c.jobIDs = append(c.jobIDs, job.ID.Value)
		if k := c.called[i]; k != nil {
			c.outputIDs[strings.ToUpper(job.ID.Value)] = k.outputNames()
		}
		if len(job.Steps) == 0 {
			continue // it calls another workflow, or is broken
		}
		names := []string{}
		for _, o := range job.Outputs {
			names = append(names, o.Name.Value)
		}
		c.outputIDs[strings.ToUpper(job.ID.Value)] = names
	}
	env := c.env(c.file.Env, workflowEnvScope())
	c.defaults = c.runDefaults(c.file.Defaults, jobScope("defaults"))
	for _, job := range c.file.Jobs {
		c.needIDs = nil
		for _, n := range job.Needs {
			c.needIDs = append(c.needIDs, scalarText(n))
		}
		c.matrixKeys = matrixKeys(job)
		c.plan.Jobs = append(c.plan.Jobs, c.job(job, env))
	}
	c.bound()
	c.needs()
	if !c.reports.Failed() {
		c.expandCalls()
		c.bound()
	}
}

// bound counts the jobs after expansion: a job with a matrix is its legs.
func (c *compiler) bound() {
	total, largest, most := len(c.plan.Jobs), 0, 0
	for i := range c.plan.Jobs {
		if legs := len(c.plan.LegsOf(i)); legs > 0 {
			if total += legs - 1; legs > most {
				largest, most = i, legs
			}
		}
	}
	if total > c.lim.Jobs && len(c.file.Jobs) > 0 && len(c.file.Jobs) <= c.lim.Jobs {
		if largest >= len(c.file.Jobs) {
			largest = 0 // of a called workflow
		}
		c.reports.Add(syntax.CodeTooManyJobs, c.file.Jobs[largest].ID.Range,
			fmt.Sprintf("the workflow has %d jobs with the legs of its matrices and the jobs that it calls; at most %d are "+
				"allowed", total, c.lim.Jobs),
			"split the workflow")
	}
}

// charge counts text that goes into the plan. Variables of the workflow are repeated in
// every job, so a small file could otherwise make a huge plan.
func (c *compiler) charge(at syntax.Range, texts ...string) {
	before := c.planBytes
	for _, text := range texts {
		c.planBytes += len(text)
	}
	if before <= c.lim.PlanBytes && c.planBytes > c.lim.PlanBytes {
		c.reports.Add(syntax.CodePlanTooLarge, at,
			fmt.Sprintf("the plan has more than %d bytes of text at this place", c.lim.PlanBytes),
			"move long scripts and values into files of the repository")
	}
}

// full reports whether the plan is over its bound, after which nothing more is kept.
func (c *compiler) full() bool { return c.planBytes > c.lim.PlanBytes }

// env compiles one level of variables.
func (c *compiler) env(variables []syntax.Variable, s scope) []plan.Binding {
	var out []plan.Binding
	for _, v := range variables {
		name := v.Name.Value
		if name == "" || len(name) > variableMax || strings.ContainsAny(name, "=\x00") {
			c.reports.Add(syntax.CodeInvalidVariable, v.Name.Range,
				fmt.Sprintf("%s can't be the name of a variable", syntax.Quote(name)),
				fmt.Sprintf("a name has 1 to %d characters and no =", variableMax))
			continue
		}
		c.template(v.Value, s)
		out = append(out, plan.Binding{Name: name, Value: scalarText(v.Value)})
	}
	return out
}

package workflow

import (
	"fmt"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// Compile turns a workflow file into the plan of one run. All problems come back at
// once, in the order of the file; the plan is nil if any of them is an error.
//
// Trust: src and the values of in may come from anybody. The cost is bounded by lim.
func Compile(src Source, in Inputs, lim Limits) (*plan.Plan, []Diagnostic) {
	c := &compiler{in: in, lim: lim.lowered(), reports: syntax.NewReports(src.Path)}
	root := syntax.Load(src.Text, c.lim.bounds(), c.reports)
	if root == nil {
		return nil, c.reports.Sorted()
	}
	c.file = syntax.Read(root, c.reports)
	c.triggers = readTriggers(src, c.file, c.reports)
	c.plan = &plan.Plan{
		Evaluator: plan.Evaluator,
		Name:      c.triggers.Name,
		Path:      src.Path,
		Event:     in.Event,
	}
	c.event()
	c.plan.Inputs = c.inputs()
	c.call()
	c.head()
	c.jobs()
	if c.reports.Failed() {
		return nil, c.reports.Sorted()
	}
	return c.plan, c.reports.Sorted()
}

// compiler is the state of one compilation.
type compiler struct {
	in       Inputs
	lim      Limits
	reports  *syntax.Reports
	file     *syntax.Workflow
	triggers Triggers
	plan     *plan.Plan

	jobIDs    []string // of the whole file, in its order
	needIDs   []string // of the job at hand
	defaults  runDefaults
	planBytes int
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
	c.wholeEnv(c.file.EnvFrom, workflowEnvScope())
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

// wholeEnv refuses an expression in the place of a mapping.
func (c *compiler) wholeEnv(n *syntax.Node, s scope) {
	if n == nil {
		return
	}
	c.template(n, s)
	c.reports.Add(syntax.CodeUnsupportedDynamic, n.Range, "the whole of "+s.key+" can't come from an expression yet",
		"write its names out, and give each a value from an expression")
}

// jobs compiles every job and then connects them.
func (c *compiler) jobs() {
	if len(c.file.Jobs) > c.lim.Jobs {
		c.reports.Add(syntax.CodeTooManyJobs, c.file.Jobs[c.lim.Jobs].ID.Range,
			fmt.Sprintf("the workflow has %d jobs; at most %d are allowed", len(c.file.Jobs), c.lim.Jobs),
			"split the workflow")
		return
	}
	c.outputIDs = make(map[string][]string, len(c.file.Jobs))
	for _, job := range c.file.Jobs {
		c.jobIDs = append(c.jobIDs, job.ID.Value)
		if len(job.Steps) == 0 {
			continue // it calls another workflow, whose outputs are not in this file, or is broken
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
	if total > c.lim.Jobs && most > 0 {
		c.reports.Add(syntax.CodeTooManyJobs, c.file.Jobs[largest].ID.Range,
			fmt.Sprintf("the workflow has %d jobs with the legs of its matrices; at most %d are allowed", total, c.lim.Jobs),
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

package workflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/matrix"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// job compiles one job. Its needs are connected later, when all jobs are known.
func (c *compiler) job(in *syntax.Job, workflowEnv []plan.Binding) plan.Job {
	job := plan.Job{Index: len(c.plan.Jobs), Key: in.ID.Value, TimeoutSeconds: timeoutDefault}
	c.jobID(in.ID)
	job.Name = c.jobName(in)
	if cond := c.condition(in.If, jobIfScope()); cond != nil && !cond.Default() {
		job.If = cond.Text()
	}
	if !slices.ContainsFunc(in.RunsOn, func(n *syntax.Node) bool { return c.perLeg(in, n) }) {
		job.RunsOn = c.labels(in.RunsOn)
	}
	job.Env = c.jobEnv(in, workflowEnv)
	if !c.perLeg(in, in.Timeout) {
		if seconds, ok := c.timeout(in.Timeout, jobScope("timeout-minutes")); ok {
			job.TimeoutSeconds = seconds
		}
	}
	if !c.perLeg(in, in.SoftFail) {
		job.SoftFail = c.truth(in.SoftFail, jobScope("continue-on-error"))
	}
	job.Retry = c.retry(in.Retry)
	if in.Effects != nil {
		if text := scalarText(in.Effects); text != "external" {
			c.reports.Add(syntax.CodeInvalidValue, in.Effects.Range,
				fmt.Sprintf("effects can't be %s", syntax.Quote(text)),
				"the one value is external: the job changes something outside and must not be repeated blindly")
		}
		job.Effectful = true
	}
	c.whole(in.EnvFrom, jobEnvScope())
	c.other(in)
	c.checkCall(in)
	c.group(in.Group)
	if in.Group != nil {
		c.unmet = append(c.unmet, plan.Unmet{Code: plan.RequireRunnerGroup, Key: "group", Text: scalarText(in.Group)})
	}
	c.record(in.Unmet, jobScope("job"))
	job.Environment, job.Container, job.Services = c.boundary(in)
	job.Concurrency = c.concurrency(in.Concurrency, at(expr.SiteJobConcurrency, "concurrency"))
	c.waitsForItself(in, &job)
	job.Permissions = permissions(in.Permissions)
	if job.Permissions == nil {
		job.Permissions = permissions(c.file.Permissions)
	}
	c.permitted(in, &job)
	ids := c.stepIDs(in)
	job.Steps = c.steps(in, ids, c.runDefaults(in.Defaults, at(expr.SiteDefaultsRun, "defaults")).or(c.defaults))
	job.Outputs = c.outputs(in, ids)
	c.strategy(in, &job)
	c.callJob(in, &job)
	job.Unmet, c.unmet = c.unmet, nil
	job.Effectful = job.Effectful || job.Environment != nil || plan.Secret(c.plan, &job)
	return job
}

// runDefaults are what steps with run have unless they say otherwise.
type runDefaults struct{ shell, workDir string }

func (c *compiler) runDefaults(in syntax.Defaults, s scope) runDefaults {
	var out runDefaults
	c.whole(in.From, s)
	if in.Shell != nil {
		out.shell = c.shell(in.Shell, s)
	}
	if in.WorkDir != nil {
		c.template(in.WorkDir, s)
		out.workDir = scalarText(in.WorkDir)
	}
	return out
}

// or fills what is not said from the level above.
func (d runDefaults) or(above runDefaults) runDefaults {
	if d.shell == "" {
		d.shell = above.shell
	}
	if d.workDir == "" {
		d.workDir = above.workDir
	}
	return d
}

// permissions records what a file permits, in the order of the file.
func permissions(in *syntax.Permissions) *plan.Permissions {
	if in == nil {
		return nil
	}
	out := &plan.Permissions{}
	if in.All != nil {
		out.All = in.All.Value
	}
	for _, p := range in.Scopes {
		out.Scopes = append(out.Scopes, plan.Permission{Scope: p.Key.Value, Level: p.Value.Value})
	}
	return out
}

func (c *compiler) jobID(n *syntax.Node) {
	if why := badID(n.Value); why != "" {
		c.reports.Add(syntax.CodeInvalidJobID, n.Range, fmt.Sprintf("%s can't be the id of a job: %s",
			syntax.Quote(n.Value), why), "use letters, digits, - and _, starting with a letter; name: takes any text")
	}
}

// badID says what is wrong with the id of a job or step; empty when nothing is.
func badID(id string) string {
	switch {
	case len(id) > idMax:
		return fmt.Sprintf("it is longer than %d characters", idMax)
	case !isName(id):
		return "it is not a letter or _ followed by letters, digits, - and _"
	case strings.HasPrefix(id, "__"):
		return "ids that start with __ are reserved"
	}
	return ""
}

// jobName is the name for people: the id, unless a name is given.
func (c *compiler) jobName(in *syntax.Job) string {
	if c.perLeg(in, in.Name) {
		return in.ID.Value
	}
	v, known := c.static(in.Name, jobScope("name"))
	name := v.Text()
	if in.Name != nil && !known {
		name = scalarText(in.Name)
	}
	if strings.TrimSpace(name) == "" {
		return in.ID.Value
	}
	c.charge(in.ID.Range, name)
	return name
}

func (c *compiler) jobEnv(in *syntax.Job, workflowEnv []plan.Binding) []plan.Binding {
	own := c.env(in.Env, jobEnvScope())
	for _, b := range workflowEnv {
		c.charge(in.ID.Range, b.Name, b.Value)
	}
	for _, b := range own {
		c.charge(in.ID.Range, b.Name, b.Value)
	}
	if c.full() {
		return nil
	}
	return append(slices.Clone(workflowEnv), own...)
}

// labels evaluates runs-on. An expression may give one label or a list of them.
func (c *compiler) labels(nodes []*syntax.Node) []string {
	var out []string
	for _, n := range nodes {
		v, known := c.static(n, jobScope("runs-on"))
		if !known {
			continue
		}
		labels, problem := labelsOf(v)
		if problem != "" {
			code := syntax.CodeInvalidValue
			if v.Kind() == expr.KindArray && v.Len() == 0 {
				code = syntax.CodeEmptyValue
			}
			c.reports.Add(code, n.Range, problem, "")
		}
		for _, label := range labels {
			c.charge(n.Range, label)
			out = append(out, label)
		}
	}
	return out
}

func badLabel(v expr.Value, label string) string {
	switch {
	case v.Kind() == expr.KindArray || v.Kind() == expr.KindObject:
		return "it is not text"
	case label == "":
		return "it is empty"
	case len(label) > labelMax:
		return fmt.Sprintf("it is longer than %d characters", labelMax)
	case strings.ContainsFunc(label, func(r rune) bool { return r < ' ' || r == ',' || r == 0x7F }):
		return "it holds a comma or a control character"
	}
	return ""
}

// timeout evaluates timeout-minutes to seconds; fractions of a minute are allowed.
func (c *compiler) timeout(n *syntax.Node, s scope) (seconds int64, ok bool) {
	v, known := c.static(n, s)
	if !known {
		return 0, false
	}
	if seconds, ok = matrix.TimeoutOf(v); !ok {
		c.reports.Add(syntax.CodeInvalidTimeout, n.Range, fmt.Sprintf("%s is not a number of minutes between 0 and %d",
			syntax.Quote(v.Text()), timeoutMax/60), "fractions are allowed: 0.5 is 30 seconds")
		return 0, false
	}
	return seconds, true
}

// truth evaluates a key that is true or false.
func (c *compiler) truth(n *syntax.Node, s scope) bool {
	v, known := c.static(n, s)
	if !known {
		return false
	}
	if truth, ok := matrix.TruthOf(v); ok {
		return truth
	}
	c.reports.Add(syntax.CodeWrongType, n.Range, fmt.Sprintf("%s must be true or false, not %s", s.key,
		syntax.Quote(v.Text())), "")
	return false
}

// retry compiles the retry policy. Without one, only failures that are not the job's
// own doing are retried.
func (c *compiler) retry(in *syntax.Retry) plan.Retry {
	out := plan.Retry{
		Max:            retriesDefault,
		On:             []domain.FailureClass{domain.FailureRunnerLost, domain.FailurePlatform},
		BackoffSeconds: backoffDefault,
	}
	if in == nil {
		return out
	}
	if in.Max != nil {
		n, ok := scalarValue(in.Max).Whole()
		if in.Max.Type != syntax.TypeInt || !ok || n < 0 || n > retriesMax {
			c.reports.Add(syntax.CodeInvalidRetry, in.Max.Range,
				fmt.Sprintf("max must be a whole number from 0 to %d", retriesMax), "it counts attempts after the first")
		}
		out.Max = int(n)
	}
	if len(in.On) > 0 {
		out.On = c.classes(in.On)
	}
	if in.Backoff != nil {
		seconds, ok := backoff(scalarText(in.Backoff))
		if !ok {
			c.reports.Add(syntax.CodeInvalidRetry, in.Backoff.Range,
				fmt.Sprintf("%s is not a wait between 0 and %d seconds", syntax.Quote(scalarText(in.Backoff)), backoffMax),
				"write seconds, or a number with s, m or h, like 30s")
		}
		out.BackoffSeconds = seconds
	}
	return out
}

func (c *compiler) classes(nodes []*syntax.Node) []domain.FailureClass {
	allowed := []string{string(domain.FailureRunnerLost), string(domain.FailurePlatform),
		string(domain.FailureUserCode), string(domain.FailureTimeout)}
	var out []domain.FailureClass
	for _, n := range nodes {
		class := scalarText(n)
		if !slices.Contains(allowed, class) {
			c.reports.Add(syntax.CodeInvalidRetry, n.Range, fmt.Sprintf("%s is not a class of failure that can be retried",
				syntax.Quote(class)), c.reports.Suggest(class, allowed, "classes are "+strings.Join(allowed, ", ")))
			continue
		}
		if !slices.Contains(out, domain.FailureClass(class)) {
			out = append(out, domain.FailureClass(class))
		}
	}
	return out
}

// backoff reads a wait: a whole number, with s, m or h after it or nothing for seconds.
func backoff(text string) (seconds int64, ok bool) {
	factor := int64(1)
	switch text[max(len(text)-1, 0):] {
	case "s":
		text = text[:len(text)-1]
	case "m":
		text, factor = text[:len(text)-1], 60
	case "h":
		text, factor = text[:len(text)-1], 3600
	}
	n, whole := expr.String(text).Whole()
	if strings.TrimSpace(text) == "" || !whole || n < 0 || n > backoffMax || n*factor > backoffMax {
		return 0, false
	}
	return n * factor, true
}

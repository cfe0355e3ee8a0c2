package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
)

// Codes of requirements. They are codes of diagnostics too.
const (
	RequireAction      = "not_run_action"
	RequireOption      = "not_run_checkout_option"
	RequireSecrets     = "not_run_secrets"
	RequireVars        = "not_run_vars"
	RequireContainer   = "not_run_container"
	RequireServices    = "not_run_services"
	RequireShell       = "not_run_shell"
	RequireRunnerGroup = "not_run_runner_group"
	RequireDynamic     = "not_run_dynamic_value"
	RequireBackground  = "not_run_background_steps"
	RequireDeployment  = "not_run_deployment"
	RequireKey         = "not_run_key"
)

// Requirement is something that executing a plan needs and this release does not do.
type Requirement struct {
	Code    string
	Message string
	Hint    string
	Job     int // index
	Step    int // index; -1: the job as a whole
	Line    int // of the step, or of the first step of the job; 0 without one
}

// Requires lists what keeps a plan from being executed, in the order of its jobs and steps. A run
// of a plan that requires something would not do what its file says, so none is started.
func Requires(p *Plan) []Requirement {
	r := &requires{plan: p}
	for i := range p.Jobs {
		r.job(i)
	}
	return r.found
}

type requires struct {
	plan         *Plan
	index, place int // of the job and the step at hand
	line         int
	found        []Requirement
}

func (r *requires) add(code, hint, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	r.found = append(r.found,
		Requirement{Code: code, Message: message, Hint: hint, Job: r.index, Step: r.place, Line: r.line})
}

func (r *requires) job(i int) {
	job := &r.plan.Jobs[i]
	r.index, r.place, r.line = i, -1, 0
	if len(job.Steps) > 0 {
		r.line = job.Steps[0].Line
	}
	if c := job.Container; c != nil {
		r.add(RequireContainer, "choose a runner that has the tools, with runs-on",
			"the steps of job %q shall run in the image %q; jobs run on the runner itself", job.Key, c.Image)
	}
	if len(job.Services) > 0 {
		r.add(RequireServices, "start the service in a step of the job",
			"job %q wants the service %q beside it; services are not started", job.Key, job.Services[0].Name)
	}
	r.unmet(job.Unmet, fmt.Sprintf("job %q", job.Key))
	names := mentions(jobTexts(r.plan, job))
	r.contexts(names, fmt.Sprintf("job %q", job.Key))
	for n := range job.Steps {
		r.place, r.line = n, job.Steps[n].Line
		r.step(job, &job.Steps[n], names)
	}
}

func (r *requires) unmet(list []Unmet, who string) {
	for _, u := range list {
		switch u.Code {
		case RequireRunnerGroup:
			r.add(u.Code, "name the labels of the pool", "%s names the runner group %s; pools are found by labels", who, u.Text)
		case RequireDynamic:
			r.add(u.Code, "write the value out", "%s takes %q from an expression that is not evaluated at this place",
				who, u.Key)
		case RequireBackground:
			r.add(u.Code, "run the steps one after another, or as jobs",
				"%s has the key %q; steps run one after another", who, u.Key)
		default:
			r.add(u.Code, "remove the key, or wait for a release that acts on it",
				"%s has the key %q, which has no effect yet", who, u.Key)
		}
	}
}

func (r *requires) contexts(names mention, who string) {
	if names.secrets {
		r.add(RequireSecrets, "no secrets can be stored yet, and jobs get no token",
			"%s names secrets or the job's token, and there are none", who)
	}
	if names.vars {
		r.add(RequireVars, "write the value in env", "%s names vars, and there are none", who)
	}
}

// step looks at a step, and at those within it, which have the place of the outermost: that is the
// one in the file.
func (r *requires) step(job *Job, step *Step, above mention) {
	who := fmt.Sprintf("step %q of job %q", step.ID, job.Key)
	switch step.Uses {
	case UsesRun, UsesComposite, UsesWait:
	case UsesCheckout:
		r.checkout(step, who)
	case UsesDeploy:
		r.add(RequireDeployment, "deploy in a script until deployments are made",
			"%s deploys %q; nothing deploys it yet", who, step.Action)
	case UsesAction:
		r.add(RequireAction, "nothing, if it is composite; JavaScript and container actions are not run",
			"%s uses the action %q, which is looked up when a run is asked for", who, step.Action)
	default:
		r.add(RequireAction, "do the same with run, or with a composite action; actions/checkout is built in",
			"%s uses the action %q, which is not run", who, step.Action)
	}
	if program, _, _ := strings.Cut(step.Shell, " "); program == "cmd" || program == "powershell" {
		r.add(RequireShell, "use pwsh, bash or sh", "%s wants the shell %q, and runners are not Windows", who, program)
	}
	r.unmet(step.Unmet, who)
	names := mentions(stepTexts(step, nil))
	r.contexts(mention{names.secrets && !above.secrets, names.vars && !above.vars}, who)
	for i := range step.Steps {
		r.step(job, &step.Steps[i], names)
	}
}

// checkout lists the options that the built-in checkout does not have.
func (r *requires) checkout(step *Step, who string) {
	for _, option := range step.With {
		if slices.Contains(CheckoutOptions(), option.Name) {
			continue
		}
		r.add(RequireOption, "without the option, checkout puts the run's commit into the workspace",
			"%s asks for the option %q of checkout, which it does not have", who, option.Name)
	}
}

// CheckoutOptions are the options with which a runner's checkout does what they say.
func CheckoutOptions() []string { return []string{"fetch-depth", "path"} }

// Secret reports whether a job names secrets or its token anywhere.
func Secret(p *Plan, job *Job) bool {
	texts := jobTexts(p, job)
	for i := range job.Steps {
		texts = stepTexts(&job.Steps[i], texts)
	}
	return mentions(texts).secrets
}

// mention is what texts name of the contexts that have no values here.
type mention struct{ secrets, vars bool }

// text is a template, or the text of a condition.
type text struct {
	value     string
	condition bool
}

func mentions(texts []text) mention {
	var m mention
	for _, t := range texts {
		lower := t.value
		if !t.condition && !strings.Contains(lower, "${{") {
			continue
		}
		lower = strings.ToLower(lower)
		if !strings.Contains(lower, "secrets") && !strings.Contains(lower, "vars") && !strings.Contains(lower, "token") {
			continue
		}
		for _, ref := range t.references() {
			m.secrets = m.secrets || ref.Path[0] == "secrets" ||
				len(ref.Path) > 1 && ref.Path[0] == "github" && strings.EqualFold(ref.Path[1], "token")
			m.vars = m.vars || ref.Path[0] == "vars"
		}
	}
	return m
}

func (t text) references() []expr.Reference {
	if t.condition {
		c, err := expr.ParseCondition(t.value)
		if err != nil || c.Template() == nil {
			return nil
		}
		return c.Template().References()
	}
	parsed, err := expr.ParseTemplate(t.value)
	if err != nil {
		return nil // the compiler made none
	}
	return parsed.References()
}

// jobTexts are the texts of a job beside those of its steps.
func jobTexts(p *Plan, job *Job) []text {
	out := []text{{p.RunName, false}, {job.If, true}, {job.Name, false}}
	out = bindings(out, job.Env, job.Outputs)
	if s := job.Strategy; s != nil && s.Later != nil {
		out = append(out, text{string(s.Later.Matrix), false}, text{s.Later.Name, false}, text{s.Later.Timeout, false},
			text{s.Later.SoftFail, false}, text{s.Later.FailFast, false}, text{s.Later.MaxParallel, false})
		for _, label := range s.Later.RunsOn {
			out = append(out, text{label, false})
		}
	}
	if e := job.Environment; e != nil {
		out = append(out, text{e.Name, false}, text{e.URL, false})
	}
	if c := job.Container; c != nil {
		out = container(out, c)
	}
	for i := range job.Services {
		out = container(out, &job.Services[i].Container)
	}
	for _, u := range job.Unmet {
		out = append(out, text{u.Text, false})
	}
	return out
}

func container(out []text, c *Container) []text {
	out = append(out, text{c.Image, false}, text{c.Options, false}, text{c.User, false}, text{c.Password, false},
		text{c.Entrypoint, false}, text{c.Command, false})
	for _, list := range [][]string{c.Ports, c.Volumes} {
		for _, one := range list {
			out = append(out, text{one, false})
		}
	}
	return bindings(out, c.Env)
}

// stepTexts are the texts of a step.
func stepTexts(step *Step, out []text) []text {
	out = append(out, text{step.Name, false}, text{step.Script, false}, text{step.Shell, false},
		text{step.WorkDir, false}, text{step.If, true}, text{step.SoftFailText, false}, text{step.TimeoutText, false})
	for _, u := range step.Unmet {
		out = append(out, text{u.Text, false})
	}
	return bindings(out, step.Env, step.With, step.Outputs)
}

func bindings(out []text, lists ...[]Binding) []text {
	for _, list := range lists {
		for _, b := range list {
			out = append(out, text{b.Value, false})
		}
	}
	return out
}

package workflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// Bounds of calls.
const (
	callDepthMax = 10       // calls that lead to a job
	callsMax     = 50       // calls of a run, each leg of a matrix and each copy counted
	callBytesMax = 16 << 20 // text of called workflows, each time that one is compiled
)

// called is a workflow that a job of the file at hand calls.
type called struct {
	reference Reference
	component Component
	spec      *syntax.Callable
	name      string
}

// caller is the call that a file is compiled for.
type caller struct {
	of     *compiler
	at     syntax.Range // of uses
	place  string       // of the job that calls, for people
	inputs []plan.Input // with their values; those of known are not templates
	known  map[string]bool
	// allowed is what the calling job's token may do; nil: nothing is said.
	allowed   *plan.Permissions
	allowedAt string
	depth     int
}

// calls is what a compilation has called so far, over all files.
type calls struct {
	read   map[string]*called // by reference: what is looked up for every job is read once
	count  int
	bytes  int
	jobs   int
	full   bool // a bound was exceeded, and that was reported
	others []Diagnostic
}

// callees looks up the workflows that the jobs call, before any job is compiled: their outputs are
// what other jobs may refer to.
func (c *compiler) callees() {
	c.called = make([]*called, len(c.file.Jobs))
	for i, job := range c.file.Jobs {
		if job.Call == nil || badWorkflow(job.Call.Uses.Value) != "" {
			continue
		}
		reference, ok := readReference(job.Call.Uses.Value, c.reference)
		if !ok {
			continue
		}
		c.called[i] = c.callee(job, reference)
	}
}

// callee reads what a called workflow takes and gives. It is nil when the reference is not followed.
func (c *compiler) callee(job *syntax.Job, reference Reference) *called {
	found, resolving := c.in.Components.find(reference)
	if !resolving {
		return nil
	}
	at := job.Call.Uses.Range
	if found.Problem != "" {
		c.reports.Add(syntax.CodeUnresolved, at, fmt.Sprintf("the workflow %s can't be called: %s",
			syntax.Quote(reference.String()), found.Problem), "")
		return nil
	}
	c.pinned(job.Call.Uses, found)
	out := c.calls.read[reference.String()]
	if out == nil {
		out = readCalled(reference, found, c.lim)
		c.calls.read[reference.String()] = out
	}
	if out.spec == nil {
		c.reports.Add(syntax.CodeNotCallable, at, fmt.Sprintf("the workflow %s can't be called: it does not declare "+
			"the event workflow_call", syntax.Quote(reference.String())), "add workflow_call under its on")
		return nil
	}
	return out
}

// readCalled reads what a workflow says to its callers; spec is nil when it can't be called.
func readCalled(reference Reference, found Component, lim Limits) *called {
	out := &called{reference: reference, component: found, name: found.File, spec: &syntax.Callable{}}
	quiet := syntax.NewReports(found.File)
	root := syntax.Load(found.Text, lim.bounds(), quiet)
	if root == nil {
		return out // what is wrong with it is reported where it is compiled
	}
	file := syntax.ReadTriggers(root, quiet)
	if file.Name != nil && strings.TrimSpace(file.Name.Value) != "" {
		out.name = scalarText(file.Name)
	}
	out.spec = nil
	if file.On != nil {
		out.spec = file.On.Call
	}
	return out
}

// outputNames are the outputs that a called workflow declares.
func (k *called) outputNames() []string {
	names := []string{}
	for _, o := range k.spec.Outputs {
		names = append(names, o.Name.Value)
	}
	return names
}

// callJob compiles what a job says to the workflow that it calls.
func (c *compiler) callJob(in *syntax.Job, job *plan.Job) {
	if in.Call == nil {
		return
	}
	reference, _ := readReference(in.Call.Uses.Value, c.reference)
	job.Call = &plan.Call{Workflow: in.Call.Uses.Value, Path: reference.Path, Name: reference.Path}
	switch {
	case in.Call.Inherit != nil && in.Call.Inherit.Value == "inherit":
		job.Call.Secrets = &plan.Secrets{Inherit: true}
	case len(in.Call.Secrets) > 0:
		job.Call.Secrets = &plan.Secrets{}
		for _, pair := range in.Call.Secrets {
			job.Call.Secrets.Named = append(job.Call.Secrets.Named,
				plan.Binding{Name: pair.Key.Value, Value: scalarText(pair.Value)})
		}
	}
	if job.Strategy != nil && job.Strategy.Later != nil {
		c.reports.Add(syntax.CodeUnsupportedCall, in.Strategy.Matrix.Range,
			"a job that calls a workflow can't have a matrix that only a run tells yet",
			"write the matrix down, or move it into a job of the called workflow")
	}
	k := c.called[job.Index]
	if k == nil {
		for _, pair := range in.Call.With {
			job.Call.Inputs = append(job.Call.Inputs, plan.Input{Name: pair.Key.Value, Type: plan.InputString,
				Value: scalarText(pair.Value)})
		}
		return
	}
	job.Call.Path, job.Call.Name = k.component.File, k.name
	if k.reference.Repository != "" {
		job.Call.Component = k.component.Digest()
	}
	job.Call.Inputs = c.callInputs(in, k)
	c.secrets(in, k)
	for _, o := range k.spec.Outputs {
		if o.Value != nil {
			job.Call.Outputs = append(job.Call.Outputs, plan.Binding{Name: o.Name.Value, Value: scalarText(o.Value)})
		}
	}
}

// callInputs gives every input that a called workflow declares its value, as it is written.
func (c *compiler) callInputs(in *syntax.Job, k *called) []plan.Input {
	given := map[string]*syntax.Node{}
	var names []string
	declared := make(map[string]bool, len(k.spec.Inputs))
	for _, spec := range k.spec.Inputs {
		names = append(names, spec.Name.Value)
		declared[strings.ToLower(spec.Name.Value)] = true
	}
	for _, pair := range in.Call.With {
		name := strings.ToLower(pair.Key.Value)
		if !declared[name] {
			c.reports.Add(syntax.CodeUnknownInput, pair.Key.Range, fmt.Sprintf("the workflow %s has no input %s",
				syntax.Quote(in.Call.Uses.Value), syntax.Quote(pair.Key.Value)), c.reports.Suggest(pair.Key.Value, names, ""))
			continue
		}
		given[name] = pair.Value
	}
	var out []plan.Input
	for _, spec := range k.spec.Inputs {
		one := InputSpec{Name: spec.Name.Value, Type: calledType(spec.Type)}
		required, _ := truthOf(spec.Required)
		value := given[strings.ToLower(one.Name)]
		text := one.absent()
		switch {
		case value != nil && value.Kind == syntax.Scalar:
			text = c.fit(one, value, in.Call.Uses.Value)
		case required:
			c.reports.Add(syntax.CodeMissingInput, in.Call.Uses.Range, fmt.Sprintf("the workflow %s requires the input %s",
				syntax.Quote(in.Call.Uses.Value), syntax.Quote(one.Name)), "give it under with")
		case spec.Default != nil:
			if text = scalarText(spec.Default); !expr.HasExpression(text) && one.check(text) == "" {
				text = one.normal(text)
			}
		}
		c.charge(in.Call.Uses.Range, one.Name, text)
		out = append(out, plan.Input{Name: one.Name, Type: one.Type, Value: text})
	}
	return out
}

// fit is the text of a value that is given for an input; one that is written down must be of its type.
func (c *compiler) fit(spec InputSpec, n *syntax.Node, uses string) string {
	text := scalarText(n)
	if n.Type == syntax.TypeString && expr.HasExpression(text) {
		return text
	}
	why := spec.check(text)
	switch {
	case spec.Type == plan.InputBoolean && n.Type != syntax.TypeBool:
		why = "it must be true or false, without quotes"
	case spec.Type == plan.InputNumber && n.Type != syntax.TypeInt && n.Type != syntax.TypeFloat:
		why = "it must be a number, without quotes"
	}
	if why != "" {
		c.reports.Add(syntax.CodeInvalidInputValue, n.Range, fmt.Sprintf("the value for the input %s of %s does not fit: %s",
			syntax.Quote(spec.Name), syntax.Quote(uses), why), "")
		return spec.absent()
	}
	return spec.normal(text)
}

func truthOf(n *syntax.Node) (truth, ok bool) {
	if n == nil {
		return false, true
	}
	return boolean(n)
}

// secrets checks the names of what is passed.
func (c *compiler) secrets(in *syntax.Job, k *called) {
	if in.Call.Inherit != nil && in.Call.Inherit.Value == "inherit" {
		return
	}
	var names []string
	for _, s := range k.spec.Secrets {
		names = append(names, s.Name.Value)
	}
	given := func(name string) bool {
		return slices.ContainsFunc(in.Call.Secrets, func(p syntax.Pair) bool { return strings.EqualFold(p.Key.Value, name) })
	}
	for _, pair := range in.Call.Secrets {
		if !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, pair.Key.Value) }) {
			c.reports.Add(syntax.CodeUnknownInput, pair.Key.Range, fmt.Sprintf("the workflow %s has no secret %s",
				syntax.Quote(in.Call.Uses.Value), syntax.Quote(pair.Key.Value)), c.reports.Suggest(pair.Key.Value, names, ""))
		}
	}
	for _, s := range k.spec.Secrets {
		if required, _ := truthOf(s.Required); required && !given(s.Name.Value) {
			c.reports.Add(syntax.CodeMissingInput, in.Call.Uses.Range, fmt.Sprintf("the workflow %s requires the secret %s",
				syntax.Quote(in.Call.Uses.Value), syntax.Quote(s.Name.Value)), "give it under secrets, or write secrets: inherit")
		}
	}
}

// expandCalls adds the jobs of the called workflows to the plan, once for each leg of a matrix. Until
// all jobs are there, a leg is named by a number below 0; see settle.
func (c *compiler) expandCalls() {
	for i, in := range c.file.Jobs {
		k := c.called[i]
		if k == nil || c.calls.full {
			continue
		}
		job := &c.plan.Jobs[i]
		if job.Strategy == nil {
			if in.Strategy == nil || in.Strategy.Matrix == nil {
				c.expandCall(in, k, i, -1)
			}
			continue // of a matrix that has no legs to look at
		}
		for _, leg := range c.plan.LegsOf(i) {
			c.expandCall(in, k, i, leg)
		}
	}
}

// expandCall compiles the called workflow for one caller.
func (c *compiler) expandCall(in *syntax.Job, k *called, job, leg int) {
	if !c.callable(in, k) {
		return
	}
	of := &c.plan.Jobs[job]
	key, name, at, values := of.Key, of.Name, job, c.staticContext
	if leg >= 0 {
		l := &c.plan.Legs[leg]
		key, name, at = l.Key, l.Name, -1-leg
		matrix, err := expr.FromJSON(string(l.Matrix))
		if err == nil {
			values = func(name string) (expr.Value, bool) {
				if name == "matrix" {
					return matrix, true
				}
				return c.staticContext(name)
			}
		}
	}
	call := &caller{of: c, at: in.Call.Uses.Range, known: map[string]bool{}, depth: c.depth() + 1,
		place: fmt.Sprintf("%s:%d", c.path, in.Call.Uses.Start.Line), allowed: of.Permissions, allowedAt: c.path}
	if of.Permissions == nil && c.caller != nil {
		call.allowed, call.allowedAt = c.caller.allowed, c.caller.allowedAt
	}
	call.inputs = c.knownInputs(in, of.Call.Inputs, values, call.known)
	if leg < 0 && of.Call != nil {
		of.Call.Inputs = call.inputs
	}
	sub := c.inside(k, call)
	made := sub.compileFile(k.component.Text)
	for _, d := range sub.reports.Sorted() {
		d.Message += " (called at " + call.place + ")"
		if !slices.Contains(c.calls.others, d) {
			c.calls.others = append(c.calls.others, d)
		}
		c.failed = c.failed || d.Severity == Error
	}
	c.failed = c.failed || sub.failed
	c.planBytes = sub.planBytes
	if made != nil && made.Concurrency != nil {
		c.calledGroup(in, &c.plan.Jobs[job], sub, made.Concurrency)
	}
	if made != nil && !c.full() {
		c.splice(made, key, name, at)
	}
}

// calledGroup lets a call join the concurrency group of the workflow that it calls: the job does, as
// if the group were its own. That is possible when the group does not rest on what only the called
// workflow knows, and the job has no other.
func (c *compiler) calledGroup(in *syntax.Job, job *plan.Job, sub *compiler, group *plan.Concurrency) {
	s := at(expr.SiteWorkflowConcurrency, "concurrency")
	out, problem := *group, ""
	for _, text := range []*string{&out.Group, &out.Cancel} {
		t, err := expr.ParseTemplate(*text)
		if err != nil || t.Plain() {
			continue // reported
		}
		switch certainty := sub.certainty(t, s); {
		case certainty == whenCompiled:
			if v, err := t.Eval(expr.Env{Context: sub.staticContext}); err == nil {
				*text = v.Text()
			}
		case certainty == whenRunning && slices.ContainsFunc(t.References(), func(r expr.Reference) bool {
			return r.Path[0] != "github"
		}):
			problem = "it depends on inputs that only the run tells"
		}
	}
	switch {
	case problem != "":
	case in.Concurrency != nil:
		problem = "the job that calls it has one too"
	case job.Concurrency != nil && (job.Concurrency.Group != out.Group || job.Concurrency.Cancel != out.Cancel):
		problem = "it is another one for each leg of the matrix"
	default:
		job.Concurrency = &out
		return
	}
	c.reports.Add(syntax.CodeUnsupportedConcurrency, in.Call.Uses.Range,
		fmt.Sprintf("the workflow %s has a concurrency group that can't be joined yet: %s",
			syntax.Quote(in.Call.Uses.Value), problem), "move the group into the workflow that calls it")
}

// depth is how many calls lead to the file at hand.
func (c *compiler) depth() int {
	if c.caller == nil {
		return 0
	}
	return c.caller.depth
}

// callable checks the bounds of calls, and that the workflow does not call itself.
func (c *compiler) callable(in *syntax.Job, k *called) bool {
	name := k.reference.String()
	at := in.Call.Uses.Range
	chain := []string{name}
	for of := c; of != nil; {
		chain = append(chain, of.reference.String())
		if of.reference.String() == name {
			slices.Reverse(chain)
			c.reports.Add(syntax.CodeCallCycle, at, "these workflows call each other without an end: "+
				strings.Join(chain, " → "), "remove one of the calls")
			return false
		}
		if of.caller == nil {
			break
		}
		of = of.caller.of
	}
	c.calls.count++
	c.calls.bytes += len(k.component.Text)
	problem := ""
	switch {
	case c.depth() >= callDepthMax:
		problem = fmt.Sprintf("calls lead to it over more than %d levels", callDepthMax)
	case c.calls.count > callsMax:
		problem = fmt.Sprintf("the run makes more than %d calls, those of called workflows and the legs of a matrix "+
			"counted", callsMax)
	case c.calls.bytes > callBytesMax:
		problem = fmt.Sprintf("the workflows that the run calls have more than %d bytes together", callBytesMax)
	case c.calls.jobs > c.lim.Jobs:
		problem = fmt.Sprintf("the run has more than %d jobs with those that it calls", c.lim.Jobs)
	}
	if problem == "" {
		return true
	}
	c.calls.full = true
	c.reports.Add(syntax.CodeTooManyCalls, at, fmt.Sprintf("the workflow %s can't be called: %s",
		syntax.Quote(name), problem),
		"split the workflow")
	return false
}

// knownInputs evaluates the inputs of a call that are known before the run starts.
func (c *compiler) knownInputs(
	in *syntax.Job, inputs []plan.Input, values Contexts, known map[string]bool,
) []plan.Input {
	out := slices.Clone(inputs)
	s := at(expr.SiteCallWith, "with")
	for i := range out {
		one := &out[i]
		name := strings.ToLower(one.Name)
		if !expr.HasExpression(one.Value) {
			known[name] = true
			continue
		}
		t, err := expr.ParseTemplate(one.Value)
		if err != nil || c.in.Event == "" || c.certainty(t, s) != whenCompiled {
			continue
		}
		v, err := t.Eval(expr.Env{Context: values})
		spec := InputSpec{Name: one.Name, Type: one.Type}
		why := ""
		if err == nil {
			why = spec.check(v.Text())
		} else {
			why = err.Error()
		}
		if why != "" {
			c.reports.Add(syntax.CodeInvalidInputValue, in.Call.Uses.Range, fmt.Sprintf(
				"the value for the input %s of %s does not fit: %s", syntax.Quote(one.Name),
				syntax.Quote(in.Call.Uses.Value), why), "")
			continue
		}
		one.Value, known[name] = spec.normal(v.Text()), !expr.HasExpression(v.Text())
	}
	return out
}

// inside is the compiler of a called file.
func (c *compiler) inside(k *called, call *caller) *compiler {
	path := k.component.File
	if k.reference.Repository != "" {
		path = k.reference.String()
	}
	return &compiler{in: c.in, lim: c.lim, reports: syntax.NewReports(path), path: path, reference: k.reference,
		caller: call, calls: c.calls, planBytes: c.planBytes, root: c.root}
}

// splice adds the jobs of a called workflow to those of the file that calls it.
func (c *compiler) splice(from *plan.Plan, key, name string, caller int) {
	jobs, legs := len(c.plan.Jobs), len(c.plan.Legs)
	for _, job := range from.Jobs {
		if job.ID == "" {
			job.ID = job.Key
		}
		switch {
		case job.In == nil:
			job.In = &caller
		case *job.In >= 0:
			in := *job.In + jobs
			job.In = &in
		default:
			in := *job.In - legs
			job.In = &in
		}
		job.Index += jobs
		job.Key, job.Name = key+"/"+job.Key, name+" / "+job.Name
		for i := range job.Needs {
			job.Needs[i] += jobs
		}
		c.plan.Jobs = append(c.plan.Jobs, job)
	}
	for _, leg := range from.Legs {
		leg.Of += jobs
		leg.Key, leg.Name = key+"/"+leg.Key, name+" / "+leg.Name
		c.plan.Legs = append(c.plan.Legs, leg)
	}
	c.calls.jobs += len(from.Jobs)
}

// settle names callers that are legs by their indexes.
func (c *compiler) settle() {
	for i := range c.plan.Jobs {
		if in := c.plan.Jobs[i].In; in != nil && *in < 0 {
			at := len(c.plan.Jobs) - 1 - *in
			c.plan.Jobs[i].In = &at
		}
	}
}

// permitted checks that a job of a called workflow asks for no more than its caller may do.
func (c *compiler) permitted(in *syntax.Job, job *plan.Job) {
	if c.caller == nil || c.caller.allowed == nil {
		return
	}
	written := in.Permissions
	if written == nil {
		written = c.file.Permissions
	}
	if job.Permissions == nil {
		job.Permissions = c.caller.allowed
		return
	}
	if written == nil {
		return
	}
	for _, p := range exceeding(job.Permissions, c.caller.allowed) {
		c.reports.Add(syntax.CodePermissionsExceeded, written.Key.Range, fmt.Sprintf(
			"the job %s asks for %s: %s, and the job that calls it at %s permits %s", syntax.Quote(in.ID.Value), p.Scope,
			p.Level, c.caller.place, levelText(c.caller.allowed, p.Scope)), "permit it there, or ask for less here")
	}
}

// exceeding lists what asks for more than allowed.
func exceeding(asked, allowed *plan.Permissions) []plan.Permission {
	var out []plan.Permission
	if asked.All != "" {
		if rankOf(level(asked, "")) > rankOf(level(allowed, "")) {
			out = append(out, plan.Permission{Scope: "all", Level: asked.All})
		}
		return out
	}
	for _, p := range asked.Scopes {
		if rankOf(p.Level) > rankOf(level(allowed, p.Scope)) {
			out = append(out, p)
		}
	}
	return out
}

// level is what permissions say of a scope; "" stands for all that are not named.
func level(p *plan.Permissions, scope string) string {
	for _, s := range p.Scopes {
		if strings.EqualFold(s.Scope, scope) {
			return s.Level
		}
	}
	return strings.TrimSuffix(p.All, "-all")
}

func levelText(p *plan.Permissions, scope string) string {
	if l := level(p, scope); l != "" {
		return l
	}
	return "none"
}

func rankOf(level string) int { return slices.Index([]string{"", "none", "read", "write"}, level) }

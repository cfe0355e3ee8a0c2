package syntax

import "slices"

// readJob reads one entry of jobs. Its id is kept even when its body is unusable, so that
// needs of other jobs are not reported as unknown on top.
func (r *reader) readJob(p Pair) *Job {
	job := &Job{ID: p.Key}
	what := "the job " + Quote(p.Key.Value)
	n := r.mapping(p, what)
	if n == nil {
		return job
	}
	f := r.fields(n, "a job", r.job)
	job.Name = scalarOf(f["name"])
	job.Needs = scalarsOf(f["needs"])
	job.If = scalarOf(f["if"])
	job.RunsOn, job.Group = runsOnOf(f["runs-on"])
	job.Env, job.EnvFrom = envOf(f["env"])
	job.Permissions = permissionsOf(f["permissions"])
	job.Defaults = defaultsOf(f["defaults"])
	job.Timeout = scalarOf(f["timeout-minutes"])
	job.SoftFail = scalarOf(f["continue-on-error"])
	job.Retry = retryOf(f["retry"])
	job.Effects = scalarOf(f["effects"])
	job.Strategy = r.strategy(f["strategy"])
	job.Outputs = r.outputs(f["outputs"])
	r.unavailable(job, f)
	job.Unmet = unmet(r.job, f)
	if p := below(f["runs-on"])["fallback"]; p.Value != nil {
		job.Unmet = append(job.Unmet, Unmet{CodeNotRunKey, p})
	}
	_, calls := f["uses"]
	job.Steps = r.steps(p.Key, f)
	switch _, runs := f["runs-on"]; {
	case calls:
		r.call(job, n)
	case runs && len(job.RunsOn) == 0 && job.Group == nil && emptyMapping(f["runs-on"].Value):
		r.add(CodeMissingKey, f["runs-on"].Key, "add labels: [linux-medium]", "runs-on must have the key \"labels\"")
	case !runs && !deploysOnly(f):
		r.add(CodeMissingKey, p.Key, "add runs-on with the label of a pool, for example linux-medium",
			"%s must have the key \"runs-on\"", what)
	}
	return job
}

func emptyMapping(n *Node) bool { return n != nil && n.Kind == Mapping && len(n.Pairs) == 0 }

// unmet are the keys that a plan only records, in the order of the table.
func unmet(keys []key, f map[string]Pair) []Unmet {
	var out []Unmet
	for _, k := range keys {
		if p := f[k.name]; k.unmet != "" && p.Value != nil {
			out = append(out, Unmet{k.unmet, p})
		}
	}
	return out
}

// unavailable reads the keys of a job beside its steps, whatever of them has an effect yet.
func (r *reader) unavailable(job *Job, f map[string]Pair) {
	job.Concurrency = r.concurrency(f["concurrency"])
	job.Environment = environmentOf(f["environment"])
	job.Container = containerOf(f["container"])
	job.Services = servicesOf(f["services"])
	job.Snapshot = snapshotOf(f["snapshot"])
	for _, of := range []Site{
		{Key: "concurrency", Under: "job-concurrency"}, {Key: "snapshot", Under: "snapshot-if"},
		{Key: "environment", Under: "job-environment"}, {Key: "container", Under: "container"},
		{Key: "services", Under: "services"}, {Key: "with", Under: "scalar-needs-context"},
		{Key: "secrets", Under: "scalar-needs-context-with-secrets"},
		{Key: "cancel-timeout-minutes", Under: "number-strategy-context"},
	} {
		job.Other = sites(of.Key, of.Under, f[of.Key].Value, job.Other)
	}
	for _, name := range []string{"with", "secrets"} {
		p, given := f[name]
		if _, calls := f["uses"]; given && !calls {
			r.add(CodeMisplacedKey, p.Key, "add uses with the workflow that the job calls, or move it into a step",
				"%q has an effect only beside uses", name)
		}
	}
	if uses := scalarOf(f["uses"]); uses != nil {
		job.Call = &Call{Uses: uses, With: pairsOf(f["with"]), Secrets: pairsOf(f["secrets"]),
			Inherit: scalarOf(f["secrets"])}
	}
}

// call checks that a job that calls a workflow has no keys of a job that runs steps.
func (r *reader) call(job *Job, n *Node) {
	for _, pair := range n.Pairs {
		name := pair.Key.Value
		if slices.ContainsFunc(r.job, func(k key) bool { return k.name == name }) && !slices.Contains(callKeys(), name) {
			r.add(CodeMisplacedKey, pair.Key, "remove it, or call the workflow in a job of its own",
				"a job that calls a workflow with uses can't have the key %q", name)
		}
	}
}

// concurrency reads a group and checks that its settings agree.
func (r *reader) concurrency(p Pair) *Concurrency {
	c := concurrencyOf(p)
	if c != nil && c.Queue != nil && c.Queue.Value == "max" && c.CancelInProgress != nil &&
		c.CancelInProgress.Type == TypeBool && resolveTrue(c.CancelInProgress) {
		r.add(CodeInvalidValue, c.Queue, "remove one of the two",
			"queue: max keeps every run waiting, and cancel-in-progress: true ends the one before")
	}
	return c
}

func resolveTrue(n *Node) bool { return n.Value == "true" || n.Value == "True" || n.Value == "TRUE" }

// deploysOnly reports whether the job has an environment and only deploy steps: such a
// job runs on no runner.
func deploysOnly(f map[string]Pair) bool {
	_, environment := f["environment"]
	steps := f["steps"].Value
	if !environment || steps == nil || steps.Kind != Sequence {
		return false
	}
	for _, step := range steps.Items {
		if _, deploys := below(Pair{step, step})["deploy"]; !deploys {
			return false
		}
	}
	return len(steps.Items) > 0
}

// runsOnOf reads a label, a list of labels, or the long form with labels in it.
func runsOnOf(p Pair) (labels []*Node, group *Node) {
	if p.Value != nil && p.Value.Kind == Mapping {
		f := below(p)
		labels, _ = runsOnOf(f["labels"])
		return labels, scalarOf(f["group"])
	}
	return scalarsOf(p), nil
}

func retryOf(p Pair) *Retry {
	if p.Value == nil {
		return nil
	}
	f := below(p)
	return &Retry{Max: scalarOf(f["max"]), On: scalarsOf(f["on"]), Backoff: scalarOf(f["backoff"])}
}

func (r *reader) steps(id *Node, f map[string]Pair) []*Step {
	p, ok := f["steps"]
	if !ok {
		if _, calls := f["uses"]; !calls {
			r.add(CodeNoSteps, id, "add steps", "the job %s has no steps", Quote(id.Value))
		}
		return nil
	}
	if _, calls := f["uses"]; p.Value == nil || calls {
		return nil // it was misspelt, or is reported as out of place
	}
	if p.Value.IsNull() || p.Value.Kind == Sequence && len(p.Value.Items) == 0 {
		r.add(CodeNoSteps, p.Key, "add a step", "the job %s has no steps", Quote(id.Value))
		return nil
	}
	if p.Value.Kind != Sequence {
		r.add(CodeWrongType, p.Value, "start each step with a dash", "steps must be a list, not %s", describe(p.Value))
		return nil
	}
	var out []*Step
	for _, item := range p.Value.Items {
		if step := r.readStep(item); step != nil {
			out = append(out, step)
		}
	}
	return out
}

func (r *reader) readStep(n *Node) *Step {
	switch {
	case n.IsNull():
		r.add(CodeEmptyValue, n, "remove the dash, or give the step a run", "the step is empty")
		return nil
	case n.Kind == Scalar:
		r.reports.own(n)
		return &Step{Node: n, Builtin: n}
	case n.Kind != Mapping:
		r.add(CodeWrongType, n, "", "a step must be a mapping or the name of a built-in, not %s", describe(n))
		return nil
	}
	f := r.fields(n, "a step", r.step)
	step := &Step{
		Node:     n,
		ID:       scalarOf(f["id"]),
		Name:     scalarOf(f["name"]),
		If:       scalarOf(f["if"]),
		Run:      textOf(f["run"]),
		Uses:     scalarOf(f["uses"]),
		With:     pairsOf(f["with"]),
		Shell:    scalarOf(f["shell"]),
		WorkDir:  scalarOf(f["working-directory"]),
		SoftFail: scalarOf(f["continue-on-error"]),
		Timeout:  scalarOf(f["timeout-minutes"]),
		Cleanup:  scalarOf(f["cleanup"]),
		Deploy:   scalarOf(f["deploy"]),
		Unmet:    unmet(r.step, f),
	}
	step.Env, step.EnvFrom = envOf(f["env"])
	if with := scalarOf(f["with"]); with != nil && IsExpression(with) {
		step.WithFrom = with
	}
	if !r.action(n, f) {
		return nil
	}
	return step
}

// action checks that the step does exactly one thing. It returns false when the step
// is not worth further checks.
func (r *reader) action(n *Node, f map[string]Pair) bool {
	var found []Pair
	for _, name := range stepActions() {
		if p, ok := f[name]; ok {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b Pair) int {
		if a.Key.Start.Before(b.Key.Start) {
			return -1
		}
		return 1
	})
	switch {
	case len(found) == 0:
		r.reports.Add(CodeNoAction, Range{Start: n.Start}, "the step does nothing: it has no run and no uses",
			"add run: with a command, or write - checkout to get the source")
		return false
	case len(found) > 1:
		r.add(CodeTwoActions, found[1].Key, "split it into two steps", "a step can't have both %q and %q",
			found[0].Key.Value, found[1].Key.Value)
		return false
	}
	_, run := f["run"]
	_, uses := f["uses"]
	for _, name := range []string{"shell", "working-directory"} {
		if p, ok := f[name]; ok && !run {
			r.add(CodeMisplacedKey, p.Key, "remove it", "%q has an effect only beside run", name)
		}
	}
	if p, ok := f["with"]; ok && !uses {
		r.add(CodeMisplacedKey, p.Key, "pass values to a script with env", "%q has an effect only beside uses", "with")
	}
	return true
}

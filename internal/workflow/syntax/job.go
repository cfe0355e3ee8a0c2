package syntax

// job reads one entry of jobs. Its id is kept even when its body is unusable, so that
// needs of other jobs are not reported as unknown on top.
func (r *reader) job(p Pair) *Job {
	job := &Job{ID: p.Key}
	what := "the job " + Quote(p.Key.Value)
	n := r.mapping(p, what)
	if n == nil {
		return job
	}
	f := r.fields(n, "a job", jobKeys())
	job.Name = r.text(f["name"], "name")
	job.Needs = r.needs(f["needs"])
	job.If = r.scalar(f["if"], "if")
	job.RunsOn = r.runsOn(f["runs-on"])
	job.Env = r.env(f["env"])
	job.Timeout = r.scalar(f["timeout-minutes"], "timeout-minutes")
	job.SoftFail = r.scalar(f["continue-on-error"], "continue-on-error")
	job.Retry = r.retry(f["retry"])
	job.Effects = r.scalar(f["effects"], "effects")
	job.Strategy = r.strategy(f["strategy"])
	job.Outputs = r.outputs(f["outputs"])
	job.Steps = r.steps(p.Key, f)
	_, calls := f["uses"]
	if _, ok := f["runs-on"]; !ok && !calls && !deploysOnly(f) {
		r.add(CodeMissingKey, p.Key, "add runs-on with the label of a pool, for example linux-medium",
			"%s must have the key \"runs-on\"", what)
	}
	return job
}

// deploysOnly reports whether the job has an environment and only deploy steps: such a
// job runs on no runner.
func deploysOnly(f map[string]Pair) bool {
	_, environment := f["environment"]
	steps := f["steps"].Value
	if !environment || steps == nil || steps.Kind != Sequence {
		return false
	}
	for _, step := range steps.Items {
		deploys := false
		for _, pair := range step.Pairs {
			deploys = deploys || pair.Key.Value == "deploy"
		}
		if !deploys {
			return false
		}
	}
	return len(steps.Items) > 0
}

func (r *reader) needs(p Pair) []*Node {
	if p.Value != nil && p.Value.Kind == Sequence && len(p.Value.Items) == 0 {
		return nil
	}
	return r.scalars(p, "needs")
}

// runsOn reads a label, a list of labels, or the long form with labels in it.
func (r *reader) runsOn(p Pair) []*Node {
	if p.Value == nil {
		return nil
	}
	if p.Value.Kind == Mapping {
		f := r.fields(p.Value, "runs-on", runnerKeys())
		if labels, ok := f["labels"]; ok {
			return r.runsOn(labels)
		}
		if len(f) == 0 {
			r.add(CodeMissingKey, p.Key, "", "runs-on must have the key \"labels\"")
		}
		return nil
	}
	if p.Value.Kind == Sequence && len(p.Value.Items) == 0 {
		r.add(CodeEmptyValue, p.Key, "name the label of a pool", "runs-on is an empty list")
		return nil
	}
	return r.scalars(p, "runs-on")
}

func (r *reader) retry(p Pair) *Retry {
	n := r.mapping(p, "retry")
	if n == nil {
		return nil
	}
	f := r.fields(n, "retry", retryKeys())
	return &Retry{
		Max:     r.scalar(f["max"], "max"),
		On:      r.scalars(f["on"], "on"),
		Backoff: r.scalar(f["backoff"], "backoff"),
	}
}

func (r *reader) steps(id *Node, f map[string]Pair) []*Step {
	p, ok := f["steps"]
	if !ok {
		if _, calls := f["uses"]; !calls {
			r.add(CodeNoSteps, id, "add steps", "the job %s has no steps", Quote(id.Value))
		}
		return nil
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
		if step := r.step(item); step != nil {
			out = append(out, step)
		}
	}
	return out
}

func (r *reader) step(n *Node) *Step {
	switch {
	case n.IsNull():
		r.add(CodeEmptyValue, n, "remove the dash, or give the step a run", "the step is empty")
		return nil
	case n.Kind == Scalar:
		return &Step{Node: n, Builtin: n}
	case n.Kind != Mapping:
		r.add(CodeWrongType, n, "", "a step must be a mapping or the name of a built-in, not %s", describe(n))
		return nil
	}
	f := r.fields(n, "a step", stepKeys())
	step := &Step{
		Node:     n,
		ID:       r.text(f["id"], "id"),
		Name:     r.text(f["name"], "name"),
		If:       r.scalar(f["if"], "if"),
		Run:      r.text(f["run"], "run"),
		Uses:     r.text(f["uses"], "uses"),
		Env:      r.env(f["env"]),
		Shell:    r.text(f["shell"], "shell"),
		WorkDir:  r.text(f["working-directory"], "working-directory"),
		SoftFail: r.scalar(f["continue-on-error"], "continue-on-error"),
		Timeout:  r.scalar(f["timeout-minutes"], "timeout-minutes"),
		Cleanup:  r.scalar(f["cleanup"], "cleanup"),
	}
	if with := f["with"]; with.Value != nil && !with.Value.IsNull() {
		if m := r.mapping(with, "with"); m != nil {
			step.With = m.Pairs
		}
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
	for _, name := range []string{"run", "uses", "deploy"} {
		if p, ok := f[name]; ok {
			found = append(found, p)
		}
	}
	for _, name := range []string{"background", "wait", "wait-all", "cancel", "parallel"} {
		if _, ok := f[name]; ok && len(found) == 0 {
			return false // reported as not available; what else it lacks doesn't matter
		}
	}
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
	for _, name := range []string{"shell", "working-directory"} {
		if p, ok := f[name]; ok && !run {
			r.add(CodeMisplacedKey, p.Key, "remove it", "%q has an effect only beside run", name)
		}
	}
	if p, ok := f["with"]; ok && run {
		r.add(CodeMisplacedKey, p.Key, "pass values to a script with env", "%q has an effect only beside uses", "with")
	}
	return true
}

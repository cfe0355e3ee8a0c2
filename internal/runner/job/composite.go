package job

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/manifest"
	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
)

// actionStatus is what the steps of a composite action know of each other, and of the job.
type actionStatus struct {
	failed  bool
	class   domain.FailureClass
	message string
	job     expr.StepStatus
}

// jobStatus is job.status: within an action that of the job, which goes on.
func (c *contexts) jobStatus(s expr.StepStatus) string {
	if c.action != nil {
		s.Failed = c.action.job.Failed
	}
	return statusText(s)
}

// failStep says that a step failed to what the step belongs to: its action or the job.
func (j *job) failStep(r *running, end ending) {
	if a := j.ctx; r.inner && a != nil && a.action != nil {
		if !a.action.failed {
			a.action.failed, a.action.class = true, end.class
			a.action.message = fmt.Sprintf("%s: %s", r.state.GetName(), end.message)
		}
		return
	}
	s := r.state
	j.fail(end.class, fmt.Sprintf("step %d (%s): %s", s.GetIndex()+1, s.GetName(), end.message))
}

// composite runs the steps of a composite action. Its time limit is one for all of them.
func (j *job) composite(ctx context.Context, r *running) ending {
	inputs, end, ok := j.inputs(r)
	if !ok {
		return end
	}
	folder, end, ok := j.component(ctx, r)
	if !ok {
		return end
	}
	outer := j.ctx
	j.ctx = outer.within(r, path.Join(folder, r.plan.ActionPath), inputs, j.status())
	defer func() { j.ctx = outer }()
	var deadline time.Time
	if r.limit > 0 {
		deadline = time.Now().Add(r.limit)
	}
	for i := range r.plan.Steps {
		if j.notice(ctx); j.killed != nil {
			return ending{outcome: outcomeFailure, class: j.killed.Class, message: j.killed.Message}
		}
		step := newRunning(r.plan.Steps[i], &runnerv1.Step{Index: r.state.GetIndex(), Name: r.plan.Steps[i].Name},
			r.key+"_"+strconv.Itoa(i))
		step.inner = true
		if stop := j.innerStep(ctx, step, r, deadline); stop != nil {
			return *stop
		}
	}
	if a := j.ctx.action; a.failed {
		return failed(a.class, "%s", a.message)
	}
	return j.actionOutputs(r)
}

// innerStep runs one step of an action. It returns how the whole action ends when that ends here.
func (j *job) innerStep(ctx context.Context, step, whole *running, deadline time.Time) *ending {
	end, run := j.admit(step)
	if run {
		end, run = j.settle(step)
	}
	if run {
		if !deadline.IsZero() {
			step.limit = max(time.Until(deadline), time.Millisecond)
		}
		j.log.say(whole.state.GetIndex(), "##[group]%s", step.state.GetName())
		end = j.perform(ctx, step)
		j.log.say(whole.state.GetIndex(), "##[endgroup]")
	}
	j.conclude(step, end)
	switch {
	case j.killed != nil:
		return &end
	case !deadline.IsZero() && !time.Now().Before(deadline) && end.outcome != outcomeCancelled:
		return &ending{outcome: outcomeTimedOut, class: domain.FailureTimeout, code: end.code,
			message: fmt.Sprintf("timed out after %s", whole.limit)}
	case end.outcome == outcomeCancelled && j.stop != nil:
		return &end
	}
	return nil
}

// inputs are the values of the action's inputs, evaluated where it is used.
func (j *job) inputs(r *running) (map[string]string, ending, bool) {
	out := make(map[string]string, len(r.plan.With))
	env := j.ctx.evaluation(r.plan.ID, r.env, j.status())
	for _, b := range r.plan.With {
		value, err := expr.Interpolate(b.Value, env)
		if err != nil {
			return nil, failed(domain.FailureInvalid, "the input %s: %v", b.Name, err), false
		}
		out[b.Name] = value
	}
	return out, ending{}, true
}

// actionOutputs evaluates the outputs of an action whose steps have ended well.
func (j *job) actionOutputs(r *running) ending {
	env := j.ctx.evaluation(r.plan.ID, nil, j.status())
	for _, o := range r.plan.Outputs {
		value, err := expr.Interpolate(o.Value, env)
		if err == nil && value != "" {
			err = j.setOutput(r, o.Name, value)
		}
		if err != nil {
			return failed(domain.FailureInvalid, "the output %s: %v", o.Name, err)
		}
	}
	return ending{outcome: outcomeSuccess}
}

// within is the contexts of the steps of an action. Variables that they set are the job's.
func (c *contexts) within(r *running, folder string, inputs map[string]string, status expr.StepStatus) *contexts {
	inner := *c
	inner.inputs, inner.steps, inner.outer = expr.Strings(inputs), nil, r.env
	job := status
	if c.action != nil {
		job = c.action.job
	}
	inner.action = &actionStatus{job: job}
	inner.needs = expr.Null()
	repository, ref := "", ""
	if name, revision, ok := strings.Cut(r.plan.Action, "@"); ok {
		ref = revision
		if parts := strings.SplitN(name, "/", 3); len(parts) > 1 {
			repository = parts[0] + "/" + parts[1]
		}
	}
	inner.vars = map[string]string{"GITHUB_ACTION_PATH": folder, "GITHUB_ACTION_REPOSITORY": repository,
		"GITHUB_ACTION_REF": ref}
	for name, value := range map[string]string{"action_path": folder, "action_repository": repository,
		"action_ref": ref} {
		inner.github = inner.github.With(name, expr.String(value))
	}
	return &inner
}

// component brings the files of an action into a folder beside the source, once for the job, and
// returns the folder as steps see it.
func (j *job) component(ctx context.Context, r *running) (string, ending, bool) {
	at := -1
	for i, c := range j.m.Components {
		if c.Component == r.plan.Component {
			at = i
		}
	}
	if at < 0 {
		return "", failed(domain.FailureInvalid, "the manifest does not say where the action %s comes from",
			short(r.plan.Action)), false
	}
	name := "component_" + strconv.Itoa(at)
	inside := path.Join(j.box.Inside().Source, name)
	if j.fetched[at] {
		return inside, ending{}, true
	}
	c := j.m.Components[at]
	if !commitForm.MatchString(c.Commit) || !sourceForm.MatchString(c.Path) || strings.Contains(c.Path, "..") {
		return "", failed(domain.FailureInvalid, "the manifest names no commit that can be fetched"), false
	}
	if end, ok := j.waiting(ctx, func(ctx context.Context) error { return j.place(ctx, name, c) }); !ok {
		if end.message == "" {
			end.message = "the action could not be fetched"
		}
		return "", end, false
	}
	if j.fetched == nil {
		j.fetched = make(map[int]bool)
	}
	j.fetched[at] = true
	return inside, ending{}, true
}

// waiting does something that takes time outside of the sandbox, and ends it when the job must end.
func (j *job) waiting(ctx context.Context, do func(context.Context) error) (ending, bool) {
	done := make(chan error, 1)
	doing, cancel := context.WithTimeoutCause(ctx, fetchPatience, fmt.Errorf("it took longer than %s", fetchPatience))
	defer cancel()
	go func() { done <- do(doing) }()
	select {
	case err := <-done:
		if err != nil && ctx.Err() == nil {
			return failed(domain.FailurePlatform, "fetch an action: %v", err), false
		}
	case s := <-j.stops:
		j.begin(s)
	case <-j.timeout.C:
		j.begin(Stop{Reason: "timeout", Grace: j.grace()})
	}
	if j.stop != nil {
		cancel()
		<-done
		return ending{outcome: outcomeCancelled, message: "stopped: " + j.stop.Reason}, false
	}
	if ctx.Err() != nil {
		j.kill(ctx)
		return failed(j.killed.Class, "%s", j.killed.Message), false
	}
	return ending{}, true
}

// place fetches a commit and writes its files where no step can change them.
func (j *job) place(ctx context.Context, name string, c manifest.Component) error {
	source := j.box.Outside().Source
	bare := filepath.Join(source, name+".git")
	if err := j.fetch(ctx, wanted{from: c.Path, commit: c.Commit, depth: 1}, bare); err != nil {
		return err
	}
	return writeTree(ctx, bare, filepath.Join(source, name), c.Commit)
}

package reactor

import (
	"context"
	"fmt"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/order"
	"github.com/fairlead-ci/fairlead/internal/workflow"
	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/matrix"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// call evaluates the inputs or the outputs of a call, and records them. What is too long for an
// event is an object before the command is sent.
func (e *Evaluator) call(ctx context.Context, row engine.Committed, q question, what string) error {
	h, err := e.Read.Read(ctx, row.Tenant, row.Stream, false)
	if err != nil {
		return fmt.Errorf("read %s: %w", row.Stream, err)
	}
	s := h.State.(*run.State)
	asked := s.Jobs[q.job].Evaluation
	if s.Jobs[q.job].State != run.StateExpanded || asked == nil || asked.Answered || asked.Call != what ||
		asked.InputDigest != q.inputs {
		return nil // it was answered before, or the run has moved on
	}
	values, jobs := s.InputsOf(q.job), s.Needs(q.job)
	if what == run.CallAsksOutputs {
		values, jobs = s.Jobs[q.job].Inputs, s.Called(q.job)
	}
	v, err := e.values(ctx, row, s, values, jobs)
	if err != nil {
		return err
	}
	p, err := e.Plans.Plan(ctx, row.Tenant, s.Request.Plan)
	if err != nil {
		return fmt.Errorf("read plan of %s: %w", row.Stream, err)
	}
	c := Call(s, q.job, what, p, v)
	if err := e.keep(ctx, row.Tenant, &c); err != nil {
		return fmt.Errorf("keep %s of %s: %w", what, row.Stream, err)
	}
	return e.submit(ctx, row, q, func(cause domain.Cause) run.Command {
		c.Cause, c.InputDigest = cause, q.inputs
		return c
	})
}

// values reads what an expression may refer to: inputs are those of the run unless a call has others.
func (e *Evaluator) values(
	ctx context.Context, row engine.Committed, s *run.State, of *run.CallInputs, jobs []int,
) (*Values, error) {
	github, inputs, err := e.Contexts.Contexts(ctx, row.Tenant, &s.Request)
	if err == nil && of != nil {
		inputs, err = order.CallInputs(ctx, e.Blobs, row.Tenant, of)
	}
	if err != nil {
		return nil, fmt.Errorf("read contexts of %s: %w", row.Stream, err)
	}
	v := &Values{Github: github, Inputs: inputs, Outputs: map[int]map[string]string{}}
	for _, j := range jobs {
		v.Outputs[j] = map[string]string{}
		for _, o := range s.Outputs(j) {
			text, err := order.OutputText(ctx, e.Blobs, row.Tenant, o)
			if err != nil {
				return nil, fmt.Errorf("read output %s of %s: %w", o.Name, row.Stream, err)
			}
			v.Outputs[j][o.Name] = text
		}
	}
	return v, nil
}

// keep makes objects of values that are too long for an event.
func (e *Evaluator) keep(ctx context.Context, tenant domain.TenantID, c *run.RecordCall) error {
	if n := len(c.Inputs.Value); n > run.OutputBytesMax {
		digest, err := order.PutObject(ctx, e.Blobs, tenant, []byte(c.Inputs.Value))
		if err != nil {
			return err
		}
		c.Inputs = run.CallInputs{Digest: digest, Size: int64(n)}
	}
	for i := range c.Outputs {
		o := &c.Outputs[i]
		if len(o.Value) <= run.OutputBytesMax {
			continue
		}
		digest, err := order.PutObject(ctx, e.Blobs, tenant, []byte(o.Value))
		if err != nil {
			return err
		}
		o.Digest, o.Size, o.Value = digest, int64(len(o.Value)), ""
	}
	return nil
}

// Call evaluates the inputs or outputs of a call from recorded values and the plan alone, so that it
// can be replayed. The answer has an error when there are none.
func Call(s *run.State, job int, what string, p *plan.Plan, v *Values) run.RecordCall {
	c := run.RecordCall{Job: s.JobID(job), What: what}
	of, problem := contexts(s, job, v)
	if problem != "" {
		c.Error = problem
		return c
	}
	call := callOf(p, job)
	if call == nil {
		c.Error = "the stored plan has no such call"
		return c
	}
	if what == run.CallAsksOutputs {
		outputs, err := workflow.CallOutputs(call, with(of, "jobs", jobs(s, job, v)))
		if err != nil {
			c.Error = err.Error()
			return c
		}
		for _, o := range outputs {
			c.Outputs = append(c.Outputs, run.Output{Name: o.Name, Value: o.Value})
		}
		return c
	}
	of, err := ofLeg(of, s, job, p)
	if err == nil {
		var inputs expr.Value
		if inputs, err = workflow.CallInputs(call, of); err == nil {
			var text []byte
			text, err = inputs.MarshalJSON()
			c.Inputs.Value = string(text)
		}
	}
	if err != nil {
		c.Error = err.Error()
	}
	return c
}

// callOf finds in the plan the call of a job, or of the job whose leg it is.
func callOf(p *plan.Plan, job int) *plan.Call {
	if at := job - len(p.Jobs); at >= 0 && at < len(p.Legs) {
		job = p.Legs[at].Of
	}
	if job >= len(p.Jobs) {
		return nil
	}
	return p.Jobs[job].Call
}

// ofLeg adds the contexts matrix and strategy, whether the plan has the leg or the run made it.
func ofLeg(of workflow.Contexts, s *run.State, job int, p *plan.Plan) (workflow.Contexts, error) {
	leg := s.Skeleton(job).Leg
	if leg == nil {
		return with(with(of, "matrix", expr.Null()), "strategy", matrix.StrategyContext(true, 0, 0, 1)), nil
	}
	text := leg.Matrix
	if at := job - len(p.Jobs); text == "" && at >= 0 && at < len(p.Legs) {
		text = string(p.Legs[at].Matrix)
	}
	values, err := expr.FromJSON(text)
	if err != nil {
		return nil, fmt.Errorf("the matrix context can't be read: %w", err)
	}
	group, legs := s.Skeleton(leg.Of).Group, s.Jobs[leg.Of].Legs
	strategy := matrix.StrategyContext(group.FailFast, group.MaxParallel, slices.Index(legs, job), len(legs))
	return with(with(of, "matrix", values), "strategy", strategy), nil
}

func with(of workflow.Contexts, name string, value expr.Value) workflow.Contexts {
	return func(asked string) (expr.Value, bool) {
		if asked == name {
			return value, true
		}
		return of(asked)
	}
}

// jobs is the context jobs of the outputs of a called workflow.
func jobs(s *run.State, job int, v *Values) expr.Value {
	out := expr.Object()
	for _, j := range s.Called(job) {
		out = out.With(s.KeyInWorkflow(j), expr.Object().
			With("result", expr.String(order.Result(s.Jobs[j].Outcome))).With("outputs", expr.Strings(v.Outputs[j])))
	}
	return out
}

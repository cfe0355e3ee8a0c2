package reactor

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/order"
	"github.com/fairlead-ci/fairlead/internal/workflow"
	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// Reader reads a stream's committed state.
type Reader interface {
	Read(ctx context.Context, tenant domain.TenantID, id domain.StreamID, events bool) (engine.History, error)
}

// Evaluator computes the conditions of jobs that need values the core does not hold.
type Evaluator struct {
	Engine   engine.Submitter
	Read     Reader
	Contexts order.Contexts
	Plans    Plans
	Blobs    blob.Store // where large outputs are
}

// Plans reads plans by digest.
type Plans interface {
	Plan(ctx context.Context, tenant domain.TenantID, digest domain.Digest) (*plan.Plan, error)
}

var _ engine.Reactor = (*Evaluator)(nil)

// Name implements engine.Reactor.
func (e *Evaluator) Name() string { return "evaluator" }

// React implements engine.Reactor.
func (e *Evaluator) React(ctx context.Context, row engine.Committed) error {
	for n, ev := range row.Events {
		var err error
		switch asked := ev.(type) {
		case *run.EvaluationAsked:
			err = e.answer(ctx, row, question{asked.Job, asked.InputDigest, row.First + uint64(n), n}, asked.Expression)
		case *run.ConcurrencyAsked:
			err = e.name(ctx, row, question{asked.Job, asked.InputDigest, row.First + uint64(n), n})
		case *run.MatrixAsked:
			err = e.expand(ctx, row, question{asked.Job, asked.InputDigest, row.First + uint64(n), n})
		case *run.CallAsked:
			err = e.call(ctx, row, question{asked.Job, asked.InputDigest, row.First + uint64(n), n}, asked.What)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// question is what a run asked, and where in history.
type question struct {
	job     int
	inputs  domain.Digest
	version uint64
	n       int
}

// open reads the run of a question with what an answer rests on; a nil state says that it
// was answered before, or that the job does not wait any more.
func (e *Evaluator) open(ctx context.Context, row engine.Committed, q question) (*run.State, *Values, error) {
	h, err := e.Read.Read(ctx, row.Tenant, row.Stream, false)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", row.Stream, err)
	}
	s := h.State.(*run.State)
	job := s.Jobs[q.job]
	named := job.State == run.StateHeld && job.Evaluation != nil && job.Evaluation.Concurrency && !job.Evaluation.Answered
	if job.State != run.StateWaiting && !named || run.EvaluationInputs(s, q.job).Digest() != q.inputs {
		return nil, nil, nil
	}
	v, err := e.values(ctx, row, s, s.InputsOf(q.job), s.Needs(q.job))
	return s, v, err
}

// submit sends an answer. What the run does not want any more is nobody's fault.
func (e *Evaluator) submit(
	ctx context.Context, row engine.Committed, q question, c func(domain.Cause) run.Command,
) error {
	cause := domain.Cause{Actor: domain.Actor{Kind: "reactor", ID: e.Name(), Via: "internal"},
		Request: engine.CommandID(e.Name(), row.Stream, q.version, q.n)}
	_, err := e.Engine.Submit(ctx, engine.Envelope{Tenant: row.Tenant, Partition: row.Partition, Stream: row.Stream,
		Command: c(cause)})
	if r, ok := domain.AsRejection(err); ok && r.Code != domain.CodeNotOwner && r.Code != domain.CodeStorageFull &&
		r.Code != domain.CodeUpgradeUnfinished {
		return nil // the run has moved on
	}
	return err
}

// answer evaluates one condition and records the result. An expression that can't be
// evaluated is an answer too; only faults of storage are errors, and tried again.
func (e *Evaluator) answer(ctx context.Context, row engine.Committed, q question, expression string) error {
	s, values, err := e.open(ctx, row, q)
	if s == nil || err != nil {
		return err
	}
	result, problem := Condition(s, q.job, expression, values)
	return e.submit(ctx, row, q, func(cause domain.Cause) run.Command {
		return run.RecordEvaluation{Cause: cause, Job: s.JobID(q.job), Expression: expression, InputDigest: q.inputs,
			Result: result, Error: problem}
	})
}

// expand makes the legs of a job whose matrix comes from other jobs, and records them.
func (e *Evaluator) expand(ctx context.Context, row engine.Committed, q question) error {
	s, values, err := e.open(ctx, row, q)
	if s == nil || err != nil {
		return err
	}
	p, err := e.Plans.Plan(ctx, row.Tenant, s.Request.Plan)
	if err != nil {
		return fmt.Errorf("read plan of %s: %w", row.Stream, err)
	}
	c := Matrix(s, q.job, p, values)
	return e.submit(ctx, row, q, func(cause domain.Cause) run.Command {
		c.Cause, c.InputDigest = cause, q.inputs
		return c
	})
}

// name evaluates the texts of a job's concurrency group, and records them.
func (e *Evaluator) name(ctx context.Context, row engine.Committed, q question) error {
	s, values, err := e.open(ctx, row, q)
	if s == nil || err != nil {
		return err
	}
	p, err := e.Plans.Plan(ctx, row.Tenant, s.Request.Plan)
	if err != nil {
		return fmt.Errorf("read plan of %s: %w", row.Stream, err)
	}
	c := Concurrency(s, q.job, p, values)
	return e.submit(ctx, row, q, func(cause domain.Cause) run.Command {
		c.Cause, c.InputDigest = cause, q.inputs
		return c
	})
}

// Concurrency evaluates the texts of a job's concurrency group from recorded inputs and the plan
// alone, so that it can be replayed. The answer has an error when there is no such group.
func Concurrency(s *run.State, job int, p *plan.Plan, v *Values) run.RecordConcurrency {
	c := run.RecordConcurrency{Job: s.JobID(job)}
	of, problem := contexts(s, job, v)
	if problem != "" {
		c.Error = problem
		return c
	}
	whole, _ := s.GroupOf(job)
	if whole >= len(p.Jobs) || p.Jobs[whole].Concurrency == nil {
		c.Error = "the stored plan has no such concurrency group"
		return c
	}
	var got workflow.GroupOf
	of, err := ofLeg(of, s, job, p)
	if err == nil {
		got, err = workflow.Group(p.Jobs[whole].Concurrency, of)
	}
	if err != nil {
		c.Error = err.Error()
		return c
	}
	c.Group, c.CancelInProgress = got.Group, got.Cancel
	return c
}

// Values are what an expression of a job may refer to beside what the run itself knows.
type Values struct {
	Github, Inputs json.RawMessage
	Outputs        map[int]map[string]string // of the needs, by their index
}

// contexts are the contexts of a job that has not begun; problem says why there are none.
func contexts(s *run.State, job int, v *Values) (of workflow.Contexts, problem string) {
	values := map[string]expr.Value{"needs": needs(s, job, v)}
	for name, raw := range map[string]json.RawMessage{"github": v.Github, "inputs": v.Inputs} {
		values[name] = expr.Object()
		if len(raw) > 0 {
			read, err := expr.FromJSON(string(raw))
			if err != nil {
				return nil, fmt.Sprintf("the %s context can't be read: %v", name, err)
			}
			values[name] = read
		}
	}
	return func(name string) (expr.Value, bool) { v, ok := values[name]; return v, ok }, ""
}

// Condition evaluates a job's condition from recorded inputs alone, so that it can be
// replayed. problem is a sentence when it has no value.
func Condition(s *run.State, job int, text string, v *Values) (result bool, problem string) {
	c, err := expr.ParseCondition(text)
	if err != nil {
		return false, err.Error()
	}
	of, problem := contexts(s, job, v)
	if problem != "" {
		return false, problem
	}
	verdict, err := c.Eval(expr.Env{Context: of, Status: status(s, job)})
	if err != nil {
		return false, err.Error()
	}
	return verdict.Holds, ""
}

// Matrix expands a job's matrix from recorded inputs and the plan alone, so that it can be
// replayed. The answer has an error when there is none.
func Matrix(s *run.State, job int, p *plan.Plan, v *Values) run.RecordMatrix {
	c := run.RecordMatrix{Job: s.JobID(job)}
	of, problem := contexts(s, job, v)
	if problem != "" {
		c.Error = problem
		return c
	}
	if job >= len(p.Jobs) || p.Jobs[job].Strategy == nil || p.Jobs[job].Strategy.Later == nil {
		c.Error = "the stored plan has no such matrix"
		return c
	}
	made, err := workflow.Expand(&p.Jobs[job], of)
	if err != nil {
		c.Error = err.Error()
		return c
	}
	c.FailFast, c.MaxParallel = made.FailFast, made.MaxParallel
	for i := range made.Legs {
		l := &made.Legs[i]
		soft := p.Jobs[job].SoftFail
		if l.SoftFail != nil {
			soft = *l.SoftFail
		}
		c.Legs = append(c.Legs, run.NewLeg{Name: l.Name, Matrix: string(l.Matrix), RunsOn: l.RunsOn,
			TimeoutSeconds: l.TimeoutSeconds, SoftFail: soft})
	}
	return c
}

func needs(s *run.State, job int, v *Values) expr.Value {
	out := expr.Object()
	for _, n := range s.Needs(job) {
		out = out.With(s.KeyInWorkflow(n), expr.Object().
			With("result", expr.String(order.Result(s.Jobs[n].Outcome))).With("outputs", expr.Strings(v.Outputs[n])))
	}
	return out
}

// status looks at all ancestors of a job, through their needs.
func status(s *run.State, job int) expr.Status {
	st := expr.JobStatus{Stopped: s.Desired == domain.DesiredCancel}
	seen := map[int]bool{}
	var visit func(int)
	visit = func(j int) {
		for _, n := range s.Skeleton(j).Needs {
			if !seen[n] {
				seen[n] = true
				st.Ancestors = append(st.Ancestors, expr.JobResult{ID: s.KeyInWorkflow(n), Result: order.Result(s.Jobs[n].Outcome)})
				visit(n)
			}
		}
	}
	visit(job)
	return st
}

package reactor

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/order"
	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
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
}

var _ engine.Reactor = (*Evaluator)(nil)

// Name implements engine.Reactor.
func (e *Evaluator) Name() string { return "evaluator" }

// React implements engine.Reactor.
func (e *Evaluator) React(ctx context.Context, row engine.Committed) error {
	for n, ev := range row.Events {
		asked, ok := ev.(*run.EvaluationAsked)
		if !ok {
			continue
		}
		if err := e.answer(ctx, row, asked, row.First+uint64(n), n); err != nil {
			return err
		}
	}
	return nil
}

// answer evaluates one condition and records the result. An expression that can't be
// evaluated is an answer too; only faults of storage are errors, and tried again.
func (e *Evaluator) answer(
	ctx context.Context,
	row engine.Committed,
	asked *run.EvaluationAsked,
	version uint64,
	n int,
) error {
	h, err := e.Read.Read(ctx, row.Tenant, row.Stream, false)
	if err != nil {
		return fmt.Errorf("read %s: %w", row.Stream, err)
	}
	s := h.State.(*run.State)
	if s.Jobs[asked.Job].State != run.StateWaiting || run.EvaluationInputs(s, asked.Job).Digest() != asked.InputDigest {
		return nil // answered before, or the job does not wait any more
	}
	github, inputs, err := e.Contexts.Contexts(ctx, row.Tenant, &s.Request)
	if err != nil {
		return fmt.Errorf("read contexts of %s: %w", row.Stream, err)
	}
	result, problem := Condition(s, asked.Job, asked.Expression, github, inputs)
	cause := domain.Cause{Actor: domain.Actor{Kind: "reactor", ID: e.Name(), Via: "internal"},
		Request: engine.CommandID(e.Name(), row.Stream, version, n)}
	_, err = e.Engine.Submit(ctx, engine.Envelope{Tenant: row.Tenant, Partition: row.Partition, Stream: row.Stream,
		Command: run.RecordEvaluation{Cause: cause, Job: s.JobID(asked.Job), Expression: asked.Expression,
			InputDigest: asked.InputDigest, Result: result, Error: problem}})
	if r, ok := domain.AsRejection(err); ok && r.Code != domain.CodeNotOwner && r.Code != domain.CodeStorageFull &&
		r.Code != domain.CodeUpgradeUnfinished {
		return nil // the run has moved on
	}
	return err
}

// Condition evaluates a job's condition from recorded inputs alone, so that it can be
// replayed. problem is a sentence when it has no value.
func Condition(s *run.State, job int, text string, github, inputs json.RawMessage) (result bool, problem string) {
	c, err := expr.ParseCondition(text)
	if err != nil {
		return false, err.Error()
	}
	values := map[string]expr.Value{}
	for name, raw := range map[string]json.RawMessage{"github": github, "inputs": inputs} {
		v := expr.Object()
		if len(raw) > 0 {
			if v, err = expr.FromJSON(string(raw)); err != nil {
				return false, fmt.Sprintf("the %s context can't be read: %v", name, err)
			}
		}
		values[name] = v
	}
	values["needs"] = needs(s, job)
	verdict, err := c.Eval(expr.Env{
		Context: func(name string) (expr.Value, bool) { v, ok := values[name]; return v, ok },
		Status:  status(s, job),
	})
	if err != nil {
		return false, err.Error()
	}
	return verdict.Holds, ""
}

func needs(s *run.State, job int) expr.Value {
	out := expr.Object()
	for _, n := range s.Skeleton(job).Needs {
		outputs := expr.Object()
		for _, o := range s.Outputs(n) {
			outputs = outputs.With(o.Name, expr.String(o.Value))
		}
		out = out.With(s.Skeleton(n).Key, expr.Object().
			With("result", expr.String(order.Result(s.Jobs[n].Outcome))).With("outputs", outputs))
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
				st.Ancestors = append(st.Ancestors, expr.JobResult{ID: s.Skeleton(n).Key, Result: order.Result(s.Jobs[n].Outcome)})
				visit(n)
			}
		}
	}
	visit(job)
	return st
}

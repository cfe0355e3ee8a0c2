// Package review looks at runs after the fact: it replays one from what it rests on, and compares
// two.
//
// It is deliberately without a say in anything: it reads history and objects, and what it finds is
// not recorded. What a replay is, is in workflow/replay; the evaluations are those of the reactor
// that answered at the time.
//
// Invariants: nothing is read from a mirror or from the present of a repository; what is missing is
// said as missing; only so many reviews go on at a time.
//
// Read next: internal/workflow/replay/replay.go
package review

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/order"
	"github.com/fairlead-ci/fairlead/internal/reactor"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
	"github.com/fairlead-ci/fairlead/internal/workflow"
	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
	"github.com/fairlead-ci/fairlead/internal/workflow/replay"
)

// Limits, and what happens at each.
const (
	objectBytesMax  = 64 << 20 // of one stored object; a larger one counts as damaged
	outputsBytesMax = 64 << 20 // of large outputs in one replay; what needs more is not known
	atATime         = 2        // further reviews wait
)

// Reader reads a stream's committed state.
type Reader interface {
	Read(ctx context.Context, tenant domain.TenantID, id domain.StreamID, events bool) (engine.History, error)
}

// Reviewer reviews runs. Its methods may be called from many goroutines.
type Reviewer struct {
	read  Reader
	blobs blob.Store
	turns chan struct{}

	frozen order.Frozen
}

// New makes a reviewer.
func New(read Reader, blobs blob.Store) *Reviewer {
	return &Reviewer{read: read, blobs: blobs, turns: make(chan struct{}, atATime), frozen: order.Frozen{Blobs: blobs}}
}

// turn waits for a place. The caller gives it back.
func (r *Reviewer) turn(ctx context.Context) (leave func(), err error) {
	select {
	case r.turns <- struct{}{}:
		return func() { <-r.turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// history is a run with its events.
func (r *Reviewer) history(ctx context.Context, tenant domain.TenantID, id domain.RunID) (
	*run.State, []run.Event, error) {
	h, err := r.read.Read(ctx, tenant, id.Stream(), true)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", id, err)
	}
	s, ok := h.State.(*run.State)
	if !ok {
		return nil, nil, domain.Reject(domain.CodeNotFound, "There is no such run.")
	}
	events := make([]run.Event, 0, len(h.Events))
	for _, rec := range h.Events {
		if e, ok := rec.Event.(run.Event); ok {
			events = append(events, e)
		}
	}
	return s, events, nil
}

// Contexts reads the contexts github and inputs of a run; one that can't be read is empty.
func (r *Reviewer) Contexts(ctx context.Context, tenant domain.TenantID, q *run.Request) (
	github, inputs json.RawMessage) {
	github, inputs, err := r.frozen.Contexts(ctx, tenant, q)
	if err != nil {
		return nil, nil
	}
	return github, inputs
}

// object reads an object. lost is a sentence when it is missing or damaged.
func (r *Reviewer) object(ctx context.Context, tenant domain.TenantID, digest domain.Digest) (
	data []byte, lost string, err error) {
	data, err = order.ReadObject(ctx, r.blobs, tenant, digest, objectBytesMax)
	if no, ok := domain.AsRejection(err); ok {
		return nil, no.Message, nil
	}
	return data, "", err
}

// Replay replays a run. Who may read the run may replay it; that is for the caller to know.
func (r *Reviewer) Replay(ctx context.Context, tenant domain.TenantID, id domain.RunID) (
	*run.State, replay.Result, error) {
	leave, err := r.turn(ctx)
	if err != nil {
		return nil, replay.Result{}, err
	}
	defer leave()
	s, events, err := r.history(ctx, tenant, id)
	if err != nil {
		return nil, replay.Result{}, err
	}
	result, err := r.replay(ctx, tenant, s, events)
	return s, result, err
}

func (r *Reviewer) replay(ctx context.Context, tenant domain.TenantID, s *run.State, events []run.Event) (
	replay.Result, error) {
	q := &s.Request
	unknown := func(why string) (replay.Result, error) {
		return replay.Result{Answer: replay.Unknown, Stored: q.Plan, Sentence: "The run can't be replayed: " + why}, nil
	}
	in := replay.Input{Events: events, Stop: func() bool { return ctx.Err() != nil }}
	var lost string
	var err error
	if in.Snapshot, lost, err = r.object(ctx, tenant, q.Snapshot); err != nil || lost != "" {
		if err != nil {
			return replay.Result{}, err
		}
		return unknown(lost)
	}
	frozen, refused := replay.Open(in.Snapshot)
	if refused != nil {
		refused.Stored = q.Plan
		return *refused, nil
	}
	if in.Workflow, lost, err = r.object(ctx, tenant, frozen.Workflow.Digest); err != nil || lost != "" {
		if err != nil {
			return replay.Result{}, err
		}
		return unknown(lost)
	}
	if in.Components, lost, err = r.components(ctx, tenant, frozen); err != nil || lost != "" {
		if err != nil {
			return replay.Result{}, err
		}
		return unknown(lost)
	}
	if q.Plan != "" {
		if in.Plan, in.PlanLost, err = r.object(ctx, tenant, q.Plan); err != nil {
			return replay.Result{}, err
		}
	}
	v := &values{r: r, tenant: tenant, frozen: frozen, request: q}
	in.Evaluator = v.evaluator(ctx)
	out := replay.Run(in)
	if v.fault != nil {
		return replay.Result{}, v.fault
	}
	return out, ctx.Err()
}

// components are what the snapshot's resolved components hold: with them the workflow compiles as
// it did. Their texts are objects, so no mirror is asked.
func (r *Reviewer) components(ctx context.Context, tenant domain.TenantID, s *snapshot.Snapshot) (
	all workflow.Components, lost string, err error) {
	all = workflow.Components{}
	for _, c := range s.Components {
		reference, ok := workflow.ParseReference(c.Name)
		if !ok {
			return nil, fmt.Sprintf("its snapshot names the component %q, which is no reference.", c.Name), nil
		}
		text, lost, err := r.object(ctx, tenant, c.Text)
		if err != nil || lost != "" {
			return nil, lost, err
		}
		found := workflow.Component{Reference: reference, File: c.File, Text: text}
		if pinned, ok := strings.CutPrefix(c.Digest, "git:"); ok {
			found.Commit, found.Tree, _ = strings.Cut(pinned, ":")
		}
		all[c.Name] = found
	}
	return all, "", nil
}

// values are what expressions of one run may refer to, read when one asks.
type values struct {
	r       *Reviewer
	tenant  domain.TenantID
	frozen  *snapshot.Snapshot
	request *run.Request

	known  bool // of lost, github and inputs
	lost   string
	shared reactor.Values
	texts  map[domain.Digest]string
	bytes  int
	fault  error // of storage: then there is no result
}

// evaluator answers as the reactor did.
func (v *values) evaluator(ctx context.Context) replay.Evaluator {
	return replay.Evaluator{
		Condition: func(s *run.State, job int, text string) (bool, string, string) {
			of, unknown := &reactor.Values{}, ""
			if refers(text) {
				if of, unknown = v.of(ctx, s, job); unknown != "" {
					return false, "", unknown
				}
			}
			holds, problem := reactor.Condition(s, job, text, of)
			return holds, problem, ""
		},
		Matrix: func(s *run.State, job int, p *plan.Plan) (run.RecordMatrix, string) {
			of, unknown := v.of(ctx, s, job)
			if unknown != "" {
				return run.RecordMatrix{}, unknown
			}
			return reactor.Matrix(s, job, p, of), ""
		},
		Call: func(s *run.State, job int, what string, p *plan.Plan) (run.RecordCall, string) {
			inputs, jobs := s.InputsOf(job), s.Needs(job)
			if what == run.CallAsksOutputs {
				inputs, jobs = s.Jobs[job].Inputs, s.Called(job)
			}
			of, unknown := v.over(ctx, s, inputs, jobs)
			if unknown != "" {
				return run.RecordCall{}, unknown
			}
			return named(reactor.Call(s, job, what, p, of)), ""
		},
		Concurrency: func(s *run.State, job int, p *plan.Plan) (run.RecordConcurrency, string) {
			of, unknown := v.of(ctx, s, job)
			if unknown != "" {
				return run.RecordConcurrency{}, unknown
			}
			return reactor.Concurrency(s, job, p, of), ""
		},
		Group: func(p *plan.Plan) (run.Concurrency, string, string) {
			if unknown := v.whole(ctx); unknown != "" {
				return run.Concurrency{}, "", unknown
			}
			got, err := workflow.GroupOfRun(p.Concurrency, v.shared.Github, v.shared.Inputs)
			if err != nil {
				return run.Concurrency{}, err.Error(), ""
			}
			return run.Concurrency{Group: got.Group, Cancel: got.Cancel, Max: got.Max}, "", ""
		},
	}
}

// named names the values that are too long for an event by their digests, as they are stored.
func named(c run.RecordCall) run.RecordCall {
	if n := len(c.Inputs.Value); n > run.OutputBytesMax {
		c.Inputs = run.CallInputs{Digest: domain.DigestOf([]byte(c.Inputs.Value)), Size: int64(n)}
	}
	for i := range c.Outputs {
		if o := &c.Outputs[i]; len(o.Value) > run.OutputBytesMax {
			o.Digest, o.Size, o.Value = domain.DigestOf([]byte(o.Value)), int64(len(o.Value)), ""
		}
	}
	return c
}

// refers reports whether a condition looks at any context.
func refers(text string) bool {
	c, err := expr.ParseCondition(text)
	return err == nil && c.Template() != nil && len(c.Template().References()) > 0
}

// of are the values for one job; unknown says what is missing.
func (v *values) of(ctx context.Context, s *run.State, job int) (_ *reactor.Values, unknown string) {
	return v.over(ctx, s, s.InputsOf(job), s.Needs(job))
}

// whole reads the contexts that all jobs share; unknown says what is missing.
func (v *values) whole(ctx context.Context) (unknown string) {
	if !v.known {
		v.known = true
		v.shared.Github, v.lost = v.frozen.Github, ""
		if v.frozen.GithubObject != "" {
			v.shared.Github, v.lost = v.read(ctx, v.frozen.GithubObject)
		}
		if v.request.Inputs != "" && v.lost == "" {
			v.shared.Inputs, v.lost = v.read(ctx, v.request.Inputs)
		}
	}
	return v.lost
}

// over are the values with the outputs of some jobs, and with the inputs of a call if there are any.
func (v *values) over(ctx context.Context, s *run.State, inputs *run.CallInputs, jobs []int) (
	_ *reactor.Values, unknown string) {
	if unknown = v.whole(ctx); unknown != "" {
		return nil, unknown
	}
	out := v.shared
	if inputs != nil {
		out.Inputs = json.RawMessage(inputs.Value)
		if inputs.Digest != "" {
			var lost string
			if out.Inputs, lost = v.read(ctx, inputs.Digest); lost != "" {
				return nil, lost
			}
		}
	}
	out.Outputs = map[int]map[string]string{}
	for _, j := range jobs {
		out.Outputs[j] = map[string]string{}
		for _, o := range s.Outputs(j) {
			text, lost := v.output(ctx, o)
			if lost != "" {
				return nil, lost
			}
			out.Outputs[j][o.Name] = text
		}
	}
	return &out, ""
}

func (v *values) output(ctx context.Context, o run.Output) (text, lost string) {
	if o.Digest == "" {
		return o.Value, ""
	}
	if text, ok := v.texts[o.Digest]; ok {
		return text, ""
	}
	data, lost := v.read(ctx, o.Digest)
	if lost != "" {
		return "", lost
	}
	if v.bytes += len(data); v.bytes > outputsBytesMax {
		return "", fmt.Sprintf("The outputs have more than %d bytes.", outputsBytesMax)
	}
	if v.texts == nil {
		v.texts = map[domain.Digest]string{}
	}
	v.texts[o.Digest] = string(data)
	return string(data), ""
}

func (v *values) read(ctx context.Context, digest domain.Digest) (data []byte, lost string) {
	data, lost, err := v.r.object(ctx, v.tenant, digest)
	if err != nil {
		v.fault = err
		return nil, "The object store does not answer."
	}
	return data, lost
}

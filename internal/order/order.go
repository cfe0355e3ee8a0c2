// Package order writes the manifest of an attempt: from the run's frozen inputs, the plan
// and a credential that dies with the attempt.
//
// It deliberately decides nothing and signs nothing: dispatch asks for a manifest once a
// lease is committed, and signs it.
//
// Invariants: what goes into a manifest comes from the snapshot and the plan by digest,
// never from live configuration; the only credential in it is the attempt's own token.
//
// Read next: internal/manifest/manifest.go
package order

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/dispatch"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/manifest"
	"github.com/fairlead-ci/fairlead/internal/recall"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
	"github.com/fairlead-ci/fairlead/internal/workflow/matrix"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// planBytesMax bounds a plan read from the blob store.
const planBytesMax = 64 << 20

// Contexts gives the github and inputs contexts of a run as JSON objects.
type Contexts interface {
	Contexts(ctx context.Context, tenant domain.TenantID, request *run.Request) (github, inputs json.RawMessage, err error)
}

// Writer implements dispatch.Manifests.
type Writer struct {
	Blobs    blob.Store
	Contexts Contexts
	// Token makes the attempt's credential.
	Token func(tenant domain.TenantID, attempt domain.AttemptID, epoch uint64) domain.Secret
	// GitPath is where the runner fetches the commit, on the server it is registered with.
	GitPath func(tenant domain.TenantID, repository domain.RepositoryID) string
	// Components gives what the actions of a run were resolved to; nil: no plan has one.
	Components func(context.Context, domain.TenantID, *run.Request) ([]snapshot.Component, error)
	// Env gives variables that come before the workflow's own; nil: none.
	Env    func(attempt domain.AttemptID) []plan.Binding
	Limits manifest.Limits
	Now    func() time.Time

	plans Plans
}

var _ dispatch.Manifests = (*Writer)(nil)

// Build implements dispatch.Manifests.
func (w *Writer) Build(ctx context.Context, want dispatch.Order) (*manifest.Manifest, error) {
	q, index := want.Brief.Request, want.Brief.Job
	p, err := w.plan(ctx, want.Tenant, q.Plan)
	if err != nil {
		return nil, err
	}
	job, leg, err := jobOf(p, index, want.Brief.Leg)
	if err != nil {
		return nil, err
	}
	github, inputs, err := w.Contexts.Contexts(ctx, want.Tenant, q)
	if err != nil {
		return nil, fmt.Errorf("read contexts of %s: %w", q.Run, err)
	}
	if want.Brief.Inputs != nil {
		if inputs, err = CallInputs(ctx, w.Blobs, want.Tenant, want.Brief.Inputs); err != nil {
			return nil, fmt.Errorf("read inputs of the call of %s: %w", want.Attempt, err)
		}
	}
	needs, err := needsContext(ctx, w.Blobs, want.Tenant, want.Brief.Needs)
	if r, ok := domain.AsRejection(err); ok {
		return nil, r
	}
	if err != nil {
		return nil, fmt.Errorf("write needs context of %s: %w", want.Attempt, err)
	}
	env := job.Env
	if w.Env != nil {
		env = append(w.Env(want.Attempt), job.Env...)
	}
	now := w.Now()
	m := &manifest.Manifest{
		Version: manifest.Version, Tenant: want.Tenant, Repository: q.Repository, Run: q.Run, Job: want.Attempt.Job(),
		Attempt: want.Attempt, Number: want.Brief.Number, Round: want.Brief.Round, Epoch: want.Epoch, Runner: want.Runner,
		Pool: want.Pool, Slot: want.Slot, Issued: now, Expires: want.Until, Tier: q.Tier, Class: q.Class, Network: "pool",
		Effectful: job.Effectful, RepositoryName: q.RepositoryName, RunNumber: q.Number, JobKey: keyOf(job),
		JobName: leg.name,
		Source:  manifest.Source{Path: w.GitPath(want.Tenant, q.Repository), Commit: q.Source.Commit, Ref: q.Source.Ref},
		Token:   w.Token(want.Tenant, want.Attempt, want.Epoch).Reveal(), Plan: q.Plan,
		Github: github, Inputs: inputs, Needs: needs, Env: env, Steps: job.Steps, Outputs: job.Outputs,
		TimeoutSeconds: leg.timeout, Limits: w.Limits, IdempotencyKey: idempotencyKey(want.Attempt.Job()),
	}
	if m.Components, err = w.components(ctx, want.Tenant, q, job.Steps); err != nil {
		return nil, fmt.Errorf("find the actions of %s: %w", want.Attempt, err)
	}
	if l := want.Brief.Leg; l != nil {
		m.Matrix = leg.matrix
		if m.Strategy, err = matrix.StrategyContext(l.FailFast, l.MaxParallel, l.Index, l.Total).MarshalJSON(); err != nil {
			return nil, fmt.Errorf("write strategy context of %s: %w", want.Attempt, err)
		}
	}
	return m, nil
}

// components are the sources of the actions that steps use.
func (w *Writer) components(
	ctx context.Context, tenant domain.TenantID, q *run.Request, steps []plan.Step,
) ([]manifest.Component, error) {
	used := make(map[string]bool)
	actionsOf(steps, used)
	if len(used) == 0 || w.Components == nil {
		return nil, nil
	}
	var out []manifest.Component
	if used[""] {
		out = append(out, manifest.Component{Path: w.GitPath(tenant, q.Repository), Commit: q.Source.Commit})
	}
	known, err := w.Components(ctx, tenant, q)
	if err != nil {
		return nil, err
	}
	for _, c := range known {
		if c.Digest == "" || !used[c.Digest] {
			continue
		}
		delete(used, c.Digest)
		out = append(out, manifest.Component{Component: c.Digest, Path: w.GitPath(tenant, c.Mirror), Commit: c.Commit()})
	}
	return out, nil
}

// actionsOf collects the components of composite actions.
func actionsOf(steps []plan.Step, used map[string]bool) {
	for _, s := range steps {
		if s.Uses == plan.UsesComposite {
			used[s.Component] = true
			actionsOf(s.Steps, used)
		}
	}
}

// idempotencyKey is the same for all attempts of a job of a run, over retries and rounds,
// so that what a step did once is recognised when it is tried again.
func idempotencyKey(job domain.JobID) string { return string(job) }

// keyOf is the key by which a job knows itself: the one in its own workflow.
func keyOf(job *plan.Job) string {
	if job.ID != "" {
		return job.ID
	}
	return job.Key
}

// legOf is what differs among the legs of a job.
type legOf struct {
	name    string
	matrix  json.RawMessage
	timeout int64
}

// jobOf finds in the plan what the job with that index runs: for a leg, its job and its own
// values.
func jobOf(p *plan.Plan, index int, leg *run.LegBrief) (*plan.Job, legOf, error) {
	at := index
	if leg != nil {
		at = leg.Of
	}
	if at < 0 || at >= len(p.Jobs) || (leg != nil) != (p.Jobs[at].Strategy != nil) {
		return nil, legOf{}, domain.Reject(domain.CodeWorkflowInvalid, "The stored plan has no such job.")
	}
	job := &p.Jobs[at]
	out := legOf{name: job.Name, timeout: job.TimeoutSeconds}
	switch at := index - len(p.Jobs); {
	case leg == nil:
	case leg.Matrix != "": // made while the run went on
		out.name, out.matrix, out.timeout = leg.Name, json.RawMessage(leg.Matrix), leg.TimeoutSeconds
	case at < 0 || at >= len(p.Legs) || p.Legs[at].Of != leg.Of:
		return nil, out, domain.Reject(domain.CodeWorkflowInvalid, "The stored plan has no such leg.")
	default:
		l := &p.Legs[at]
		out.name, out.matrix = l.Name, l.Matrix
		if l.TimeoutSeconds > 0 {
			out.timeout = l.TimeoutSeconds
		}
	}
	return job, out, nil
}

// needsContext is the needs context of the workflow language: result and outputs by key.
func needsContext(
	ctx context.Context, blobs blob.Store, tenant domain.TenantID, needs []run.Need,
) (json.RawMessage, error) {
	type need struct {
		Result  string            `json:"result"`
		Outputs map[string]string `json:"outputs"`
	}
	out := map[string]need{}
	for _, n := range needs {
		v := need{Result: Result(n.Outcome), Outputs: map[string]string{}}
		for _, o := range n.Outputs {
			text, err := OutputText(ctx, blobs, tenant, o)
			if err != nil {
				return nil, err
			}
			v.Outputs[o.Name] = text
		}
		out[n.Key] = v
	}
	return json.Marshal(out)
}

// outputBytesMax bounds an output that is an object; a job's are no more together.
const outputBytesMax = 1 << 20

// OutputText is the value of an output, wherever it is kept.
func OutputText(ctx context.Context, blobs blob.Store, tenant domain.TenantID, o run.Output) (string, error) {
	if o.Digest == "" {
		return o.Value, nil
	}
	data, err := ReadObject(ctx, blobs, tenant, o.Digest, outputBytesMax)
	return string(data), err
}

// CallInputs is the context inputs of a called workflow, wherever it is kept.
func CallInputs(
	ctx context.Context, blobs blob.Store, tenant domain.TenantID, in *run.CallInputs,
) (json.RawMessage, error) {
	if in.Digest == "" {
		return json.RawMessage(in.Value), nil
	}
	return ReadObject(ctx, blobs, tenant, in.Digest, outputBytesMax)
}

// Result is a job's outcome in the four words that the workflow language has for it.
func Result(o domain.Outcome) string {
	switch o {
	case domain.OutcomeSuccess, domain.OutcomeSoftFailure:
		return "success"
	case domain.OutcomeSkipped:
		return "skipped"
	case domain.OutcomeCancelled, domain.OutcomeSuperseded:
		return "cancelled"
	}
	return "failure"
}

// plan reads a plan from the writer's objects.
func (w *Writer) plan(ctx context.Context, tenant domain.TenantID, digest domain.Digest) (*plan.Plan, error) {
	return w.plans.read(ctx, w.Blobs, tenant, digest)
}

// Plans reads plans by digest.
type Plans struct {
	Blobs blob.Store

	known recall.Of[objectID, *plan.Plan]
}

// Plan reads a plan and checks that it is the one that was pinned. It is for reading only.
func (s *Plans) Plan(ctx context.Context, tenant domain.TenantID, digest domain.Digest) (*plan.Plan, error) {
	return s.read(ctx, s.Blobs, tenant, digest)
}

func (s *Plans) read(
	ctx context.Context, blobs blob.Store, tenant domain.TenantID, digest domain.Digest,
) (*plan.Plan, error) {
	if p, ok := s.known.Get(objectID{tenant, digest}); ok {
		return p, nil
	}
	data, err := ReadObject(ctx, blobs, tenant, digest, planBytesMax)
	if err != nil {
		return nil, err
	}
	p, err := plan.Decode(data)
	if err != nil {
		return nil, &domain.Rejection{
			Code:    domain.CodeWorkflowInvalid,
			Message: "The stored plan can't be read: " + err.Error(),
		}
	}
	s.known.Put(objectID{tenant, digest}, p, len(data))
	return p, nil
}

// PutObject keeps data as a content-addressed object.
func PutObject(ctx context.Context, blobs blob.Store, tenant domain.TenantID, data []byte) (domain.Digest, error) {
	digest := domain.DigestOf(data)
	err := blobs.Put(ctx, blob.ObjectKey(tenant, digest), bytes.NewReader(data), int64(len(data)))
	if err != nil && !errors.Is(err, blob.ErrExists) {
		return "", fmt.Errorf("put object %s: %w", digest, err)
	}
	return digest, nil
}

// ReadObject reads a content-addressed object and verifies its digest.
func ReadObject(
	ctx context.Context,
	blobs blob.Store,
	tenant domain.TenantID,
	digest domain.Digest,
	limit int64,
) ([]byte, error) {
	r, err := blobs.Open(ctx, blob.ObjectKey(tenant, digest), 0, -1)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, domain.Reject(domain.CodeNotFound, "The stored object "+string(digest)+" is missing.")
	}
	if err != nil {
		return nil, fmt.Errorf("open object %s: %w", digest, err)
	}
	defer func() { _ = r.Close() }()
	var buf bytes.Buffer
	if _, err := io.Copy(&buf, io.LimitReader(r, limit+1)); err != nil {
		return nil, fmt.Errorf("read object %s: %w", digest, err)
	}
	if int64(buf.Len()) > limit || domain.DigestOf(buf.Bytes()) != digest {
		return nil, domain.Reject(domain.CodeNotFound, "The stored object "+string(digest)+" is damaged.")
	}
	return buf.Bytes(), nil
}

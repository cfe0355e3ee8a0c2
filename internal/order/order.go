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
	// Env gives variables that come before the workflow's own; nil: none.
	Env    func(attempt domain.AttemptID) []plan.Binding
	Limits manifest.Limits
	Now    func() time.Time

	plans recall.Of[objectID, *plan.Plan]
}

var _ dispatch.Manifests = (*Writer)(nil)

// Build implements dispatch.Manifests.
func (w *Writer) Build(ctx context.Context, want dispatch.Order) (*manifest.Manifest, error) {
	q, index := want.Brief.Request, want.Brief.Job
	p, err := w.plan(ctx, want.Tenant, q.Plan)
	if err != nil {
		return nil, err
	}
	if index >= len(p.Jobs) {
		return nil, domain.Reject(domain.CodeWorkflowInvalid, "The stored plan has no such job.")
	}
	github, inputs, err := w.Contexts.Contexts(ctx, want.Tenant, q)
	if err != nil {
		return nil, fmt.Errorf("read contexts of %s: %w", q.Run, err)
	}
	needs, err := needsContext(want.Brief.Needs)
	if err != nil {
		return nil, fmt.Errorf("write needs context of %s: %w", want.Attempt, err)
	}
	job := &p.Jobs[index]
	env := job.Env
	if w.Env != nil {
		env = append(w.Env(want.Attempt), job.Env...)
	}
	now := w.Now()
	return &manifest.Manifest{
		Version: manifest.Version, Tenant: want.Tenant, Repository: q.Repository, Run: q.Run, Job: want.Attempt.Job(),
		Attempt: want.Attempt, Number: want.Brief.Number, Round: want.Brief.Round, Epoch: want.Epoch, Runner: want.Runner,
		Pool: want.Pool, Slot: want.Slot, Issued: now, Expires: want.Until, Tier: q.Tier, Class: q.Class, Network: "pool",
		Effectful: job.Effectful, RepositoryName: q.RepositoryName, RunNumber: q.Number, JobKey: job.Key, JobName: job.Name,
		Source: manifest.Source{Path: w.GitPath(want.Tenant, q.Repository), Commit: q.Source.Commit, Ref: q.Source.Ref},
		Token:  w.Token(want.Tenant, want.Attempt, want.Epoch).Reveal(), Plan: q.Plan,
		Github: github, Inputs: inputs, Needs: needs, Env: env, Steps: job.Steps, TimeoutSeconds: job.TimeoutSeconds,
		Limits: w.Limits, IdempotencyKey: idempotencyKey(want.Attempt.Job()),
	}, nil
}

// idempotencyKey is the same for all attempts of a job of a run, over retries and rounds,
// so that what a step did once is recognised when it is tried again.
func idempotencyKey(job domain.JobID) string { return string(job) }

// needsContext is the needs context of the workflow language: result and outputs by key.
func needsContext(needs []run.Need) (json.RawMessage, error) {
	type need struct {
		Result  string            `json:"result"`
		Outputs map[string]string `json:"outputs"`
	}
	out := map[string]need{}
	for _, n := range needs {
		v := need{Result: Result(n.Outcome), Outputs: map[string]string{}}
		for _, o := range n.Outputs {
			v.Outputs[o.Name] = o.Value
		}
		out[n.Key] = v
	}
	return json.Marshal(out)
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

// plan reads a plan by digest and checks that it is the one that was pinned.
func (w *Writer) plan(ctx context.Context, tenant domain.TenantID, digest domain.Digest) (*plan.Plan, error) {
	if p, ok := w.plans.Get(objectID{tenant, digest}); ok {
		return p, nil
	}
	data, err := ReadObject(ctx, w.Blobs, tenant, digest, planBytesMax)
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
	w.plans.Put(objectID{tenant, digest}, p, len(data))
	return p, nil
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

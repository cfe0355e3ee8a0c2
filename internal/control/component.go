package control

import (
	"context"
	"slices"
	"strings"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
)

// usesScanMax bounds the runs that one answer about a component looks at.
const usesScanMax = 200

// ListComponentRuns implements the contract. There is no index: it reads the snapshots of runs, newest
// first, which runs that were asked for alike share.
func (r *Runs) ListComponentRuns(
	ctx context.Context, req *fairleadv1.ListComponentRunsRequest,
) (*fairleadv1.ListComponentRunsResponse, error) {
	name := strings.TrimSpace(req.GetComponent())
	if name == "" {
		return nil, field("component", "Name a component: its digest, or OWNER/NAME@REVISION.")
	}
	tenant := r.Caller(ctx).Tenant
	rows, err := r.Views.Runs(ctx, store.RunQuery{Tenant: tenant, Before: domain.RunID(req.GetAfter()),
		Limit: usesScanMax})
	if err != nil {
		return nil, err
	}
	out := &fairleadv1.ListComponentRunsResponse{LookedAt: int32(len(rows))}
	for i := range rows {
		known, err := r.componentsOf(ctx, tenant, rows[i].Run)
		if err != nil {
			return nil, err
		}
		known = slices.DeleteFunc(slices.Clone(known), func(c snapshot.Component) bool { return !componentIs(c, name) })
		if len(known) > 0 {
			out.Runs = append(out.Runs, &fairleadv1.ComponentRun{Run: projection.Summary(&rows[i]),
				Components: componentList(known)})
		}
	}
	if len(rows) == usesScanMax {
		out.After = string(rows[len(rows)-1].Run)
	}
	return out, nil
}

// componentIs reports whether somebody means the component by its digest, the commit or tree in it,
// its reference, or its repository at the revision.
func componentIs(c snapshot.Component, name string) bool {
	if c.Digest == "" {
		return false
	}
	path, revision, _ := strings.Cut(c.Name, "@")
	parts := strings.SplitN(path, "/", 3)
	repository := strings.Join(parts[:min(2, len(parts))], "/")
	return c.Digest == name || c.Name == name || slices.Contains(strings.Split(c.Digest, ":")[1:], name) ||
		strings.EqualFold(repository+"@"+revision, name) || strings.EqualFold(repository, name)
}

func (r *Runs) componentsOf(
	ctx context.Context, tenant domain.TenantID, id domain.RunID,
) ([]snapshot.Component, error) {
	h, err := r.Engine.Read(ctx, tenant, id.Stream(), false)
	if err != nil {
		return nil, err
	}
	state, ok := h.State.(*run.State)
	if !ok || r.Components == nil || state.Request.Snapshot == "" {
		return nil, nil
	}
	return r.Components(ctx, tenant, &state.Request)
}

func componentList(known []snapshot.Component) (out []*fairleadv1.Component) {
	for _, c := range known {
		out = append(out, &fairleadv1.Component{Reference: c.Name, Digest: c.Digest, File: c.File})
	}
	return out
}

// SetComponentPolicy implements the contract.
func (r *Repositories) SetComponentPolicy(
	ctx context.Context, req *fairleadv1.SetComponentPolicyRequest,
) (*fairleadv1.SetComponentPolicyResponse, error) {
	caller := r.Caller(ctx)
	err := r.Trigger.SetComponentPolicy(ctx, caller.Tenant, req.GetRepository(), req.GetPolicy(), caller.Cause)
	if err != nil {
		return nil, err
	}
	found, err := r.GetRepository(ctx, &fairleadv1.GetRepositoryRequest{Repository: req.GetRepository()})
	if err != nil {
		return nil, err
	}
	return &fairleadv1.SetComponentPolicyResponse{Repository: found.GetRepository()}, nil
}

// ResolveComponents implements the contract.
func (r *Repositories) ResolveComponents(
	ctx context.Context, req *fairleadv1.ResolveComponentsRequest,
) (*fairleadv1.ResolveComponentsResponse, error) {
	found, err := r.Trigger.Resolve(ctx, r.Caller(ctx).Tenant, req.GetRepository(), req.GetReferences())
	if err != nil {
		return nil, r.Runs.refusal(err)
	}
	out := &fairleadv1.ResolveComponentsResponse{}
	for _, c := range found {
		m := &fairleadv1.Component{Reference: c.Reference.String(), Digest: c.Digest(), File: c.File, Problem: c.Problem,
			Text: c.Text}
		if !c.Committed.IsZero() {
			m.Committed = projection.Stamp(c.Committed)
		}
		out.Components = append(out.Components, m)
	}
	return out, nil
}

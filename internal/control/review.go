package control

import (
	"context"
	"encoding/json"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// ReplayRun implements the contract.
func (r *Runs) ReplayRun(
	ctx context.Context, req *fairleadv1.ReplayRunRequest,
) (*fairleadv1.ReplayRunResponse, error) {
	tenant, id := r.Caller(ctx).Tenant, domain.RunID(req.GetRun())
	if _, err := r.row(ctx, tenant, id); err != nil {
		return nil, err
	}
	s, found, err := r.Review.Replay(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	out := &fairleadv1.ReplayRunResponse{Run: string(id), Answer: string(found.Answer), Sentence: found.Sentence,
		Evaluator: int32(found.Evaluator), ServerEvaluator: plan.Evaluator, Use: found.Use,
		PlanDigest: string(found.Stored), ReplayedDigest: string(found.Now), Decisions: int32(found.Decisions),
		More: int32(found.More)}
	for _, f := range found.Findings {
		m := &fairleadv1.ReplayedDecision{Answer: string(f.Answer), What: f.What, Subject: string(id), Round: int32(f.Round),
			Event: f.Event, Version: f.Version, Recorded: f.Recorded, Now: f.Now}
		if f.Job >= 0 && f.Job < len(s.Jobs) {
			m.Subject, m.Job = string(s.JobID(f.Job)), s.Skeleton(f.Job).Key
		}
		out.Findings = append(out.Findings, m)
	}
	return out, nil
}

// DiffRuns implements the contract. A run that the caller may not read is answered as one that is
// not there, whichever of the two it is.
func (r *Runs) DiffRuns(ctx context.Context, req *fairleadv1.DiffRunsRequest) (*fairleadv1.DiffRunsResponse, error) {
	tenant := r.Caller(ctx).Tenant
	for _, id := range []string{req.GetRun(), req.GetOther()} {
		if _, err := r.row(ctx, tenant, domain.RunID(id)); err != nil {
			return nil, err
		}
	}
	c, err := r.Review.Diff(ctx, tenant, domain.RunID(req.GetRun()), domain.RunID(req.GetOther()))
	if err != nil {
		return nil, err
	}
	out := &fairleadv1.DiffRunsResponse{Run: summaryOf(tenant, c.Before), Other: summaryOf(tenant, c.After),
		Same: len(c.Differences)+len(c.Lines)+len(c.Notes) == 0, Notes: c.Notes}
	for _, d := range c.Differences {
		out.Differences = append(out.Differences, &fairleadv1.Difference{Part: d.Part, Name: d.Name, Kind: d.Kind,
			Before: d.Before, After: d.After})
	}
	for _, l := range c.Lines {
		out.Lines = append(out.Lines, &fairleadv1.DiffLine{Kind: l.Kind, Before: int32(l.Before), After: int32(l.After),
			Text: l.Text})
	}
	return out, nil
}

// contexts reads a run's contexts when an explanation needs them. What can't be read is not told.
func (r *Runs) contexts(ctx context.Context, tenant domain.TenantID, h engine.History) projection.Contexts {
	return func() (github, inputs json.RawMessage) {
		s, ok := h.State.(*run.State)
		if !ok || r.Review == nil {
			return nil, nil
		}
		return r.Review.Contexts(ctx, tenant, &s.Request)
	}
}

func summaryOf(tenant domain.TenantID, s *run.State) *fairleadv1.RunSummary {
	row := projection.RunRow(s, engine.Place{Tenant: tenant, Stream: s.Request.Run.Stream(), Version: s.Version})
	return projection.Summary(&row)
}

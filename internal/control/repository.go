package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-ci/fairlead/internal/core/repository"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/trigger"
	"github.com/fairlead-ci/fairlead/internal/workflow"
)

// Repositories answers RepositoryService.
type Repositories struct {
	Trigger *trigger.Triggers
	Views   store.Views
	Runs    *Runs
	Caller  func(context.Context) Caller
	GitPath func(tenant domain.TenantID, repository domain.RepositoryID) string
}

var _ fairleadv1connect.RepositoryServiceHandler = (*Repositories)(nil)

func (r *Repositories) message(row *store.RepositoryRow) *fairleadv1.Repository {
	return &fairleadv1.Repository{Repository: string(row.Repository), Name: row.Name, Url: row.URL,
		DefaultBranch: row.DefaultBranch, Registered: projection.Stamp(row.Registered), Poll: row.Poll,
		GitPath: r.GitPath(row.Tenant, row.Repository)}
}

// AddRepository implements the contract. It is safe to repeat by its name, so the key adds
// nothing.
func (r *Repositories) AddRepository(
	ctx context.Context,
	req *fairleadv1.AddRepositoryRequest,
) (*fairleadv1.AddRepositoryResponse, error) {
	caller := r.Caller(ctx)
	done, err := r.Trigger.AddRepository(
		ctx,
		trigger.Registration{Tenant: caller.Tenant, Name: req.GetName(), URL: req.GetUrl(),
			DefaultBranch: req.GetDefaultBranch(), Poll: req.GetPoll(), Administrator: caller.Admin, Cause: caller.Cause},
	)
	if err != nil {
		return nil, err
	}
	return &fairleadv1.AddRepositoryResponse{
		Repository: r.message(&done.Row),
		Existed:    done.Existed,
		Token:      done.Token.String(),
		Proof:      string(done.Token.Proof),
	}, nil
}

// ListRepositories implements the contract.
func (r *Repositories) ListRepositories(
	ctx context.Context,
	_ *fairleadv1.ListRepositoriesRequest,
) (*fairleadv1.ListRepositoriesResponse, error) {
	rows, err := r.Views.Repositories(ctx, r.Caller(ctx).Tenant)
	if err != nil {
		return nil, err
	}
	res := &fairleadv1.ListRepositoriesResponse{}
	for i := range rows {
		res.Repositories = append(res.Repositories, r.message(&rows[i]))
	}
	return res, nil
}

// GetRepository implements the contract.
func (r *Repositories) GetRepository(
	ctx context.Context,
	req *fairleadv1.GetRepositoryRequest,
) (*fairleadv1.GetRepositoryResponse, error) {
	row, err := r.Views.Repository(ctx, r.Caller(ctx).Tenant, req.GetRepository())
	if errors.Is(err, store.ErrNotFound) {
		return nil, domain.Reject(domain.CodeNotFound, "There is no such repository.")
	}
	if err != nil {
		return nil, err
	}
	answer := r.message(&row)
	if answer.Schedules, answer.ComponentPolicy, err = r.schedules(ctx, &row); err != nil {
		return nil, err
	}
	return &fairleadv1.GetRepositoryResponse{Repository: answer}, nil
}

func (r *Repositories) schedules(ctx context.Context, row *store.RepositoryRow,
) (out []*fairleadv1.Schedule, policy string, err error) {
	h, err := r.Runs.Engine.Read(ctx, row.Tenant, row.Repository.Stream(), false)
	if err != nil {
		return nil, "", err
	}
	state, ok := h.State.(*repository.State)
	if !ok {
		return nil, "", fmt.Errorf("read repository %s: unexpected state %T", row.Repository, h.State)
	}
	for _, one := range state.Schedules {
		m := &fairleadv1.Schedule{Workflow: one.Workflow, Cron: one.Cron, Timezone: one.Zone, CatchUp: one.CatchUp,
			Next: one.NextID, NextAt: projection.Stamp(one.NextAt)}
		if last := one.Last; last != nil {
			m.Last = &fairleadv1.Occurrence{Occurrence: last.ID, SettledAt: projection.Stamp(last.At), Outcome: last.Outcome,
				Run: string(last.Run), Message: last.Message, Missed: int32(min(last.Missed, math.MaxInt32))}
		}
		out = append(out, m)
	}
	return out, cmp.Or(state.Components, workflow.PinsRecord), nil
}

// ListWorkflows implements the contract.
func (r *Repositories) ListWorkflows(
	ctx context.Context,
	req *fairleadv1.ListWorkflowsRequest,
) (*fairleadv1.ListWorkflowsResponse, error) {
	offer, err := r.Trigger.Offer(ctx, r.Caller(ctx).Tenant, req.GetRepository(), req.GetRef())
	if err != nil {
		return nil, r.Runs.refusal(err)
	}
	out := &fairleadv1.ListWorkflowsResponse{Ref: offer.Ref, Commit: offer.Commit}
	for _, one := range offer.Workflows {
		m := &fairleadv1.Workflow{Path: one.Path, Name: one.Triggers.Name, Events: one.Triggers.Events, Problem: one.Problem,
			Withdrawal: withdrawal(one.Withdrawal)}
		for _, in := range one.Triggers.Inputs {
			m.Inputs = append(m.Inputs, &fairleadv1.WorkflowInput{Name: in.Name, Description: in.Description, Type: in.Type,
				Required: in.Required, Default: in.Default, Options: in.Options})
		}
		out.Workflows = append(out.Workflows, m)
	}
	return out, nil
}

// NotifyPush implements the contract. A repeat finds the runs of the first time: they are
// keyed by ref and commit.
func (r *Repositories) NotifyPush(
	ctx context.Context,
	req *fairleadv1.NotifyPushRequest,
) (*fairleadv1.NotifyPushResponse, error) {
	caller := r.Caller(ctx)
	pushed, err := r.Trigger.Push(
		ctx,
		trigger.Push{Tenant: caller.Tenant, Repository: req.GetRepository(), Ref: req.GetRef(),
			Before: req.GetBefore(), After: req.GetAfter(), Pusher: req.GetPusher(), Cause: caller.Cause},
	)
	if err != nil {
		return nil, r.Runs.refusal(err)
	}
	res := &fairleadv1.NotifyPushResponse{Reasons: pushed.Reasons}
	for _, a := range pushed.Runs {
		v, err := r.Runs.read(ctx, a.Run, false)
		if err != nil {
			return nil, err
		}
		res.Runs, res.Token, res.Proof = append(res.Runs, v), a.Token.String(), string(a.Token.Proof)
	}
	return res, nil
}

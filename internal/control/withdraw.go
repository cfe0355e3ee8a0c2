package control

import (
	"context"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/core/repository"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/trigger"
)

// ListWithdrawals implements the contract.
func (r *Repositories) ListWithdrawals(
	ctx context.Context,
	req *fairleadv1.ListWithdrawalsRequest,
) (*fairleadv1.ListWithdrawalsResponse, error) {
	list, err := r.withdrawals(ctx, req.GetRepository())
	return &fairleadv1.ListWithdrawalsResponse{Withdrawals: list}, err
}

// Withdraw implements the contract.
func (r *Repositories) Withdraw(
	ctx context.Context,
	req *fairleadv1.WithdrawRequest,
) (*fairleadv1.WithdrawResponse, error) {
	caller := r.Caller(ctx)
	token, err := r.Trigger.Withdraw(ctx, trigger.Withdrawal{Tenant: caller.Tenant, Repository: req.GetRepository(),
		Workflow: req.GetWorkflow(), Component: req.GetComponent(), Action: req.GetAction(), Commit: req.GetCommit(),
		Reason: req.GetReason(), Cause: caller.Cause,
		Key: &engine.Key{Scope: engine.ClientScope(caller.Scope, "Withdraw"), Key: caller.Key, Body: caller.Body}})
	if err != nil {
		return nil, r.Runs.refusal(err)
	}
	list, err := r.withdrawals(ctx, req.GetRepository())
	if err != nil {
		return nil, err
	}
	return &fairleadv1.WithdrawResponse{Withdrawals: list, Token: token.String(), Proof: string(token.Proof)}, nil
}

func (r *Repositories) withdrawals(ctx context.Context, name string) (out []*fairleadv1.Withdrawal, err error) {
	list, err := r.Trigger.Withdrawals(ctx, r.Caller(ctx).Tenant, name)
	for i := range list {
		out = append(out, withdrawal(&list[i]))
	}
	return out, err
}

func withdrawal(w *repository.Withdrawal) *fairleadv1.Withdrawal {
	if w == nil {
		return nil
	}
	out := &fairleadv1.Withdrawal{Workflow: w.Workflow, Component: w.Component, State: "disabled", Commit: w.Commit,
		Digest: string(w.Text), Reason: w.Reason, By: w.Actor.Kind + " " + w.Actor.ID, At: projection.Stamp(w.At),
		Request: w.Request}
	if w.Restored() {
		out.State = "restored"
	}
	return out
}

// mayRerun refuses to run again what was withdrawn, unless the caller insists. A repeat of a call
// that has acted is no new rerun.
func (r *Runs) mayRerun(ctx context.Context, method string, id domain.RunID, force bool) error {
	if force {
		return nil
	}
	caller := r.Caller(ctx)
	if _, err := r.row(ctx, caller.Tenant, id); err != nil {
		return err
	}
	_, acted, err := r.Engine.Earlier(ctx, caller.Tenant,
		engine.Key{Scope: engine.ClientScope(caller.Scope, method), Key: caller.Key, Body: caller.Body})
	if acted || err != nil {
		return err
	}
	h, err := r.Engine.Read(ctx, caller.Tenant, id.Stream(), false)
	if err != nil {
		return err
	}
	s, ok := h.State.(*run.State)
	if !ok {
		return domain.Reject(domain.CodeNotFound, "There is no such run.")
	}
	return r.Trigger.MayRerun(ctx, caller.Tenant, &s.Request)
}

package trigger

import (
	"context"

	"github.com/fairlead-ci/fairlead/internal/core/repository"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/workflow"
)

// Offer is what can be started at a ref.
type Offer struct {
	Ref, Commit string
	Workflows   []Offered
}

// Offered is one workflow of an offer.
type Offered struct {
	Path     string
	Triggers workflow.Triggers
	Problem  string // why it can't be read; "" when it can
	// Withdrawal is set when it does not count as it is written. Triggers are those of the text that counts.
	Withdrawal *repository.Withdrawal
}

// Offer reads the workflows at a ref ("" is the default branch), by path. Nothing is created.
//
// Trust: repository and ref may come from any member.
func (t *Triggers) Offer(ctx context.Context, tenant domain.TenantID, repository, ref string) (Offer, error) {
	leave, err := t.gate.enter(ctx, line{tenant, repository})
	if err != nil {
		return Offer{}, err
	}
	defer leave()
	row, err := t.repository(ctx, tenant, repository)
	if err != nil {
		return Offer{}, err
	}
	c := &cause{triggers: t, row: row, request: Request{Tenant: tenant, Repository: repository, Ref: ref}}
	if err := c.resolve(ctx); err != nil {
		return Offer{}, err
	}
	if err := c.read(ctx); err != nil {
		return Offer{}, err
	}
	out := Offer{Ref: c.ref, Commit: c.commit.ID}
	for _, file := range c.files {
		in := c.inspect(file)
		one := Offered{Path: file.Path, Triggers: in.triggers, Withdrawal: c.withdrawals[file.Path]}
		if workflow.Failed(in.diagnostics) {
			one.Problem = firstError(in.diagnostics)
		}
		if one.Withdrawal != nil && one.Withdrawal.Restored() && one.Problem == "" {
			one.Problem = c.stopped[file.Path] // that the text it is restored to is not there
		}
		out.Workflows = append(out.Workflows, one)
	}
	return out, nil
}

package control

import (
	"context"
	"fmt"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-ci/fairlead/internal/core/pool"
	"github.com/fairlead-ci/fairlead/internal/dispatch"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/projection"
)

// Bounds of a registration token's life.
const (
	tokenLifeDefault = time.Hour
	tokenLifeMax     = 7 * 24 * time.Hour
)

// Pools answers PoolService.
type Pools struct {
	Engine   *engine.Engine
	Dispatch *dispatch.Dispatcher
	Caller   func(context.Context) Caller
	// Elsewhere, when set, finds the server that leads the pool. Without it pools are shown
	// as this server knows them, with runners that it has not heard.
	Elsewhere Elsewhere
	// Mint makes a registration token: its text for the caller, its digest for the pool.
	Mint func() (text domain.Secret, digest domain.Digest)
}

var _ fairleadv1connect.PoolServiceHandler = (*Pools)(nil)

// ListPools implements the contract.
func (p *Pools) ListPools(ctx context.Context, req *fairleadv1.ListPoolsRequest) (*fairleadv1.ListPoolsResponse,
	error) {
	if remote, err := p.Elsewhere.find(ctx); err == nil && remote != nil {
		within, cancel := remote.Within(ctx)
		defer cancel()
		if res, err := remote.Pools.ListPools(within, req); err == nil {
			return res, nil
		}
	}
	res := &fairleadv1.ListPoolsResponse{}
	for _, s := range p.Dispatch.Pools(p.Caller(ctx).Tenant) {
		out := &fairleadv1.Pool{Pool: string(s.Pool), Labels: s.Labels, Aliases: s.Aliases, Runners: int32(s.Runners()),
			Slots: int32(s.Slots), Busy: int32(s.Busy), Waiting: int32(s.Waiting)}
		for _, t := range s.Tiers {
			out.Tiers = append(out.Tiers, string(t))
		}
		res.Pools = append(res.Pools, out)
	}
	return res, nil
}

// ListRunners implements the contract.
func (p *Pools) ListRunners(
	ctx context.Context,
	req *fairleadv1.ListRunnersRequest,
) (*fairleadv1.ListRunnersResponse, error) {
	if remote, err := p.Elsewhere.find(ctx); err == nil && remote != nil {
		within, cancel := remote.Within(ctx)
		defer cancel()
		if res, err := remote.Pools.ListRunners(within, req); err == nil {
			return res, nil
		}
	}
	res := &fairleadv1.ListRunnersResponse{}
	runners := p.Dispatch.Runners(p.Caller(ctx).Tenant)
	for i := range runners {
		res.Runners = append(res.Runners, runner(&runners[i]))
	}
	return res, nil
}

func runner(r *dispatch.RunnerStatus) *fairleadv1.Runner {
	out := &fairleadv1.Runner{Runner: string(r.Runner), Name: r.Name, Pool: string(r.Pool), Labels: r.Labels,
		Capacity: int32(r.Capacity), Isolation: r.Isolation, Version: r.Version, State: "silent",
		LastSeen: projection.Stamp(r.LastSeen), Registered: projection.Stamp(r.Registered)}
	if r.Connected {
		out.State = "connected"
	}
	for _, a := range r.Attempts {
		out.Attempts = append(out.Attempts, string(a))
	}
	return out
}

// CreateRegistrationToken implements the contract. The token's text is in this answer and
// nowhere else, so a repeat with the same key is refused instead of being answered empty.
func (p *Pools) CreateRegistrationToken(ctx context.Context, req *fairleadv1.CreateRegistrationTokenRequest) (
	*fairleadv1.CreateRegistrationTokenResponse, error) {
	caller, id := p.Caller(ctx), domain.PoolID(req.GetPool())
	life := time.Duration(req.GetTtlSeconds()) * time.Second
	if life == 0 {
		life = tokenLifeDefault
	}
	if life < 0 || life > tokenLifeMax {
		return nil, field(
			"ttl_seconds",
			fmt.Sprintf("A registration token lives 1 second to %d days.", int(tokenLifeMax.Hours()/24)),
		)
	}
	if there, err := p.exists(ctx, id); err != nil {
		return nil, err
	} else if !there {
		return nil, domain.Reject(domain.CodeNotFound, "There is no such pool.")
	}
	token, digest := p.Mint()
	expires := p.Engine.Now().Add(life)
	ack, err := p.Engine.Submit(ctx, engine.Envelope{Tenant: caller.Tenant, Partition: id.Partition(), Stream: id.Stream(),
		Command: pool.IssueRegistrationToken{Cause: caller.Cause, Token: digest, Expires: expires},
		Key: &engine.Key{
			Scope: engine.ClientScope(caller.Scope, "CreateRegistrationToken"),
			Key:   caller.Key,
			Body:  caller.Body,
		}})
	if err != nil {
		return nil, err
	}
	if ack.Repeat {
		return nil, domain.Reject(domain.CodeAlreadyExists,
			"This request has made a token already, and its text was shown once; make another with a new idempotency key.")
	}
	return &fairleadv1.CreateRegistrationTokenResponse{Token: token.Reveal(), Expires: projection.Stamp(expires)}, nil
}

// exists asks memory, and where that does not know the pool, the store: this server may still be
// reading, or be behind.
func (p *Pools) exists(ctx context.Context, id domain.PoolID) (bool, error) {
	tenant := p.Caller(ctx).Tenant
	if p.Dispatch.Pool(tenant, id) {
		return true, nil
	}
	state, err := p.stored(ctx, tenant, id)
	return state != nil, err
}

// stored reads a pool from the store; nil is one that nobody has made.
func (p *Pools) stored(ctx context.Context, tenant domain.TenantID, id domain.PoolID) (*pool.State, error) {
	h, err := p.Engine.Read(ctx, tenant, id.Stream(), false)
	if r, ok := domain.AsRejection(err); ok && r.Code == domain.CodeNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	state, _ := h.State.(*pool.State)
	return state, nil
}

// RemoveRunner implements the contract.
func (p *Pools) RemoveRunner(
	ctx context.Context,
	req *fairleadv1.RemoveRunnerRequest,
) (*fairleadv1.RemoveRunnerResponse, error) {
	caller := p.Caller(ctx)
	key := engine.Key{Scope: engine.ClientScope(caller.Scope, "RemoveRunner"), Key: caller.Key, Body: caller.Body}
	in, id, err := p.find(ctx, caller.Tenant, req.GetRunner())
	if r, ok := domain.AsRejection(err); ok && r.Code == domain.CodeNotFound {
		// This key may have removed it: then its owner repeats the first answer.
		earlier, acted, problem := p.Engine.Earlier(ctx, caller.Tenant, key)
		if problem != nil {
			return nil, fmt.Errorf("look up key: %w", problem)
		}
		if acted {
			in, err = domain.PoolID(earlier.Stream.ID()), nil
		}
	}
	if err != nil {
		return nil, err
	}
	_, err = p.Engine.Submit(ctx, engine.Envelope{Tenant: caller.Tenant, Partition: in.Partition(), Stream: in.Stream(),
		Command: pool.RemoveRunner{Cause: caller.Cause, Runner: id, Reason: "removed by request"}, Key: &key})
	return &fairleadv1.RemoveRunnerResponse{}, err
}

// find looks for a runner by its id or name: in memory, and where that does not know it, in the
// store, because this server may be behind.
func (p *Pools) find(ctx context.Context, tenant domain.TenantID, name string) (domain.PoolID, domain.RunnerID,
	error) {
	// Asked before the pools are: what is whole by then was whole when they are read.
	whole := p.Dispatch.Whole()
	if in, id, ok := p.Dispatch.FindRunner(tenant, name); ok {
		return in, id, nil
	}
	if whole != nil {
		return "", "", whole
	}
	for _, s := range p.Dispatch.Pools(tenant) {
		state, err := p.stored(ctx, tenant, s.Pool)
		if err != nil {
			return "", "", err
		}
		if state == nil {
			continue
		}
		for _, r := range state.Runners {
			if string(r.Runner) == name || r.Name == name {
				return s.Pool, r.Runner, nil
			}
		}
	}
	return "", "", domain.Reject(domain.CodeNotFound, "There is no such runner.")
}

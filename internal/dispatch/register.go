package dispatch

import (
	"context"
	"maps"
	"slices"
	"strings"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/core/pool"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
)

// Register turns a one-time token into a runner. Repeating it with the same token and the
// same resume secret gives the same runner, so a lost reply is not a second one.
//
// Trust: everything in the request comes from somebody who holds a token, or doesn't.
func (d *Dispatcher) Register(ctx context.Context, req *runnerv1.RegisterRequest) (*runnerv1.RegisterResponse, error) {
	if req.GetProtocol() != Protocol {
		return nil, domain.Reject(domain.CodeProtocolUnsupported,
			"This server speaks runner protocol 1; use a runner of a matching release.")
	}
	token, wellFormed := d.cfg.TokenDigest(req.GetToken())
	d.mu.Lock()
	p := d.board.poolOfToken(token)
	unsure := d.unsure()
	speaks := p == nil || d.speaks(p.partition)
	d.mu.Unlock()
	if unsure != nil {
		return nil, unsure
	}
	if !wellFormed || p == nil {
		return nil, domain.Reject(domain.CodeRegistrationInvalid,
			"The registration token is unknown, used or expired; make a new one with fairlead runner token.")
	}
	if !speaks {
		return nil, errNotLeader
	}
	ack, err := d.cfg.Engine.Submit(ctx, engine.Envelope{Tenant: p.tenant, Partition: p.partition, Stream: p.pool.Stream(),
		Command: pool.RegisterRunner{
			Cause: domain.Cause{Actor: domain.Actor{Kind: "runner", ID: req.GetName(), Via: "registration_token"}},
			Token: token, Runner: domain.RunnerID(d.cfg.Mint(domain.PrefixRunner)),
			Session:    domain.SessionID(d.cfg.Mint(domain.PrefixSession)),
			Resume:     domain.Digest("sha256:" + strings.TrimPrefix(req.GetResumeDigest(), "sha256:")),
			RunnerName: req.GetName(), Labels: req.GetLabels(), Capacity: int(req.GetCapacity()),
			Isolation: req.GetIsolation(), Version: req.GetVersion(), OS: req.GetOs(), Arch: req.GetArch(),
		}})
	if err != nil {
		return nil, err
	}
	reply := ack.Reply.(pool.RegisterReply)
	res := &runnerv1.RegisterResponse{Protocol: Protocol, Runner: string(reply.Runner), Session: string(reply.Session),
		Pool: string(p.pool), Timing: d.timing()}
	res.Keys = published(d.cfg.Keys())
	return res, nil
}

func published(keys []Key) []*runnerv1.SigningKey {
	out := make([]*runnerv1.SigningKey, 0, len(keys))
	for _, k := range keys {
		out = append(out, &runnerv1.SigningKey{Id: k.ID, Ed25519: k.Public})
	}
	return out
}

// poolOfToken finds the pool that issued a registration token, or that a runner has
// registered with by it: then the same request again is a repeat.
func (b *board) poolOfToken(token domain.Digest) *poolView {
	for _, id := range slices.Sorted(maps.Keys(b.pools)) {
		if p := b.pools[id]; p.tokens[token] {
			return p
		}
	}
	return nil
}

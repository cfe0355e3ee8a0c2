package dispatch

import (
	"context"
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
	id, ok := PoolOfToken(req.GetToken())
	d.mu.Lock()
	p := d.board.pools[id]
	ready := d.allReady()
	d.mu.Unlock()
	if !ready {
		return nil, errNotReady
	}
	if !ok || p == nil {
		return nil, domain.Reject(domain.CodeRegistrationInvalid,
			"The registration token is unknown, used or expired; make a new one with fairlead runner token.")
	}
	ack, err := d.cfg.Engine.Submit(ctx, engine.Envelope{Tenant: p.tenant, Partition: p.partition, Stream: id.Stream(),
		Command: pool.RegisterRunner{
			Cause: domain.Cause{Actor: domain.Actor{Kind: "runner", ID: req.GetName(), Via: "registration_token"}},
			Token: domain.DigestOf([]byte(req.GetToken())), Runner: domain.RunnerID(d.cfg.Mint(domain.PrefixRunner)),
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
		Pool: string(id), Timing: d.timing()}
	for _, k := range d.cfg.Keys() {
		res.Keys = append(res.Keys, &runnerv1.SigningKey{Id: k.ID, Ed25519: k.Public})
	}
	return res, nil
}

// PoolOfToken reads the pool out of a registration token ("frt_<pool>_<secret>").
//
// Trust: text may come from anybody.
func PoolOfToken(text string) (domain.PoolID, bool) {
	rest, ok := strings.CutPrefix(text, "frt_")
	cut := strings.LastIndexByte(rest, '_')
	if !ok || cut <= 0 || len(text) > 256 {
		return "", false
	}
	return domain.PoolID(rest[:cut]), true
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/runner/v1/runnerv1connect"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-ci/fairlead/internal/control"
	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/dispatch"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/httpapi"
	"github.com/fairlead-ci/fairlead/internal/peer"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// errBetween: nobody leads the pool and holds the logs at this moment, as far as is known.
var errBetween = domain.Reject(domain.CodeNotOwner, "The pool is between two servers of the fleet; try again.")

// elsewhere is control.Elsewhere: the server that leads the pool and holds the logs. A pool
// that changes hands is waited for; a request that another server passed on is not, since
// that one waits and looks for itself.
func (s *server) elsewhere(ctx context.Context) (*control.Remote, error) {
	if s.logs.Held() {
		return nil, nil
	}
	if httpapi.Forwarded(ctx) {
		return nil, errBetween
	}
	var h peer.Holder
	held := false
	if !s.fleet.waiting.until(ctx, func() (bool, <-chan struct{}) {
		held, h = s.logs.Held(), s.fleet.peers.Holder(defaultPool.Partition())
		return held || !h.Here && h.Address != "", h.Changed
	}) {
		return nil, errBetween
	}
	if held {
		return nil, nil
	}
	client := s.fleet.peers.Client(h)
	within := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return peer.While(peer.WithCaller(ctx, callerTo(ctx)), h)
	}
	return &control.Remote{
		Runs: fairleadv1connect.NewRunServiceClient(client), Logs: fairleadv1connect.NewLogServiceClient(client),
		Pools: fairleadv1connect.NewPoolServiceClient(client), Within: within,
		Raw: func(ctx context.Context, attempt domain.AttemptID, step int64) (*control.RawLog, error) {
			ctx = peer.WithCaller(ctx, callerTo(ctx))
			raw, err := s.fleet.peers.OpenLog(ctx, h, attempt, step)
			if err != nil {
				return nil, err
			}
			return &control.RawLog{Size: raw.Size, Sealed: raw.Sealed, Remote: raw.Write}, nil
		},
	}, nil
}

// callerTo tells a peer on whose behalf this server asks.
func callerTo(ctx context.Context) peer.Caller {
	p := httpapi.PrincipalFrom(ctx)
	return peer.Caller{Kind: string(p.Kind), ID: p.ID, Via: p.Via, Tenant: p.Tenant, Request: httpapi.RequestID(ctx)}
}

// Patience of a runner's call with a pool that changes hands.
const (
	leaderLook = 10 * time.Millisecond
	leaderWait = 10 * time.Second
)

// desk takes the calls of runners, wherever their pool is led.
type desk struct{ server *server }

var _ runnerv1connect.RunnerServiceHandler = desk{}

// Register implements the runner protocol.
func (d desk) Register(ctx context.Context, req *runnerv1.RegisterRequest) (*runnerv1.RegisterResponse, error) {
	p, ok := d.server.dispatch.PoolOfToken(req.GetToken())
	if !ok {
		p = defaultPool.Partition()
	}
	var res *runnerv1.RegisterResponse
	err := d.lead(ctx, p, func(ctx context.Context, remote runnerv1connect.RunnerServiceClient) (err error) {
		if remote != nil {
			res, err = remote.Register(ctx, req)
		} else {
			res, err = d.server.dispatch.Register(ctx, req)
		}
		return err
	})
	return res, err
}

// Exchange implements the runner protocol. A poll whose leader goes away goes on with the
// next one.
func (d desk) Exchange(ctx context.Context, req *runnerv1.ExchangeRequest) (*runnerv1.ExchangeResponse, error) {
	p, ok := d.server.dispatch.PoolOfSession(domain.SessionID(req.GetSession()))
	if !ok {
		p = defaultPool.Partition()
	}
	began, wanted := time.Now(), req.GetWaitMs()
	var res *runnerv1.ExchangeResponse
	err := d.lead(ctx, p, func(ctx context.Context, remote runnerv1connect.RunnerServiceClient) (err error) {
		if wanted > 0 {
			req.WaitMs = max(wanted-time.Since(began).Milliseconds(), 1)
		}
		if remote != nil {
			res, err = remote.Exchange(ctx, req)
		} else {
			res, err = d.server.dispatch.Exchange(ctx, req)
		}
		return err
	})
	return res, err
}

// polls takes exchanges in where their pool is led. Those that only wait are passed on to the leader
// together; others go the way of desk.
type polls struct{ server *server }

// Begin implements httpapi.Polls.
func (p polls) Begin(ctx context.Context, req *runnerv1.ExchangeRequest) (httpapi.Poll, error) {
	if p.server.fleet != nil {
		in, ok := p.server.dispatch.PoolOfSession(domain.SessionID(req.GetSession()))
		if !ok { // a runner that has just registered may be known to the leader only
			in = defaultPool.Partition()
		}
		switch {
		case p.server.dispatch.Leads(in):
		case httpapi.Forwarded(ctx):
			return nil, errBetween
		case httpapi.Idle(req):
			return p.passOn(in, req)
		default:
			return nil, nil
		}
	}
	poll, err := p.server.dispatch.Begin(ctx, req)
	if err != nil {
		return nil, err
	}
	return poll, nil
}

func (p polls) passOn(in domain.PartitionID, req *runnerv1.ExchangeRequest) (httpapi.Poll, error) {
	passed := p.server.fleet.peers.PassOn(in, req, min(time.Duration(req.GetWaitMs())*time.Millisecond, pollDefault))
	if passed == nil {
		return nil, nil
	}
	return passedOn{passed}, nil
}

// passedOn is a poll that the leader answers.
type passedOn struct{ *peer.Passed }

// Look implements httpapi.Poll.
func (p passedOn) Look(context.Context) (limit time.Duration, over bool) {
	select {
	case <-p.News():
		return 0, true
	default:
	}
	left := p.Left()
	return left, left <= 0
}

// End implements httpapi.Poll.
func (p passedOn) End() (*runnerv1.ExchangeResponse, error) {
	res, err := p.Passed.End()
	if errors.Is(err, peer.ErrHere) {
		err = httpapi.ErrAgain
	}
	return res, err
}

// takePassed takes a poll in that came to another server of the fleet: it is peer's Take.
func takePassed(api *httpapi.Server) func(context.Context, *runnerv1.ExchangeRequest) (peer.Poll, error) {
	return func(ctx context.Context, req *runnerv1.ExchangeRequest) (peer.Poll, error) {
		poll, err := api.BeginForwarded(ctx, req)
		if err != nil {
			return nil, err
		}
		if local, ok := poll.(*dispatch.Poll); ok {
			return local, nil
		}
		return nil, errBetween
	}
}

// lead calls the leader of a pool, here (nil) or elsewhere, and again while it changes.
// Everything that runners say may be said twice.
func (d desk) lead(ctx context.Context, pools domain.PartitionID,
	call func(context.Context, runnerv1connect.RunnerServiceClient) error) error {
	passed := httpapi.Forwarded(ctx)
	for deadline := time.Now().Add(leaderWait); ; {
		h := d.server.fleet.peers.Holder(pools)
		err := error(errBetween)
		switch {
		case passed || d.server.dispatch.Leads(pools):
			err = call(ctx, nil)
		case !h.Here && h.Address != "":
			within, cancel := peer.While(peer.WithCaller(ctx, callerTo(ctx)), h)
			err = call(within, runnerv1connect.NewRunnerServiceClient(d.server.fleet.peers.PollClient(h)))
			cancel()
		}
		if err == nil || passed || !between(err) || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-h.Changed:
		case <-time.After(leaderLook):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// between reports whether an error says that another server may do it in a moment.
func between(err error) bool {
	if r, ok := domain.AsRejection(err); ok {
		return r.Code == domain.CodeNotOwner
	}
	return errors.Is(err, domain.ErrRetry) || errors.Is(err, peer.ErrMoved)
}

// showFleet is control.Server's Fleet.
func (s *server) showFleet(ctx context.Context) (*fairleadv1.GetServerResponse, error) {
	picture, err := s.store.Picture(ctx)
	if err != nil {
		return nil, err
	}
	res := &fairleadv1.GetServerResponse{}
	for i := range picture.Members {
		m := &picture.Members[i]
		state := "live"
		switch {
		case !m.Live:
			state = "gone"
		case m.Draining:
			state = "draining"
		}
		res.Members = append(res.Members, &fairleadv1.Member{Name: m.Name, Address: m.Address, Version: m.Version,
			Format: m.Format, State: state, Until: projection.Stamp(m.Until)})
	}
	known := s.statuses(ctx)
	for _, id := range s.everywhere() {
		h, _ := picture.Holding(id)
		res.Partitions = append(res.Partitions, s.showPartition(id, h, picture, known))
	}
	return res, nil
}

// showPartition joins what the store says with what the owner says.
func (s *server) showPartition(id domain.PartitionID, h store.Holding, picture store.Picture,
	known map[domain.PartitionID]engine.PartitionStatus) *fairleadv1.Partition {
	if status, ok := known[id]; ok && status.Epoch >= h.Epoch {
		out := control.Partition(&status)
		out.Owner, out.Position = h.Owner, max(out.GetPosition(), uint64(h.Position))
		return out
	}
	out := &fairleadv1.Partition{Partition: string(id), State: "unowned", Epoch: h.Epoch, Position: uint64(h.Position),
		Owner: h.Owner}
	switch m, there := picture.Member(h.Owner); {
	case h.Owner == "":
		out.Problem = "Nobody owns it at this moment."
	case !there || !m.Live:
		out.Problem = "Its owner is gone; another server is about to take it."
	default:
		out.Problem = "Its owner does not say how it is."
	}
	return out
}

// present compares a token that a client brings, and says who brought it.
func (s *server) present(ctx context.Context, token domain.Token) error {
	return s.engine.Present(engine.HeldBy(ctx, holder(httpapi.PrincipalFrom(ctx))), token)
}

// holder says who brings a token, in words.
func holder(p credential.Principal) string {
	if p.Kind == credential.KindAnonymous {
		return "A client"
	}
	return fmt.Sprintf("A client (%s %s)", p.Kind, p.ID)
}

package reactor

import (
	"context"
	"fmt"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
)

// Groups carries between runs and concurrency groups: who asks for a place or gives it back, and
// what the group says. Rows come in order and at least once, so who joined is seen before who
// left, also by a server that takes over; a repeat finds its effect in the target's state.
type Groups struct {
	Engine engine.Submitter
	Read   Reader
}

var _ engine.Reactor = (*Groups)(nil)

// Name implements engine.Reactor.
func (g *Groups) Name() string { return "groups" }

// React implements engine.Reactor.
func (g *Groups) React(ctx context.Context, row engine.Committed) error {
	for n, ev := range row.Events {
		var err error
		switch e := ev.(type) {
		case *run.GroupAsked:
			err = g.join(ctx, row, n, e)
		case *run.GroupLeft:
			err = g.leave(ctx, row, n, e)
		case group.Event:
			err = g.tell(ctx, row, n, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *Groups) run(ctx context.Context, row engine.Committed) (*run.State, error) {
	h, err := g.Read.Read(ctx, row.Tenant, row.Stream, false)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", row.Stream, err)
	}
	return h.State.(*run.State), nil
}

// join asks for the place that the run still waits for. One that was answered or given up since
// is not asked for again: the group may have forgotten it.
func (g *Groups) join(ctx context.Context, row engine.Committed, n int, e *run.GroupAsked) error {
	s, err := g.run(ctx, row)
	if err != nil {
		return err
	}
	p := s.PlaceOf(e.Job)
	if p == nil || p.Left || p.Admitted || p.By != nil {
		return nil
	}
	who := group.Successor{Run: s.Request.Run, Number: s.Request.Number}
	if e.Job != group.Whole {
		who.Job = s.Skeleton(e.Job).Key
	}
	_, err = g.submit(ctx, row, group.Stream(s.Request.Repository, p.Group), n, func(cause domain.Cause) any {
		return group.Join{Cause: cause, Repository: s.Request.Repository, GroupName: p.Group, Who: who,
			Member: group.Key{Run: s.Request.Run, Job: e.Job, Round: p.Round}, Cancel: p.Cancel, Max: p.Max}
	})
	return err
}

func (g *Groups) leave(ctx context.Context, row engine.Committed, n int, e *run.GroupLeft) error {
	s, err := g.run(ctx, row)
	if err != nil {
		return err
	}
	_, err = g.submit(ctx, row, group.Stream(s.Request.Repository, e.Group), n, func(cause domain.Cause) any {
		return group.Leave{Cause: cause, Member: group.Key{Run: s.Request.Run, Job: e.Job, Round: e.Round}}
	})
	return err
}

// tell brings what a group says to the run that it is about. A place that the run does not want is
// given back at once: a server that was late asked for it after the run had left, and the run never
// leaves again.
func (g *Groups) tell(ctx context.Context, row engine.Committed, n int, ev group.Event) error {
	var member group.Key
	c := run.RecordPlace{}
	switch e := ev.(type) {
	case *group.MemberJoined:
		if slices.ContainsFunc(row.Events, func(other any) bool {
			admitted, ok := other.(*group.MemberAdmitted)
			return ok && admitted.Member == e.Member.Key
		}) {
			return nil // that says more
		}
		member, c.Phase, c.Generation, c.Ahead = e.Member.Key, run.PlaceJoined, e.Member.Generation, e.Ahead
	case *group.MemberAdmitted:
		member, c.Phase, c.Generation = e.Member, run.PlaceAdmitted, e.Generation
	case *group.MemberSuperseded:
		member, c.Phase, c.Generation, c.By = e.Member, run.PlaceSuperseded, e.Generation, e.By
	case *group.CancelWanted:
		member, c.Phase, c.Generation, c.By = e.Member, run.PlaceYield, e.Generation, e.By
	case *group.MemberRefused:
		member, c.Phase = e.Member, run.PlaceRefused
	default:
		return nil
	}
	c.Job, c.Round = member.Job, member.Round
	unwanted, err := g.submit(ctx, row, member.Run.Stream(), n, func(cause domain.Cause) any {
		c.Cause = cause
		return run.Command(c)
	})
	if err != nil || !unwanted {
		return err
	}
	_, err = g.submit(ctx, row, row.Stream, n, func(cause domain.Cause) any {
		return group.Leave{Cause: cause, Member: member}
	})
	return err
}

// submit sends a command. What the target does not want any more is nobody's fault.
func (g *Groups) submit(
	ctx context.Context, row engine.Committed, to domain.StreamID, n int, c func(domain.Cause) any,
) (unwanted bool, err error) {
	cause := domain.Cause{Actor: domain.Actor{Kind: "reactor", ID: g.Name(), Via: "internal"},
		Request: engine.CommandID(g.Name(), row.Stream, row.First+uint64(n), n)}
	_, err = g.Engine.Submit(ctx, engine.Envelope{Tenant: row.Tenant, Partition: row.Partition, Stream: to,
		Command: c(cause)})
	if r, ok := domain.AsRejection(err); ok {
		switch r.Code {
		case domain.CodeEvaluationMismatch, domain.CodeNotFound, domain.CodeInvalidArgument:
			return r.Code != domain.CodeInvalidArgument, nil
		}
	}
	return false, err
}

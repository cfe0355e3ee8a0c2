package projection

import (
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/core/pool"
	"github.com/fairlead-ci/fairlead/internal/core/repository"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Kinds are all kinds of streams that a server has, with their list rows.
func Kinds() []*engine.Kind {
	return []*engine.Kind{runKind(), poolKind(), repositoryKind(), groupKind()}
}

func runKind() *engine.Kind {
	shared := new(sharing)
	return engine.Typed[run.State, run.Command, run.Event]{
		Name: "run", Encoding: run.StateEncoding, New: run.New, Intern: shared.run,
		Decide: func(s *run.State, c run.Command, now time.Time) ([]run.Event, any, *domain.Rejection, *domain.Rejection) {
			d, rejection := run.Decide(s, c, now)
			return d.Events, d.Reply, d.Refusal, rejection
		},
		Evolve: run.Evolve, NextWake: run.NextWake, Early: run.Uncertain, Check: run.Check, Live: run.Live,
		EncodeEvents: run.EncodeEvents, DecodeEvents: run.DecodeEvents,
		EncodeState:   func(s *run.State) ([]byte, error) { return run.EncodeState(s), nil },
		DecodeState:   run.DecodeState,
		EncodeCommand: run.EncodeCommand, DecodeCommand: run.DecodeCommand,
		EncodeReply: run.EncodeReply, DecodeReply: run.DecodeReply,
		Lower: run.Lower, LowerCommand: run.LowerCommand,
		Begins: func(c run.Command) (domain.RepositoryID, int, bool) {
			q, ok := c.(run.RequestRun)
			return q.Request.Repository, len(q.Request.Skeleton), ok
		},
		Open:  func(s *run.State) (domain.RepositoryID, int) { return s.Request.Repository, run.Open(s) },
		Opens: run.Opens,
		Wake:  func(c domain.Cause) run.Command { return run.Wake{Cause: c} },
		Rows: func(s *run.State, at engine.Place) engine.Rows {
			return engine.Rows{Runs: []store.RunRow{RunRow(s, at)}}
		},
	}.Erase()
}

func poolKind() *engine.Kind {
	return engine.Typed[pool.State, pool.Command, pool.Event]{
		Name: "pool", Encoding: pool.StateEncoding, New: pool.New,
		Decide: func(s *pool.State, c pool.Command, now time.Time) ([]pool.Event, any, *domain.Rejection, *domain.Rejection) {
			d, rejection := pool.Decide(s, c, now)
			return d.Events, d.Reply, nil, rejection
		},
		Evolve: pool.Evolve, NextWake: pool.NextWake, Check: pool.Check, Live: pool.Live,
		EncodeEvents: pool.EncodeEvents, DecodeEvents: pool.DecodeEvents,
		EncodeState:   func(s *pool.State) ([]byte, error) { return pool.EncodeState(s), nil },
		DecodeState:   pool.DecodeState,
		EncodeCommand: pool.EncodeCommand, DecodeCommand: pool.DecodeCommand,
		EncodeReply: pool.EncodeReply, DecodeReply: pool.DecodeReply,
		Wake: func(c domain.Cause) pool.Command { return pool.Wake{Cause: c} },
		Rows: poolRows,
	}.Erase()
}

// poolRows are the pool's runners that have come with the events: nothing of a row changes after
// that. One that was removed leaves the pool's state and keeps its row as it was last.
func poolRows(s *pool.State, at engine.Place) (rows engine.Rows) {
	add := func(r pool.Runner) {
		rows.Runners = append(rows.Runners, store.RunnerRow{Tenant: at.Tenant, Pool: s.Pool, Runner: r.Runner,
			Name: r.Name, Labels: s.LabelsOf(r), Capacity: r.Capacity, Isolation: r.Isolation, Version: r.Version,
			Registered: r.Registered})
	}
	if at.Events == nil {
		for _, r := range s.Runners {
			add(r)
		}
		return rows
	}
	for _, e := range at.Events {
		if e, ok := e.(*pool.RunnerRegistered); ok {
			if r, there := s.Runner(e.Runner.Runner); there {
				add(r)
			}
		}
	}
	return rows
}

func repositoryKind() *engine.Kind {
	return engine.Typed[repository.State, repository.Command, repository.Event]{
		Name: "repository", Encoding: repository.StateEncoding, New: repository.New,
		Decide: func(s *repository.State, c repository.Command, now time.Time) (
			[]repository.Event, any, *domain.Rejection, *domain.Rejection) {
			d, rejection := repository.Decide(s, c, now)
			return d.Events, d.Reply, nil, rejection
		},
		Evolve: repository.Evolve, NextWake: repository.NextWake, Check: repository.Check, Live: repository.Live,
		EncodeEvents: repository.EncodeEvents, DecodeEvents: repository.DecodeEvents, Lower: repository.Lower,
		EncodeState:   func(s *repository.State) ([]byte, error) { return repository.EncodeState(s), nil },
		DecodeState:   repository.DecodeState,
		EncodeCommand: repository.EncodeCommand, DecodeCommand: repository.DecodeCommand,
		EncodeReply: repository.EncodeReply, DecodeReply: repository.DecodeReply,
		Wake: func(c domain.Cause) repository.Command { return repository.Wake{Cause: c} },
		Rows: func(s *repository.State, at engine.Place) engine.Rows {
			return engine.Rows{Repositories: []store.RepositoryRow{{Tenant: at.Tenant, Partition: at.Partition,
				Repository: s.Repository, Name: s.RepoName, URL: s.URL, DefaultBranch: s.DefaultBranch,
				Registered: s.Registered, Poll: s.Poll}}}
		},
	}.Erase()
}

func groupKind() *engine.Kind {
	return engine.Typed[group.State, group.Command, group.Event]{
		Name: "group", Encoding: group.StateEncoding, New: group.New,
		Decide: func(s *group.State, c group.Command, now time.Time) (
			[]group.Event, any, *domain.Rejection, *domain.Rejection) {
			d, rejection := group.Decide(s, c, now)
			return d.Events, nil, nil, rejection
		},
		Evolve: group.Evolve, NextWake: group.NextWake, Check: group.Check, Live: group.Live,
		EncodeEvents: group.EncodeEvents, DecodeEvents: group.DecodeEvents,
		EncodeState:   func(s *group.State) ([]byte, error) { return group.EncodeState(s), nil },
		DecodeState:   group.DecodeState,
		EncodeCommand: group.EncodeCommand, DecodeCommand: group.DecodeCommand,
		EncodeReply: group.EncodeReply, DecodeReply: group.DecodeReply,
		Lower: group.Lower, LowerCommand: group.LowerCommand,
		Wake: func(c domain.Cause) group.Command { return group.Wake{Cause: c} },
	}.Erase()
}

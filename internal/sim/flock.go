package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// flock is how one incarnation of a server speaks with the others. It stands for
// internal/peer, which is HTTP.
type flock struct {
	world   *world
	server  *server
	process *process
	moves   map[domain.PartitionID]store.Position // not told yet
}

func (w *world) serverNamed(name string) *server {
	for _, s := range w.servers {
		if s.name == name {
			return s
		}
	}
	return nil
}

// send asks another server for something and waits.
func (f *flock) send(ctx context.Context, c call, to string, patience time.Duration) (answer any, err error) {
	done := make(chan struct{})
	c.from, c.name, c.to = f.process, f.server.name, f.world.serverNamed(to)
	c.done = func(a any, e error) {
		answer, err = a, e
		close(done)
	}
	f.world.call(c, patience)
	if f.process.Wait(ctx, host.For{News: done, Limit: host.Forever}) == host.Ended {
		return nil, context.Cause(ctx)
	}
	return answer, err
}

// commandPatience is how long the sender of a command waits for its answer.
const commandPatience = 15 * time.Second

// forward is engine's Forward. Nothing of the core crosses the way but as bytes.
func (f *flock) forward(ctx context.Context, to store.Holding, wire engine.Wire) (engine.WireAck, error) {
	text, err := json.Marshal(wire)
	if err != nil {
		return engine.WireAck{}, fmt.Errorf("encode command: %w: %w", engine.ErrUnsent, err)
	}
	// The way between two servers repeats nothing by itself: a request is one connection's. What
	// bears a key is said twice all the same, because the sender may.
	c := call{what: "command", once: wire.Key == nil}
	c.handle = func(s *served) (any, error) {
		s.dispatcher() // it must be up
		var got engine.Wire
		if err := json.Unmarshal(text, &got); err != nil {
			return nil, err
		}
		waits, cancel := host.Within(s.ctx(), s.at, commandPatience)
		defer cancel()
		ack, err := s.server.engine.Receive(waits, got)
		if err != nil {
			return nil, err
		}
		return json.Marshal(ack)
	}
	answer, err := f.send(ctx, c, to.Owner, commandPatience)
	var ack engine.WireAck
	switch {
	case errors.Is(err, errRefused):
		return ack, fmt.Errorf("submit to %s: %w: %w", to.Owner, err, engine.ErrUnsent)
	case err != nil:
		return ack, fmt.Errorf("submit to %s: %w", to.Owner, err)
	}
	body, _ := answer.([]byte)
	return ack, json.Unmarshal(body, &ack)
}

// moved is engine's Moved: others hear of it a moment later, or don't.
func (f *flock) moved(p domain.PartitionID, at store.Position) {
	if f.moves == nil {
		f.moves = map[domain.PartitionID]store.Position{}
		f.process.After(time.Millisecond, f.tell)
	}
	f.moves[p] = max(f.moves[p], at)
}

func (f *flock) tell() {
	moves := f.moves
	f.moves = nil
	for _, s := range f.world.servers {
		if s == f.server || f.world.lost(f.server.name, s.name, "news") {
			continue
		}
		f.world.sched.after(f.world.latency(), s.process, func() {
			if s.ready {
				for _, p := range append(append([]domain.PartitionID{}, f.world.partitions...), f.world.pools...) {
					if at := moves[p]; at > 0 {
						s.engine.News(p, at)
					}
				}
			}
		})
	}
}

// kick is fleet's Kick.
func (f *flock) kick(_ context.Context, address string) {
	s := f.world.serverNamed(address)
	if s == nil || s.process == nil || f.world.lost(f.server.name, address, "kick") {
		return
	}
	f.world.sched.after(f.world.latency(), s.process, func() {
		if s.ready {
			s.fleet.Kick()
		}
	})
}

// leaderWait is the patience of a runner's call with a pool that changes hands.
const leaderWait = 10 * time.Second

var errBetween = domain.Reject(domain.CodeNotOwner, "The pool is between two servers of the fleet; try again.")

// lead answers a runner's call where its pool is led: here, or at the member that the last
// picture named, and again while that changes.
func (s *served) lead(what string, ask func(s *served) (any, error)) (any, error) {
	s.dispatcher() // it must be up
	p := poolName.Partition()
	f := &flock{world: s.world, server: s.server, process: s.at}
	for deadline := s.at.Elapsed() + leaderWait; ; {
		var answer any
		err := error(errBetween)
		picture := s.server.fleet.Picture()
		if h, _ := picture.Holding(p); s.server.dispatch.Leads(p) {
			answer, err = ask(s)
		} else if h.Owner != "" && h.Owner != s.server.name {
			answer, err = f.send(s.ctx(), call{what: what, handle: func(other *served) (any, error) {
				other.dispatcher()
				return ask(other)
			}}, h.Owner, time.Minute)
		}
		r, rejected := domain.AsRejection(err)
		if err == nil || rejected && r.Code != domain.CodeNotOwner || s.at.Elapsed() > deadline {
			return answer, err
		}
		s.at.sleep(20 * time.Millisecond)
	}
}

func (s *served) exchange(req *runnerv1.ExchangeRequest) (*runnerv1.ExchangeResponse, error) {
	answer, err := s.lead("exchange", func(s *served) (any, error) { return s.server.dispatch.Exchange(s.ctx(), req) })
	resp, _ := answer.(*runnerv1.ExchangeResponse)
	return resp, err
}

func (s *served) register(req *runnerv1.RegisterRequest) (*runnerv1.RegisterResponse, error) {
	answer, err := s.lead("register", func(s *served) (any, error) { return s.server.dispatch.Register(s.ctx(), req) })
	resp, _ := answer.(*runnerv1.RegisterResponse)
	return resp, err
}

package sim

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/fairlead-ci/fairlead/internal/archive"
	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/dispatch"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/fleet"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/logs"
	"github.com/fairlead-ci/fairlead/internal/manifest"
	"github.com/fairlead-ci/fairlead/internal/order"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/reactor"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/trigger"
)

// server is a machine that runs a server. Its processes come and go; between them it keeps
// nothing but its clock.
type server struct {
	world  *world
	name   string
	skew   time.Duration // of its wall clock, jumps included
	rate   float64       // of its monotonic clock
	starts int
	open   []*call // requests that somebody waits for

	process  *process // nil or dead: down
	ready    bool     // it has come up
	disk     *disk
	engine   *engine.Engine
	dispatch *dispatch.Dispatcher
	fleet    *fleet.Driver
	triggers *trigger.Triggers
}

func (s *server) label() string { return fmt.Sprintf("%s.%d", s.name, s.starts) }

func (s *server) up() bool { return s.process != nil && !s.process.dead }

// leads says whether it leads the pool and may say so.
func (s *server) leads() bool {
	if !s.ready || !s.fleet.Valid() {
		return false
	}
	_, owns := s.engine.Holds()[poolName.Partition()]
	return owns
}

// wall is this machine's wall clock.
func (s *server) wall() time.Time { return s.world.wall().Add(s.skew) }

// start begins a process. It wires what cmd/fairlead wires, on another host.
func (s *server) start() {
	s.starts++
	s.ready = false
	s.process = s.world.sched.process(s.label()).on(s.rate)
	s.world.line(s.label(), "+process", "")
	p := s.process
	p.Go(func() {
		if err := s.boot(p); err != nil {
			// The real program ends here, and whoever started it starts it again.
			s.world.line(s.label(), "boot-failed", "%v", err)
			s.crash("boot-failed")
		}
		s.ready = true
		s.world.line(s.label(), "+serves", "")
	})
}

// crash ends the process: its memory is gone.
func (s *server) crash(why fault) {
	if !s.up() {
		return
	}
	s.world.line(s.label(), "-process", "!%s", why)
	p := s.process
	s.reset()
	s.process, s.ready = nil, false
	s.world.sched.after(between(s.world.stream("restart"), 200*time.Millisecond, 8*time.Second), nil, func() {
		if s.process == nil {
			s.start()
		}
	})
	p.kill()
}

func (s *server) boot(p *process) error {
	w, ctx := s.world, context.Background()
	d := &disk{Store: w.store, server: s, process: p}
	o := &objects{server: s, process: p}
	src := &source{w, p}
	log := slog.New(alarm{w, s})
	clock := engine.NewClockFrom(s.wall, p.Elapsed)
	now := func() time.Time { t, _ := clock.Now(); return t }
	holder := logs.NewHolder(o, logs.Config{Now: now, Host: p,
		Recorded: func(ctx context.Context, tenant domain.TenantID, a domain.AttemptID) (*logs.Ref, error) {
			return reactor.Recorded(ctx, s.engine, tenant, a)
		}})
	f := &flock{world: w, server: s, process: p}
	everywhere := append(append([]domain.PartitionID{}, w.partitions...), w.pools...)
	e := engine.New(engine.Config{Store: archive.Over(d, archive.NewReader(o)), Kinds: projection.Kinds(),
		Partitions: w.partitions, Pools: w.pools,
		Owner: s.name, Clock: clock, Log: log, Host: p, Paranoid: w.swarm.paranoid,
		Hold: w.swarm.abandon, Format: codec.Format,
		Open:   engine.Open{OfRepository: w.swarm.room, Jobs: 2 * w.swarm.room},
		Spread: store.SpreadRepository, Forward: f.forward, Moved: f.moved, Poll: w.swarm.look,
		Prover: w.prover,
		Fatal:  func(error) { s.crash(appendBroken) }})
	driver, err := fleet.New(fleet.Config{Store: d, Engine: e, TTL: w.swarm.member, Partitions: everywhere, Host: p,
		Member: store.Member{Name: s.name, Session: s.label(), Address: s.name, Version: "sim", Format: codec.Format},
		Kick:   f.kick, Log: log})
	if err != nil {
		return err
	}
	contexts := &order.Frozen{Blobs: o}
	t := trigger.New(trigger.Config{Engine: e, Views: d, Blobs: o, Source: src,
		NewID: func() [16]byte { return w.id(s.wall()) },
		Now:   now, Log: log, Host: p, RunLimits: run.Limits{CancelGraceSeconds: int64(w.swarm.grace / time.Second)}})
	di := dispatch.New(dispatch.Config{
		Engine: e, Signer: w, Logs: holder, Clock: clock, Log: log, Host: p,
		Mint: func(prefix string) string { return domain.EncodeID(prefix, w.id(s.wall())) },
		Manifests: &order.Writer{Blobs: o, Contexts: contexts, Now: now,
			Token: func(_ domain.TenantID, a domain.AttemptID, epoch uint64) domain.Secret {
				return domain.NewSecret(fmt.Sprintf("token %s %d", a, epoch))
			},
			GitPath: func(_ domain.TenantID, r domain.RepositoryID) string { return "/git/" + string(r) },
			Limits:  manifest.Limits{StepLogBytes: 1 << 20, AttemptLogBytes: 1 << 20}},
		Keep: func(ctx context.Context, t domain.TenantID, data []byte) (domain.Digest, error) {
			return order.PutObject(ctx, o, t, data)
		},
		Keys:        w.keys,
		TokenDigest: func(text string) (domain.Digest, bool) { return domain.DigestOf([]byte(text)), text != "" },
		Locate: func(ctx context.Context, tenant domain.TenantID, id domain.RunID) (domain.PartitionID, error) {
			row, err := d.Run(ctx, tenant, id)
			if errors.Is(err, store.ErrNotFound) {
				return "", domain.Reject(domain.CodeAttemptNotFound, "There is no such attempt.")
			}
			return row.Partition, err
		},
		Partitions: len(everywhere), Follow: true, Valid: driver.Valid,
		Term:   e.Epoch,
		Timing: dispatch.Timing{Poll: w.swarm.poll, Lease: w.swarm.lease, Abandon: w.swarm.abandon}, Grace: w.swarm.grace,
	})
	sealer := reactor.NewSealer(e, holder, log, now).On(p).Follow()
	e.Observe(di)
	e.Observe(sealer)
	e.Observe(reactor.NewSeat(ctx, reactor.SeatConfig{Partition: poolName.Partition(), Holds: e.Holds, Lead: di.Lead,
		Logs: holder, Sealer: sealer, Valid: driver.Valid, Host: p, Log: log}))
	scheduler := t.NewScheduler(zone)
	e.Observe(scheduler)
	e.Observe(&witness{w, s, p})
	e.React(&reactor.Evaluator{Engine: e, Read: e, Contexts: contexts, Plans: &order.Plans{Blobs: o}, Blobs: o})
	e.React(&reactor.Groups{Engine: e, Read: e})
	e.React(t.Reactor())
	if err := e.Start(ctx); err != nil {
		return err
	}
	di.Start(ctx)
	sealer.Start(ctx)
	s.disk, s.engine, s.dispatch, s.fleet, s.triggers = d, e, di, driver, t
	if err := driver.Start(ctx); err != nil {
		return err
	}
	p.Go(func() { s.poll(p, t, d) })
	p.Go(func() {
		for {
			p.sleep(min(scheduler.Step(ctx), between(w.stream("scheduler"), time.Second, 20*time.Second)))
		}
	})
	if w.archives {
		p.Go(func() {
			archive.New(archive.Config{Log: d, Blobs: o, OlderThan: between(w.stream("archive"), 0, 40*time.Second), All: true,
				Every: between(w.stream("archive"), time.Second, 20*time.Second), Now: now, Host: p}).Run(ctx, e.Holds, log)
		})
	}
	return nil
}

// zone is UTC: the rules of others are on a disk that no world has.
func zone(name string) (*time.Location, error) {
	return nil, fmt.Errorf("load time zone %s: there is none", name)
}

// poll looks at the repositories now and then, as the product's poller does.
func (s *server) poll(p *process, t *trigger.Triggers, d *disk) {
	poller := t.NewPoller(trigger.PollerConfig{Random: s.world.stream("poll").Int64N, Owns: s.engine.Owns,
		Tenants: func(context.Context) ([]domain.TenantID, error) { return s.world.tenants, nil }})
	for {
		p.sleep(between(s.world.stream("poll"), 5*time.Second, 20*time.Second))
		for _, tenant := range s.world.tenants {
			rows, err := d.Repositories(context.Background(), tenant)
			if err != nil {
				continue
			}
			for _, row := range rows {
				if !s.engine.Owns(row.Partition) {
					continue
				}
				_ = poller.Look(context.Background(), row)
			}
		}
	}
}

// Sign implements dispatch.Signer. All servers of a world share their keys.
func (w *world) Sign(payload []byte) (string, []byte) { return "k1", ed25519.Sign(w.key, payload) }

func (w *world) keys() []dispatch.Key {
	public, _ := w.key.Public().(ed25519.PublicKey)
	return []dispatch.Key{{ID: "k1", Public: public}}
}

// witness shows the world what owners hold in memory, beside what they committed.
type witness struct {
	world   *world
	server  *server
	process *process
}

// Loaded implements engine.Observer.
func (o *witness) Loaded(live engine.Live) { o.world.book.held(live.Stream, live.Version, live.State) }

// Committed implements engine.Observer.
func (o *witness) Committed(rows []engine.Committed) {
	o.world.book.shown(o.server, o.process, rows)
	for i := range rows {
		o.world.book.held(rows[i].Stream, rows[i].Version, rows[i].State)
	}
}

// Ready implements engine.Observer.
func (o *witness) Ready(p domain.PartitionID, _ bool) {
	o.world.line(o.server.label(), "ready", "p=%s", p)
}

// Lost implements engine.Observer.
func (o *witness) Lost(p domain.PartitionID) {
	o.world.line(o.server.label(), "-owns", "p=%s", p)
	o.world.book.lost(o.process, p)
}

var (
	_ engine.Observer = (*witness)(nil)
	_ dispatch.Signer = (*world)(nil)
	_ host.Host       = (*process)(nil)
	_ scm.Source      = (*source)(nil)
)

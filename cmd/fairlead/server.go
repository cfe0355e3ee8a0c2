package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/fairlead-ci/fairlead/internal/archive"
	"github.com/fairlead-ci/fairlead/internal/backup"
	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/blob/file"
	"github.com/fairlead-ci/fairlead/internal/cli"
	"github.com/fairlead-ci/fairlead/internal/control"
	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/core/pool"
	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/dispatch"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/fleet"
	"github.com/fairlead-ci/fairlead/internal/httpapi"
	"github.com/fairlead-ci/fairlead/internal/logs"
	"github.com/fairlead-ci/fairlead/internal/order"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/reactor"
	"github.com/fairlead-ci/fairlead/internal/scm/git"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/postgres"
	"github.com/fairlead-ci/fairlead/internal/store/sqlite"
	"github.com/fairlead-ci/fairlead/internal/telemetry"
	"github.com/fairlead-ci/fairlead/internal/trigger"
)

const (
	defaultPool = domain.PoolID("default")

	pollDefault    = 45 * time.Second
	branchesPolled = 30 * time.Second
	graceDefault   = 10 * time.Second
	tokenLife      = 10 * time.Minute // of the token for the runner in this process
	// keysKept is how long the reply to a client's idempotency key is kept.
	keysKept = 30 * 24 * time.Hour
	// keysAtOnce lose their replies in one transaction, which appends wait for, with a pause
	// before the next: as many as come in an hour are gone in one, however many they are.
	keysAtOnce = 1_000
	keysPause  = 50 * time.Millisecond
)

// server is everything that one process serves, from the data folder up.
type server struct {
	o       cli.ServeOptions
	log     *slog.Logger
	clock   *engine.Clock
	started time.Time

	store   store.Store // with all history, also what lies in the archive
	below   store.Store // what the database itself has
	shape   store.Shape
	name    string      // of this server, on PostgreSQL
	fleet   *membership // nil: this server is alone
	blobs   blob.Store
	engine  *engine.Engine
	logs    *logs.Holder
	mirrors *git.Mirrors
	frozen  *order.Frozen
	gate    *credential.Gate
	signer  *credential.Signer
	prover  *credential.Prover
	metrics *telemetry.Metrics
	traces  *telemetry.Traces

	trigger   *trigger.Triggers
	dispatch  *dispatch.Dispatcher
	sealer    *reactor.Sealer
	scheduler *trigger.Scheduler
	watch     *control.Watchers
	life      context.Context // of what works by itself; ends after the server has drained
	broken    chan error      // the store can't be trusted any more
	url       string
	closers   []func()
}

// openServer opens what is stored. On an error everything opened so far is closed again.
func openServer(ctx context.Context, o cli.ServeOptions) (s *server, err error) {
	log, err := telemetry.NewLogger(o.Stderr, o.LogForm, o.LogLevel)
	if err != nil {
		return nil, err
	}
	s = &server{o: o, log: log, clock: engine.NewClock(), started: time.Now(), broken: make(chan error, 1),
		watch: control.NewWatchers()}
	begun := s // an error returns nil in its place
	defer func() {
		if err != nil {
			begun.close()
		}
	}()
	if err := os.MkdirAll(o.Data, 0o700); err != nil {
		return nil, fmt.Errorf("make data folder: %w", err)
	}
	for _, folder := range []string{o.Data, o.Shared} {
		if err := backup.CheckFolder(folder); folder != "" && err != nil {
			return nil, cli.Misuse(err)
		}
	}
	if s.store, err = openStore(ctx, o, log); err != nil {
		return nil, err
	}
	s.closing(func() { _ = begun.store.Close() })
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	if s.metrics, err = telemetry.NewMetrics(); err != nil {
		return nil, err
	}
	if s.traces, err = telemetry.NewTraces(ctx, os.Getenv, o.Version); err != nil {
		return nil, err
	}
	s.closing(s.shutTelemetry)
	return s, s.openFolder(ctx)
}

// openFolder opens what lies beside the database: in the data folder, or in the one that the
// servers of a fleet share.
func (s *server) openFolder(ctx context.Context) error {
	folder, shared := s.o.Data, s.fleet != nil
	open := file.Open
	if shared {
		folder = s.o.Shared
		open = func(folder string) (*file.Store, error) { return file.OpenShared(folder, s.name) }
	}
	blobs, err := open(filepath.Join(folder, "objects"))
	if err != nil {
		return err
	}
	s.blobs, s.below = blobs, s.store
	s.store = archive.Over(s.below, archive.NewReader(blobs))
	s.logs = logs.NewHolder(s.blobs, logs.Config{Now: s.now, Wrote: func(w logs.Write) {
		s.metrics.LogIngested(w.Chunks, w.Bytes, w.Took)
	}, Recorded: func(ctx context.Context, tenant domain.TenantID, a domain.AttemptID) (*logs.Ref, error) {
		return reactor.Recorded(ctx, s.engine, tenant, a)
	}})
	s.closing(func() { _ = s.logs.Close() })
	if !shared {
		if err := s.logs.Hold(ctx, 0, nil); err != nil {
			return fmt.Errorf("open logs: %w", err)
		}
	}
	mirrors := git.Config{Root: filepath.Join(folder, "git"), AllowLoopback: true, AllowPrivate: true, Shared: shared}
	if s.mirrors, err = git.New(ctx, mirrors); err != nil {
		return err
	}
	unlock := func() {}
	if shared {
		if unlock, err = credential.Lock(ctx, folder); err != nil {
			return err
		}
	}
	defer unlock()
	if s.gate, err = credential.OpenGate(folder, s.now); err != nil {
		return err
	}
	if s.signer, err = credential.OpenSigner(folder, s.now); err != nil {
		return err
	}
	if s.prover, err = credential.OpenProver(folder, s.now); err != nil {
		return err
	}
	if shared {
		return s.gate.Share()
	}
	return nil
}

func openStore(ctx context.Context, o cli.ServeOptions, log *slog.Logger) (store.Store, error) {
	if o.Store != "" {
		opts := postgres.Options{}
		if o.Shared != "" {
			opts.Lease = o.MemberTTL
		}
		return postgres.Open(ctx, o.Store, opts)
	}
	return sqlite.Open(ctx, o.Data, sqlite.Options{Damaged: func(what string) {
		log.Error("the database is damaged; streams that can't be read are quarantined, everything else goes on",
			"damage", what, "more", "fairlead admin verify")
	}})
}

func (s *server) storeName() string {
	if s.o.Store != "" {
		return "postgres"
	}
	return "sqlite"
}

func (s *server) now() time.Time {
	now, _ := s.clock.Now()
	return now
}

func (s *server) closing(f func()) { s.closers = append(s.closers, f) }

// close closes what is open, last opened first.
func (s *server) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
	s.closers = nil
}

func (s *server) shutTelemetry() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := errors.Join(s.metrics.Shutdown(ctx), s.traces.Shutdown(ctx)); err != nil {
		s.log.Warn("telemetry was not flushed", "error", err)
	}
}

// mint makes an identifier that sorts by time.
func mint(prefix string) string { return domain.EncodeID(prefix, newID()) }

func newID() [16]byte {
	id, err := uuid.NewV7()
	if err != nil {
		panic("the system gives no randomness: " + err.Error()) // no identifier, no server
	}
	return id
}

// startEngine takes ownership of the partitions, or begins to follow them.
func (s *server) startEngine(ctx context.Context) error {
	if err := s.engine.Start(ctx); err != nil {
		return err
	}
	s.closing(s.engine.Close)
	return nil
}

// settle makes sure that the default pool is there. A fleet that is just changing hands is
// borne with.
func (s *server) settle(ctx context.Context) error {
	for deadline := time.Now().Add(joinWithin); ; {
		_, err := s.engine.Submit(ctx, engine.Envelope{Tenant: domain.DefaultTenant, Partition: defaultPool.Partition(),
			Stream: defaultPool.Stream(), Command: pool.CreatePool{
				Cause:  domain.Cause{Actor: domain.Actor{Kind: "reactor", ID: "start", Via: "internal"}},
				Tenant: domain.DefaultTenant, Pool: defaultPool, Config: pool.DefaultConfig()}})
		if r, ok := domain.AsRejection(err); err == nil || ok && r.Code == domain.CodeAlreadyExists {
			return nil
		}
		if s.fleet == nil || !between(err) || ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("make the default pool: %w", err)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *server) newEngine() {
	config := engine.Config{
		Store: s.store, Kinds: projection.Kinds(), Partitions: s.partitions(), Spread: s.shape.Spread,
		Pools: []domain.PartitionID{defaultPool.Partition()}, Owner: s.name, Clock: s.clock, Log: s.log,
		Open: engine.Open{Jobs: s.o.OpenJobs, OfTenant: s.o.OpenJobsPerTenant, OfRepository: s.o.OpenJobsPerRepository},
		Hold: s.o.AbandonAfter, Fatal: s.breaks, Format: codec.Format,
		Prover: s.prover, Doubted: s.metrics.TokenRefused, Appended: s.metrics.Appended,
	}
	if config.Owner == "" {
		config.Owner = ownerName()
	}
	if s.fleet != nil {
		config.Forward, config.Moved = s.fleet.peers.Submit, s.fleet.herald.Moved
	}
	s.engine = engine.New(config)
}

func ownerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "server"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// serve is cli.Serve: everything from flags to the ready line, until ctx ends.
func serve(ctx context.Context, o cli.ServeOptions) error {
	withDefaults(&o)
	keepHeadroom(ctx)
	if err := credential.CheckListen(o.Listen, o.TLSCert != ""); err != nil {
		return cli.Misuse(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", o.Listen, err)
	}
	defer func() { _ = listener.Close() }()
	s, err := openServer(ctx, o)
	if err != nil {
		return err
	}
	defer s.close()
	s.url = publicURL(o, listener)
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	s.life = life
	handler, err := s.wire(ctx)
	if err != nil {
		return err
	}
	if err := s.startEngine(ctx); err != nil {
		return err
	}
	stop, err := s.startWork(life)
	if err != nil {
		return err
	}
	defer stop()
	if err := s.debug(ctx); err != nil {
		return err
	}
	return s.listen(ctx, listener, handler)
}

// debug serves profiles and metrics on an address of their own. It is never anything but
// loopback: profiles tell what is in memory.
func (s *server) debug(ctx context.Context) error {
	if s.o.Pprof == "" {
		return nil
	}
	if err := credential.CheckListen(s.o.Pprof, false); err != nil {
		return cli.Misuse(fmt.Errorf("serve profiles: %w", err))
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.o.Pprof)
	if err != nil {
		return fmt.Errorf("listen on %s for profiles: %w", s.o.Pprof, err)
	}
	web := &http.Server{Handler: httpapi.DebugHandler(s.metrics.Handler()), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = web.Serve(l) }() // ends with Close
	s.closing(func() { _ = web.Close() })
	s.log.Info("profiles are served", "address", "http://"+l.Addr().String()+"/debug/pprof/")
	return nil
}

func withDefaults(o *cli.ServeOptions) {
	def := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&o.LeaseTTL, cli.LeaseDefault)
	def(&o.AbandonAfter, 2*o.LeaseTTL)
	def(&o.PollEvery, branchesPolled)
	def(&o.CancelGrace, graceDefault)
	def(&o.MemberTTL, fleet.TTL)
}

func publicURL(o cli.ServeOptions, l net.Listener) string {
	if o.PublicURL != "" {
		return o.PublicURL
	}
	scheme := "http"
	if o.TLSCert != "" {
		scheme = "https"
	}
	return scheme + "://" + l.Addr().String()
}

// front is what answers requests.
type front interface {
	http.Handler
	// Drain ends streams and long polls.
	Drain()
}

// listen serves until ctx ends or the store breaks. The ready line comes when requests
// are answered, and for `up` when the runner can take work. A member of a fleet serves
// before it joins, because its peers speak to it from then on, and until it has drained.
func (s *server) listen(ctx context.Context, l net.Listener, h front) error {
	web := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), Protocols: httpapi.Protocols()}
	if s.o.TLSCert != "" {
		config, err := credential.LoadTLS(s.o.TLSCert, s.o.TLSKey)
		if err != nil {
			return err
		}
		web.TLSConfig = config
	}
	served := make(chan error, 1)
	go func() {
		if web.TLSConfig != nil {
			served <- web.ServeTLS(l, "", "")
			return
		}
		served <- web.Serve(l)
	}()
	shut := sync.OnceFunc(func() {
		h.Drain()
		end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = web.Shutdown(end)
	})
	defer shut()
	if s.fleet != nil {
		defer s.fleet.driver.Close()
		if err := s.join(ctx); err != nil {
			return err
		}
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	if err := s.announce(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		if s.fleet != nil {
			s.drain()
			// A member is counted as long as it answers anybody: when the last one of an older
			// version leaves, the others write what it can't read.
			shut()
		}
		return nil
	case err := <-s.broken:
		return fmt.Errorf("the store can't be trusted any more, so this process ends: %w", err)
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	}
}

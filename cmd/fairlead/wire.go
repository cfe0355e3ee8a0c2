package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/api/client"
	"github.com/fairlead-ci/fairlead/api/fairlead/runner/v1/runnerv1connect"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/archive"
	"github.com/fairlead-ci/fairlead/internal/control"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/dispatch"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/httpapi"
	"github.com/fairlead-ci/fairlead/internal/logs"
	"github.com/fairlead-ci/fairlead/internal/manifest"
	"github.com/fairlead-ci/fairlead/internal/order"
	"github.com/fairlead-ci/fairlead/internal/peer"
	"github.com/fairlead-ci/fairlead/internal/reactor"
	"github.com/fairlead-ci/fairlead/internal/review"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/scm/git"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/telemetry"
	"github.com/fairlead-ci/fairlead/internal/trigger"
	"github.com/fairlead-ci/fairlead/internal/web"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// Log limits that manifests carry.
const (
	stepLogBytes    = 128 << 20
	attemptLogBytes = 1 << 30
)

// wire puts the rooms together and gives the handler. Nothing runs yet.
func (s *server) wire(ctx context.Context) (front, error) {
	if s.fleet != nil {
		if err := s.newPeers(); err != nil {
			return nil, err
		}
	}
	s.newEngine()
	s.frozen = &order.Frozen{Blobs: s.blobs}
	s.trigger = trigger.New(trigger.Config{Engine: s.engine, Views: s.store, Blobs: s.blobs, Source: s.mirrors,
		NewID: newID, Now: s.now, ServerURL: s.url, Log: s.log, ComponentSource: s.o.ComponentSource,
		RunLimits: run.Limits{CancelGraceSeconds: int64(max(s.o.CancelGrace/time.Second, 1))}})
	s.dispatch = dispatch.New(dispatch.Config{
		Engine: s.engine, Signer: s.signer, Logs: s.logs, Clock: s.clock, Log: s.log, Mint: mint,
		Manifests: &order.Writer{Blobs: s.blobs, Contexts: s.frozen, Components: s.frozen.Components, Now: s.now,
			Limits: manifest.Limits{StepLogBytes: stepLogBytes, AttemptLogBytes: attemptLogBytes,
				GraceSeconds: int64(s.o.CancelGrace / time.Second)},
			Token: func(t domain.TenantID, a domain.AttemptID, epoch uint64) domain.Secret {
				return s.gate.Attempts.Mint(credential.AttemptClaim{Tenant: t, Attempt: a, Epoch: epoch})
			},
			Env: s.stepEnv, GitPath: func(t domain.TenantID, r domain.RepositoryID) string {
				return git.Path(scm.Repo{Tenant: t, Repository: r})
			}},
		Keep: func(ctx context.Context, t domain.TenantID, data []byte) (domain.Digest, error) {
			return order.PutObject(ctx, s.blobs, t, data)
		},
		Keys: s.manifestKeys, TokenDigest: credential.RegistrationDigest, Locate: s.locate,
		Partitions: len(s.everywhere()), Follow: s.fleet != nil, Valid: s.valid,
		Term:   s.term(),
		Timing: dispatch.Timing{Poll: pollDefault, Lease: s.o.LeaseTTL, Abandon: s.o.AbandonAfter},
		Grace:  s.o.CancelGrace,
		Placed: func(wait time.Duration, _ domain.Class) { s.metrics.Dispatched(string(defaultPool), wait) },
	})
	s.gate.Live = func(ctx context.Context, c credential.AttemptClaim) bool {
		return s.dispatch.MayFetch(ctx, c.Tenant, c.Attempt, c.Epoch)
	}
	s.sealer = reactor.NewSealer(s.engine, s.logs, s.log, s.now)
	s.scheduler = s.trigger.NewScheduler(time.LoadLocation)
	observers := []engine.Observer{s.dispatch, s.watch, s.sealer, s.scheduler, &reporter{server: s}}
	if s.fleet != nil {
		s.sealer.Follow()
		observers = append(observers, reactor.NewSeat(s.life, reactor.SeatConfig{Partition: defaultPool.Partition(),
			Holds: s.engine.Holds, Lead: s.dispatch.Lead, Logs: s.logs, Sealer: s.sealer, Valid: s.valid, Log: s.log}))
	}
	for _, o := range observers {
		s.engine.Observe(o)
	}
	for _, r := range []engine.Reactor{
		&reactor.Evaluator{Engine: s.engine, Read: s.engine, Contexts: s.frozen, Plans: &order.Plans{Blobs: s.blobs},
			Blobs: s.blobs}, &reactor.Groups{Engine: s.engine, Read: s.engine}, s.trigger.Reactor(),
	} {
		s.engine.React(r)
	}
	api, err := s.handler()
	if err != nil || s.fleet == nil {
		return api, err
	}
	peers, err := s.wireFleet(api)
	return &entrance{api, peers}, err
}

// entrance leads peers to their own protocol and everybody else to the API.
type entrance struct {
	api   *httpapi.Server
	peers *peer.Server
}

// ServeHTTP implements http.Handler.
func (e *entrance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, peer.Prefix) {
		e.peers.ServeHTTP(w, r)
		return
	}
	e.api.ServeHTTP(w, r)
}

// Drain ends streams and long polls.
func (e *entrance) Drain() {
	e.api.Drain()
	e.peers.Drain()
}

// stepEnv is what steps get besides their workflow's own variables: where they belong in
// the trace, if traces are sent anywhere.
func (s *server) stepEnv(attempt domain.AttemptID) []plan.Binding {
	if s.traces == nil {
		return nil
	}
	return []plan.Binding{{Name: "TRACEPARENT", Value: telemetry.Traceparent(attempt)}}
}

func (s *server) manifestKeys() (out []dispatch.Key) {
	for _, k := range s.signer.PublicKeys() {
		out = append(out, dispatch.Key{ID: k.ID, Public: k.Key})
	}
	return out
}

// locate says which partition holds a run.
func (s *server) locate(ctx context.Context, tenant domain.TenantID, id domain.RunID) (domain.PartitionID, error) {
	row, err := s.store.Run(ctx, tenant, id)
	if errors.Is(err, store.ErrNotFound) {
		return "", domain.Reject(domain.CodeAttemptNotFound, "There is no such attempt.")
	}
	return row.Partition, err
}

// caller reads who asks out of a call's context.
func caller(ctx context.Context) control.Caller {
	p := httpapi.PrincipalFrom(ctx)
	tenant := p.Tenant
	if tenant == "" {
		tenant = domain.DefaultTenant
	}
	return control.Caller{Tenant: tenant, Scope: p.Scope(), Cause: httpapi.CauseFrom(ctx), Key: httpapi.KeyFrom(ctx),
		Body: httpapi.BodyDigest(ctx), Admin: p.Kind == credential.KindAdmin, Holder: holder(p)}
}

func (s *server) handler() (*httpapi.Server, error) {
	var elsewhere control.Elsewhere
	var runners runnerv1connect.RunnerServiceHandler = s.dispatch
	about := &control.Server{Engine: s.engine, Version: s.o.Version, Store: s.storeName(),
		Started: s.started,
		Name:    s.name}
	if s.fleet != nil {
		elsewhere, runners, about.Fleet = s.elsewhere, desk{s}, s.showFleet
	}
	logs := &control.Logs{
		Engine:    s.engine,
		Gateway:   s.logs,
		Elsewhere: elsewhere,
		Caller:    caller,
		Read: func(ctx context.Context, who control.Caller, a domain.AttemptID) {
			s.log.Info("log read", "audit", true, "attempt", a, "by", who.Cause.Actor.ID, "request", who.Cause.Request)
		},
	}
	runs := &control.Runs{Components: s.frozen.Components, Engine: s.engine, Views: s.store,
		Trigger: s.trigger, Watch: s.watch, Caller: caller,
		Explain: s.dispatch.Explain, Logs: s.logs, Elsewhere: elsewhere, URL: func() string { return s.url },
		Review: review.New(s.engine, s.blobs),
		Refuse: func(r *domain.Rejection, d []*fairleadv1.Diagnostic, choices []string) error {
			return &httpapi.Refusal{Rejection: r, Diagnostics: d, Choices: choices}
		}}
	repositories := &control.Repositories{Trigger: s.trigger, Views: s.store, Runs: runs, Caller: caller,
		GitPath: func(t domain.TenantID, r domain.RepositoryID) string {
			return git.Path(scm.Repo{Tenant: t, Repository: r})
		}}
	pools := &control.Pools{Engine: s.engine, Dispatch: s.dispatch, Caller: caller, Elsewhere: elsewhere,
		Mint: credential.NewRegistrationToken}
	pages, err := web.New(web.Config{Runs: runs, Logs: logs, Repositories: repositories, Pools: pools, Server: about,
		WithKey: httpapi.WithKey, RequestID: httpapi.RequestID, Now: s.now, Log: s.log, Version: s.o.Version,
		Development: s.o.Dev, SignOutPath: httpapi.SignOutPath})
	if err != nil {
		return nil, err
	}
	return httpapi.New(httpapi.Config{Runs: runs, Logs: logs, Repositories: repositories, Pools: pools,
		Workflows: &control.Workflows{}, Server: about, Runner: runners, Polls: polls{s}, RawLog: rawLogs{logs},
		Git: s.mirrors.Handler(s.authorizeGit, git.HandlerOptions{Log: s.log}), Pages: pages,
		SignInPage: func(w http.ResponseWriter, r *http.Request, p httpapi.SignInPrompt) {
			pages.SignIn(w, r, web.SignIn(p))
		},
		Metrics: s.metrics.Handler(), Ready: s.ready, Gate: s.gate, Present: s.present, Log: s.log,
		Observe: s.metrics.Served, Now: s.now}), nil
}

// authorizeGit says what a git client may do: an attempt fetches its own commit, an
// administrator pushes captures.
func (s *server) authorizeGit(ctx context.Context, _ *http.Request, target git.Target) (git.Access, error) {
	p := httpapi.PrincipalFrom(ctx)
	switch p.Kind {
	case credential.KindAdmin:
		if target.Repo.Tenant != caller(ctx).Tenant {
			return git.Access{}, domain.Reject(domain.CodeNotFound, "There is no such repository.")
		}
		return git.Access{Repo: target.Repo, Push: target.Push, Principal: p.ID}, nil
	case credential.KindAttempt:
		h, err := s.engine.Read(ctx, p.Attempt.Tenant, p.Attempt.Attempt.Run().Stream(), false)
		if err != nil {
			return git.Access{}, err
		}
		q := &h.State.(*run.State).Request
		if target.Repo.Tenant == q.Tenant && target.Repo.Repository != q.Repository {
			return s.componentAccess(ctx, p.ID, target.Repo, q)
		}
		also, err := s.componentCommits(ctx, target.Repo, q)
		if err != nil {
			return git.Access{}, err
		}
		return git.Access{Also: also,
			Repo:      scm.Repo{Tenant: q.Tenant, Repository: q.Repository},
			Commit:    q.Source.Commit,
			Principal: p.ID,
		}, nil
	}
	return git.Access{}, domain.Reject(
		domain.CodeUnauthenticated,
		"Fetching needs the attempt's token, pushing a client's.",
	)
}

// componentAccess lets an attempt fetch the commits of another repository that its run's actions
// were resolved to, and nothing else of it.
func (s *server) componentAccess(ctx context.Context, id string, repo scm.Repo, q *run.Request) (git.Access, error) {
	commits, err := s.componentCommits(ctx, repo, q)
	switch {
	case err != nil:
		return git.Access{}, err
	case len(commits) == 0:
		return git.Access{}, domain.Reject(domain.CodeNotFound, "There is no such repository.")
	}
	return git.Access{Repo: repo, Commit: commits[0], Also: commits[1:], Principal: id}, nil
}

// componentCommits are the commits of a repository that a run's actions were resolved to.
func (s *server) componentCommits(ctx context.Context, repo scm.Repo, q *run.Request) ([]string, error) {
	known, err := s.frozen.Components(ctx, q.Tenant, q)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, c := range known {
		if commit := c.Commit(); c.Mirror == repo.Repository && commit != "" && !slices.Contains(out, commit) {
			out = append(out, commit)
		}
	}
	return out, nil
}

// readyWithin is how long the store may take to answer before the server counts as not
// ready: whoever probes has a limit too, and silence tells nothing.
const readyWithin = 2 * time.Second

// ready says why no work can be taken now.
func (s *server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := s.store.Ping(ctx); err != nil {
		return err
	}
	if err := httpapi.OpenFiles(); err != nil {
		return err
	}
	if s.fleet != nil {
		// A partition that stands still is no reason to send requests elsewhere: they would
		// come back to its owner.
		if !s.valid() {
			return errors.New("the server's membership has run out")
		}
		return nil
	}
	for _, p := range s.engine.Status() {
		if p.Stopped != nil {
			return p.Stopped
		}
	}
	return nil
}

// startWork starts everything that runs by itself. stop ends it and waits.
func (s *server) startWork(ctx context.Context) (stop func(), err error) {
	work, cancel := context.WithCancel(ctx)
	s.dispatch.Start(work)
	s.sealer.Start(work)
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		s.trigger.NewPoller(trigger.PollerConfig{Every: s.o.PollEvery, Random: rand.Int64N, Maintain: s.mirrors.Maintain,
			Owns:    s.engine.Owns,
			Tenants: func(context.Context) ([]domain.TenantID, error) { return []domain.TenantID{domain.DefaultTenant}, nil },
		}).Run(work)
	}()
	scheduled := make(chan struct{})
	go func() {
		defer close(scheduled)
		s.scheduler.Run(work)
	}()
	go s.tend(work)
	archived := make(chan struct{})
	go func() {
		defer close(archived)
		s.archive(work)
	}()
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		s.newSweeper().Run(work)
	}()
	attended := make(chan struct{})
	go func() {
		defer close(attended)
		if s.fleet == nil && s.o.Store != "" {
			s.attend(work)
		}
	}()
	if err := s.metrics.Watch(s.reading); err != nil {
		cancel()
		return nil, err
	}
	return func() {
		cancel()
		<-s.dispatch.Done()
		<-polled
		<-scheduled
		<-archived
		<-swept
		<-attended
	}, nil
}

// archive moves history that is old enough into objects.
func (s *server) archive(ctx context.Context) {
	if s.o.ArchiveAfter <= 0 {
		return
	}
	archive.New(archive.Config{Log: s.below, Blobs: s.blobs, OlderThan: s.o.ArchiveAfter, Now: s.now,
		Did: func(r *store.ArchivedRange) {
			rows, bytes, raw := r.Sizes()
			s.metrics.Archived(rows, bytes)
			s.log.Info("history archived", "partition", r.Partition, "from", r.From+1, "to", r.To, "newest", r.Newest,
				"event_bytes", raw, "object_bytes", bytes)
		}}).Run(ctx, s.engine.Holds, s.log)
}

// newSweeper makes what removes old logs.
func (s *server) newSweeper() *logs.Sweeper {
	keep := logs.Keep{All: s.o.KeepLogs, Of: map[domain.Class]int{}}
	for class, days := range s.o.KeepLogsOf {
		keep.Of[domain.Class(class)] = days
	}
	return logs.NewSweeper(s.blobs, s.logs, logs.SweepConfig{Keep: keep, Now: s.now, Log: s.log,
		Removed: s.metrics.LogsRemoved})
}

// tend does what is due now and then: old replies of idempotency keys, key rotation.
func (s *server) tend(ctx context.Context) {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		s.expireKeys(ctx)
		if err := errors.Join(s.signer.Tend(), s.gate.Attempts.Tend(), s.prover.Tend()); err != nil {
			s.log.Warn("keys were not tended", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// expireKeys is the work of one server of a fleet: whoever owns the home partition.
func (s *server) expireKeys(ctx context.Context) {
	if !s.engine.Owns(s.partitions()[0]) {
		return
	}
	total := 0
	for before, n := s.now().Add(-keysKept), keysAtOnce; n == keysAtOnce && ctx.Err() == nil; total += n {
		var err error
		if n, err = s.store.ExpireKeys(ctx, before, keysAtOnce); err != nil {
			if ctx.Err() == nil {
				s.log.Warn("old idempotency keys were not expired", "error", err)
			}
			return
		}
		if !host.Pause(ctx, host.Machine(), keysPause) {
			return
		}
	}
	if total > 0 {
		s.log.Info("expired idempotency keys", "count", total)
	}
}

// reading is what gauges show now.
func (s *server) reading() telemetry.Reading {
	var r telemetry.Reading
	for _, p := range s.engine.Status() {
		r.LiveStreams += int64(p.Live)
		r.Quarantined += int64(len(p.Problems))
		if p.Stopped != nil {
			r.PartitionsStopped++
		}
	}
	r.OpenJobs = int64(s.engine.OpenJobs())
	for _, p := range s.dispatch.Pools(domain.DefaultTenant) {
		if !s.dispatch.Leads(p.Pool.Partition()) {
			continue // its leader tells: nobody else knows who is connected
		}
		r.Queues = append(r.Queues, telemetry.Queue{Pool: string(p.Pool), Jobs: int64(p.Waiting)})
		r.WorkersOffline += int64(p.Silent)
		r.WorkersBusy += int64(p.Working)
		r.WorkersAvailable += int64(p.Idle)
	}
	return r
}

// announce tells people and clients where the server is. For `up` it starts the runner
// first and waits until it can take work.
func (s *server) announce(ctx context.Context) error {
	if err := client.WriteDiscovery(s.o.Data, s.url, s.gate.Admin.Path()); err != nil {
		return err
	}
	if s.o.Up {
		if err := s.startRunner(ctx); err != nil {
			return err
		}
	}
	link := httpapi.SignInLink(s.url, s.gate.Sessions.NewCode())
	fmt.Fprintf(s.o.Stderr, "Sign in (once): %s\n", link)
	_, err := fmt.Fprintf(s.o.Stdout, "ready %s\n", s.url)
	return err
}

// rawLogs gives the raw endpoint its bytes.
type rawLogs struct{ logs *control.Logs }

// OpenRaw implements httpapi.RawLog.
func (r rawLogs) OpenRaw(ctx context.Context, attempt domain.AttemptID, step int64) (*httpapi.RawBytes, error) {
	raw, err := r.logs.OpenRaw(ctx, attempt, step)
	if err != nil {
		return nil, err
	}
	return &httpapi.RawBytes{Size: raw.Size, Sealed: raw.Sealed, Write: raw.Write}, nil
}

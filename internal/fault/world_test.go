package fault_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/control"
	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/core/pool"
	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/dispatch"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/fault"
	"github.com/fairlead-ci/fairlead/internal/logs"
	"github.com/fairlead-ci/fairlead/internal/manifest"
	"github.com/fairlead-ci/fairlead/internal/order"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/reactor"
	"github.com/fairlead-ci/fairlead/internal/review"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/trigger"
)

const (
	tenant = domain.DefaultTenant
	home   = domain.PartitionID("main-0")
	poolID = domain.PoolID("default")

	// Leases outlast whatever a client waits for here, so that no attempt is lost by waiting.
	leaseFor   = 5 * time.Minute
	abandonFor = 10 * time.Minute
)

// world is a server with everything real but what is below its ports, one runner, one
// client, and a plan of what fails.
type world struct {
	t      testing.TB
	disk   disk
	source scm.Source
	plan   *fault.Plan
	plant  func(store.Store, blob.Store) (store.Store, blob.Store) // a planted defect; nil: none
	over   func(store.Store) store.Store                           // stands before the server; nil: nothing does
	book   *book
	log    *notes
	kinds  map[string]*engine.Kind

	turn       chan struct{} // held while a server goes up or down
	mu         sync.Mutex
	server     *server // nil while it is down
	generation int     // of the connection to it: answers of an older one are lost
	stopping   bool
}

// server is one process.
type server struct {
	store    store.Store // as wrapped
	blobs    blob.Store
	engine   *engine.Engine
	dispatch *dispatch.Dispatcher
	gateway  *logs.Gateway
	runs     *control.Runs
	repos    *control.Repositories
	logs     *control.Logs
	life     context.Context // ends with the process, and with it every connection
	end      context.CancelFunc
	stop     func()
}

var errDown = errors.New("connection refused")

// notes keeps what the server logs and what the world traces.
type notes struct {
	slog.Handler
	mu   sync.Mutex
	text strings.Builder
}

// Enabled implements slog.Handler.
func (n *notes) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (n *notes) Handle(_ context.Context, r slog.Record) error {
	var line strings.Builder
	fmt.Fprintf(&line, "%s %s", r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&line, " %s", a)
		return true
	})
	n.add(line.String())
	return nil
}

func (n *notes) add(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintf(&n.text, "%s %s\n", time.Now().Format("15:04:05.000"), line)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

func (w *world) trace(form string, args ...any) { w.log.add(fmt.Sprintf(form, args...)) }

// signer is that of all worlds: making keys is not what is tested here.
var signer = sync.OnceValues(func() (*credential.Signer, error) {
	dir, err := os.MkdirTemp("", "fairlead-fault-keys-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return credential.OpenSigner(dir, time.Now)
})

// boot starts a server on what the disk holds.
func (w *world) boot(ctx context.Context) error {
	stored, blobs, err := w.disk.open(ctx)
	if err != nil {
		return fmt.Errorf("open disk: %w", err)
	}
	if w.plant != nil {
		stored, blobs = w.plant(stored, blobs)
	}
	wrapped := store.Store(fault.NewStore(stored, w.plan))
	if w.over != nil {
		wrapped = w.over(wrapped)
	}
	s, err := w.assemble(ctx, wrapped, blobs)
	if err != nil {
		return errors.Join(err, w.disk.close())
	}
	w.mu.Lock()
	w.server = s
	w.mu.Unlock()
	w.trace("server is up")
	if err := s.life.Err(); err != nil {
		w.fatal(s, err) // its store broke in the moment before
	}
	return nil
}

// assemble wires what cmd/fairlead wires.
func (w *world) assemble(ctx context.Context, st store.Store, blobs blob.Store) (*server, error) {
	log, clock := slog.New(w.log), engine.NewClock()
	now := func() time.Time { t, _ := clock.Now(); return t }
	objects := fault.NewBlobs(blobs, fault.PortObjects, w.plan)
	keys, err := signer()
	if err != nil {
		return nil, err
	}
	s := &server{store: st, blobs: objects}
	s.life, s.end = context.WithCancel(context.Background())
	s.gateway, err = logs.Open(ctx, fault.NewBlobs(blobs, fault.PortSegments, w.plan), logs.Config{Now: now})
	if err != nil {
		return nil, fmt.Errorf("open logs: %w", err)
	}
	s.engine = engine.New(engine.Config{Store: st, Kinds: projection.Kinds(), Format: codec.Format,
		Partitions: []domain.PartitionID{home},
		Pools:      []domain.PartitionID{poolID.Partition()}, Owner: "one", Clock: clock, Log: log, Paranoid: true,
		Hold: abandonFor, Fatal: func(err error) { w.fatal(s, err) }})
	contexts := &order.Frozen{Blobs: objects}
	triggers := trigger.New(trigger.Config{Engine: s.engine, Views: st, Blobs: objects,
		Source: fault.NewSource(w.source, w.plan), NewID: func() [16]byte { return uuid.Must(uuid.NewV7()) }, Now: now,
		ServerURL: "http://127.0.0.1:7000", Log: log})
	s.dispatch = dispatch.New(w.dispatching(s, keys, clock, &order.Writer{Blobs: objects,
		Contexts: contexts, Now: now, Limits: manifest.Limits{StepLogBytes: 1 << 20, AttemptLogBytes: 1 << 20},
		Token: func(_ domain.TenantID, a domain.AttemptID, epoch uint64) domain.Secret {
			return domain.NewSecret(fmt.Sprintf("token %s %d", a, epoch))
		},
		GitPath: func(_ domain.TenantID, r domain.RepositoryID) string { return "/git/" + string(r) }}))
	watch := control.NewWatchers()
	sealer := reactor.NewSealer(s.engine, s.gateway, log, now)
	for _, o := range []engine.Observer{s.dispatch, watch, sealer, &witness{w.book, w.kinds}} {
		s.engine.Observe(o)
	}
	for _, r := range []engine.Reactor{
		&reactor.Evaluator{Engine: s.engine, Read: s.engine, Contexts: contexts,
			Plans: &order.Plans{Blobs: objects}, Blobs: objects}, &reactor.Groups{Engine: s.engine, Read: s.engine},
		triggers.Reactor(),
	} {
		s.engine.React(r)
	}
	s.runs = &control.Runs{Engine: s.engine, Views: st, Trigger: triggers, Watch: watch, Caller: callerOf,
		Explain: s.dispatch.Explain, URL: func() string { return "http://127.0.0.1:7000" }, Logs: s.gateway,
		Review: review.New(s.engine, objects),
		Refuse: func(r *domain.Rejection, _ []*fairleadv1.Diagnostic, _ []string) error { return r }}
	s.repos = &control.Repositories{Trigger: triggers, Views: st, Runs: s.runs, Caller: callerOf,
		GitPath: func(_ domain.TenantID, r domain.RepositoryID) string { return "/git/" + string(r) }}
	s.logs = &control.Logs{Engine: s.engine, Gateway: s.gateway, Caller: callerOf}
	return s, w.start(ctx, s)
}

func (w *world) dispatching(s *server, keys *credential.Signer, clock *engine.Clock, m dispatch.Manifests,
) dispatch.Config {
	return dispatch.Config{Engine: s.engine, Signer: keys, Logs: s.gateway, Clock: clock, Log: slog.New(w.log),
		Manifests: fault.NewManifests(m, w.plan), TokenDigest: credential.RegistrationDigest,
		Keys: func() (out []dispatch.Key) {
			for _, k := range keys.PublicKeys() {
				out = append(out, dispatch.Key{ID: k.ID, Public: k.Key})
			}
			return out
		},
		Locate: func(ctx context.Context, tn domain.TenantID, id domain.RunID) (domain.PartitionID, error) {
			row, err := s.store.Run(ctx, tn, id)
			if errors.Is(err, store.ErrNotFound) {
				return "", domain.Reject(domain.CodeAttemptNotFound, "There is no such attempt.")
			}
			return row.Partition, err
		},
		Partitions: 2, Grace: 10 * time.Second,
		Timing: dispatch.Timing{Poll: 45 * time.Second, Lease: leaseFor, Abandon: abandonFor},
		Mint:   func(prefix string) string { return domain.EncodeID(prefix, uuid.Must(uuid.NewV7())) }}
}

// start makes the server own its partitions and work. On an error everything is stopped.
func (w *world) start(ctx context.Context, s *server) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	defer context.AfterFunc(s.life, leave)()
	work, cancel := context.WithCancel(context.Background())
	dispatching := false
	s.stop = func() {
		cancel()
		if dispatching {
			<-s.dispatch.Done()
		}
		s.engine.Close()
		_ = s.gateway.Close()
	}
	if err := s.engine.Start(ctx); err != nil {
		s.stop()
		return fmt.Errorf("start engine: %w", err)
	}
	_, err := s.engine.Submit(ctx, engine.Envelope{Tenant: tenant, Partition: poolID.Partition(), Stream: poolID.Stream(),
		Command: pool.CreatePool{Cause: cause(), Tenant: tenant, Pool: poolID, Config: pool.DefaultConfig()}})
	if r, ok := domain.AsRejection(err); err != nil && (!ok || r.Code != domain.CodeAlreadyExists) {
		s.stop()
		return fmt.Errorf("make pool: %w", err)
	}
	if s.life.Err() != nil {
		s.stop()
		return fmt.Errorf("start: %w", s.life.Err())
	}
	dispatching = true
	s.dispatch.Start(work)
	return nil
}

// fatal is what the process does when its store can't be trusted any more: it ends, and
// whoever looks after processes starts it again. It runs on the engine's own goroutine.
func (w *world) fatal(s *server, err error) {
	w.trace("process ends: %v", err)
	w.mu.Lock()
	serves := w.server == s
	w.mu.Unlock()
	if !serves {
		s.end() // while it starts: whoever starts it is told
		return
	}
	go func() {
		w.down()
		if err := w.up(100); err != nil {
			w.book.find("the server never starts: %v", err)
		}
	}()
}

// down ends the server as a crash does: nobody is told anything from this moment on.
func (w *world) down() {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	w.mu.Lock()
	s := w.server
	w.server = nil
	w.generation++
	w.mu.Unlock()
	if s == nil {
		return
	}
	w.trace("server is down")
	w.disk.crash()
	s.end()
	s.stop()
	if err := w.disk.close(); err != nil {
		w.book.find("the store does not close: %v", err)
	}
}

// up starts the server, again and again until it stands or the tries are used up.
func (w *world) up(tries int) (err error) {
	for wait := time.Second; tries > 0; tries, wait = tries-1, min(2*wait, 20*time.Second) {
		if err = w.tryUp(); err == nil {
			return nil
		}
		w.trace("server does not start: %v", err)
		w.clear("start", err)
		time.Sleep(wait)
	}
	return err
}

func (w *world) tryUp() error {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	w.mu.Lock()
	stopping, there := w.stopping, w.server != nil
	w.mu.Unlock()
	if stopping || there {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return w.boot(ctx)
}

// call lets f talk to the server. An answer of a server that died meanwhile is lost.
func call[T any](w *world, f func(*server) (T, error)) (T, error) {
	var none T
	w.mu.Lock()
	s, generation := w.server, w.generation
	w.mu.Unlock()
	if s == nil {
		return none, errDown
	}
	out, err := f(s)
	w.mu.Lock()
	defer w.mu.Unlock()
	if generation != w.generation {
		return none, errDown
	}
	return out, err
}

// exchange is the runner's way to the server.
func (w *world) exchange(ctx context.Context, req *runnerv1.ExchangeRequest) (*runnerv1.ExchangeResponse, error) {
	res, err := call(w, func(s *server) (*runnerv1.ExchangeResponse, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer context.AfterFunc(s.life, cancel)()
		return s.dispatch.Exchange(ctx, req)
	})
	if err != nil {
		w.clear("exchange", err)
		return nil, err
	}
	w.book.exchanged(req, res)
	return res, nil
}

// clear wants an error that its reader can do something with: an answer in words, or a fault
// that says what failed and where, or that nobody knows what became of it.
func (w *world) clear(what string, err error) {
	r, answer := domain.AsRejection(err)
	switch {
	case answer && r.Message != "" && r.Code != "":
	case errors.Is(err, fault.ErrInjected), errors.Is(err, errDown):
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
	case errors.Is(err, domain.ErrRetry):
	default:
		w.book.find("%s: unclear error: %v", what, err)
	}
}

type callerKey struct{}

// asCaller is a context in which a client asks under a key.
func asCaller(ctx context.Context, key string, body any) context.Context {
	return context.WithValue(ctx, callerKey{}, control.Caller{Tenant: tenant, Scope: "ada", Cause: cause(), Key: key,
		Body: domain.DigestOf(fmt.Append(nil, body)), Admin: true})
}

func callerOf(ctx context.Context) control.Caller {
	c, ok := ctx.Value(callerKey{}).(control.Caller)
	if !ok {
		return control.Caller{Tenant: tenant, Scope: "ada", Cause: cause(), Admin: true}
	}
	return c
}

func cause() domain.Cause {
	return domain.Cause{Actor: domain.Actor{Kind: "user", ID: "ada", Via: "admin_token"}}
}

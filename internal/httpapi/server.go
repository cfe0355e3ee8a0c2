package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"connectrpc.com/connect/v2"

	"github.com/fairlead-ci/fairlead/api/fairlead/runner/v1/runnerv1connect"
	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Config is what the handler serves. Procedures that are nil are not served, so a server
// for runners alone can be built from the same parts.
type Config struct {
	Runs         fairleadv1connect.RunServiceHandler
	Logs         fairleadv1connect.LogServiceHandler
	Repositories fairleadv1connect.RepositoryServiceHandler
	Pools        fairleadv1connect.PoolServiceHandler
	Workflows    fairleadv1connect.WorkflowServiceHandler
	Server       fairleadv1connect.ServerServiceHandler
	Runner       runnerv1connect.RunnerServiceHandler

	// Polls takes exchanges of runners in so that many can wait. Nil: all go the ordinary way.
	Polls Polls

	RawLog RawLog
	// Git serves /git/…; it finds the principal with PrincipalFrom.
	Git http.Handler
	// Pages serves everything else. Browsers without a session are led to sign in first.
	Pages http.Handler
	// SignInPage shows the page to sign in at. Nil: a plain text that says how.
	SignInPage func(w http.ResponseWriter, r *http.Request, prompt SignInPrompt)
	// Metrics serves /metrics.
	Metrics http.Handler
	// Ready says why the server can't take work, or nil. Nil: always ready.
	Ready func(context.Context) error

	// Gate verifies credentials. Required.
	Gate *credential.Gate
	// Present compares an acknowledgement token that a client brings with what the server
	// holds; an error refuses the request. Nil: tokens are not looked at.
	Present func(ctx context.Context, token domain.Token) error
	// Access decides permissions. Nil: Allow.
	Access Access
	// Log gets access lines and faults. Nil: slog.Default.
	Log *slog.Logger
	// Observe, when set, is told of every answer.
	Observe func(route string, status int, took time.Duration)
	// Now is the clock of access lines. Nil: time.Now.
	Now func() time.Time
}

// Server is the handler, made once at start.
type Server struct {
	cfg    Config
	access Access
	log    *slog.Logger
	now    func() time.Time

	rpc    *connect.Server
	mux    *http.ServeMux
	routes []Route
	serve  http.Handler // mux behind the middleware

	turns   chan struct{} // see turnsFor
	drained context.Context
	drain   context.CancelFunc
}

// Route is one entry of the route table, for documentation and for the test that every
// route passes the authorisation point.
type Route struct {
	Pattern   string // of net/http: "GET /api/v1/runs/{run}"
	Procedure string // of the contract; "" for routes that have none
	Action    Action
}

// New builds the handler.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, access: cfg.Access, log: cfg.Log, now: cfg.Now, mux: http.NewServeMux(),
		turns: make(chan struct{}, turnsFor*runtime.GOMAXPROCS(0))}
	if s.access == nil {
		s.access = Allow
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.drained, s.drain = context.WithCancel(context.Background())
	s.rpc = connect.NewServer(s.answerErrors, s.admit)
	s.registerProcedures()
	s.mountRPC()
	s.mountREST()
	s.mountStreams()
	s.mountSignIn()
	s.mountHealth()
	s.mountGit()
	s.mountPages()
	s.serve = s.middleware(s.mux)
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Polls != nil && plainExchange(r) && s.servePoll(w, r) {
		return
	}
	s.serve.ServeHTTP(w, r)
}

// Routes lists what is served.
func (s *Server) Routes() []Route { return s.routes }

// Drain ends streams and long polls, whose clients come back to another server or to the
// next process. Call it before http.Server.Shutdown, which would wait for them.
func (s *Server) Drain() { s.drain() }

// patience says how long a route may hold its connection.
type patience int

const (
	brief patience = iota // answers when its work is done, also while the server stops
	long                  // a poll, a stream or a transfer: Drain ends it
)

// route is the only way onto the mux, so that no handler is reachable without passing the
// authorisation point.
type route struct {
	pattern   string
	procedure string
	action    Action
	patience  patience
	body      int64 // bytes; 0: bodyBytesMax, negative: unbounded (git packs)
	quiet     bool
	// decide, when set, finds action and resource in the request.
	decide func(*http.Request) (Action, Resource)
	// admitted marks routes of the RPC layer, where admit asks the authorisation point
	// with the procedure's own action.
	admitted bool
	// refuse answers a refusal; nil: JSON.
	refuse func(w http.ResponseWriter, r *http.Request, err error)
}

func (s *Server) handle(rt route, handler http.HandlerFunc) {
	s.routes = append(s.routes, Route{Pattern: rt.pattern, Procedure: rt.procedure, Action: rt.action})
	refuse := rt.refuse
	if refuse == nil {
		refuse = s.refuse
	}
	s.mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		c.route, c.quiet = rt.pattern, rt.quiet
		r, done := s.bound(w, r, rt)
		defer done()
		if !rt.admitted {
			action, resource := rt.action, Resource{}
			if rt.decide != nil {
				action, resource = rt.decide(r)
			}
			if err := s.authorize(r.Context(), action, resource); err != nil {
				refuse(w, r, err)
				return
			}
		}
		handler(w, r)
	})
}

// bound puts the route's limits on the request.
func (s *Server) bound(w http.ResponseWriter, r *http.Request, rt route) (*http.Request, func()) {
	limit := rt.body
	if limit == 0 {
		limit = bodyBytesMax + framingBytes
	}
	control := http.NewResponseController(w)
	if r.Body != nil && r.Body != http.NoBody {
		if limit > 0 {
			r.Body = http.MaxBytesReader(w, r.Body, limit)
		}
		r.Body = &timedBody{ReadCloser: r.Body, control: control, bounded: limit > 0, began: time.Now()}
		// A body that no handler reads is read by net/http after the answer: bounded too.
		_ = control.SetReadDeadline(time.Now().Add(stallWait))
	}
	if rt.patience == brief {
		return r, func() {}
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(s.drained, cancel)
	return r.WithContext(ctx), func() { stop(); cancel() }
}

// Protocols are those that a server speaks: HTTP/2 also without TLS, to whoever begins with it, so
// that a balancer and the other servers of a fleet carry many polls over one connection.
func Protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// HTTPServer wraps the handler with the bounds that hold for every connection.
func (s *Server) HTTPServer() *http.Server {
	return &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerWait,
		IdleTimeout:       idleWait,
		MaxHeaderBytes:    headerBytesMax,
		Protocols:         Protocols(),
		HTTP2:             &http.HTTP2Config{WriteByteTimeout: stallWait},
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

package web

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"
)

// Config is what the pages stand on.
type Config struct {
	// The API, called in process with the context of the page's request.
	Runs         fairleadv1connect.RunServiceHandler
	Logs         fairleadv1connect.LogServiceHandler
	Repositories fairleadv1connect.RepositoryServiceHandler
	Pools        fairleadv1connect.PoolServiceHandler
	Server       fairleadv1connect.ServerServiceHandler

	// WithKey returns a context in which the handlers find the idempotency key of a form,
	// just as if it had come in the header of an API call with that request. Required.
	WithKey func(ctx context.Context, key string, request proto.Message) context.Context
	// RequestID names the request on error pages. Nil: pages name none.
	RequestID func(context.Context) string
	// Now is the clock of the pages. Nil: time.Now.
	Now func() time.Time
	// NewKey makes an idempotency key. Nil: random ones.
	NewKey func() string
	// Log gets one line for every fault. Nil: slog.Default.
	Log *slog.Logger
	// Version is shown in the footer.
	Version string
	// Development makes every footer name the file that made the page.
	Development bool
	// SignOutPath is where the sign-out form posts to; "" shows no such form.
	SignOutPath string
}

// Pages serves every page, action and asset. It expects requests that were admitted:
// authentication, authorisation and cross-origin protection come before it.
type Pages struct {
	cfg    Config
	mux    *http.ServeMux
	assets *assets
}

// New makes the pages. It fails only when an embedded asset is broken, which a test of
// this package would have found.
func New(cfg Config) (*Pages, error) {
	if cfg.RequestID == nil {
		cfg.RequestID = func(context.Context) string { return "" }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.NewKey == nil {
		cfg.NewKey = func() string { return "page-" + uuid.NewString() }
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	built, err := buildAssets(staticFiles)
	if err != nil {
		return nil, err
	}
	p := &Pages{cfg: cfg, mux: http.NewServeMux(), assets: built}
	p.routes()
	return p, nil
}

// routes lists every address the pages answer. Addresses of actions are those of the
// API without its prefix, so whoever knows one knows the other.
func (p *Pages) routes() {
	p.mux.HandleFunc("GET /{$}", p.showRuns)
	p.mux.HandleFunc("GET /runs/{run}", p.showRun)
	p.mux.HandleFunc("GET /runs/{run}/replay", p.showReplay)
	p.mux.HandleFunc("GET /runs/{run}/diff", p.showDiff)
	p.mux.HandleFunc("GET /runs/{run}/jobs/{job}", p.showJob)
	p.mux.HandleFunc("GET /attempts/{attempt}", p.showAttempt)
	p.mux.HandleFunc("GET /attempts/{attempt}/lines.json", p.serveLines)
	p.mux.HandleFunc("GET /attempts/{attempt}/search.json", p.serveSearch)
	p.mux.HandleFunc("GET /attempts/{attempt}/group.json", p.serveGroup)
	p.mux.HandleFunc("GET /attempts/{attempt}/first-error", p.showFirstError)
	p.mux.HandleFunc("GET /runners", p.showRunners)
	p.mux.HandleFunc("GET /repositories", p.showRepositories)
	p.mux.HandleFunc("GET /repositories/{repository}", p.showRepository)
	p.mux.HandleFunc("GET /repositories/{repository}/workflows", p.showWorkflows)
	p.mux.HandleFunc("GET /expressions", p.showExpressions)
	p.mux.HandleFunc("POST /expressions", p.showExpressions)
	p.mux.HandleFunc("GET /static/{file}", p.serveAsset)
	p.mux.Handle("GET /favicon.ico", http.RedirectHandler(p.assets.url("icon-plain.svg"), http.StatusFound))

	p.mux.HandleFunc("POST /runs", p.createRun)
	p.mux.HandleFunc("POST /repositories/{repository}/withdrawals", p.withdraw)
	p.mux.HandleFunc("POST /runs/{run}/cancellation", p.cancelRun)
	p.mux.HandleFunc("POST /runs/{run}/rounds", p.rerunRun)
	p.mux.HandleFunc("POST /jobs/{job}/attempts", p.retryJob)
	p.mux.HandleFunc("POST /attempts/{attempt}/reconciliation", p.settleAttempt)

	p.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p.showProblem(w, r, problem{Status: http.StatusNotFound, Code: "not_found",
			Message: "There is no page at this address."})
	})
}

// ServeHTTP implements http.Handler.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

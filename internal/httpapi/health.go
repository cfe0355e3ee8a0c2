package httpapi

import (
	"net/http"
	"net/http/pprof"

	"github.com/fairlead-ci/fairlead/api"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

func (s *Server) mountHealth() {
	s.handle(route{pattern: "GET /healthz", action: ActionPublic, quiet: true}, serveAlive)
	s.handle(route{pattern: "GET /readyz", action: ActionPublic, quiet: true}, s.serveReady)
	if s.cfg.Metrics != nil {
		s.handle(route{pattern: "GET /metrics", action: ActionMetricsRead, quiet: true}, s.cfg.Metrics.ServeHTTP)
	}
	etag := `"` + domain.DigestOf(api.OpenAPI).Hex() + `"`
	s.handle(route{pattern: "GET /api/openapi.json", action: ActionPublic}, func(w http.ResponseWriter,
		r *http.Request) {
		w.Header().Set("ETag", etag)
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write(api.OpenAPI)
	})
}

// serveAlive says that the process serves; it asks nothing of anything else, so that a
// database that is away does not get the process killed.
func serveAlive(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}

// serveReady says whether the server takes work now.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	var problem error
	if s.cfg.Ready != nil {
		problem = s.cfg.Ready(r.Context())
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if problem == nil && s.drained.Err() == nil {
		_, _ = w.Write([]byte("ready\n"))
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	if problem == nil {
		_, _ = w.Write([]byte("stopping\n"))
		return
	}
	// Anybody may ask, so the reason stays in the log.
	s.log.DebugContext(r.Context(), "not ready", "error", problem)
	_, _ = w.Write([]byte("not ready\n"))
}

// DebugHandler serves profiles and metrics without a credential. It belongs on a private
// listener that only the operator opens, never on the server's own address.
func DebugHandler(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", serveAlive)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
	return mux
}

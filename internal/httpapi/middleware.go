package httpapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// middleware is what every request passes, outermost first: an id, one access line, the
// panic barrier, headers, the cross-origin check, and who asks.
func (s *Server) middleware(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(plain http.ResponseWriter, r *http.Request) {
		began := s.now()
		c := &call{request: newRequestID()}
		passed := forwardedOf(r.Context())
		if passed != nil {
			passed.adopt(c)
		}
		r = r.WithContext(withCall(r.Context(), c))
		w := &writer{ResponseWriter: plain, control: http.NewResponseController(plain)}
		w.lift()        // that of the connection's last request
		defer w.allow() // net/http sends the rest of the answer when the handler is done
		s.headers(w, r, c)
		defer func() { s.logAccess(r, w, c, s.now().Sub(began)) }()
		defer s.barrier(w, r)
		if err := origins.Check(r); err != nil {
			s.turnAway(w, r, codeCrossOrigin, "The request came from another site.")
			return
		}
		var err error
		if c.tokens, err = parseTokens(r.Header); err != nil {
			s.refuse(w, r, err)
			return
		}
		if passed == nil {
			s.authenticate(r, c)
		}
		next.ServeHTTP(w, r)
	})
}

// headers are on every answer.
func (s *Server) headers(w *writer, r *http.Request, c *call) {
	w.Header().Set("Fairlead-Request", c.request)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Referrer-Policy", "same-origin")
	if r.TLS != nil {
		w.Header().Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// barrier keeps a panic to the request that caused it: one line in the log, an id for the
// caller.
func (s *Server) barrier(w *writer, r *http.Request) {
	problem := recover()
	if problem == nil {
		return
	}
	if err, ok := problem.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(problem) // net/http's own way to cut a connection
	}
	c := callOf(r.Context())
	s.log.ErrorContext(r.Context(), "request panicked", slog.String("request", c.request),
		slog.String("route", c.route), slog.Any("panic", problem), slog.String("stack", string(debug.Stack())))
	if w.status != 0 {
		panic(http.ErrAbortHandler) // part of an answer has gone out: cutting is the honest end
	}
	s.turnAway(w, r, codeInternal, "Something failed inside the server. Its log has more under "+c.request+".")
}

// logAccess writes one line per request. It holds the path but never the query, which may
// carry a sign-in code.
func (s *Server) logAccess(r *http.Request, w *writer, c *call, took time.Duration) {
	if s.cfg.Observe != nil {
		s.cfg.Observe(c.route, w.status, took)
	}
	level := slog.LevelInfo
	if c.quiet && w.status < http.StatusBadRequest {
		level = slog.LevelDebug
	}
	if !s.log.Enabled(r.Context(), level) {
		return
	}
	path := r.URL.Path
	if len(path) > 256 {
		path = path[:256]
	}
	attrs := []slog.Attr{
		slog.String("request", c.request), slog.String("method", r.Method), slog.String("path", path),
		slog.String("route", c.route), slog.Int("status", w.status), slog.Int64("bytes", w.bytes),
		slog.Duration("took", took), slog.String("principal", c.principal.Scope()),
	}
	if c.code != "" {
		attrs = append(attrs, slog.String("code", c.code))
	}
	s.log.LogAttrs(r.Context(), level, "request", attrs...)
}

// authenticate finds out who asks. A header counts before a cookie. A credential that is
// not valid is remembered: public routes still answer, all others refuse it.
func (s *Server) authenticate(r *http.Request, c *call) {
	if text, sent := credentialOf(r); sent {
		principal, ok := s.cfg.Gate.Token(r.Context(), text)
		if ok {
			c.principal = principal
		}
		c.stale = !ok
		return
	}
	cookie, err := r.Cookie(s.cfg.Gate.Sessions.CookieName())
	if err != nil {
		return
	}
	// A cookie is sent by the browser, not by the person. Reads and the forms of pages
	// take it (the cross-origin check has passed); writes of the API want a token.
	if r.Method != http.MethodGet && r.Method != http.MethodHead && isAPI(r.URL.Path) {
		return
	}
	if principal, ok := s.cfg.Gate.Cookie(cookie.Value); ok {
		c.principal = principal
	}
}

func isAPI(path string) bool {
	return strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/fairlead.") ||
		strings.HasPrefix(path, "/git/")
}

// credentialOf reads the Authorization header: a bearer token, or the password of git's
// Basic form, where the user's name says nothing.
func credentialOf(r *http.Request) (text string, sent bool) {
	head := r.Header.Get("Authorization")
	if head == "" {
		return "", false
	}
	if _, password, ok := r.BasicAuth(); ok {
		return password, true
	}
	scheme, token, _ := strings.Cut(head, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", true
	}
	return strings.TrimSpace(token), true
}

// parseTokens reads the header Fairlead-Token, and the proofs that came beside it.
func parseTokens(head http.Header) ([]domain.Token, error) {
	var out []domain.Token
	for _, value := range head.Values("Fairlead-Token") {
		for text := range strings.SplitSeq(value, ",") {
			token, ok := domain.ParseToken(strings.TrimSpace(text))
			if !ok || len(out) == tokensMax {
				return nil, &domain.Rejection{Code: domain.CodeInvalidArgument, Field: "Fairlead-Token",
					Message: "The header holds no acknowledgement tokens, or too many."}
			}
			if token != (domain.Token{}) {
				out = append(out, token)
			}
		}
	}
	proofs := parseProofs(head)
	for i := range out {
		out[i].Proof = proofs[out[i].Partition]
	}
	return out, nil
}

// parseProofs reads the header Fairlead-Proof: "PARTITION=PROOF", separated by commas. What
// is no proof proves nothing, and is no reason to refuse the call.
func parseProofs(head http.Header) map[domain.PartitionID]domain.Proof {
	var out map[domain.PartitionID]domain.Proof
	for _, value := range head.Values("Fairlead-Proof") {
		for text := range strings.SplitSeq(value, ",") {
			partition, proof, _ := strings.Cut(strings.TrimSpace(text), "=")
			if p := domain.ParseProof(proof); p != "" && len(out) < tokensMax {
				if out == nil {
					out = map[domain.PartitionID]domain.Proof{}
				}
				out[domain.PartitionID(partition)] = p
			}
		}
	}
	return out
}

// writer notes what was answered, and lets the peer stall only so long: every write has a
// deadline of its own, so work may be slow and a peer may not.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
	status  int
	bytes   int64
}

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *writer) Write(content []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.allow()
	defer w.lift()
	n, err := w.ResponseWriter.Write(content)
	w.bytes += int64(n)
	return n, err
}

// Flush implements http.Flusher.
func (w *writer) Flush() {
	w.allow()
	defer w.lift()
	_ = w.control.Flush()
}

// allow lets the peer stall for stallWait from now on.
func (w *writer) allow() { _ = w.control.SetWriteDeadline(time.Now().Add(stallWait)) }

// lift takes the deadline back. HTTP/2 resets a stream whose deadline passes, also when
// nothing is being written: a stream that has nothing to say for a while must have none.
func (w *writer) lift() { _ = w.control.SetWriteDeadline(time.Time{}) }

// Unwrap lets http.ResponseController through.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// timedBody ends a request whose body doesn't come. The deadline belongs to the
// connection, and net/http keeps reading it to notice that the client left; so it is
// lifted at the body's end, or a long poll would be cut by it.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
	bounded bool
	began   time.Time
	set     time.Time
	ended   bool
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	if now := time.Now(); !b.ended && now.Sub(b.set) > time.Second {
		deadline := now.Add(stallWait)
		if last := b.began.Add(bodyWait); b.bounded && deadline.After(last) {
			deadline = last
		}
		b.set = now
		_ = b.control.SetReadDeadline(deadline)
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil && !b.ended {
		b.ended = true
		if errors.Is(err, io.EOF) {
			_ = b.control.SetReadDeadline(time.Time{})
		}
	}
	return n, err
}

// anonymous reports whether nobody is signed in.
func anonymous(ctx context.Context) bool {
	return callOf(ctx).principal.Kind == credential.KindAnonymous
}

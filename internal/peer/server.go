package peer

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
)

// Paths of the protocol. The version is that of all of it: a peer that speaks another one
// gets 404, and its commands count as not sent.
const (
	Prefix     = "/peer/v1/"
	pathSubmit = Prefix + "submit"
	pathNews   = Prefix + "news"
	pathStatus = Prefix + "status"
	pathLook   = Prefix + "look"
	pathPass   = Prefix + "pass"
	pathPolls  = Prefix + "polls"
)

// Headers of the protocol.
const (
	headerSecret = "Fairlead-Peer"
	headerCaller = "Fairlead-Caller"
	headerMember = "Fairlead-Member" // who asks, and in the answer who answers

	headerSession = "Fairlead-Session" // of the process that answers
	// headerShared is set by one that takes HTTP/2 without TLS too; members of older versions don't.
	headerShared = "Fairlead-Shared-Connections"
)

// Secret is what peers know each other by.
type Secret interface {
	Text() domain.Secret
	Verify(text string) bool
}

// ServerConfig is what a server answers its peers with.
type ServerConfig struct {
	// Name and Session are this member's, so that who asks knows who answered.
	Name, Session string
	Secret        Secret
	// Shares says that this server takes HTTP/2 without TLS.
	Shares bool
	// Receive carries out a command that another server sent.
	Receive func(ctx context.Context, w engine.Wire) (engine.WireAck, error)
	// Status tells what this server owns.
	Status func() []engine.PartitionStatus
	// Pass serves a request that came to another server, on behalf of its caller. The path
	// is that of the original request.
	Pass func(w http.ResponseWriter, r *http.Request, c Caller)
	// Take takes in a poll of another server's runner; nil: polls are passed on one by one, as requests.
	// Leads says whether the pools of a partition are led here.
	Take  func(ctx context.Context, req *runnerv1.ExchangeRequest) (Poll, error)
	Leads func(domain.PartitionID) bool
	// Look hears from a peer that the fleet changed.
	Look func()
	// Herald tells what this server has to say.
	Herald *Herald
	Log    *slog.Logger
}

// Server answers peers. It implements http.Handler for everything under Prefix.
type Server struct {
	cfg     ServerConfig
	mux     *http.ServeMux
	drained context.Context
	drain   context.CancelFunc
}

// NewServer makes the handler.
func NewServer(cfg ServerConfig) *Server {
	s := &Server{cfg: cfg, mux: http.NewServeMux()}
	s.drained, s.drain = context.WithCancel(context.Background())
	s.mux.HandleFunc("POST "+pathSubmit, s.submit)
	s.mux.HandleFunc("GET "+pathNews, s.news)
	s.mux.HandleFunc("GET "+pathStatus, s.status)
	s.mux.HandleFunc("POST "+pathLook, func(http.ResponseWriter, *http.Request) { cfg.Look() })
	s.mux.HandleFunc(pathPass+"/", s.pass)
	s.mux.HandleFunc("POST "+pathPolls, s.takePolls)
	return s
}

// Drain ends streams of news. Call it before the HTTP server is shut down.
func (s *Server) Drain() { s.drain() }

// ServeHTTP implements http.Handler.
//
// Trust: nothing of the request is read before the secret was compared.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if values := r.Header.Values(headerSecret); len(values) != 1 || !s.cfg.Secret.Verify(values[0]) {
		// The same as for any path that is not there: who is no peer need not know of it.
		http.NotFound(w, r)
		return
	}
	w.Header().Set(headerMember, s.cfg.Name)
	w.Header().Set(headerSession, s.cfg.Session)
	if s.cfg.Shares {
		w.Header().Set(headerShared, "h2c")
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // that of the connection's last request
	s.mux.ServeHTTP(w, r)
}

func (s *Server) submit(w http.ResponseWriter, r *http.Request) {
	var wire engine.Wire
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, wireBytesMax)).Decode(&wire); err != nil {
		// Nothing happened, and this form of the command can't be understood.
		http.Error(w, "the command can't be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	// Once a command is decided it goes its whole way, whether the peer still waits or not. One
	// whose turn had not come when the peer stopped waiting is dropped.
	ack, err := s.cfg.Receive(r.Context(), wire)
	if rejection, ok := domain.AsRejection(err); ok {
		ack, err = engine.WireAck{Rejected: rejection}, nil
	}
	if err != nil {
		s.cfg.Log.Warn("command of a peer failed", "member", r.Header.Get(headerMember),
			"stream", wire.Stream, "error", err)
		http.Error(w, "the command failed here; this server's log has more", http.StatusInternalServerError)
		return
	}
	s.answer(w, ack)
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request) { s.answer(w, s.cfg.Status()) }

func (s *Server) answer(w http.ResponseWriter, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		s.cfg.Log.Error("answer to a peer can't be encoded", "error", err)
		http.Error(w, "the answer can't be encoded", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}

// news streams lines until the peer leaves or the server drains.
func (s *Server) news(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	e := s.cfg.Herald.listen()
	defer s.cfg.Herald.leave(e)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	encoder := json.NewEncoder(w)
	for {
		_ = control.SetWriteDeadline(time.Now().Add(writeWait))
		if err := errors.Join(encoder.Encode(e.take()), control.Flush()); err != nil {
			return
		}
		select {
		case <-e.news:
		case <-beat.C:
		case <-r.Context().Done():
			return
		case <-s.drained.Done():
			return
		}
	}
}

// pass serves a request of another server's caller.
func (s *Server) pass(w http.ResponseWriter, r *http.Request) {
	caller, err := parseCaller(r.Header.Get(headerCaller))
	if err != nil {
		http.Error(w, "the caller can't be read", http.StatusBadRequest)
		return
	}
	inner := r.Clone(r.Context())
	inner.URL.Path = strings.TrimPrefix(r.URL.Path, pathPass)
	inner.URL.RawPath = ""
	for _, name := range []string{headerSecret, headerCaller, headerMember, "Authorization", "Cookie"} {
		inner.Header.Del(name)
	}
	s.cfg.Pass(w, inner, caller)
}

package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/runner/v1/runnerv1connect"
	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// A server has as many exchanges under way as there are runners without work. In the ordinary way
// such a request holds some ten kilobytes of stack and as many of objects while it waits: decoder,
// interceptors and handlers stand above it. So exchanges of runners are taken in first, by a call
// that returns, and then waited for right above net/http. What the answer is, is decided in the
// same rooms; and whatever is not a plain exchange, or fails, goes the ordinary way, which says
// what is wrong in the words of the protocol. Everything that runners say may be said twice.

// Polls takes exchanges of runners in.
type Polls interface {
	// Begin gives nil without an error when the exchange is to go the ordinary way.
	Begin(ctx context.Context, req *runnerv1.ExchangeRequest) (Poll, error)
}

// Poll is an exchange that was taken in, as dispatch has it.
type Poll interface {
	Look(ctx context.Context) (limit time.Duration, over bool)
	News() <-chan struct{}
	End() (*runnerv1.ExchangeResponse, error)
}

// pollBytesMax bounds the body of what is tried here: offers, and reports that are short.
const pollBytesMax = 16 << 10

// pollAnswerShort is an answer that needs no time limit of its own over HTTP/2: it waits for nothing
// but its connection, which has one. To set one there is a message and a timer for each poll.
const pollAnswerShort = 4 << 10

// turnsFor is how many polls that have nothing to say are taken in or ended at a time, for each
// processor. A job's way leads through a dozen goroutines and the locks that polls take as well:
// behind thousands of polls that come and go at once, each of these would wait for all of those. So
// such polls wait for their turn, holding nothing. What has news does not wait.
const turnsFor = 16

// turnWait is after how long a poll goes on without a turn: whoever has one may be waiting for the
// store, and runners don't wait for ever.
const turnWait = 5 * time.Second

// exchange is one that was taken in.
type exchange struct {
	poll    Poll
	idle    bool // it brings nothing and holds nothing
	turn    bool // it has one of the server's turns
	session domain.SessionID
	began   time.Time
	until   time.Time // the caller's own limit; zero: none
	body    []byte
}

// plainExchange reports whether a request is an exchange as runners send it: binary, unary, not
// compressed, with nothing that a runner does not send.
func plainExchange(r *http.Request) bool {
	if r.URL.Path != runnerv1connect.RunnerServiceExchangeProcedure || r.Method != http.MethodPost ||
		r.ContentLength <= 0 || r.ContentLength > pollBytesMax || r.Header.Get("Content-Type") != "application/proto" {
		return false
	}
	for _, name := range []string{"Authorization", "Cookie", "Content-Encoding", "Fairlead-Token", "Fairlead-Proof",
		"Origin", "Sec-Fetch-Site", "Expect"} {
		if _, sent := r.Header[name]; sent {
			return false
		}
	}
	return true
}

// servePoll serves an exchange, or reports that it is to go the ordinary way.
func (s *Server) servePoll(w http.ResponseWriter, r *http.Request) bool {
	defer s.pollBarrier(r)
	x := &exchange{began: s.now()}
	defer s.passTurn(x)
	if !s.takeIn(w, r, x) {
		return false
	}
	for {
		limit, over := x.poll.Look(r.Context())
		if !over && s.awaitNews(r.Context(), x, limit) {
			continue
		}
		res, err := x.poll.End()
		if errors.Is(err, ErrAgain) && s.beginAgain(r, x) {
			continue
		}
		return s.answerPoll(w, r, x, res, err)
	}
}

// ErrAgain is said at the end of a poll that can be taken in once more: another server was to answer
// it, and now this one can.
var ErrAgain = errors.New("the poll can be taken in again")

// beginAgain takes a poll in once more for the rest of its time.
func (s *Server) beginAgain(r *http.Request, x *exchange) bool {
	s.passTurn(x)
	s.shorten(x)
	req := new(runnerv1.ExchangeRequest)
	if r.Context().Err() != nil || proto.Unmarshal(x.body, req) != nil {
		return false
	}
	s.awaitTurn(r.Context(), x, nil)
	poll, err := s.begin(r.Context(), req)
	if err != nil || poll == nil {
		return false
	}
	x.poll = poll
	return true
}

// begin asks the authorisation point about an exchange, and takes it in.
func (s *Server) begin(ctx context.Context, req *runnerv1.ExchangeRequest) (Poll, error) {
	c := &call{principal: credential.Runner(domain.SessionID(req.GetSession())),
		route: runnerv1connect.RunnerServiceExchangeProcedure}
	op := operations[c.route]
	ctx = withCall(ctx, c)
	if err := s.authorize(ctx, op.action, Resource{Kind: op.kind, ID: fieldOf(req, op.field)}); err != nil {
		return nil, err
	}
	return s.cfg.Polls.Begin(ctx, req)
}

// BeginForwarded takes a poll in that came to another server of the fleet, as ServeForwarded serves a
// request. A poll that can't be taken in here is nil, or an error.
// Preconditions: the caller has made sure that a server of the fleet asks.
func (s *Server) BeginForwarded(ctx context.Context, req *runnerv1.ExchangeRequest) (Poll, error) {
	if s.cfg.Polls == nil {
		return nil, nil
	}
	return s.begin(context.WithValue(ctx, forwardedKey{}, &forwarded{
		principal: credential.Runner(domain.SessionID(req.GetSession()))}), req)
}

// awaitNews reports whether it is worth another look.
func (s *Server) awaitNews(ctx context.Context, x *exchange, limit time.Duration) bool {
	s.passTurn(x)
	if !x.until.IsZero() {
		limit = min(limit, time.Until(x.until))
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-x.poll.News():
		return true
	case <-timer.C:
		s.awaitTurn(ctx, x, x.poll.News())
		return x.until.IsZero() || time.Now().Before(x.until)
	case <-ctx.Done():
		return false
	case <-s.drained.Done():
		return false
	}
}

// awaitTurn waits until an exchange that has nothing to say may go on: with a turn, or without one
// because there is news after all, or no time left.
func (s *Server) awaitTurn(ctx context.Context, x *exchange, news <-chan struct{}) {
	if !x.idle {
		return
	}
	select {
	case s.turns <- struct{}{}:
		x.turn = true
		return
	default:
	}
	timer := time.NewTimer(turnWait)
	defer timer.Stop()
	select {
	case s.turns <- struct{}{}:
		x.turn = true
	case <-news:
	case <-timer.C:
	case <-ctx.Done():
	case <-s.drained.Done():
	}
}

// passTurn lets the next one have its turn.
func (s *Server) passTurn(x *exchange) {
	if x.turn {
		x.turn = false
		<-s.turns
	}
}

// takeIn reads an exchange and takes it in, or reports that it goes the ordinary way, with its body.
func (s *Server) takeIn(w http.ResponseWriter, r *http.Request, x *exchange) bool {
	x.body = make([]byte, r.ContentLength)
	if n, err := readWithin(w, r.Body, x.body, stallWait); err != nil {
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(x.body[:n]), r.Body))
		return false
	}
	_ = r.Body.Close() // lets go of what net/http holds for it
	req := new(runnerv1.ExchangeRequest)
	if err := proto.Unmarshal(x.body, req); err != nil {
		return s.ordinary(r, x.body)
	}
	if text := r.Header.Get("Connect-Timeout-Ms"); text != "" {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ms < 0 {
			return s.ordinary(r, x.body)
		}
		x.until = time.Now().Add(time.Duration(min(ms, int64(time.Hour/time.Millisecond))) * time.Millisecond)
	}
	x.session = domain.SessionID(req.GetSession())
	x.idle = Idle(req)
	s.awaitTurn(r.Context(), x, nil)
	poll, err := s.begin(r.Context(), req)
	x.poll = poll
	if err != nil || x.poll == nil {
		return s.ordinary(r, x.body)
	}
	return true
}

// Idle reports whether an exchange is the poll of a runner that has nothing to do.
func Idle(req *runnerv1.ExchangeRequest) bool {
	return req.GetWaitMs() > 0 && len(req.GetChunks())+len(req.GetProgress())+len(req.GetResults())+
		len(req.GetDeclines())+len(req.GetRenewals()) == 0
}

// readWithin reads all of a short body, which has come already or comes in a moment. Whoever does
// not send it is cut; a deadline beforehand, and its end, would be two more words for the goroutine
// that serves an HTTP/2 connection, for each exchange.
func readWithin(w http.ResponseWriter, from io.Reader, into []byte, limit time.Duration) (n int, err error) {
	cut := make(chan struct{})
	timer := time.AfterFunc(limit, func() {
		defer close(cut)
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	})
	n, err = io.ReadFull(from, into)
	if !timer.Stop() {
		<-cut // the response may not be touched when its handler has returned
		if err == nil {
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		}
	}
	return n, err
}

// ordinary puts a body back that was read.
func (s *Server) ordinary(r *http.Request, body []byte) bool {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return false
}

// answerPoll writes the answer. An exchange without one goes the ordinary way, for the rest of its
// time.
func (s *Server) answerPoll(w http.ResponseWriter, r *http.Request, x *exchange, res *runnerv1.ExchangeResponse,
	err error) bool {
	var answer []byte
	if err == nil {
		answer, err = proto.Marshal(res)
	}
	if err != nil {
		s.shorten(x)
		return s.ordinary(r, x.body)
	}
	s.passTurn(x) // to write may take as long as the runner lets it
	c := &call{request: newRequestID(), route: runnerv1connect.RunnerServiceExchangeProcedure, quiet: true}
	if passed := forwardedOf(r.Context()); passed != nil {
		passed.adopt(c)
	}
	c.principal = credential.Runner(x.session)
	out := &writer{ResponseWriter: w, control: http.NewResponseController(w)}
	s.headers(out, r, c)
	out.Header().Set("Content-Type", "application/proto")
	if r.ProtoMajor < 2 || len(answer) > pollAnswerShort {
		_ = out.control.SetWriteDeadline(time.Now().Add(stallWait)) // and for what net/http sends after this
	}
	n, _ := w.Write(answer)
	out.status, out.bytes = http.StatusOK, int64(n)
	s.logAccess(r, out, c, s.now().Sub(x.began))
	return true
}

// shorten takes the time that has passed off what an exchange may wait.
func (s *Server) shorten(x *exchange) {
	req := new(runnerv1.ExchangeRequest)
	if proto.Unmarshal(x.body, req) != nil || req.GetWaitMs() <= 0 {
		return
	}
	now := s.now()
	req.WaitMs = max(req.GetWaitMs()-now.Sub(x.began).Milliseconds(), 1)
	if again, err := proto.Marshal(req); err == nil {
		x.body, x.began = again, now
	}
}

// pollBarrier keeps a panic to its request.
func (s *Server) pollBarrier(r *http.Request) {
	problem := recover()
	if problem == nil {
		return
	}
	if err, ok := problem.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
		s.log.ErrorContext(r.Context(), "request panicked",
			slog.String("route", runnerv1connect.RunnerServiceExchangeProcedure), slog.Any("panic", problem),
			slog.String("stack", string(debug.Stack())))
	}
	panic(http.ErrAbortHandler)
}

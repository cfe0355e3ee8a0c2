package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"
)

// mountStreams serves the streams of the contract as server-sent events, for browsers and
// curl -N. They call the same procedures as everybody else.
func (s *Server) mountStreams() {
	if s.cfg.Runs != nil {
		s.handle(route{
			pattern:   "GET /api/v1/runs/{run}/events",
			procedure: fairleadv1connect.RunServiceWatchRunProcedure,
			action:    ActionRunRead, admitted: true, patience: long,
		}, s.serveRunEvents)
	}
	if s.cfg.Logs != nil {
		s.handle(route{
			pattern:   "GET /api/v1/attempts/{attempt}/log/events",
			procedure: fairleadv1connect.LogServiceFollowLogProcedure,
			action:    ActionLogRead, admitted: true, patience: long,
		}, s.serveLogEvents)
	}
	if s.cfg.RawLog != nil {
		s.handle(route{
			pattern: "GET /api/v1/attempts/{attempt}/log", action: ActionLogRead, patience: long,
			decide: func(r *http.Request) (Action, Resource) {
				return ActionLogRead, Resource{Kind: "attempt", ID: r.PathValue("attempt")}
			},
		}, s.serveRawLog)
	}
}

func (s *Server) serveRunEvents(w http.ResponseWriter, r *http.Request) {
	var full, timeline bool
	read := func() (proto.Message, error) {
		query, err := onlyQuery(r, "full", "timeline")
		if err != nil {
			return nil, err
		}
		if full, err = boolQuery(query, "full"); err != nil {
			return nil, err
		}
		if timeline, err = boolQuery(query, "timeline"); err != nil {
			return nil, err
		}
		run := r.PathValue("run")
		if !validText(run) {
			return nil, errHidden()
		}
		return &fairleadv1.WatchRunRequest{Run: run, Timeline: full && timeline}, nil
	}
	seen, _ := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64) // hostile or absent: from the start
	s.serveEvents(w, r, fairleadv1connect.RunServiceWatchRunProcedure, read,
		func(e *events, message proto.Message) error {
			response, ok := message.(*fairleadv1.GetRunResponse)
			if !ok {
				return fmt.Errorf("send run event: %T", message)
			}
			run := response.GetRun()
			e.ended = run.GetOutcome() != ""
			if run.GetVersion() <= seen && seen > 0 {
				return nil
			}
			if !full {
				response = &fairleadv1.GetRunResponse{Token: response.GetToken(), Run: &fairleadv1.Run{
					Run: run.GetRun(), Summary: run.GetSummary(), Version: run.GetVersion(), Outcome: run.GetOutcome(),
					Reason: run.GetReason(), Desired: run.GetDesired(), Attention: run.GetAttention(), Url: run.GetUrl(),
				}}
			}
			content, err := encodeJSON(response)
			if err != nil {
				return err
			}
			return e.send("", strconv.FormatUint(run.GetVersion(), 10), content)
		})
}

func (s *Server) serveLogEvents(w http.ResponseWriter, r *http.Request) {
	var from int64
	read := func() (proto.Message, error) {
		query, err := onlyQuery(r, "offset", "step")
		if err != nil {
			return nil, err
		}
		if from, _, err = numberQuery(query, "offset"); err != nil {
			return nil, err
		}
		step, oneStep, err := numberQuery(query, "step")
		if err != nil || step > maxStep {
			return nil, errArgument("step", "The step is not a number in its bounds.")
		}
		// A browser that lost the stream says where it was.
		if last, err := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64); err == nil && last > from {
			from = last
		}
		attempt := r.PathValue("attempt")
		if !validText(attempt) {
			return nil, errHidden()
		}
		return &fairleadv1.FollowLogRequest{Attempt: attempt, Offset: from, Step: int32(step),
			OneStep: oneStep}, nil
	}
	s.serveEvents(w, r, fairleadv1connect.LogServiceFollowLogProcedure, read,
		func(e *events, message proto.Message) error {
			response, ok := message.(*fairleadv1.FollowLogResponse)
			if !ok {
				return fmt.Errorf("send log event: %T", message)
			}
			e.ended = e.ended || response.GetSealed()
			offset := response.GetOffset() - int64(len(response.GetData()))
			for piece := range slices.Chunk(response.GetData(), eventBytesMax) {
				offset += int64(len(piece))
				content, err := encodeJSON(&fairleadv1.FollowLogResponse{Data: piece, Offset: offset})
				if err != nil {
					return err
				}
				if err := e.send("", strconv.FormatInt(offset, 10), content); err != nil {
					return err
				}
			}
			return nil
		})
}

// serveEvents runs a streaming procedure and writes what it sends as events. A refusal
// before the first message is an ordinary answer; after it, an event named "refused".
// An event named "end" says that nothing more will come, ever. Without it the client
// should come back, and EventSource does so by itself; a client that had everything of an
// ended stream gets 204, which tells EventSource to stop.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request, procedure string,
	read func() (proto.Message, error), write func(*events, proto.Message) error) {
	e := &events{w: w}
	stream := &oneShot{read: read}
	info := &connect.CallInfo{Protocol: "sse", Codec: "json", PeerAddr: r.RemoteAddr}
	stop := e.keepAlive()
	err := s.rpc.Call(r.Context(), procedure, info, &eventSender{oneShot: stream, events: e, write: write})
	stop()
	answer, refused := answerOf(err)
	switch {
	case r.Context().Err() != nil, !refused && !e.ended:
		// The client left, or the server drains. With the header of a stream, and without
		// an end, EventSource comes back by itself.
		_ = e.open()
	case refused && !e.opened:
		s.writeAnswer(w, answer)
	case refused:
		content, _ := encodeJSON(answer)
		_ = e.send("refused", "", content)
	case e.ended && !e.opened:
		w.WriteHeader(http.StatusNoContent)
	case e.ended:
		_ = e.send("end", "", []byte("{}"))
	}
}

// eventSender is the stream that a procedure sees.
type eventSender struct {
	*oneShot
	*events
	write func(*events, proto.Message) error
}

// SendHeaders implements connect.ServerStream.
func (s *eventSender) SendHeaders() error { return s.open() }

// Send implements connect.ServerStream.
func (s *eventSender) Send(message any) error {
	response, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("send message: %T is no protobuf message", message)
	}
	return s.write(s.events, response)
}

// events writes server-sent events.
type events struct {
	mu     sync.Mutex // guards w, opened; the heart beats beside the procedure
	w      http.ResponseWriter
	opened bool
	ended  bool // of the procedure's goroutine alone
}

func (e *events) open() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.emit(nil)
}

func (e *events) send(name, id string, content []byte) error {
	var out bytes.Buffer
	if name != "" {
		out.WriteString("event: " + name + "\n")
	}
	if id != "" {
		out.WriteString("id: " + id + "\n")
	}
	out.WriteString("data: ")
	out.Write(content) // compact JSON holds no line break
	out.WriteString("\n\n")
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.emit(out.Bytes())
}

// emit writes and flushes; the first time, with the header. The caller holds mu.
func (e *events) emit(content []byte) error {
	if !e.opened {
		e.opened = true
		head := e.w.Header()
		head.Set("Content-Type", "text/event-stream; charset=utf-8")
		head.Set("Cache-Control", "no-store")
		head.Set("X-Accel-Buffering", "no") // proxies would hold events back
		e.w.WriteHeader(http.StatusOK)
	}
	if _, err := e.w.Write(content); err != nil {
		return err
	}
	return http.NewResponseController(e.w).Flush()
}

// keepAlive opens a stream that has nothing to say yet, and keeps an idle one from being
// taken for dead. The function it returns stops it and waits until it did.
func (e *events) keepAlive() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		next := time.NewTimer(openWait)
		defer next.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-next.C:
				next.Reset(heartbeat)
				e.mu.Lock()
				if ctx.Err() == nil {
					_ = e.emit([]byte(": alive\n\n"))
				}
				e.mu.Unlock()
			}
		}
	})
	return func() { cancel(); done.Wait() }
}

// onlyQuery reads the query and refuses parameters that the path doesn't have.
func onlyQuery(r *http.Request, names ...string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, errArgument("", "The query is not well formed.")
	}
	for name, texts := range values {
		if !slices.Contains(names, name) {
			return nil, errArgument(cleanName(name), "This path has no such query parameter.")
		}
		if len(texts) > 1 {
			return nil, errArgument(name, "The query gives this parameter more than once.")
		}
	}
	return values, nil
}

func boolQuery(query url.Values, name string) (bool, error) {
	if !query.Has(name) {
		return false, nil
	}
	value, err := strconv.ParseBool(query.Get(name))
	if err != nil {
		return false, errArgument(name, "The query's value is not a truth value (true or false).")
	}
	return value, nil
}

func numberQuery(query url.Values, name string) (value int64, given bool, err error) {
	if !query.Has(name) {
		return 0, false, nil
	}
	value, err = strconv.ParseInt(query.Get(name), 10, 64)
	if err != nil || value < 0 {
		return 0, false, errArgument(name, "The query's value is not a whole number from 0.")
	}
	return value, true, nil
}

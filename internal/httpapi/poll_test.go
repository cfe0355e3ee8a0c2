package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"google.golang.org/protobuf/proto"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/runner/v1/runnerv1connect"
	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// hall is a runner service, in both ways that an exchange can go.
type hall struct {
	memoryRunner
	refuse   error        // of Begin
	closing  error        // of End
	again    atomic.Int32 // how many polls are to be taken in once more
	inside   func(*runnerv1.ExchangeRequest)
	news     chan struct{}
	plain    atomic.Int32 // exchanges that were taken in here
	ordinary atomic.Int32
	waited   atomic.Int64 // what the last exchange of the ordinary way was to wait
	waiting  atomic.Int32
}

func (h *hall) Begin(_ context.Context, req *runnerv1.ExchangeRequest) (Poll, error) {
	h.plain.Add(1)
	if h.refuse != nil {
		return nil, h.refuse
	}
	if h.inside != nil {
		h.inside(req)
	}
	if req.GetSession() == "panic" {
		panic("this session")
	}
	return &visit{hall: h, limit: time.Duration(req.GetWaitMs()) * time.Millisecond}, nil
}

func (h *hall) Exchange(_ context.Context, req *runnerv1.ExchangeRequest) (*runnerv1.ExchangeResponse, error) {
	h.ordinary.Add(1)
	h.waited.Store(req.GetWaitMs())
	if err := errors.Join(h.refuse, h.closing); err != nil {
		return nil, domain.Reject(domain.CodeNotOwner, "Not here.")
	}
	return &runnerv1.ExchangeResponse{Token: "ordinary"}, nil
}

type visit struct {
	hall  *hall
	limit time.Duration
	looks int
}

func (v *visit) Look(context.Context) (time.Duration, bool) {
	if v.looks++; v.looks > 1 || v.limit == 0 {
		return 0, true
	}
	v.hall.waiting.Add(1)
	return v.limit, false
}

func (v *visit) News() <-chan struct{} { return v.hall.news }

func (v *visit) End() (*runnerv1.ExchangeResponse, error) {
	if v.hall.again.Add(-1) >= 0 {
		return nil, ErrAgain
	}
	if v.hall.closing != nil {
		return nil, v.hall.closing
	}
	return &runnerv1.ExchangeResponse{Token: "plain"}, nil
}

func newHall(t testing.TB) (*hall, *world) {
	h := &hall{news: make(chan struct{})}
	return h, newWorld(t, func(c *Config) { c.Runner, c.Polls = h, h })
}

// runnersOf are clients of the runner protocol over each transport that there is.
func runnersOf(w *world) map[string]runnerv1connect.RunnerServiceClient {
	shared := &http.Transport{Protocols: new(http.Protocols)}
	shared.Protocols.SetUnencryptedHTTP2(true)
	w.t.Cleanup(shared.CloseIdleConnections)
	out := map[string]runnerv1connect.RunnerServiceClient{}
	for name, transport := range map[string]http.RoundTripper{"HTTP/1.1": w.http.Client().Transport, "HTTP/2": shared} {
		out[name] = runnerv1connect.NewRunnerServiceClient(connect.NewClient(connecthttp.NewTransport(
			&http.Client{Transport: transport}, w.http.URL, connecthttp.WithCompressors())))
	}
	return out
}

func TestAnExchangeIsTakenInAndAnswered(t *testing.T) {
	h, w := newHall(t)
	for name, client := range runnersOf(w) {
		for _, wait := range []int64{0, 20} {
			res, err := client.Exchange(t.Context(), &runnerv1.ExchangeRequest{Session: "ses_1", WaitMs: wait})
			if err != nil || res.GetToken() != "plain" {
				t.Errorf("%s: %v, %v", name, res, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		before := h.waiting.Load()
		ended := make(chan error, 1)
		go func() {
			_, err := client.Exchange(ctx, &runnerv1.ExchangeRequest{Session: "ses_1", WaitMs: 60_000})
			ended <- err
		}()
		for h.waiting.Load() == before {
			time.Sleep(time.Millisecond)
		}
		cancel()
		if err := <-ended; err == nil {
			t.Errorf("%s: a poll whose runner left is answered", name)
		}
	}
	if h.ordinary.Load() != 0 || h.plain.Load() != 6 {
		t.Errorf("%d taken in, %d went the ordinary way", h.plain.Load(), h.ordinary.Load())
	}
	if log := w.log.String(); strings.Count(log, `"principal":"runner:ses_1"`) < 4 { // of those that were answered
		t.Errorf("the log of accesses:\n%s", log)
	}
}

func TestNewsAndAStoppingServerEndAPoll(t *testing.T) {
	for name, end := range map[string]func(*hall, *world){
		"news": func(h *hall, _ *world) { close(h.news) },
		"stop": func(_ *hall, w *world) { w.server.Drain() },
	} {
		h, w := newHall(t)
		var answered sync.WaitGroup
		for transport, client := range runnersOf(w) {
			answered.Go(func() {
				res, err := client.Exchange(t.Context(), &runnerv1.ExchangeRequest{Session: "ses_1", WaitMs: 60_000})
				if err != nil || res.GetToken() != "plain" {
					t.Errorf("%s, %s: %v, %v", name, transport, res, err)
				}
			})
		}
		for h.waiting.Load() < 2 {
			time.Sleep(time.Millisecond)
		}
		end(h, w)
		answered.Wait()
	}
}

// Polls without news come and go a few at a time, whatever many are due at once: the rest hold
// nothing that a job needs. What has news, and what brings something, does not wait for them.
func TestPollsWithoutNewsWaitForTheirTurn(t *testing.T) {
	h, w := newHall(t)
	var inside, most atomic.Int32
	release := make(chan struct{})
	h.inside = func(req *runnerv1.ExchangeRequest) {
		if req.GetSession() == "idle" {
			if n := inside.Add(1); n > most.Load() {
				most.Store(n)
			}
			<-release
			inside.Add(-1)
		}
	}
	client := runnersOf(w)["HTTP/2"]
	exchange := func(req *runnerv1.ExchangeRequest) {
		if res, err := client.Exchange(t.Context(), req); err != nil || res.GetToken() != "plain" {
			t.Errorf("%s: %v, %v", req.GetSession(), res, err)
		}
	}
	var told, answered sync.WaitGroup
	told.Go(func() { exchange(&runnerv1.ExchangeRequest{Session: "waits", WaitMs: 60_000}) })
	for h.waiting.Load() < 1 {
		time.Sleep(time.Millisecond)
	}
	turns := cap(w.server.turns)
	for range 10 * turns {
		answered.Go(func() { exchange(&runnerv1.ExchangeRequest{Session: "idle", WaitMs: 1}) })
	}
	for int(inside.Load()) < turns {
		time.Sleep(time.Millisecond)
	}
	exchange(&runnerv1.ExchangeRequest{Session: "reports", WaitMs: 1, Results: []*runnerv1.Result{{Attempt: "att"}}})
	close(h.news)
	told.Wait() // while nobody gives a turn back
	if n := int(inside.Load()); n != turns {
		t.Errorf("%d inside, of %d turns", n, turns)
	}
	close(release)
	answered.Wait()
	if n := int(most.Load()); n > turns {
		t.Errorf("%d at once; there are %d turns", n, turns)
	}
	if len(w.server.turns) != 0 {
		t.Errorf("%d turns were not given back", len(w.server.turns))
	}
}

// What has no answer here is said in the ordinary way, for the rest of the poll's time.
func TestAnExchangeThatFailsGoesTheOrdinaryWay(t *testing.T) {
	for name, fail := range map[string]func(*hall){
		"taken in": func(h *hall) { h.refuse = domain.Reject(domain.CodeNotOwner, "Not here.") },
		"at its end": func(h *hall) {
			h.closing = domain.Reject(domain.CodeNotOwner, "Not here any more.")
		},
	} {
		h, w := newHall(t)
		fail(h)
		for transport, client := range runnersOf(w) {
			_, err := client.Exchange(t.Context(), &runnerv1.ExchangeRequest{Session: "ses_1", WaitMs: 300})
			var rpc *connect.Error
			if !errors.As(err, &rpc) || rpc.Code() != connect.CodeUnavailable || len(rpc.Details()) == 0 {
				t.Errorf("%s, %s: %v", name, transport, err)
			}
			if wait := h.waited.Load(); wait < 1 || wait > 300 || h.closing != nil && wait > 10 {
				t.Errorf("%s, %s: to wait for %d ms more", name, transport, wait)
			}
		}
		if h.plain.Load() != 2 || h.ordinary.Load() != 2 {
			t.Errorf("%s: %d taken in, %d went the ordinary way", name, h.plain.Load(), h.ordinary.Load())
		}
	}
}

// A poll that another server was to answer is taken in here when this one can, for the rest of its time.
func TestAPollIsTakenInAgain(t *testing.T) {
	h, w := newHall(t)
	var waits []int64
	h.inside = func(req *runnerv1.ExchangeRequest) { waits = append(waits, req.GetWaitMs()) }
	h.again.Store(2)
	res, err := runnersOf(w)["HTTP/2"].Exchange(t.Context(), &runnerv1.ExchangeRequest{Session: "ses_1", WaitMs: 20})
	if err != nil || res.GetToken() != "plain" || h.ordinary.Load() != 0 {
		t.Errorf("%v, %v; %d went the ordinary way", res, err, h.ordinary.Load())
	}
	if len(waits) != 3 || waits[0] != 20 || waits[1] >= 20 || waits[2] > waits[1] || waits[2] < 1 {
		t.Errorf("it was to wait for %v ms", waits)
	}
	h.again.Store(1)
	h.inside = func(*runnerv1.ExchangeRequest) { h.refuse = domain.Reject(domain.CodeNotOwner, "Not here.") }
	_, err = runnersOf(w)["HTTP/2"].Exchange(t.Context(), &runnerv1.ExchangeRequest{Session: "ses_1", WaitMs: 20})
	if connect.CodeOf(err) != connect.CodeUnavailable || h.ordinary.Load() != 1 {
		t.Errorf("%v; %d went the ordinary way", err, h.ordinary.Load())
	}
}

func TestAPanicEndsItsExchangeOnly(t *testing.T) {
	_, w := newHall(t)
	for transport, client := range runnersOf(w) {
		if _, err := client.Exchange(t.Context(), &runnerv1.ExchangeRequest{Session: "panic"}); err == nil {
			t.Errorf("%s: answered", transport)
		}
		if _, err := client.Exchange(t.Context(), &runnerv1.ExchangeRequest{Session: "ses_1"}); err != nil {
			t.Errorf("%s: the next one: %v", transport, err)
		}
	}
	if log := w.log.String(); strings.Count(log, "this session") != 2 {
		t.Errorf("the log:\n%s", log)
	}
}

// Everything that is not what a runner sends goes the ordinary way, which knows what to say.
func TestWhatIsNoPlainExchangeGoesTheOrdinaryWay(t *testing.T) {
	h, w := newHall(t)
	body, err := proto.Marshal(&runnerv1.ExchangeRequest{Session: "ses_1"})
	if err != nil {
		t.Fatal(err)
	}
	path := runnerv1connect.RunnerServiceExchangeProcedure
	for name, c := range map[string]struct {
		body    string
		headers []string
		status  int
	}{
		"JSON":            {`{"session":"ses_1"}`, []string{"Content-Type", "application/json"}, http.StatusOK},
		"a credential":    {string(body), []string{"Authorization", "Bearer x"}, http.StatusUnauthorized},
		"another site":    {string(body), []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		"gzip that isn't": {string(body), []string{"Content-Encoding", "gzip"}, http.StatusBadRequest},
		"no message":      {"\xff\xff\xff", nil, http.StatusBadRequest},
		"no time":         {string(body), []string{"Connect-Timeout-Ms", "soon"}, http.StatusBadRequest},
	} {
		headers := append([]string{"Authorization", "", "Content-Type", "application/proto"}, c.headers...)
		if got := w.do(http.MethodPost, path, c.body, headers...); got.status != c.status {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if h.plain.Load() != 0 {
		t.Errorf("%d were taken in", h.plain.Load())
	}
	h.plain.Store(0)
	got := w.do(http.MethodPost, path, string(body), "Authorization", "", "Content-Type", "application/proto")
	if got.status != http.StatusOK || got.head.Get("Fairlead-Request") == "" ||
		got.head.Get("X-Content-Type-Options") != "nosniff" || h.plain.Load() != 1 {
		t.Errorf("a plain one: %+v", got)
	}
}

// The access decision is asked about what is taken in like about everything.
func TestTheAuthorisationPointIsAskedAboutWhatIsTakenIn(t *testing.T) {
	h := &hall{news: make(chan struct{})}
	var asked atomic.Int32
	w := newWorld(t, func(c *Config) {
		c.Runner, c.Polls = h, h
		c.Access = func(_ context.Context, p credential.Principal, a Action, _ Resource) *domain.Rejection {
			if a == ActionRunnerExchange && p.Kind == credential.KindRunner && p.ID == "ses_1" {
				asked.Add(1)
			}
			return domain.Reject(domain.CodeUnauthenticated, "No.")
		}
	})
	_, err := runnersOf(w)["HTTP/2"].Exchange(t.Context(), &runnerv1.ExchangeRequest{Session: "ses_1"})
	if connect.CodeOf(err) != connect.CodeUnauthenticated || asked.Load() == 0 || h.plain.Load() != 0 {
		t.Errorf("%v; asked %d times, %d taken in", err, asked.Load(), h.plain.Load())
	}
	before := asked.Load()
	_, err = w.server.BeginForwarded(t.Context(), &runnerv1.ExchangeRequest{Session: "ses_1"})
	if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeUnauthenticated || asked.Load() != before+1 {
		t.Errorf("of another server: %v; asked %d times", err, asked.Load()-before)
	}
}

func TestAPollOfAnotherServerIsTakenIn(t *testing.T) {
	h, w := newHall(t)
	poll, err := w.server.BeginForwarded(t.Context(), &runnerv1.ExchangeRequest{Session: "ses_1", WaitMs: 20})
	if err != nil || poll == nil || h.plain.Load() != 1 {
		t.Fatalf("%v, %v", poll, err)
	}
	if res, err := poll.End(); err != nil || res.GetToken() != "plain" {
		t.Errorf("%v, %v", res, err)
	}
}

// stubborn is a response that nobody reads; requests that wait need no more.
type stubborn struct{ head http.Header }

func (s *stubborn) Header() http.Header       { return s.head }
func (*stubborn) Write(p []byte) (int, error) { return len(p), nil }
func (*stubborn) WriteHeader(int)             {}

// A time limit for an answer is a message and a timer over HTTP/2, where the connection has one.
func TestAShortAnswerSetsNoTimeLimitOverHTTP2(t *testing.T) {
	_, w := newHall(t)
	body, err := proto.Marshal(&runnerv1.ExchangeRequest{Session: "ses_1"})
	if err != nil {
		t.Fatal(err)
	}
	for version, wanted := range map[int]bool{1: true, 2: false} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, runnerv1connect.RunnerServiceExchangeProcedure,
			bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/proto")
		r.ProtoMajor = version
		limited := &limited{stubborn: stubborn{http.Header{}}}
		if w.server.ServeHTTP(limited, r); limited.set != wanted {
			t.Errorf("HTTP/%d: a limit is set: %v", version, limited.set)
		}
	}
	if limit := w.server.HTTPServer().HTTP2.WriteByteTimeout; limit <= 0 {
		t.Error("a connection of HTTP/2 has no limit")
	}
}

type limited struct {
	stubborn
	set bool
}

func (l *limited) SetWriteDeadline(time.Time) error {
	l.set = true
	return nil
}

// What a poll that waits holds, above net/http: little enough that a hundred thousand fit.
func TestAPollThatWaitsHoldsLittle(t *testing.T) {
	const polls, objectsMost = 2000, 2500
	stackMost := 4600
	if testing.Short() { // under the race detector, which has frames of its own
		stackMost *= 2
	}
	h, w := newHall(t)
	body, err := proto.Marshal(&runnerv1.ExchangeRequest{Session: "ses_1", Resume: strings.Repeat("r", 40), WaitMs: 60_000,
		Offers: []string{"rnr_1/0/1"}})
	if err != nil {
		t.Fatal(err)
	}
	held := func() (objects, stacks uint64) {
		var m runtime.MemStats
		for range 3 { // stacks shrink by half in each collection
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, m.StackInuse
	}
	requests := make([]*http.Request, polls)
	for i := range requests {
		requests[i] = httptest.NewRequestWithContext(t.Context(), http.MethodPost,
			runnerv1connect.RunnerServiceExchangeProcedure, io.NopCloser(bytes.NewReader(body)))
		requests[i].ContentLength = int64(len(body))
		requests[i].Header.Set("Content-Type", "application/proto")
	}
	objects, stacks := held()
	var answered sync.WaitGroup
	for _, r := range requests {
		answered.Go(func() { w.server.ServeHTTP(&stubborn{http.Header{}}, r) })
	}
	for h.waiting.Load() < polls {
		time.Sleep(time.Millisecond)
	}
	objectsThen, stacksThen := held()
	close(h.news)
	answered.Wait()
	if each := int(objectsThen-objects) / polls; each > objectsMost {
		t.Errorf("%d bytes of objects for each; at most %d", each, objectsMost)
	}
	if each := int(stacksThen-stacks) / polls; each > stackMost {
		t.Errorf("%d bytes of stack for each; at most %d", each, stackMost)
	}
	t.Logf("%d bytes of objects, %d of stack", int(objectsThen-objects)/polls, int(stacksThen-stacks)/polls)
}

package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

var (
	testRun     = domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{1, 2, 3}))
	testAttempt = testRun.Job(0).Attempt(1)
	deadAttempt = testRun.Job(0).Attempt(2)
)

// world is a server whose handlers keep their state in memory, behind real HTTP.
type world struct {
	t      testing.TB
	gate   *credential.Gate
	server *Server
	http   *httptest.Server
	token  string
	log    *lockedBuffer

	runs *memoryRuns
	logs *memoryLogs
}

func newWorld(t testing.TB, change ...func(*Config)) *world {
	t.Helper()
	gate, err := credential.OpenGate(t.TempDir(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	gate.Live = func(_ context.Context, c credential.AttemptClaim) bool { return c.Attempt == testAttempt }
	token, err := os.ReadFile(gate.Admin.Path())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, gate: gate, token: strings.TrimSpace(string(token)), log: &lockedBuffer{}}
	w.runs = &memoryRuns{runs: map[string]*fairleadv1.Run{}, keys: map[string]keyed{}, changed: make(chan struct{})}
	w.logs = &memoryLogs{content: []byte("one\ntwo\xff\nthree\n"), sealed: true}
	cfg := Config{
		Runs: w.runs, Logs: w.logs, Repositories: memoryRepositories{}, Pools: memoryPools{},
		Workflows: memoryWorkflows{}, Server: memoryServer{}, Runner: memoryRunner{}, RawLog: w.logs,
		Git: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(out, "git for %s", PrincipalFrom(r.Context()).Kind)
		}),
		Pages: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(out, "page %s for %s", r.URL.Path, PrincipalFrom(r.Context()).ID)
		}),
		Metrics: http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(out,
				"# metrics\n")
		}),
		Gate: gate,
		Log:  slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&cfg)
	}
	w.server = New(cfg)
	w.http = httptest.NewUnstartedServer(w.server)
	w.http.Config = w.server.HTTPServer()
	w.http.Start()
	t.Cleanup(func() {
		w.server.Drain()
		w.http.Close()
	})
	return w
}

// lockedBuffer is a log that a test reads while the server writes.
type lockedBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

// answer is an HTTP answer, read to its end.
type answer struct {
	status int
	head   http.Header
	body   string
}

// info reads the answer as a refusal.
func (a answer) info(t *testing.T) (out struct{ Code, Message, Field, Request string }) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), &out); err != nil || out.Code == "" {
		t.Fatalf("no refusal in %d %q: %v", a.status, a.body, err)
	}
	return out
}

// do sends a request as the administrator. Headers come in pairs; a name with an empty
// value leaves the header out.
func (w *world) do(method, path, body string, headers ...string) answer {
	w.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(w.t.Context(), method, w.http.URL+path, reader)
	if err != nil {
		w.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+w.token)
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Del(headers[i])
		if headers[i+1] != "" {
			request.Header.Set(headers[i], headers[i+1])
		}
	}
	return w.send(request)
}

func (w *world) send(request *http.Request) answer {
	w.t.Helper()
	client := &http.Client{
		Timeout: 20 * time.Second, Transport: w.http.Client().Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		w.t.Fatalf("%s %s: %v", request.Method, request.URL, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatalf("%s %s: %v", request.Method, request.URL, err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

// client calls the server's procedures over Connect as the administrator.
func (w *world) client(options ...connecthttp.Option) *connect.Client {
	return connect.NewClient(connecthttp.NewTransport(w.http.Client(), w.http.URL, options...))
}

// as adds a bearer token, and an idempotency key when key isn't empty.
func as(ctx context.Context, token, key string) context.Context {
	ctx, info := connect.NewClientContext(ctx)
	info.RequestHeader().Set("Authorization", "Bearer "+token)
	if key != "" {
		info.RequestHeader().Set("Idempotency-Key", key)
	}
	return ctx
}

// memoryRuns keeps runs and idempotency keys as a server would, in a map.
type memoryRuns struct {
	fairleadv1connect.UnimplementedRunServiceHandler

	mu      sync.Mutex
	runs    map[string]*fairleadv1.Run
	keys    map[string]keyed
	changed chan struct{}
	cause   domain.Cause
	tokens  []domain.Token
}

type keyed struct {
	digest domain.Digest
	run    string
}

func (m *memoryRuns) CreateRun(ctx context.Context,
	r *fairleadv1.CreateRunRequest) (*fairleadv1.CreateRunResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cause, m.tokens = CauseFrom(ctx), TokensFrom(ctx)
	if before, ok := m.keys[KeyFrom(ctx)]; ok {
		if before.digest != BodyDigest(ctx) {
			return nil, domain.Reject(domain.CodeIdempotencyMismatch, "The key was used with another body.")
		}
		return &fairleadv1.CreateRunResponse{Run: m.runs[before.run], Repeat: true}, nil
	}
	switch r.GetWorkflow() {
	case "broken":
		return nil, &Refusal{
			Rejection:   domain.Reject(domain.CodeWorkflowInvalid, "The workflow has one mistake."),
			Diagnostics: []*fairleadv1.Diagnostic{{Code: "unknown_key", Path: "ci.yml", Line: 3, Column: 5}},
		}
	case "several":
		return nil, fmt.Errorf("select workflow: %w", &Refusal{
			Rejection: domain.Reject(domain.CodeWorkflowAmbiguous, "Several match."), Choices: []string{"a.yml",
				"b.yml"},
		})
	case "fault":
		return nil, errors.New("append run: password=hunter2: disk on fire")
	case "away":
		return nil, fmt.Errorf("append run: %w", domain.ErrRetry)
	case "full":
		return nil, domain.Reject(domain.CodeStorageFull, "The disk is full.")
	case "panic":
		panic("index out of range")
	}
	run := &fairleadv1.Run{Run: string(testRun), Version: 1,
		Summary: &fairleadv1.RunSummary{Number: 1 << 60, Title: r.GetTitle()}}
	m.runs[run.GetRun()] = run
	m.keys[KeyFrom(ctx)] = keyed{BodyDigest(ctx), run.GetRun()}
	return &fairleadv1.CreateRunResponse{Run: run}, nil
}

func (m *memoryRuns) ListRuns(_ context.Context,
	r *fairleadv1.ListRunsRequest) (*fairleadv1.ListRunsResponse, error) {
	return &fairleadv1.ListRunsResponse{Next: fmt.Sprintf("%s/%d", r.GetRepository(), r.GetLimit())}, nil
}

func (m *memoryRuns) GetRun(_ context.Context, r *fairleadv1.GetRunRequest) (*fairleadv1.GetRunResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	run, ok := m.runs[r.GetRun()]
	if !ok {
		return nil, domain.Reject(domain.CodeNotFound, "There is no run "+r.GetRun()+".")
	}
	return &fairleadv1.GetRunResponse{Run: run}, nil
}

// change makes the next version of a run.
func (m *memoryRuns) change(outcome string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := m.runs[string(testRun)].GetVersion() + 1
	m.runs[string(testRun)] = &fairleadv1.Run{Run: string(testRun), Version: next, Outcome: outcome}
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *memoryRuns) WatchRun(ctx context.Context, r *fairleadv1.WatchRunRequest,
	stream fairleadv1connect.RunServiceWatchRunServerStream) error {
	for {
		m.mu.Lock()
		run, changed := m.runs[r.GetRun()], m.changed
		m.mu.Unlock()
		if run == nil {
			return domain.Reject(domain.CodeNotFound, "There is no run "+r.GetRun()+".")
		}
		if err := stream.Send(&fairleadv1.GetRunResponse{Run: run}); err != nil {
			return err
		}
		if run.GetOutcome() != "" {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// memoryLogs is one log.
type memoryLogs struct {
	fairleadv1connect.UnimplementedLogServiceHandler

	mu      sync.Mutex
	content []byte
	sealed  bool
	broken  bool // reading fails in the middle
}

// set changes the log while the server serves.
func (m *memoryLogs) set(content []byte, sealed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.content, m.sealed = content, sealed
}

func (m *memoryLogs) now() (content []byte, sealed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.content, m.sealed
}

func (m *memoryLogs) FollowLog(ctx context.Context, r *fairleadv1.FollowLogRequest,
	stream fairleadv1connect.LogServiceFollowLogServerStream) error {
	if r.GetAttempt() != string(testAttempt) {
		return domain.Reject(domain.CodeNotFound, "There is no attempt "+r.GetAttempt()+".")
	}
	content, sealed := m.now()
	from, end := min(r.GetOffset(), int64(len(content))), int64(len(content))
	if err := stream.Send(&fairleadv1.FollowLogResponse{Data: content[from:], Offset: end, Sealed: sealed}); err != nil {
		return err
	}
	if !sealed {
		<-ctx.Done()
	}
	return nil
}

func (m *memoryLogs) ReadLines(_ context.Context,
	r *fairleadv1.ReadLinesRequest) (*fairleadv1.ReadLinesResponse, error) {
	return &fairleadv1.ReadLinesResponse{TotalLines: r.GetFrom()}, nil
}

func (m *memoryLogs) OpenRaw(_ context.Context, attempt domain.AttemptID, step int64) (*RawBytes, error) {
	if attempt != testAttempt {
		return nil, domain.Reject(domain.CodeNotFound, "There is no attempt "+string(attempt)+".")
	}
	content, sealed := m.now()
	if step != WholeLog {
		content = content[:4]
	}
	return &RawBytes{
		Size: int64(len(content)), Sealed: sealed, Digest: domain.DigestOf(content),
		Write: func(_ context.Context, w io.Writer, offset, length int64) error {
			if m.broken {
				length /= 2
			}
			if _, err := w.Write(content[offset : offset+length]); err != nil || !m.broken {
				return err
			}
			return errors.New("read segment: bad sector")
		},
	}, nil
}

type memoryRepositories struct {
	fairleadv1connect.UnimplementedRepositoryServiceHandler
}

func (memoryRepositories) GetRepository(_ context.Context,
	r *fairleadv1.GetRepositoryRequest) (*fairleadv1.GetRepositoryResponse, error) {
	return &fairleadv1.GetRepositoryResponse{Repository: &fairleadv1.Repository{Name: r.GetRepository()}}, nil
}

type memoryPools struct {
	fairleadv1connect.UnimplementedPoolServiceHandler
}

func (memoryPools) RemoveRunner(context.Context,
	*fairleadv1.RemoveRunnerRequest) (*fairleadv1.RemoveRunnerResponse, error) {
	return &fairleadv1.RemoveRunnerResponse{}, nil
}

type memoryWorkflows struct{}

func (memoryWorkflows) Lint(context.Context, *fairleadv1.LintRequest) (*fairleadv1.LintResponse, error) {
	return &fairleadv1.LintResponse{}, nil
}

type memoryServer struct{}

func (memoryServer) GetServer(context.Context,
	*fairleadv1.GetServerRequest) (*fairleadv1.GetServerResponse, error) {
	return &fairleadv1.GetServerResponse{Version: "test"}, nil
}

type memoryRunner struct{}

func (memoryRunner) Register(context.Context, *runnerv1.RegisterRequest) (*runnerv1.RegisterResponse, error) {
	return &runnerv1.RegisterResponse{Protocol: 1}, nil
}

func (memoryRunner) Exchange(ctx context.Context, r *runnerv1.ExchangeRequest) (*runnerv1.ExchangeResponse, error) {
	if r.GetWaitMs() > 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &runnerv1.ExchangeResponse{Token: PrincipalFrom(ctx).ID}, nil
}

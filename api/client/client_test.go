package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectproto"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// peer is a server that speaks the contract and fails as it is told to.
type peer struct {
	fairleadv1connect.UnimplementedRunServiceHandler
	fairleadv1connect.UnimplementedLogServiceHandler

	mu      sync.Mutex
	failing []error // answered first, one per call; nil cuts the connection
	heads   []http.Header
	log     string
	cutAt   []int // FollowLog ends a stream after that many bytes, one per stream
	version uint64
}

func (p *peer) enter(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	head := http.Header{}
	if info, ok := connect.CallInfoForServerContext(ctx); ok {
		for name, values := range info.RequestHeader().All() {
			head[name] = values
		}
	}
	p.heads = append(p.heads, head)
	if len(p.failing) == 0 {
		return nil
	}
	err := p.failing[0]
	p.failing = p.failing[1:]
	if err == nil {
		panic(http.ErrAbortHandler)
	}
	return err
}

var (
	token1 = domain.Token{Partition: "p", Epoch: 1, Position: 9, Digest: domain.DigestOf([]byte("1"))}
	proof1 = "0123456789abcdef.AAAAAAAAAAAAAAAAAAAAAA"
	token2 = domain.Token{Partition: "p", Epoch: 1, Position: 8, Digest: domain.DigestOf([]byte("2"))}
)

func (p *peer) CreateRun(ctx context.Context,
	_ *fairleadv1.CreateRunRequest) (*fairleadv1.CreateRunResponse, error) {
	if err := p.enter(ctx); err != nil {
		return nil, err
	}
	return &fairleadv1.CreateRunResponse{Token: token1.String(), Proof: proof1}, nil
}

func (p *peer) GetRun(ctx context.Context, _ *fairleadv1.GetRunRequest) (*fairleadv1.GetRunResponse, error) {
	if err := p.enter(ctx); err != nil {
		return nil, err
	}
	return &fairleadv1.GetRunResponse{Token: token2.String()}, nil
}

func (p *peer) WatchRun(ctx context.Context, _ *fairleadv1.WatchRunRequest,
	stream fairleadv1connect.RunServiceWatchRunServerStream) error {
	if err := p.enter(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	p.version++
	now := p.version
	p.mu.Unlock()
	outcome := ""
	if now == 3 {
		outcome = "success"
	}
	// Every stream repeats the version before, as a server does for whoever comes back.
	for _, run := range []*fairleadv1.Run{{Version: now - 1}, {Version: now, Outcome: outcome}} {
		if err := stream.Send(&fairleadv1.GetRunResponse{Run: run}); err != nil {
			return err
		}
	}
	return nil // cut, until it concluded
}

func (p *peer) FollowLog(ctx context.Context, r *fairleadv1.FollowLogRequest,
	stream fairleadv1connect.LogServiceFollowLogServerStream) error {
	if err := p.enter(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	end := len(p.log)
	if len(p.cutAt) > 0 {
		end, p.cutAt = p.cutAt[0], p.cutAt[1:]
	}
	p.mu.Unlock()
	from := max(int(r.GetOffset())-2, 0) // a segment starts before the byte that was asked for
	for at := from; at < end; at++ {
		if err := stream.Send(&fairleadv1.FollowLogResponse{Data: []byte{p.log[at]},
			Offset: int64(at + 1)}); err != nil {
			return err
		}
	}
	if end == len(p.log) {
		return stream.Send(&fairleadv1.FollowLogResponse{Sealed: true, Offset: int64(end)})
	}
	return nil
}

func serve(t *testing.T, p *peer) *httptest.Server {
	t.Helper()
	server, mux := connect.NewServer(), http.NewServeMux()
	fairleadv1connect.RegisterRunServiceHandler(server, p)
	fairleadv1connect.RegisterLogServiceHandler(server, p)
	connecthttp.Mount(mux, server)
	out := httptest.NewServer(mux)
	t.Cleanup(out.Close)
	return out
}

func newClient(t *testing.T, address string, patience time.Duration) *Client {
	t.Helper()
	c, err := New(address, domain.NewSecret("fla_test"), Options{Patience: patience})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func refused(code connect.Code, name string) error { return refusedFor(code, name, "run") }

func refusedFor(code connect.Code, name, field string) error {
	err := connect.NewError(code, "no")
	detail, _ := connectproto.NewErrorDetail(&fairleadv1.ErrorInfo{Code: name, Message: "no", Field: field})
	return err.WithDetail(detail)
}

// Promises: [CMD-8].
func TestAWriteKeepsItsKeyOverEveryTry(t *testing.T) {
	p := &peer{failing: []error{refused(connect.CodeUnavailable, "not_owner"), nil,
		connect.NewError(connect.CodeUnavailable, "")}}
	c := newClient(t, serve(t, p).URL, time.Minute)
	c.reached.Store(true)
	if _, err := c.Runs.CreateRun(t.Context(), &fairleadv1.CreateRunRequest{}); err != nil {
		t.Fatal(err)
	}
	if len(p.heads) != 4 {
		t.Fatalf("%d tries", len(p.heads))
	}
	for _, head := range p.heads {
		if key := head.Get("Idempotency-Key"); key == "" || key != p.heads[0].Get("Idempotency-Key") {
			t.Errorf("keys %q and %q", p.heads[0].Get("Idempotency-Key"), key)
		}
		if head.Get("Authorization") != "Bearer fla_test" {
			t.Errorf("authorization %q", head.Get("Authorization"))
		}
	}
	_, _ = c.Runs.CreateRun(t.Context(), &fairleadv1.CreateRunRequest{})
	if p.heads[4].Get("Idempotency-Key") == p.heads[0].Get("Idempotency-Key") {
		t.Error("two wishes have the same key")
	}
	_, _ = c.Runs.CreateRun(WithKey(t.Context(), "mine"), &fairleadv1.CreateRunRequest{})
	if p.heads[5].Get("Idempotency-Key") != "mine" {
		t.Error("the caller's key is lost")
	}
}

func TestRefusalsAreNotTriedAgain(t *testing.T) {
	p := &peer{failing: []error{refused(connect.CodeFailedPrecondition, "run_concluded")}}
	c := newClient(t, serve(t, p).URL, time.Minute)
	_, err := c.Runs.CreateRun(t.Context(), &fairleadv1.CreateRunRequest{})
	if answer := Refusal(err); answer.GetCode() != "run_concluded" || len(p.heads) != 1 || Unreachable(err) {
		t.Errorf("%v after %d tries", err, len(p.heads))
	}
	if got := Explain(err); got != "no (run_concluded, field run)" {
		t.Errorf("explained as %q", got)
	}
}

func TestAServerThatIsNotThereIsToldAtOnce(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + listener.Addr().String()
	_ = listener.Close()
	c := newClient(t, address, time.Hour)
	if _, err := c.Runs.GetRun(t.Context(), &fairleadv1.GetRunRequest{}); !Unreachable(err) {
		t.Errorf("got %v", err)
	}
	if err := c.FollowRun(t.Context(), &fairleadv1.WatchRunRequest{}, nil); !Unreachable(err) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Runs.GetRun(ctx, &fairleadv1.GetRunRequest{}); Unreachable(err) || err == nil {
		t.Errorf("the caller's own end is taken for the server's: %v", err)
	}
}

func TestPatienceEnds(t *testing.T) {
	p := &peer{}
	for range 1000 {
		p.failing = append(p.failing, refused(connect.CodeUnavailable, "unavailable"))
	}
	c := newClient(t, serve(t, p).URL, 200*time.Millisecond)
	if _, err := c.Runs.GetRun(t.Context(), &fairleadv1.GetRunRequest{}); Refusal(err).GetCode() != "unavailable" {
		t.Errorf("got %v", err)
	}
	if len(p.heads) < 2 || len(p.heads) > 100 {
		t.Errorf("%d tries", len(p.heads))
	}
}

func TestTokensArePresentedAndOnlyGrow(t *testing.T) {
	p := &peer{}
	c := newClient(t, serve(t, p).URL, time.Minute)
	for range 2 {
		if _, err := c.Runs.CreateRun(t.Context(), &fairleadv1.CreateRunRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Runs.GetRun(t.Context(), &fairleadv1.GetRunRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"", token1.String(), token1.String(), token1.String()} {
		if got := p.heads[i].Get("Fairlead-Token"); got != want {
			t.Errorf("call %d presents %q, want %q", i, got, want)
		}
		if got := p.heads[i].Get("Fairlead-Proof"); (got == "p="+proof1) != (want != "") {
			t.Errorf("call %d presents the proof %q", i, got)
		}
	}
	p.failing = []error{refusedFor(connect.CodeOutOfRange, string(domain.CodeTokenUnproved), "Fairlead-Token[p]")}
	if _, err := c.Runs.GetRun(t.Context(), &fairleadv1.GetRunRequest{}); Refusal(err) == nil {
		t.Fatalf("a refused token: %v", err)
	}
	if _, err := c.Runs.GetRun(t.Context(), &fairleadv1.GetRunRequest{}); err != nil || len(p.heads) != 6 ||
		p.heads[4].Get("Fairlead-Token") == "" || p.heads[5].Get("Fairlead-Token")+p.heads[5].Get("Fairlead-Proof") != "" {
		t.Fatalf("after a token was refused %v is presented, %v", p.heads[len(p.heads)-1], err)
	}
	c.note(&fairleadv1.CreateRegistrationTokenResponse{Token: "frt_secret"})
	if strings.Contains(headersOf(c.tokens())["Fairlead-Token"], "frt_") {
		t.Error("a registration token is presented as acknowledgement")
	}
}

func TestFollowRunComesBackAndTellsEveryVersionOnce(t *testing.T) {
	p := &peer{failing: []error{nil}} // the first connection breaks
	c := newClient(t, serve(t, p).URL, time.Minute)
	c.reached.Store(true)
	var versions []uint64
	err := c.FollowRun(t.Context(), &fairleadv1.WatchRunRequest{Run: "r"},
		func(r *fairleadv1.GetRunResponse) error {
			versions = append(versions, r.GetRun().GetVersion())
			return nil
		})
	if err != nil || len(versions) != 4 || versions[3] != 3 {
		t.Errorf("%v, versions %v", err, versions)
	}
	enough := errors.New("enough")
	p.version = 0
	if err := c.FollowRun(t.Context(), &fairleadv1.WatchRunRequest{},
		func(*fairleadv1.GetRunResponse) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	p.failing = []error{refused(connect.CodeNotFound, "not_found")}
	if err := c.FollowRun(t.Context(), &fairleadv1.WatchRunRequest{}, nil); Refusal(err).GetCode() != "not_found" {
		t.Errorf("got %v", err)
	}
}

// Promises: [LOG-7].
func TestFollowLogHasNoGapAndNoRepeat(t *testing.T) {
	p := &peer{log: strings.Repeat("0123456789", 20), cutAt: []int{5, 5, 42, 120}}
	p.failing = []error{nil, nil}
	c := newClient(t, serve(t, p).URL, time.Minute)
	c.reached.Store(true)
	var got strings.Builder
	next, err := c.FollowLog(t.Context(), &fairleadv1.FollowLogRequest{Attempt: "a", Offset: 3},
		func(content []byte, offset int64) error {
			if offset != int64(3+got.Len()) {
				t.Errorf("byte %d came as %d", 3+got.Len(), offset)
			}
			_, err := got.Write(content)
			return err
		})
	if err != nil || got.String() != p.log[3:] || next != int64(len(p.log)) {
		t.Errorf("%v, next %d, got %q", err, next, got.String())
	}
}

func TestRawLog(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/attempts/att_1/log" || r.URL.Query().Get("step") != "2" ||
			r.URL.Query().Get("offset") != "7" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"code":"not_found","message":"no","new_field":1}`)
			return
		}
		_, _ = io.WriteString(w, r.Header.Get("Authorization"))
	}))
	defer server.Close()
	c := newClient(t, server.URL, 0)
	body, err := c.RawLog(t.Context(), "att_1", 2, 7)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = body.Close() }()
	if content, err := io.ReadAll(body); err != nil || string(content) != "Bearer fla_test" {
		t.Errorf("%q %v", content, err)
	}
	if _, err := c.RawLog(t.Context(), "att_2", -1, 0); Refusal(err).GetCode() != "not_found" {
		t.Errorf("got %v", err)
	}
}

func TestLocate(t *testing.T) {
	folder := t.TempDir()
	if _, err := LocateIn(folder); !errors.Is(err, ErrNoServer) {
		t.Errorf("an empty folder: %v", err)
	}
	tokenFile := filepath.Join(folder, "credentials", "admin-token")
	if err := errors.Join(os.MkdirAll(filepath.Dir(tokenFile), 0o700), os.WriteFile(tokenFile,
		[]byte("fla_x\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := WriteDiscovery(folder, "http://127.0.0.1:1", tokenFile); err != nil {
		t.Fatal(err)
	}
	if stat, err := os.Stat(filepath.Join(folder, "client.json")); err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", stat, err)
	}
	for name, c := range map[string]struct {
		env           map[string]string
		server, token string
	}{
		"variables first": {map[string]string{"FAIRLEAD_SERVER": "http://h", "FAIRLEAD_TOKEN": "t",
			"FAIRLEAD_DATA": folder}, "http://h", "t"},
		"data folder":    {map[string]string{"FAIRLEAD_DATA": folder}, "http://127.0.0.1:1", "fla_x"},
		"default folder": {map[string]string{"XDG_DATA_HOME": filepath.Dir(folder)}, "", ""},
		"half a pair":    {map[string]string{"FAIRLEAD_SERVER": "http://h", "FAIRLEAD_DATA": folder}, "", ""},
		"no home":        {nil, "", ""},
	} {
		place, err := Locate(func(name string) string { return c.env[name] })
		if (err == nil) != (c.server != "") || place.Server != c.server || place.Token.Reveal() != c.token {
			t.Errorf("%s: %+v %v", name, place, err)
		}
	}
	if _, err := New("ftp://x", domain.Secret{}, Options{}); err == nil {
		t.Error("accepted the address ftp://x")
	}
}

// Promises: [FORMAT-8].
func TestJSONIsThatOfTheAPI(t *testing.T) {
	got, err := JSON(&fairleadv1.Attempt{FailureClass: "user_code"})
	if err != nil || !strings.Contains(string(got), `"failure_class":"user_code"`) ||
		!strings.Contains(string(got), `"outcome":""`) {
		t.Errorf("%s %v", got, err)
	}
}

// A server that says when to come back is asked again then, with the same key; if that is beyond
// the end of patience, the refusal is told at once.
func TestAServerThatSaysWhenIsAskedAgainThen(t *testing.T) {
	t.Parallel()
	shed := func(after int32) error {
		err := connect.NewError(connect.CodeResourceExhausted, "too many")
		detail, problem := connectproto.NewErrorDetail(&fairleadv1.ErrorInfo{Code: string(domain.CodeTooManyOpenJobs),
			RetryAfterSeconds: after})
		if problem != nil {
			t.Fatal(problem)
		}
		return err.WithDetail(detail)
	}
	p := &peer{failing: []error{shed(1)}}
	begun := time.Now()
	if _, err := newClient(t, serve(t, p).URL, time.Minute).Runs.CreateRun(t.Context(),
		&fairleadv1.CreateRunRequest{}); err != nil || len(p.heads) != 2 || time.Since(begun) < time.Second {
		t.Errorf("%d calls within %s: %v", len(p.heads), time.Since(begun), err)
	}
	if p.heads[0].Get("Idempotency-Key") != p.heads[1].Get("Idempotency-Key") {
		t.Error("it came back with another key")
	}
	for _, hopeless := range []error{shed(3600), shed(0)} {
		p = &peer{failing: []error{hopeless, hopeless}}
		_, err := newClient(t, serve(t, p).URL, time.Minute).Runs.CreateRun(t.Context(), &fairleadv1.CreateRunRequest{})
		if Refusal(err).GetCode() != string(domain.CodeTooManyOpenJobs) || len(p.heads) != 1 {
			t.Errorf("%d calls: %v", len(p.heads), err)
		}
	}
}

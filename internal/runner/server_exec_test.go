package runner

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectproto"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/runner/v1/runnerv1connect"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/manifest"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

const (
	registrationToken = "once-only"
	attemptToken      = "attempt-token-canary"
)

// peer is the server's side of the protocol: it checks what a runner may do, grants
// leases for what tests queue, and keeps what it is told.
type peer struct {
	t       testing.TB
	addr    string
	runner  string
	keyID   string
	public  ed25519.PublicKey
	private ed25519.PrivateKey
	rotated []*runnerv1.SigningKey // what polls that lack one of them are told
	repo    string                 // bare repository behind /source/test.git

	mu         sync.Mutex
	change     chan struct{} // closed and renewed with every change
	serving    *http.Server
	digest     string
	timing     *runnerv1.Timing
	sequence   uint64
	used       map[string]bool // slot tokens that were lent
	offers     []string
	queue      []*manifest.Manifest
	tamper     func(*runnerv1.Lease)
	attempts   map[string]*told
	cancels    map[string]*runnerv1.Cancel
	dead       map[string]bool // attempts whose lease is gone
	refused    map[string]string
	holdAcks   bool
	exchanges  int
	violations []string
}

// told is what the server knows of an attempt.
type told struct {
	epoch    uint64
	chunks   map[uint64]*runnerv1.Chunk
	progress uint64
	observed string
	steps    []*runnerv1.Step
	results  []*runnerv1.Result
	known    bool // its cancellation was taken
	renewals int
	declined string
}

func newPeer(t testing.TB) *peer {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{
		t: t, runner: newID(domain.PrefixRunner), keyID: "k1", public: public, private: private,
		change: make(chan struct{}), used: make(map[string]bool), attempts: make(map[string]*told),
		cancels: make(map[string]*runnerv1.Cancel), dead: make(map[string]bool), refused: make(map[string]string),
		timing: &runnerv1.Timing{PollMs: 2000, RenewMs: 300, LeaseMs: 2000, AbandonMs: 20_000, GraceMs: 1000},
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.addr = l.Addr().String()
	p.serve(l)
	t.Cleanup(func() {
		p.down()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, v := range p.violations {
			t.Errorf("the runner broke the protocol: %s", v)
		}
	})
	return p
}

func newID(prefix string) string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return domain.EncodeID(prefix, id)
}

func (p *peer) url() string { return "http://" + p.addr }

func (p *peer) serve(l net.Listener) {
	server := connect.NewServer()
	runnerv1connect.RegisterRunnerServiceHandler(server, p)
	mux := http.NewServeMux()
	connecthttp.Mount(mux, server, connecthttp.WithReadMaxBytes(64<<20))
	mux.HandleFunc("/source/", p.source)
	p.serving = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func(s *http.Server) { _ = s.Serve(l) }(p.serving)
}

// down makes the server disappear in the middle of whatever it does.
func (p *peer) down() {
	p.mu.Lock()
	s := p.serving
	p.mu.Unlock()
	_ = s.Close()
}

// up brings it back with what it knew.
func (p *peer) up() {
	p.t.Helper()
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serve(l)
}

func (p *peer) source(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+attemptToken {
		http.Error(w, "no", http.StatusForbidden)
		return
	}
	if r.Header.Get("Git-Protocol") != "" {
		http.Error(w, "version 0 only", http.StatusBadRequest)
		return
	}
	git, err := exec.LookPath("git")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := &cgi.Handler{
		Path: git, Args: []string{"http-backend"}, Root: "/source/test.git",
		Env: []string{"GIT_PROJECT_ROOT=" + p.repo, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1",
			"GIT_CONFIG_GLOBAL=/dev/null"},
	}
	h.ServeHTTP(w, r)
}

func (p *peer) violate(format string, args ...any) {
	p.violations = append(p.violations, fmt.Sprintf(format, args...))
}

func (p *peer) changed() {
	close(p.change)
	p.change = make(chan struct{})
}

// update changes what the server knows or wants.
func (p *peer) update(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.changed()
}

// await waits until something holds.
func (p *peer) await(what string, holds func() bool) {
	p.t.Helper()
	deadline := time.After(60 * time.Second)
	for {
		p.mu.Lock()
		ok, change := holds(), p.change
		p.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-change:
		case <-deadline:
			p.t.Fatalf("%s: not within a minute", what)
		}
	}
}

// worded makes an error as servers give it.
func worded(code connect.Code, word string) error {
	detail, err := connectproto.NewErrorDetail(&fairleadv1.ErrorInfo{Code: word, Message: word})
	if err != nil {
		return err
	}
	return connect.NewError(code, word).WithDetail(detail)
}

func (p *peer) Register(_ context.Context, req *runnerv1.RegisterRequest) (*runnerv1.RegisterResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.digest != "" && req.GetResumeDigest() != p.digest || req.GetToken() != registrationToken {
		return nil, connect.NewError(connect.CodePermissionDenied, "registration_token_invalid")
	}
	p.digest = req.GetResumeDigest()
	return &runnerv1.RegisterResponse{
		Protocol: 1, Runner: p.runner, Session: "ses_test", Pool: "default", Timing: p.timing,
		Keys: []*runnerv1.SigningKey{{Id: p.keyID, Ed25519: p.public}},
	}, nil
}

func (p *peer) Exchange(ctx context.Context, req *runnerv1.ExchangeRequest) (*runnerv1.ExchangeResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if req.GetSession() != "ses_test" || domain.DigestOf([]byte(req.GetResume())).Hex() != p.digest {
		return nil, worded(connect.CodeUnauthenticated, "unauthenticated")
	}
	p.exchanges++
	p.hear(req)
	p.changed()
	until := time.NewTimer(time.Duration(req.GetWaitMs()) * time.Millisecond)
	defer until.Stop()
	for {
		resp := p.answer(req)
		if req.GetWaitMs() == 0 || len(resp.GetLeases())+len(resp.GetCancels()) > 0 {
			return resp, nil
		}
		change := p.change
		p.mu.Unlock()
		var err error
		done := false
		select {
		case <-change:
		case <-until.C:
			done = true
		case <-ctx.Done():
			err = ctx.Err()
		}
		p.mu.Lock()
		if err != nil || done {
			return p.answer(req), err
		}
	}
}

// hear takes everything that goes up.
func (p *peer) hear(req *runnerv1.ExchangeRequest) {
	for _, o := range req.GetOffers() {
		if !strings.HasPrefix(o, p.runner+"/") {
			p.violate("offer %q", o)
		}
	}
	if req.GetSequence() > p.sequence || req.GetSequence() == 1 {
		p.sequence = req.GetSequence()
		if req.GetWaitMs() > 0 || len(req.GetOffers()) > 0 || req.GetDraining() {
			p.offers = req.GetOffers()
		}
	}
	for _, d := range req.GetDeclines() {
		p.attempt(d.GetAttempt(), d.GetEpoch()).declined = d.GetReason()
	}
	for _, r := range req.GetRenewals() {
		a := p.attempt(r.GetAttempt(), r.GetEpoch())
		a.renewals++
		a.observed = r.GetObserved()
	}
	for _, k := range req.GetKnownCancels() {
		p.attempt(k, 0).known = true
		delete(p.cancels, k)
	}
	for _, c := range req.GetChunks() {
		a := p.attempt(c.GetAttempt(), c.GetEpoch())
		if c.GetChecksum() != domain.Checksum(c.GetData()) {
			p.violate("checksum of chunk %d", c.GetSequence())
		}
		if old := a.chunks[c.GetSequence()]; old != nil && old.GetChecksum() != c.GetChecksum() {
			p.violate("chunk %d came with two contents", c.GetSequence())
		}
		a.chunks[c.GetSequence()] = c
	}
	for _, g := range req.GetProgress() {
		a := p.attempt(g.GetAttempt(), g.GetEpoch())
		a.progress = max(a.progress, g.GetSequence())
		a.steps = append(a.steps, g.GetSteps()...)
	}
	for _, r := range req.GetResults() {
		a := p.attempt(r.GetAttempt(), r.GetEpoch())
		if n := len(a.results); n > 0 && a.results[n-1].GetDigest() != r.GetDigest() {
			p.violate("attempt %s has two results", r.GetAttempt())
		}
		a.results = append(a.results, r)
	}
}

func (p *peer) attempt(id string, epoch uint64) *told {
	a := p.attempts[id]
	if a == nil {
		a = &told{chunks: make(map[uint64]*runnerv1.Chunk), epoch: epoch}
		p.attempts[id] = a
	}
	return a
}

// answer says everything that goes down now.
func (p *peer) answer(req *runnerv1.ExchangeRequest) *runnerv1.ExchangeResponse {
	resp := &runnerv1.ExchangeResponse{Timing: p.timing}
	for _, r := range req.GetRenewals() {
		resp.Renewals = append(resp.Renewals, &runnerv1.RenewalReply{
			Attempt: r.GetAttempt(), Epoch: r.GetEpoch(), Live: !p.dead[r.GetAttempt()],
			LeaseMs: p.timing.GetLeaseMs(), AbandonMs: p.timing.GetAbandonMs(),
		})
	}
	for _, c := range p.cancels {
		resp.Cancels = append(resp.Cancels, c)
	}
	if !p.holdAcks {
		for id, a := range p.attempts {
			ack := &runnerv1.Ack{Attempt: id, Epoch: a.epoch, Progress: a.progress, Result: len(a.results) > 0,
				Refused: p.refused[id]}
			for a.chunks[ack.GetChunks()+1] != nil {
				ack.Chunks++
			}
			resp.Acks = append(resp.Acks, ack)
		}
	}
	// Leases go down the poll alone, and each token is lent once.
	if req.GetWaitMs() == 0 {
		return resp
	}
	if slices.ContainsFunc(p.rotated, func(k *runnerv1.SigningKey) bool {
		return !slices.Contains(req.GetKnownKeys(), k.GetId())
	}) {
		resp.Keys = p.rotated
	}
	for len(p.queue) > 0 {
		at := slices.IndexFunc(p.offers, func(o string) bool { return !p.used[o] })
		if at < 0 {
			break
		}
		m := p.queue[0]
		p.queue = p.queue[1:]
		p.used[p.offers[at]] = true
		m.Slot = domain.SlotToken(p.offers[at])
		resp.Leases = append(resp.Leases, p.lease(m))
	}
	return resp
}

func (p *peer) lease(m *manifest.Manifest) *runnerv1.Lease {
	text, err := m.Encode()
	if err != nil {
		p.violate("%v", err)
	}
	l := &runnerv1.Lease{
		Attempt: string(m.Attempt), Epoch: m.Epoch, Slot: string(m.Slot), Manifest: text, KeyId: p.keyID,
		Signature: ed25519.Sign(p.private, text), LeaseMs: p.timing.GetLeaseMs(), AbandonMs: p.timing.GetAbandonMs(),
	}
	if p.tamper != nil {
		p.tamper(l)
	}
	return l
}

// order makes a manifest for a job of these steps.
func (p *peer) order(steps ...plan.Step) *manifest.Manifest {
	for i := range steps {
		steps[i].Index = i
		if steps[i].Uses == "" {
			steps[i].Uses = plan.UsesRun
		}
		if steps[i].ID == "" {
			steps[i].ID = fmt.Sprintf("__run_%d", i)
		}
		if steps[i].Name == "" {
			steps[i].Name = fmt.Sprintf("Step %d", i)
		}
	}
	run := domain.RunID(newID(domain.PrefixRun))
	return &manifest.Manifest{
		Version: manifest.Version, Tenant: domain.DefaultTenant, Run: run, Job: run.Job(0), Attempt: run.Job(0).Attempt(1),
		Number: 1, Round: 1, Epoch: 1, Runner: domain.RunnerID(p.runner), Pool: "default",
		Issued: time.Now().UTC(), Expires: time.Now().Add(time.Minute).UTC(), Tier: domain.TierTrusted,
		Network: "pool", RepositoryName: "acme/shop", JobKey: "test", JobName: "test", Token: attemptToken,
		Source: manifest.Source{Path: "/source/test.git", Ref: "refs/heads/main", Commit: strings.Repeat("0", 40)},
		Github: json.RawMessage(`{"event":{}}`), Steps: steps, TimeoutSeconds: 120, IdempotencyKey: "key",
		Limits: manifest.Limits{GraceSeconds: 1},
	}
}

// start queues a job and returns its attempt.
func (p *peer) start(m *manifest.Manifest) string {
	p.update(func() { p.queue = append(p.queue, m) })
	return string(m.Attempt)
}

// result waits for an attempt's result, with its whole log.
func (p *peer) result(attempt string) *runnerv1.Result {
	p.t.Helper()
	var r *runnerv1.Result
	p.await("the result of "+attempt, func() bool {
		a := p.attempts[attempt]
		if a == nil || len(a.results) == 0 {
			return false
		}
		r = a.results[0]
		return uint64(len(a.chunks)) >= r.GetLogEnd()
	})
	return r
}

// log is what the steps of an attempt printed; "" while there is a gap.
func (p *peer) log(attempt string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logNow(attempt)
}

func (p *peer) logNow(attempt string) string {
	a := p.attempts[attempt]
	if a == nil {
		return ""
	}
	var out strings.Builder
	for n := uint64(1); n <= uint64(len(a.chunks)); n++ {
		c := a.chunks[n]
		if c == nil {
			return ""
		}
		if c.GetStream() == 1 {
			out.Write(c.GetData())
		}
	}
	return out.String()
}

// logged waits until an attempt's log holds text.
func (p *peer) logged(attempt, text string) {
	p.t.Helper()
	p.await(fmt.Sprintf("%q in the log", text), func() bool { return strings.Contains(p.logNow(attempt), text) })
}

// commitAll makes a repository with these files and returns the commit on main.
func (p *peer) commitAll(files map[string]string) string {
	p.t.Helper()
	work := filepath.Join(p.t.TempDir(), "work")
	p.repo = filepath.Join(p.t.TempDir(), "test.git")
	git := func(dir string, args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		out, err := cmd.CombinedOutput()
		if err != nil {
			p.t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("/", "init", "-q", "-b", "main", work)
	for i := range 2 { // a history, so that depth one is shallow
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(work, name), []byte(strings.Repeat(text, i+1)), 0o644); err != nil {
				p.t.Fatal(err)
			}
		}
		git(work, "add", "-A")
		git(work, "commit", "-q", "-m", fmt.Sprint("commit ", i))
	}
	git("/", "clone", "-q", "--bare", work, p.repo)
	return git(work, "rev-parse", "HEAD")
}

package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectproto"
	"google.golang.org/protobuf/proto"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/scm/git"
	"github.com/fairlead-ci/fairlead/internal/workflow"
)

const doubleToken = "fla_0123456789abcdef0123456789abcdef"

// double is a small honest server: real HTTP by the contract, real mirrors that real git
// pushes to, keys that act once, runs that go through their states. It only executes
// nothing: a scenario says what the jobs of a run print and how they end.
type double struct {
	fairleadv1connect.UnimplementedRunServiceHandler
	fairleadv1connect.UnimplementedLogServiceHandler
	fairleadv1connect.UnimplementedRepositoryServiceHandler
	fairleadv1connect.UnimplementedPoolServiceHandler

	mirrors *git.Mirrors
	listen  string
	http    *http.Server

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change
	minted  byte
	repos   []*fairleadv1.Repository
	runs    []*doubleRun
	keys    map[string]*doubleReply
	calls   []string
	asked   []string // paths of all requests, in their order
	runners []*fairleadv1.Runner
	streams int // logs that were followed since somebody waited for one
	watches int // runs

	// The scenario of runs that are accepted from now on.
	plan, ends string
	hold       bool // runs wait for release after their first bytes
	logText    string
	refusal    *fairleadv1.ErrorInfo // of the next CreateRun
	late       bool                  // the next CreateRun is not answered in time
	warnings   []*fairleadv1.Diagnostic

	withdrawals []*fairleadv1.Withdrawal // as the last call left them
}

type doubleReply struct {
	body string
	run  *doubleRun
}

// doubleRun is a run with the logs of its attempts.
type doubleRun struct {
	run  *fairleadv1.Run
	logs map[string]*doubleLog
	rest func() // what happens when it is released
}

type doubleLog struct {
	content []byte
	sealed  bool
}

func newDouble(ctx context.Context, folder string) (*double, error) {
	mirrors, err := git.New(ctx, git.Config{Root: folder, AllowLoopback: true, AllowPrivate: true})
	if err != nil {
		return nil, err
	}
	d := &double{mirrors: mirrors, changed: make(chan struct{}), keys: map[string]*doubleReply{}, plan: "one",
		ends: "success", logText: "hello\nworld\n"}
	d.runners = []*fairleadv1.Runner{{Runner: d.mint("rnr"), Name: "laptop", Pool: "default", Capacity: 2,
		Isolation: "oci", Version: "1", State: "connected", LastSeen: doubleTime, Labels: []string{"linux", "gpu"}}}
	return d, d.start("127.0.0.1:0")
}

const doubleTime = "2026-01-02T03:04:05.000000Z"

// start serves on an address. After stop it can be started again on the same one.
func (d *double) start(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	d.listen = listener.Addr().String()
	rpc, mux := connect.NewServer(), http.NewServeMux()
	fairleadv1connect.RegisterRunServiceHandler(rpc, d)
	fairleadv1connect.RegisterLogServiceHandler(rpc, d)
	fairleadv1connect.RegisterRepositoryServiceHandler(rpc, d)
	fairleadv1connect.RegisterPoolServiceHandler(rpc, d)
	fairleadv1connect.RegisterServerServiceHandler(rpc, doubleServer{})
	fairleadv1connect.RegisterSignInServiceHandler(rpc, doubleServer{})
	connecthttp.Mount(mux, rpc)
	mux.HandleFunc("GET /api/v1/attempts/{attempt}/log", d.rawLog)
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("/git/", d.mirrors.Handler(func(_ context.Context, _ *http.Request, target git.Target) (git.Access, error) {
		return git.Access{Repo: target.Repo, Push: target.Push, Principal: "admin"}, nil
	}, git.HandlerOptions{}))
	d.http = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		d.asked = append(d.asked, r.URL.Path)
		d.mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer "+doubleToken && r.URL.Path != "/healthz" {
			answer, _ := proto.Marshal(&fairleadv1.ErrorInfo{Code: "unauthenticated", Message: "Who are you?"})
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"code":"unauthenticated","details":[{"type":"fairlead.v1.ErrorInfo","value":"%s"}]}`,
				base64.RawStdEncoding.EncodeToString(answer))
			return
		}
		mux.ServeHTTP(w, r)
	})}
	go func() { _ = d.http.Serve(listener) }()
	return nil
}

// stop cuts every connection, as a killed server does.
func (d *double) stop() error { return d.http.Close() }

// mint makes an identifier; the caller holds mu, or nobody else knows d.
func (d *double) mint(prefix string) string {
	d.minted++
	return domain.EncodeID(prefix, [16]byte{0: 1, 15: d.minted})
}

// touch says that something changed; the caller holds mu.
func (d *double) touch() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// await returns when done says so, under mu.
func (d *double) await(ctx context.Context, done func() bool) error {
	for {
		d.mu.Lock()
		ok, changed := done(), d.changed
		d.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (d *double) note(format string, args ...any) {
	d.calls = append(d.calls, fmt.Sprintf(format, args...))
}

// no is a refusal as a server sends it.
func no(code connect.Code, answer *fairleadv1.ErrorInfo) error {
	err := connect.NewError(code, answer.GetMessage())
	detail, problem := connectproto.NewErrorDetail(answer)
	if problem != nil {
		return problem
	}
	return err.WithDetail(detail)
}

func absent(what string) error {
	return no(connect.CodeNotFound, &fairleadv1.ErrorInfo{Code: "not_found", Message: "There is no such " + what + ".",
		Field: what})
}

// keyOf is the idempotency key of a write. A write without one is refused.
func keyOf(ctx context.Context) (string, error) {
	if call, ok := connect.CallInfoForServerContext(ctx); ok {
		if key := call.RequestHeader().Get("Idempotency-Key"); key != "" {
			return key, nil
		}
	}
	return "", no(connect.CodeInvalidArgument, &fairleadv1.ErrorInfo{Code: "invalid_argument",
		Message: "The header Idempotency-Key is missing."})
}

func (d *double) find(id string) *doubleRun {
	for _, r := range d.runs {
		if r.run.GetRun() == id {
			return r
		}
	}
	return nil
}

// CreateRun finds repository and commit, and accepts.
func (d *double) CreateRun(ctx context.Context, q *fairleadv1.CreateRunRequest) (*fairleadv1.CreateRunResponse, error) {
	key, err := keyOf(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note("CreateRun workflow=%s event=%s ref=%s captured=%v inputs=%v", q.GetWorkflow(), q.GetEvent(), q.GetRef(),
		q.GetCaptured(), q.GetInputs())
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(q)
	if err != nil {
		return nil, err
	}
	if reply := d.keys[key]; reply != nil && reply.body != string(body) {
		return nil, no(connect.CodeFailedPrecondition, &fairleadv1.ErrorInfo{Code: "idempotency_mismatch",
			Message: "This key was used for another request."})
	} else if reply != nil {
		return &fairleadv1.CreateRunResponse{Run: proto.CloneOf(reply.run.run), Repeat: true}, nil
	}
	repo := d.repository(q.GetRepository())
	if repo == nil {
		return nil, absent("repository")
	}
	summary := &fairleadv1.RunSummary{Repository: repo.GetRepository(), RepositoryName: repo.GetName(),
		Workflow: ".fairlead/workflows/ci.yml", WorkflowName: "ci", Event: "push", Ref: q.GetRef(), Commit: q.GetCommit(),
		Actor: "admin", State: "queued", Desired: "run", Round: 1, Created: doubleTime, Number: uint64(len(d.runs) + 1)}
	if q.GetCommit() != "" {
		commit, _, err := d.mirrors.Read(ctx, mirror(repo), q.GetCommit(), scm.Query{})
		if err != nil {
			return nil, no(connect.CodeFailedPrecondition, &fairleadv1.ErrorInfo{Code: "commit_not_found", Field: "commit",
				Message: "The repository has no commit " + q.GetCommit() + "."})
		}
		summary.Title = commit.Title()
	}
	if answer := d.refusal; answer != nil {
		d.refusal = nil
		return nil, no(connect.CodeFailedPrecondition, answer)
	}
	r := d.accept(summary)
	d.keys[key] = &doubleReply{body: string(body), run: r}
	if d.late {
		d.late = false
		return nil, no(connect.CodeDeadlineExceeded, &fairleadv1.ErrorInfo{Code: "deadline_exceeded",
			Message: "There was no answer in time."})
	}
	return &fairleadv1.CreateRunResponse{Run: proto.CloneOf(r.run), Warnings: d.warnings}, nil
}

// accept makes a run by the scenario and lets it go as far as that says.
func (d *double) accept(summary *fairleadv1.RunSummary) *doubleRun {
	id := domain.RunID(d.mint("run"))
	summary.Run = string(id)
	r := &doubleRun{run: &fairleadv1.Run{Run: string(id), Summary: summary, Desired: "run", Tier: "trusted",
		Class: "interactive", Version: 1, Url: "http://" + d.listen + "/runs/" + string(id)}, logs: map[string]*doubleLog{}}
	keys := map[string][]string{"one": {"test"}, "two": {"test", "deploy"}}[d.plan]
	for i, key := range keys {
		job := &fairleadv1.Job{Id: string(id.Job(i)), Index: int32(i), Key: key, Name: key, State: "ready", Round: 1,
			Reason: "It waits for a runner.", RunsOn: []string{"linux"}, Steps: []string{"say", "end"}}
		if i > 0 {
			job.State, job.Needs, job.Reason = "waiting", []string{keys[0]}, "It needs test."
		}
		r.run.Jobs = append(r.run.Jobs, job)
	}
	r.run.Rounds = []*fairleadv1.Round{{Number: 1, Opened: doubleTime, By: "user admin", Mode: "first"}}
	d.runs = append(d.runs, r)
	d.play(r, 1)
	return r
}

// play begins the first job and says how the round goes on.
func (d *double) play(r *doubleRun, round int32) {
	job := r.run.GetJobs()[0]
	number := int32(len(job.GetAttempts()) + 1)
	attempt := &fairleadv1.Attempt{Id: string(domain.JobID(job.GetId()).Attempt(int(number))), Number: number,
		Round: round,
		Epoch: uint64(number), Requested: &fairleadv1.Requested{Desired: "run", By: "user admin", At: doubleTime},
		Observed: &fairleadv1.Observation{State: "running", At: doubleTime}, SideEffect: "none", RunnerName: "laptop",
		Runner: d.runners[0].GetRunner(), Pool: "default", Started: doubleTime, Log: &fairleadv1.LogInfo{},
		Steps: []*fairleadv1.Step{{Index: 0, Name: "say", Started: doubleTime}}}
	job.State, job.Reason, job.Attempts = "active", "It runs.", append(job.GetAttempts(), attempt)
	half := len(d.logText) / 2
	log := &doubleLog{content: []byte(d.logText[:half])}
	r.logs[attempt.GetId()] = log
	text, ends := d.logText[half:], d.ends
	r.step()
	r.rest = func() {
		log.content = append(log.content, text...)
		d.finish(r, job, attempt, ends)
	}
	if !d.hold {
		r.rest()
		r.rest = nil
	}
	d.touch()
}

func (r *doubleRun) step() { r.run.Version++ }

// finish commits what became of the first attempt, and of the run.
func (d *double) finish(r *doubleRun, job *fairleadv1.Job, attempt *fairleadv1.Attempt, ends string) {
	const at = "2026-01-02T03:04:06.500000Z"
	r.step()
	if ends == "uncertain" {
		attempt.Observed.State, attempt.Uncertain = "unreachable", true
		attempt.NextStep = "Look at the target, then settle the attempt."
		r.run.Attention, r.run.Summary.State = true, "attention"
		return
	}
	r.logs[attempt.GetId()].sealed = true
	attempt.Log = &fairleadv1.LogInfo{Sealed: true, Bytes: int64(len(r.logs[attempt.GetId()].content)), Lines: 2}
	if ends == "expired" {
		ends, attempt.Log.Removed = "success", "The log was removed on 2026-02-03: logs of class batch are kept for a day."
	}
	attempt.Outcome, attempt.Observed.State, attempt.Concluded = ends, "exited", at
	attempt.Steps = []*fairleadv1.Step{{Index: 0, Name: "say", Outcome: ends, Conclusion: ends,
		Started: doubleTime, Finished: at}}
	job.State, job.Outcome, job.Concluded, job.Reason = "concluded", ends, at, "Every step succeeded."
	r.run.Reason = "All jobs succeeded."
	if ends == "failure" {
		attempt.FailureClass, attempt.Message = "user_code", "Step say ended with exit code 3."
		attempt.Steps[0].ExitCode, job.Reason, r.run.Reason = 3, attempt.Message, "The job test failed."
	}
	for _, other := range r.run.GetJobs()[1:] {
		other.State, other.Outcome, other.Reason = "concluded", ends, "Every step succeeded."
		if ends == "failure" {
			other.Outcome, other.Reason = "skipped", "It needs test, which failed."
		}
	}
	r.run.Outcome, r.run.Summary.Outcome, r.run.Summary.State, r.run.Summary.Concluded = ends, ends, "concluded", at
	r.run.Rounds[len(r.run.Rounds)-1].Outcome = ends
}

// release lets held runs go on.
func (d *double) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.runs {
		if r.rest != nil {
			r.rest()
			r.rest = nil
		}
	}
	d.touch()
}

// GetRun implements the contract.
func (d *double) GetRun(_ context.Context, q *fairleadv1.GetRunRequest) (*fairleadv1.GetRunResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.find(q.GetRun())
	if r == nil {
		return nil, absent("run")
	}
	out := proto.CloneOf(r.run)
	if q.GetTimeline() {
		out.Timeline = []*fairleadv1.Sentence{{At: doubleTime, Text: "The run was requested.", Kind: "run",
			Event: "RunRequested"}}
	}
	return &fairleadv1.GetRunResponse{Run: out}, nil
}

// ListRuns implements the contract.
func (d *double) ListRuns(_ context.Context, q *fairleadv1.ListRunsRequest) (*fairleadv1.ListRunsResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := &fairleadv1.ListRunsResponse{}
	for i := len(d.runs) - 1; i >= 0 && len(out.Runs) < int(q.GetLimit()); i-- {
		s := d.runs[i].run.GetSummary()
		if (q.GetRepository() == "" || q.GetRepository() == s.GetRepositoryName()) &&
			(q.GetOutcome() == "" || q.GetOutcome() == s.GetOutcome()) {
			out.Runs = append(out.Runs, proto.CloneOf(s))
		}
	}
	return out, nil
}

// WatchRun implements the contract.
func (d *double) WatchRun(ctx context.Context, q *fairleadv1.WatchRunRequest,
	stream fairleadv1connect.RunServiceWatchRunServerStream) error {
	d.mu.Lock()
	d.watches++
	d.touch()
	d.mu.Unlock()
	for version := uint64(0); ; {
		var now *fairleadv1.Run
		err := d.await(ctx, func() bool {
			r := d.find(q.GetRun())
			if r == nil {
				return true
			}
			now = proto.CloneOf(r.run)
			return now.GetVersion() > version
		})
		switch {
		case err != nil:
			return err
		case now == nil:
			return absent("run")
		}
		version = now.GetVersion()
		if err := stream.Send(&fairleadv1.GetRunResponse{Run: now}); err != nil {
			return err
		}
		if now.GetOutcome() != "" {
			return nil
		}
	}
}

func (d *double) log(attempt string) *doubleLog {
	for _, r := range d.runs {
		if log := r.logs[attempt]; log != nil {
			return log
		}
	}
	return nil
}

// FollowLog implements the contract. It repeats some bytes before the offset, as a server
// does whose segment starts earlier.
func (d *double) FollowLog(ctx context.Context, q *fairleadv1.FollowLogRequest,
	stream fairleadv1connect.LogServiceFollowLogServerStream) error {
	at := max(q.GetOffset()-2, 0)
	d.mu.Lock()
	d.streams++
	d.note("FollowLog offset=%d", q.GetOffset())
	d.touch()
	d.mu.Unlock()
	for {
		var content []byte
		var sealed bool
		err := d.await(ctx, func() bool {
			log := d.log(q.GetAttempt())
			content, sealed = append([]byte(nil), log.content[at:]...), log.sealed
			return len(content) > 0 || sealed
		})
		if err != nil {
			return err
		}
		at += int64(len(content))
		err = stream.Send(&fairleadv1.FollowLogResponse{Data: content, Offset: at, Sealed: sealed})
		if err != nil || sealed {
			return err
		}
	}
}

func (d *double) rawLog(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var offset int
	_, _ = fmt.Sscan(r.URL.Query().Get("offset"), &offset)
	log := d.log(r.PathValue("attempt"))
	content := log.content[offset:]
	if step := r.URL.Query().Get("step"); step != "" && step != "0" {
		content = nil
	}
	_, _ = w.Write(content)
}

// ReadLines implements the contract.
func (d *double) ReadLines(_ context.Context, q *fairleadv1.ReadLinesRequest) (*fairleadv1.ReadLinesResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := &fairleadv1.ReadLinesResponse{}
	for line := range strings.Lines(string(d.log(q.GetAttempt()).content)) {
		out.TotalLines++
		if out.TotalLines >= q.GetFrom() {
			out.Lines = append(out.Lines, &fairleadv1.Line{Number: out.TotalLines, Text: strings.TrimSuffix(line, "\n"),
				Stream: "stdout"})
		}
	}
	return out, nil
}

// act answers a write on a run with the run as it is then.
func (d *double) act(ctx context.Context, call, id string, change func(*doubleRun) error) (*fairleadv1.Run, error) {
	if _, err := keyOf(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note("%s", call)
	r := d.find(id)
	if r == nil {
		return nil, absent("run")
	}
	if err := change(r); err != nil {
		return nil, err
	}
	d.touch()
	return proto.CloneOf(r.run), nil
}

// CancelRun implements the contract.
func (d *double) CancelRun(ctx context.Context, q *fairleadv1.CancelRunRequest) (*fairleadv1.CancelRunResponse, error) {
	run, err := d.act(ctx, "CancelRun reason="+q.GetReason(), q.GetRun(), func(r *doubleRun) error {
		if r.run.GetOutcome() != "" {
			return no(connect.CodeFailedPrecondition, &fairleadv1.ErrorInfo{Code: "run_concluded",
				Message: "The run has a committed outcome."})
		}
		r.run.Desired = "cancel"
		for _, job := range r.run.GetJobs() {
			for _, attempt := range job.GetAttempts() {
				attempt.Requested = &fairleadv1.Requested{Desired: "cancel", By: "user admin", At: doubleTime,
					Reason: q.GetReason()}
			}
		}
		r.step()
		return nil
	})
	return &fairleadv1.CancelRunResponse{Run: run}, err
}

func (d *double) reopen(ctx context.Context, call, run string) (*fairleadv1.Run, error) {
	return d.act(ctx, call, run, func(r *doubleRun) error {
		if r.run.GetOutcome() == "" {
			return no(connect.CodeFailedPrecondition, &fairleadv1.ErrorInfo{Code: "run_not_concluded",
				Message: "The run has no committed outcome yet."})
		}
		r.run.Outcome, r.run.Summary.Outcome, r.run.Summary.State, r.run.Summary.Concluded = "", "", "queued", ""
		r.run.Summary.Round++
		r.run.Rounds = append(r.run.Rounds, &fairleadv1.Round{Number: r.run.Summary.Round, Opened: doubleTime, Mode: "all",
			By: "user admin"})
		for _, job := range r.run.GetJobs() {
			job.Outcome, job.State, job.Round = "", "ready", r.run.Summary.Round
		}
		d.play(r, r.run.Summary.Round)
		return nil
	})
}

// RerunRun implements the contract.
func (d *double) RerunRun(ctx context.Context, q *fairleadv1.RerunRunRequest) (*fairleadv1.RerunRunResponse, error) {
	run, err := d.reopen(ctx, "RerunRun mode="+q.GetMode(), q.GetRun())
	return &fairleadv1.RerunRunResponse{Run: run}, err
}

// RetryJob implements the contract.
func (d *double) RetryJob(ctx context.Context, q *fairleadv1.RetryJobRequest) (*fairleadv1.RetryJobResponse, error) {
	id, index, _ := domain.JobID(q.GetJob()).Split()
	run, err := d.reopen(ctx, fmt.Sprintf("RetryJob index=%d", index), string(id))
	return &fairleadv1.RetryJobResponse{Run: run}, err
}

// SettleAttempt implements the contract.
func (d *double) SettleAttempt(ctx context.Context,
	q *fairleadv1.SettleAttemptRequest) (*fairleadv1.SettleAttemptResponse, error) {
	run, err := d.act(ctx, fmt.Sprintf("SettleAttempt effect=%s then=%s note=%s", q.GetEffect(), q.GetThen(), q.GetNote()),
		string(domain.AttemptID(q.GetAttempt()).Run()), func(r *doubleRun) error { r.step(); return nil })
	return &fairleadv1.SettleAttemptResponse{Run: run}, err
}

// WhyRun implements the contract.
func (d *double) WhyRun(_ context.Context, q *fairleadv1.WhyRunRequest) (*fairleadv1.WhyRunResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.find(q.GetRun())
	if r == nil {
		return nil, absent("run")
	}
	out := &fairleadv1.WhyRunResponse{}
	for _, job := range r.run.GetJobs() {
		if q.GetJob() == "" || q.GetJob() == job.GetKey() || q.GetJob() == job.GetId() {
			out.Explanations = append(out.Explanations, &fairleadv1.Explanation{Subject: job.GetId(), Name: job.GetKey(),
				State: job.GetState(), Sentence: job.GetReason(),
				Causes:  []*fairleadv1.Sentence{{At: doubleTime, Text: "The job became ready.", Event: "JobReady"}},
				Endings: []*fairleadv1.Ending{{Kind: "timer", Text: "the timer at 03:09:05", At: "2026-01-02T03:09:05.000000Z"}}})
		}
	}
	return out, nil
}

func mirror(r *fairleadv1.Repository) scm.Repo {
	return scm.Repo{Tenant: domain.DefaultTenant, Repository: domain.RepositoryID(r.GetRepository())}
}

func (d *double) repository(name string) *fairleadv1.Repository {
	for _, r := range d.repos {
		if r.GetName() == name || r.GetRepository() == name {
			return r
		}
	}
	return nil
}

// AddRepository implements the contract, with a real mirror.
func (d *double) AddRepository(ctx context.Context,
	q *fairleadv1.AddRepositoryRequest) (*fairleadv1.AddRepositoryResponse, error) {
	if _, err := keyOf(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note("AddRepository name=%s url=%s branch=%s poll=%v", q.GetName(), q.GetUrl(), q.GetDefaultBranch(), q.GetPoll())
	if r := d.repository(q.GetName()); r != nil {
		return &fairleadv1.AddRepositoryResponse{Repository: proto.CloneOf(r), Existed: true}, nil
	}
	r := &fairleadv1.Repository{Repository: d.mint("rep"), Name: q.GetName(), Url: q.GetUrl(), Poll: q.GetPoll(),
		DefaultBranch: q.GetDefaultBranch(), Registered: doubleTime}
	if err := d.mirrors.Init(ctx, mirror(r)); err != nil {
		return nil, err
	}
	r.GitPath = git.Path(mirror(r))
	d.repos = append(d.repos, r)
	return &fairleadv1.AddRepositoryResponse{Repository: proto.CloneOf(r)}, nil
}

// ListRepositories implements the contract.
func (d *double) ListRepositories(context.Context,
	*fairleadv1.ListRepositoriesRequest) (*fairleadv1.ListRepositoriesResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := &fairleadv1.ListRepositoriesResponse{}
	for _, r := range d.repos {
		out.Repositories = append(out.Repositories, proto.CloneOf(r))
	}
	return out, nil
}

// GetRepository implements the contract.
func (d *double) GetRepository(_ context.Context,
	q *fairleadv1.GetRepositoryRequest) (*fairleadv1.GetRepositoryResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.repository(q.GetRepository())
	if r == nil {
		return nil, absent("repository")
	}
	return &fairleadv1.GetRepositoryResponse{Repository: proto.CloneOf(r)}, nil
}

// NotifyPush implements the contract.
func (d *double) NotifyPush(ctx context.Context,
	q *fairleadv1.NotifyPushRequest) (*fairleadv1.NotifyPushResponse, error) {
	if _, err := keyOf(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note("NotifyPush ref=%s pusher=%s", q.GetRef(), q.GetPusher())
	repo := d.repository(q.GetRepository())
	if repo == nil {
		return nil, absent("repository")
	}
	r := d.accept(&fairleadv1.RunSummary{Repository: repo.GetRepository(), RepositoryName: repo.GetName(), Ref: q.GetRef(),
		Workflow: ".fairlead/workflows/ci.yml", Commit: q.GetAfter(), Event: "push", Round: 1, Created: doubleTime})
	return &fairleadv1.NotifyPushResponse{Runs: []*fairleadv1.Run{proto.CloneOf(r.run)},
		Reasons: []string{"docs.yml: the branch does not match the push filter"}}, nil
}

// ListPools implements the contract.
func (d *double) ListPools(context.Context, *fairleadv1.ListPoolsRequest) (*fairleadv1.ListPoolsResponse, error) {
	return &fairleadv1.ListPoolsResponse{Pools: []*fairleadv1.Pool{{Pool: "default", Aliases: []string{"ubuntu-latest"},
		Tiers: []string{"trusted"}, Runners: 1, Slots: 2, Busy: 1, Waiting: 3}}}, nil
}

// ListRunners implements the contract.
func (d *double) ListRunners(context.Context, *fairleadv1.ListRunnersRequest) (*fairleadv1.ListRunnersResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &fairleadv1.ListRunnersResponse{Runners: d.runners}, nil
}

// RemoveRunner implements the contract.
func (d *double) RemoveRunner(_ context.Context,
	q *fairleadv1.RemoveRunnerRequest) (*fairleadv1.RemoveRunnerResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note("RemoveRunner %v", q.GetRunner() == d.runners[0].GetRunner())
	d.runners[0].State = "removed"
	return &fairleadv1.RemoveRunnerResponse{}, nil
}

// CreateRegistrationToken implements the contract.
func (d *double) CreateRegistrationToken(_ context.Context,
	q *fairleadv1.CreateRegistrationTokenRequest) (*fairleadv1.CreateRegistrationTokenResponse, error) {
	return &fairleadv1.CreateRegistrationTokenResponse{Expires: doubleTime,
		Token: fmt.Sprintf("flr_%s_%d", q.GetPool(), q.GetTtlSeconds())}, nil
}

type doubleServer struct{}

// GetServer implements the contract.
func (doubleServer) GetServer(context.Context, *fairleadv1.GetServerRequest) (*fairleadv1.GetServerResponse, error) {
	return &fairleadv1.GetServerResponse{Version: "double", Store: "memory"}, nil
}

// CreateSignInLink implements the contract.
func (doubleServer) CreateSignInLink(context.Context,
	*fairleadv1.CreateSignInLinkRequest) (*fairleadv1.CreateSignInLinkResponse, error) {
	return &fairleadv1.CreateSignInLinkResponse{Path: "/signin?code=c", Expires: doubleTime}, nil
}

// diagnosticsOf compiles for real, so that a refusal carries what a server's would.
func diagnosticsOf(path string, text []byte) []*fairleadv1.Diagnostic {
	_, found := workflow.Compile(workflow.Source{Path: path, Text: text}, workflow.Inputs{Event: "push"},
		workflow.DefaultLimits())
	var out []*fairleadv1.Diagnostic
	for _, f := range found {
		out = append(out, &fairleadv1.Diagnostic{Code: string(f.Code), Severity: string(f.Severity), Path: f.Path,
			Line: int32(f.Pos.Line), Column: int32(f.Pos.Column), Message: f.Message, Hint: f.Hint})
	}
	return out
}

// doubleDeadline bounds what a script waits for.
const doubleDeadline = 20 * time.Second

package canned

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// World answers the API from memory.
type World struct {
	fairleadv1connect.UnimplementedRunServiceHandler
	fairleadv1connect.UnimplementedLogServiceHandler
	fairleadv1connect.UnimplementedRepositoryServiceHandler
	fairleadv1connect.UnimplementedPoolServiceHandler
	fairleadv1connect.UnimplementedServerServiceHandler

	mu      sync.Mutex // guards everything below
	now     func() time.Time
	runs    []*fairleadv1.Run // newest first
	logs    map[string]Log
	replies map[string]string // idempotency key -> what it did
	acted   int               // how many actions took place
	empty   bool
	changed map[chan struct{}]bool // who waits for a change
}

// State is one state of one page, by an address that shows it.
type State struct {
	Name string // names the golden file
	Path string
	Says string // one sentence for the gallery's own page
}

// keyOf is where the context of a call holds its idempotency key.
type keyOf struct{}

// WithKey is what the pages use to hand a form's key to this world.
func WithKey(ctx context.Context, key string, _ proto.Message) context.Context {
	return context.WithValue(ctx, keyOf{}, key)
}

// Acted is how many actions took place; a repeat of a key is none.
func (w *World) Acted() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acted
}

// Empty is a world in which nothing has happened yet.
func Empty(now func() time.Time) *World {
	return &World{now: now, empty: true, logs: map[string]Log{}, replies: map[string]string{},
		changed: map[chan struct{}]bool{}}
}

// Watch gives a channel that gets a value after every change until stop is called.
func (w *World) Watch() (changes <-chan struct{}, stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := make(chan struct{}, 1)
	w.changed[c] = true
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.changed, c)
	}
}

// tell wakes who watches. The caller holds mu.
func (w *World) tell() {
	for c := range w.changed {
		select {
		case c <- struct{}{}:
		default: // it has one waiting already
		}
	}
}

func missing() error {
	return domain.Reject(domain.CodeNotFound, "There is no such thing, or you may not see it.")
}

// find is the run with that id. The caller holds mu.
func (w *World) find(id string) (*fairleadv1.Run, error) {
	for _, run := range w.runs {
		if run.GetRun() == id {
			return run, nil
		}
	}
	return nil, missing()
}

// ListRuns filters the way the real list does.
func (w *World) ListRuns(_ context.Context, in *fairleadv1.ListRunsRequest) (*fairleadv1.ListRunsResponse, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := &fairleadv1.ListRunsResponse{}
	skipping := in.GetBefore() != ""
	for _, run := range w.runs {
		s := run.GetSummary()
		if skipping {
			skipping = s.GetRun() != in.GetBefore()
			continue
		}
		if !wants(in.GetRepository(), s.GetRepository(), s.GetRepositoryName()) || !wants(in.GetRef(), s.GetRef()) ||
			!wants(in.GetWorkflow(), s.GetWorkflow(), s.GetWorkflowName()) || !wants(in.GetOutcome(), s.GetOutcome()) ||
			!wants(in.GetState(), s.GetState()) {
			continue
		}
		if in.GetLimit() > 0 && len(out.GetRuns()) == int(in.GetLimit()) {
			out.Next = out.GetRuns()[len(out.GetRuns())-1].GetRun()
			break
		}
		out.Runs = append(out.Runs, s)
	}
	return out, nil
}

func wants(asked string, have ...string) bool { return asked == "" || slices.Contains(have, asked) }

// GetRun answers with a copy: a page may take its time while an action changes the run.
func (w *World) GetRun(_ context.Context, in *fairleadv1.GetRunRequest) (*fairleadv1.GetRunResponse, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	run, err := w.find(in.GetRun())
	if err != nil {
		return nil, err
	}
	return &fairleadv1.GetRunResponse{Run: proto.CloneOf(run)}, nil
}

// once acts on a run unless the key acted before.
func (w *World) once(ctx context.Context, id string, act func(*fairleadv1.Run) error) (*fairleadv1.Run, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	run, err := w.find(id)
	if err != nil {
		return nil, err
	}
	key, _ := ctx.Value(keyOf{}).(string)
	if key == "" {
		return nil, domain.Reject(domain.CodeInvalidArgument, "An action needs an idempotency key.")
	}
	if done, repeat := w.replies[key]; repeat {
		if done != id {
			return nil, domain.Reject(domain.CodeIdempotencyMismatch, "The key acted on another run before.")
		}
		return proto.CloneOf(run), nil
	}
	if err := act(run); err != nil {
		return nil, err
	}
	w.replies[key] = id
	w.acted++
	w.tell()
	return proto.CloneOf(run), nil
}

func (w *World) stamp() string { return stampOf(w.now()) }

func (w *World) say(run *fairleadv1.Run, kind, event, text string) {
	run.Version++
	run.Timeline = append(run.Timeline, &fairleadv1.Sentence{At: w.stamp(), Text: text, Kind: kind, Event: event,
		Version: run.GetVersion(), Actor: "you"})
}

// CancelRun records the request; nothing has stopped because of it.
func (w *World) CancelRun(ctx context.Context, in *fairleadv1.CancelRunRequest) (*fairleadv1.CancelRunResponse, error) {
	run, err := w.once(ctx, in.GetRun(), func(run *fairleadv1.Run) error {
		if run.GetOutcome() != "" {
			return domain.Reject(domain.CodeRunConcluded,
				"The run has ended with "+run.GetOutcome()+", so there is nothing left to cancel.")
		}
		run.Desired, run.Summary.Desired = "cancel", "cancel"
		run.Reason = "You asked to cancel the run; its running steps are being stopped."
		for _, job := range run.GetJobs() {
			for _, a := range job.GetAttempts() {
				if a.GetOutcome() == "" {
					a.Requested = &fairleadv1.Requested{Desired: "cancel", By: "you", At: w.stamp(), Reason: in.GetReason()}
				}
			}
		}
		w.say(run, "request", "CancelRequested", "You asked to cancel the run.")
		return nil
	})
	return &fairleadv1.CancelRunResponse{Run: run}, err
}

// RerunRun opens a round in which every chosen job waits.
func (w *World) RerunRun(ctx context.Context, in *fairleadv1.RerunRunRequest) (*fairleadv1.RerunRunResponse, error) {
	run, err := w.once(ctx, in.GetRun(), func(run *fairleadv1.Run) error {
		return w.openRound(run, in.GetMode(), func(job *fairleadv1.Job) bool {
			return in.GetMode() == "all" || job.GetOutcome() != "success"
		})
	})
	return &fairleadv1.RerunRunResponse{Run: run}, err
}

// RetryJob opens a round for one job.
func (w *World) RetryJob(ctx context.Context, in *fairleadv1.RetryJobRequest) (*fairleadv1.RetryJobResponse, error) {
	id, _, ok := domain.JobID(in.GetJob()).Split()
	if !ok {
		return nil, missing()
	}
	run, err := w.once(ctx, string(id), func(run *fairleadv1.Run) error {
		return w.openRound(run, "jobs", func(job *fairleadv1.Job) bool { return job.GetId() == in.GetJob() })
	})
	return &fairleadv1.RetryJobResponse{Run: run}, err
}

func (w *World) openRound(run *fairleadv1.Run, mode string, chosen func(*fairleadv1.Job) bool) error {
	if run.GetOutcome() == "" {
		return domain.Reject(domain.CodeRunNotConcluded, "The run is still going; rerun it once it has an outcome.")
	}
	if len(run.GetRounds()) == 0 {
		run.Rounds = []*fairleadv1.Round{{Number: 1, Outcome: run.GetOutcome(), Mode: "first",
			Opened: run.GetSummary().GetCreated(), Concluded: run.GetSummary().GetConcluded()}}
	}
	number := int32(len(run.GetRounds()) + 1)
	run.Rounds = append(run.Rounds, &fairleadv1.Round{Number: number, Mode: mode, By: "you", Opened: w.stamp()})
	run.Outcome, run.Summary.Outcome, run.Summary.State, run.Summary.Round = "", "", "queued", number
	run.Summary.Concluded = ""
	run.Reason = "A new round waits for a runner."
	for _, job := range run.GetJobs() {
		if chosen(job) {
			job.State, job.Outcome, job.Concluded, job.Round = "ready", "", "", number
			job.Reason = "It waits for a runner with " + strings.Join(job.GetRunsOn(), " ") + "."
			job.EndsBy = "a runner with a free slot"
			job.Segments = append(job.Segments, &fairleadv1.Segment{Kind: "no_runner", From: w.stamp()})
		}
	}
	w.say(run, "request", "RoundOpened", "You asked for another round.")
	return nil
}

// SettleAttempt records what a person found out.
func (w *World) SettleAttempt(ctx context.Context, in *fairleadv1.SettleAttemptRequest) (
	*fairleadv1.SettleAttemptResponse, error) {
	id, _, _, ok := domain.AttemptID(in.GetAttempt()).Split()
	if !ok {
		return nil, missing()
	}
	run, err := w.once(ctx, string(id), func(run *fairleadv1.Run) error {
		for _, job := range run.GetJobs() {
			for _, a := range job.GetAttempts() {
				if a.GetId() != in.GetAttempt() {
					continue
				}
				if !a.GetUncertain() {
					return domain.Reject(domain.CodeAttemptNotUncertain,
						"Only an attempt without a known result can be settled, and this one has one.")
				}
				a.Uncertain, a.Outcome, a.FailureClass, a.SideEffect = false, "lost", "runner_lost", "reconciled"
				a.Concluded = w.stamp()
				job.State, job.Reason, job.EndsBy = "ready", "It waits for a runner.", "a runner with a free slot"
				run.Attention, run.Summary.State = false, "running"
				run.Reason = "You settled the uncertain attempt."
				w.say(run, "reconcile", "AttemptSettled", "You settled attempt "+a.GetId()+": effect "+in.GetEffect()+
					", then "+in.GetThen()+".")
				return nil
			}
		}
		return missing()
	})
	return &fairleadv1.SettleAttemptResponse{Run: run}, err
}

// ListRepositories lists three repositories, or none in an empty world.
func (w *World) ListRepositories(context.Context, *fairleadv1.ListRepositoriesRequest) (
	*fairleadv1.ListRepositoriesResponse, error) {
	if w.empty {
		return &fairleadv1.ListRepositoriesResponse{}, nil
	}
	now := w.now()
	return &fairleadv1.ListRepositoriesResponse{Repositories: []*fairleadv1.Repository{
		{Repository: identifier(domain.PrefixRepository, 1), Name: "shop", DefaultBranch: "main",
			Registered: stampOf(now.Add(-90 * time.Hour))},
		{Repository: identifier(domain.PrefixRepository, 2), Name: "storefront", Poll: true, DefaultBranch: "trunk",
			Url: "https://git.example.test/team/storefront.git", Registered: stampOf(now.Add(-3 * time.Hour))},
		{Repository: identifier(domain.PrefixRepository, 3), Name: hostileName, DefaultBranch: hostileName,
			Url: "https://example.test/" + hostileName, Registered: stampOf(now.Add(-time.Minute))},
	}}, nil
}

// GetRepository shows the second repository, with schedules of every kind, or the first
// without any.
func (w *World) GetRepository(ctx context.Context, in *fairleadv1.GetRepositoryRequest) (
	*fairleadv1.GetRepositoryResponse, error) {
	all, err := w.ListRepositories(ctx, nil)
	if err != nil {
		return nil, err
	}
	for i, r := range all.GetRepositories() {
		if r.GetRepository() != in.GetRepository() {
			continue
		}
		now := w.now()
		if i > 0 {
			r.Schedules = []*fairleadv1.Schedule{
				{Workflow: ".github/workflows/nightly.yml", Cron: "30 2 * * *", Timezone: "Europe/Berlin", CatchUp: "latest",
					Next: "2026-01-03T02:30", NextAt: stampOf(now.Add(7 * time.Hour)), Last: &fairleadv1.Occurrence{
						Occurrence: "2026-01-02T02:30", Outcome: "started", Run: identifier(domain.PrefixRun, 1), Missed: 2}},
				{Workflow: ".github/workflows/stale.yml", Cron: "*/15 * * * *", CatchUp: "none", Next: "2026-01-02T19:45",
					NextAt: stampOf(now.Add(4 * time.Minute))},
				{Workflow: hostileName, Cron: "0 0 1,15 * *", Timezone: "America/Argentina/ComodRivadavia", CatchUp: "all",
					NextAt: stampOf(now.Add(300 * time.Hour)), Last: &fairleadv1.Occurrence{Occurrence: "2026-01-01T00:00",
						Outcome: "refused", Message: hostileName}},
			}
		}
		return &fairleadv1.GetRepositoryResponse{Repository: r}, nil
	}
	return nil, missing()
}

// ListWorkflows lists workflows of every kind.
func (w *World) ListWorkflows(_ context.Context, in *fairleadv1.ListWorkflowsRequest) (
	*fairleadv1.ListWorkflowsResponse, error) {
	if in.GetRef() == "gone" {
		return nil, domain.Reject(domain.CodeCommitNotFound, "The repository has no branch or tag \"gone\".")
	}
	if in.GetRepository() == identifier(domain.PrefixRepository, 1) {
		return &fairleadv1.ListWorkflowsResponse{Ref: "refs/heads/main", Commit: strings.Repeat("a", 40)}, nil
	}
	return &fairleadv1.ListWorkflowsResponse{Ref: "refs/heads/trunk", Commit: strings.Repeat("b", 40),
		Workflows: []*fairleadv1.Workflow{
			{Path: ".fairlead/workflows/release.yml", Name: "Release", Events: []string{"push", "workflow_dispatch"},
				Inputs: []*fairleadv1.WorkflowInput{
					{Name: "version", Description: "Version to release", Type: "string", Required: true},
					{Name: "level", Description: "How much to say", Type: "number", Default: "3"},
					{Name: "channel", Type: "choice", Default: "beta", Options: []string{"stable", "beta", "nightly"}},
					{Name: "dry", Description: "Only try", Type: "boolean", Default: "true"},
				}},
			{Path: ".github/workflows/broken.yml", Name: ".github/workflows/broken.yml", Problem: "a tab can't indent (line 3)"},
			{Path: ".github/workflows/ci.yml", Name: "CI", Events: []string{"push", "schedule"},
				Withdrawal: &fairleadv1.Withdrawal{Workflow: ".github/workflows/ci.yml", State: "restored",
					Commit: strings.Repeat("c", 40), Reason: "1.5 skips the tests", By: "user ada", At: "2026-03-14T09:00:00Z"}},
			{Path: ".github/workflows/deploy.yml", Name: "Deploy", Events: []string{"workflow_dispatch"},
				Withdrawal: &fairleadv1.Withdrawal{Workflow: ".github/workflows/deploy.yml", State: "disabled",
					Reason: hostileName, By: "user ada", At: "2026-03-14T09:00:00Z"}},
			{Path: hostileName, Name: hostileName, Events: []string{"workflow_dispatch"}, Inputs: []*fairleadv1.WorkflowInput{
				{Name: "odd", Description: hostileName, Type: "string", Default: hostileName}}},
		}}, nil
}

// CreateRun starts nothing new: it leads to the first run, and refuses what lacks a version.
func (w *World) CreateRun(_ context.Context, in *fairleadv1.CreateRunRequest) (*fairleadv1.CreateRunResponse, error) {
	if in.GetInputs()["version"] == "" {
		return nil, &domain.Rejection{Code: domain.CodeInvalidArgument, Field: "inputs",
			Message: "The input \"version\" is required and has no default."}
	}
	return &fairleadv1.CreateRunResponse{Run: w.runs[0]}, nil
}

// ListPools lists a busy pool, one without runners, or none.
func (w *World) ListPools(context.Context, *fairleadv1.ListPoolsRequest) (*fairleadv1.ListPoolsResponse, error) {
	if w.empty {
		return &fairleadv1.ListPoolsResponse{}, nil
	}
	return &fairleadv1.ListPoolsResponse{Pools: []*fairleadv1.Pool{
		{Pool: "default", Labels: []string{"linux", "x64"}, Aliases: []string{"linux-*", "ubuntu-*"},
			Tiers: []string{"trusted"}, Runners: 3, Slots: 6, Busy: 2, Waiting: 4},
		{Pool: "gpu", Labels: []string{"linux", "gpu"}, Tiers: []string{"trusted", "protected"}, Waiting: 3},
	}}, nil
}

// ListRunners lists a runner that works, one that is silent and one that was removed.
func (w *World) ListRunners(context.Context, *fairleadv1.ListRunnersRequest) (*fairleadv1.ListRunnersResponse, error) {
	if w.empty {
		return &fairleadv1.ListRunnersResponse{}, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	var held []string
	for _, run := range w.runs {
		for _, job := range run.GetJobs() {
			if job.GetState() == "active" && len(job.GetAttempts()) > 0 && len(held) < 2 {
				held = append(held, job.GetAttempts()[len(job.GetAttempts())-1].GetId())
			}
		}
	}
	base := &fairleadv1.Runner{Pool: "default", Labels: []string{"linux", "x64"}, Capacity: 2, Version: "0.1.0",
		Registered: stampOf(now.Add(-50 * time.Hour))}
	make := func(n byte, name, isolation, state string, seen time.Duration, attempts []string) *fairleadv1.Runner {
		r := proto.CloneOf(base)
		r.Runner, r.Name, r.Isolation, r.State = identifier(domain.PrefixRunner, n), name, isolation, state
		r.LastSeen, r.Attempts = stampOf(now.Add(-seen)), attempts
		return r
	}
	return &fairleadv1.ListRunnersResponse{Runners: []*fairleadv1.Runner{
		make(1, "build-1", "oci", "connected", 2*time.Second, held),
		make(2, "build-2", "oci", "silent", 95*time.Second, nil),
		make(3, hostileName, "process", "removed", 9*time.Hour, nil),
	}}, nil
}

// GetServer answers for a fleet whose servers and partitions are in every state, or for a
// server that is alone.
func (w *World) GetServer(context.Context, *fairleadv1.GetServerRequest) (*fairleadv1.GetServerResponse, error) {
	res := &fairleadv1.GetServerResponse{Version: "0.1.0", Store: "sqlite",
		Started: stampOf(w.now().Add(-26 * time.Hour)),
		Partitions: []*fairleadv1.Partition{{Partition: "main-0", State: "owned", Epoch: 3, Position: 18234,
			Owner: "ada"}}}
	if w.empty {
		res.Partitions[0].Owner = ""
		return res, nil
	}
	res.Store, res.Name = "postgres", "ada"
	res.Partitions = append(res.Partitions,
		&fairleadv1.Partition{Partition: "main-1", State: "stopped", Epoch: 2, Position: 991, Owner: "bob",
			Problem: "it holds less than it had acknowledged"},
		&fairleadv1.Partition{Partition: "main-2", State: "unowned", Epoch: 7, Position: 40, Owner: "cyd",
			Problem: "Its owner is gone; another server is about to take it."})
	for _, m := range [][2]string{{"ada", "live"}, {"bob", "draining"}, {"cyd", "gone"}} {
		res.Members = append(res.Members, &fairleadv1.Member{Name: m[0], State: m[1], Version: "0.1.0", Format: 1,
			Address: "https://" + m[0] + ".example.com:8374", Until: stampOf(w.now())})
	}
	return res, nil
}

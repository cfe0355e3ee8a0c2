package control

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/logs"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/review"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/trigger"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
)

// Caller is what a call's context says of who asks; httpapi provides it.
type Caller struct {
	Tenant domain.TenantID
	Scope  string // of idempotency keys
	Cause  domain.Cause
	Key    string
	Body   domain.Digest
	Admin  bool   // may name paths on the server's machine
	Holder string // the caller in words, as who was told of what a token says
}

// Runs answers RunService.
type Runs struct {
	Engine  *engine.Engine
	Views   store.Views
	Trigger *trigger.Triggers
	Watch   *Watchers
	Caller  func(context.Context) Caller
	Explain projection.Place
	Review  *review.Reviewer
	URL     func() string // the server's address for people
	// Logs, when set, tells how long logs are that are not sealed yet.
	Logs LogSource
	// Elsewhere, when set, finds the server that leads the pool and holds the logs.
	Elsewhere Elsewhere
	// Components, when set, gives what a run's references were resolved to.
	Components func(context.Context, domain.TenantID, *run.Request) ([]snapshot.Component, error)
	// Refuse makes the transport's form of a refusal that has more to say than a sentence.
	Refuse func(r *domain.Rejection, diagnostics []*fairleadv1.Diagnostic, choices []string) error
}

var _ fairleadv1connect.RunServiceHandler = (*Runs)(nil)

// watchPause is the shortest time between two messages of a watched run: a run of a
// thousand jobs changes often, and eyes are slow.
const watchPause = 100 * time.Millisecond

// ListRuns implements the contract.
func (r *Runs) ListRuns(ctx context.Context, req *fairleadv1.ListRunsRequest) (*fairleadv1.ListRunsResponse, error) {
	limit := int(req.GetLimit())
	if limit == 0 {
		limit = 50
	}
	if limit < 0 || limit > 500 {
		return nil, field("limit", "limit is 1 to 500.")
	}
	q := store.RunQuery{Tenant: r.Caller(ctx).Tenant, Workflow: req.GetWorkflow(), Ref: req.GetRef(),
		Outcome: domain.Outcome(req.GetOutcome()), State: req.GetState(), Before: domain.RunID(req.GetBefore()), Limit: limit}
	if name := req.GetRepository(); name != "" {
		repo, err := r.Views.Repository(ctx, q.Tenant, name)
		if errors.Is(err, store.ErrNotFound) {
			return &fairleadv1.ListRunsResponse{}, nil
		}
		if err != nil {
			return nil, err
		}
		q.Repository = repo.Repository
	}
	rows, next, err := r.list(ctx, q)
	if err != nil {
		return nil, err
	}
	res := &fairleadv1.ListRunsResponse{Next: string(next)}
	for i := range rows {
		res.Runs = append(res.Runs, projection.Summary(&rows[i]))
	}
	return res, nil
}

// listScanMax bounds the runs looked at for a workflow that is named without its path.
const listScanMax = 5000

// list reads rows, and says after which run the next ones are looked for; empty: there are no
// more. A workflow is found by its path in the store; by its name or its file's name it is looked
// for among so many runs at a time, and there may be none among them and some after.
func (r *Runs) list(ctx context.Context, q store.RunQuery) (out []store.RunRow, next domain.RunID, err error) {
	name, limit := q.Workflow, q.Limit
	if name == "" || strings.HasPrefix(name, ".") && strings.Contains(name, "/") {
		if out, err = r.Views.Runs(ctx, q); err == nil && len(out) == limit {
			next = out[limit-1].Run
		}
		return out, next, err
	}
	q.Workflow, q.Limit = "", 500
	for range listScanMax / q.Limit {
		rows, err := r.Views.Runs(ctx, q)
		if err != nil {
			return nil, "", err
		}
		for _, row := range rows {
			file := path.Base(row.Workflow)
			known := []string{row.Workflow, row.WorkflowName, file, strings.TrimSuffix(file, path.Ext(file))}
			if slices.Contains(known, name) {
				out = append(out, row)
			}
			if len(out) == limit {
				return out, row.Run, nil
			}
		}
		if len(rows) < q.Limit {
			return out, "", nil
		}
		q.Before = rows[len(rows)-1].Run
	}
	return out, q.Before, nil
}

// GetRun implements the contract.
func (r *Runs) GetRun(ctx context.Context, req *fairleadv1.GetRunRequest) (*fairleadv1.GetRunResponse, error) {
	token, ok := domain.ParseProvenToken(req.GetToken(), req.GetProof())
	if !ok {
		return nil, field("token", "The acknowledgement token is malformed.")
	}
	if err := r.Engine.Present(engine.HeldBy(ctx, r.Caller(ctx).Holder), token); err != nil {
		return nil, err
	}
	out, err := r.read(ctx, domain.RunID(req.GetRun()), req.GetTimeline())
	if err != nil {
		return nil, err
	}
	// A snapshot that can't be read is said by verify; what history knows of the run is shown all the same.
	if known, err := r.componentsOf(ctx, r.Caller(ctx).Tenant, domain.RunID(out.GetRun())); err == nil {
		out.Components = componentList(known)
	}
	return &fairleadv1.GetRunResponse{Run: out, Token: req.GetToken(), Proof: req.GetProof()}, nil
}

// read builds the run as it is committed now.
func (r *Runs) read(ctx context.Context, id domain.RunID, timeline bool) (*fairleadv1.Run, error) {
	tenant := r.Caller(ctx).Tenant
	row, err := r.row(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	h, err := r.Engine.Read(ctx, tenant, id.Stream(), true)
	if err != nil {
		return nil, err
	}
	state := h.State.(*run.State)
	out := projection.Run(state, h, row.Partition)
	if !timeline {
		out.Timeline = nil
	}
	r.openLogs(ctx, tenant, out)
	r.removedLogs(ctx, state, out)
	out.Url = r.URL() + "/runs/" + string(id)
	return out, nil
}

// openLogs fills in how long logs are now that are not sealed. It is an observation of
// this moment; a log that can't be looked at stays without.
func (r *Runs) openLogs(ctx context.Context, tenant domain.TenantID, v *fairleadv1.Run) {
	if r.Logs == nil || !growing(v) {
		return
	}
	if remote, err := r.Elsewhere.find(ctx); err != nil {
		return
	} else if remote != nil {
		r.openLogsAt(ctx, remote, v)
		return
	}
	for _, j := range v.GetJobs() {
		for _, a := range j.GetAttempts() {
			if a.GetLog().GetSealed() {
				continue
			}
			if t, some := r.Logs.Growing(tenant, domain.AttemptID(a.GetId())); some {
				a.Log = &fairleadv1.LogInfo{Bytes: t.Bytes, Lines: t.Lines, Truncated: t.Truncated, Gaps: int32(t.Gaps)}
			}
		}
	}
}

// removedLogs says of which attempts the log was removed because it is not kept so long. Logs
// of a run lie in few objects and fewer lots; what is known of one is not asked again. It is an
// observation, too.
func (r *Runs) removedLogs(ctx context.Context, state *run.State, v *fairleadv1.Run) {
	if r.Logs == nil {
		return
	}
	kept, known := map[string]bool{}, map[string]string{}
	for i, j := range v.GetJobs() {
		for n, a := range j.GetAttempts() {
			log := state.Jobs[i].Attempts[n].Log
			if log == nil || log.Object == "" || kept[logs.RemovalKey(log.Object)] {
				continue
			}
			if _, asked := known[log.Object]; !asked {
				removal, err := r.Logs.Removal(ctx, log.Object)
				if err != nil || removal == nil {
					kept[logs.RemovalKey(log.Object)] = true
					continue
				}
				known[log.Object] = removal.Rejection().Message
			}
			a.Log.Removed = known[log.Object]
		}
	}
}

// growing reports whether any log of a run is not sealed.
func growing(v *fairleadv1.Run) bool {
	for _, j := range v.GetJobs() {
		for _, a := range j.GetAttempts() {
			if !a.GetLog().GetSealed() {
				return true
			}
		}
	}
	return false
}

// openLogsAt asks the server that holds the logs, in one call for all of the run.
func (r *Runs) openLogsAt(ctx context.Context, remote *Remote, v *fairleadv1.Run) {
	ctx, cancel := remote.Within(ctx)
	defer cancel()
	res, err := remote.Runs.GetRun(ctx, &fairleadv1.GetRunRequest{Run: v.GetRun()})
	if err != nil {
		return
	}
	found := map[string]*fairleadv1.LogInfo{}
	for _, j := range res.GetRun().GetJobs() {
		for _, a := range j.GetAttempts() {
			found[a.GetId()] = a.GetLog()
		}
	}
	for _, j := range v.GetJobs() {
		for _, a := range j.GetAttempts() {
			if log := found[a.GetId()]; log != nil && !a.GetLog().GetSealed() {
				a.Log = log
			}
		}
	}
}

func (r *Runs) row(ctx context.Context, tenant domain.TenantID, id domain.RunID) (store.RunRow, error) {
	if !domain.ValidID(domain.PrefixRun, string(id)) {
		return store.RunRow{}, domain.Reject(domain.CodeNotFound, "There is no such run.")
	}
	row, err := r.Views.Run(ctx, tenant, id)
	if errors.Is(err, store.ErrNotFound) {
		return store.RunRow{}, domain.Reject(domain.CodeNotFound, "There is no such run.")
	}
	return row, err
}

// WatchRun implements the contract.
func (r *Runs) WatchRun(
	ctx context.Context,
	req *fairleadv1.WatchRunRequest,
	out fairleadv1connect.RunServiceWatchRunServerStream,
) error {
	id := domain.RunID(req.GetRun())
	changed, ended, stop := r.Watch.Watch(id.Stream())
	defer stop()
	for version := uint64(0); ; {
		v, err := r.read(ctx, id, req.GetTimeline())
		if err != nil {
			return err
		}
		if v.GetVersion() > version {
			version = v.GetVersion()
			if err := out.Send(&fairleadv1.GetRunResponse{Run: v}); err != nil {
				return err
			}
		}
		if v.GetOutcome() != "" {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-time.After(watchPause):
		case <-ended: // told at once
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// act submits a command of a person on a run, under the client's key, and answers with
// the run as it is afterwards.
func (r *Runs) act(
	ctx context.Context,
	method string,
	id domain.RunID,
	c func(domain.Cause) run.Command,
) (*fairleadv1.Run, domain.Token, error) {
	caller := r.Caller(ctx)
	row, err := r.row(ctx, caller.Tenant, id)
	if err != nil {
		return nil, domain.Token{}, err
	}
	ack, err := r.Engine.Submit(ctx, engine.Envelope{Tenant: caller.Tenant, Partition: row.Partition, Stream: id.Stream(),
		Command: c(caller.Cause), Cause: caller.Cause,
		Key: &engine.Key{Scope: engine.ClientScope(caller.Scope, method), Key: caller.Key, Body: caller.Body}})
	if err != nil {
		return nil, domain.Token{}, err
	}
	if ack.Refusal != nil {
		return nil, domain.Token{}, ack.Refusal
	}
	out, err := r.read(ctx, id, false)
	return out, ack.Token, err
}

// CancelRun implements the contract.
func (r *Runs) CancelRun(ctx context.Context, req *fairleadv1.CancelRunRequest) (*fairleadv1.CancelRunResponse, error) {
	v, token, err := r.act(ctx, "CancelRun", domain.RunID(req.GetRun()), func(cause domain.Cause) run.Command {
		return run.RequestCancel{Cause: cause, Reason: req.GetReason()}
	})
	return &fairleadv1.CancelRunResponse{Run: v, Token: token.String(), Proof: string(token.Proof)}, err
}

// RerunRun implements the contract.
func (r *Runs) RerunRun(ctx context.Context, req *fairleadv1.RerunRunRequest) (*fairleadv1.RerunRunResponse, error) {
	mode := req.GetMode()
	if mode != run.RerunAll && mode != run.RerunFailed {
		return nil, field("mode", `mode is "all" or "failed".`)
	}
	if err := r.mayRerun(ctx, "RerunRun", domain.RunID(req.GetRun()), req.GetForce()); err != nil {
		return nil, err
	}
	v, token, err := r.act(ctx, "RerunRun", domain.RunID(req.GetRun()), func(cause domain.Cause) run.Command {
		return run.Rerun{Cause: cause, Mode: mode}
	})
	return &fairleadv1.RerunRunResponse{Run: v, Token: token.String(), Proof: string(token.Proof)}, err
}

// RetryJob implements the contract.
func (r *Runs) RetryJob(ctx context.Context, req *fairleadv1.RetryJobRequest) (*fairleadv1.RetryJobResponse, error) {
	job := domain.JobID(req.GetJob())
	id, _, ok := job.Split()
	if !ok {
		return nil, domain.Reject(domain.CodeNotFound, "There is no such job.")
	}
	if err := r.mayRerun(ctx, "RetryJob", id, req.GetForce()); err != nil {
		return nil, err
	}
	v, token, err := r.act(ctx, "RetryJob", id, func(cause domain.Cause) run.Command {
		return run.Rerun{Cause: cause, Mode: run.RerunJobs, Jobs: []domain.JobID{job}}
	})
	return &fairleadv1.RetryJobResponse{Run: v, Token: token.String(), Proof: string(token.Proof)}, err
}

// SettleAttempt implements the contract.
func (r *Runs) SettleAttempt(
	ctx context.Context,
	req *fairleadv1.SettleAttemptRequest,
) (*fairleadv1.SettleAttemptResponse, error) {
	att := domain.AttemptID(req.GetAttempt())
	if att.Run() == "" {
		return nil, domain.Reject(domain.CodeNotFound, "There is no such attempt.")
	}
	v, token, err := r.act(ctx, "SettleAttempt", att.Run(), func(cause domain.Cause) run.Command {
		return run.Settle{
			Cause:   cause,
			Attempt: att,
			Effect:  domain.SideEffect(req.GetEffect()),
			Then:    req.GetThen(),
			Note:    req.GetNote(),
		}
	})
	return &fairleadv1.SettleAttemptResponse{Run: v, Token: token.String(), Proof: string(token.Proof)}, err
}

// WhyRun implements the contract.
func (r *Runs) WhyRun(ctx context.Context, req *fairleadv1.WhyRunRequest) (*fairleadv1.WhyRunResponse, error) {
	tenant, id := r.Caller(ctx).Tenant, domain.RunID(req.GetRun())
	if _, err := r.row(ctx, tenant, id); err != nil {
		return nil, err
	}
	// Only who leads the pool knows which runners are there. Without it, what history says
	// is still an answer.
	if remote, err := r.Elsewhere.find(ctx); err == nil && remote != nil {
		within, cancel := remote.Within(ctx)
		defer cancel()
		res, err := remote.Runs.WhyRun(within, req)
		if r, rejected := domain.AsRejection(err); err == nil || rejected && r.Code != domain.CodeNotOwner {
			return res, err
		}
	}
	h, err := r.Engine.Read(ctx, tenant, id.Stream(), true)
	if err != nil {
		return nil, err
	}
	out, rejection := projection.Why(h.State.(*run.State), h, req.GetJob(), r.Explain, r.contexts(ctx, tenant, h))
	if rejection != nil {
		return nil, rejection
	}
	return &fairleadv1.WhyRunResponse{Explanations: out}, nil
}

func field(name, message string) error {
	return &domain.Rejection{Code: domain.CodeInvalidArgument, Message: message, Field: name}
}

// CreateRun implements the contract.
func (r *Runs) CreateRun(ctx context.Context, req *fairleadv1.CreateRunRequest) (*fairleadv1.CreateRunResponse, error) {
	caller := r.Caller(ctx)
	accepted, err := r.Trigger.Run(ctx, trigger.Request{
		Tenant: caller.Tenant, Repository: req.GetRepository(), Event: req.GetEvent(), Ref: req.GetRef(),
		Commit: req.GetCommit(), Workflow: req.GetWorkflow(), Inputs: req.GetInputs(), Title: req.GetTitle(),
		Captured: req.GetCaptured(), Cause: caller.Cause,
		Key: &engine.Key{Scope: engine.ClientScope(caller.Scope, "CreateRun"), Key: caller.Key, Body: caller.Body},
	})
	if err != nil {
		return nil, r.refusal(err)
	}
	out, err := r.accepted(ctx, &accepted)
	if err != nil {
		return nil, err
	}
	return &fairleadv1.CreateRunResponse{Run: out, Repeat: accepted.Repeat, Token: accepted.Token.String(),
		Proof: string(accepted.Token.Proof), Warnings: Diagnostics(accepted.Warnings)}, nil
}

// accepted shows a run that was asked for. One that this server has just begun is shown as it
// began: nothing is read back.
func (r *Runs) accepted(ctx context.Context, a *trigger.Accepted) (*fairleadv1.Run, error) {
	if len(a.Begun) == 0 {
		return r.read(ctx, a.Run, false)
	}
	s := run.New()
	for _, e := range a.Begun {
		run.Evolve(s, e.Event.(run.Event))
	}
	out := projection.Run(s, engine.History{State: s, Version: uint64(len(a.Begun)), Events: a.Begun}, a.Partition)
	out.Timeline = nil
	out.Url = r.URL() + "/runs/" + string(a.Run)
	return out, nil
}

// refusal gives a trigger's refusal to the caller with everything that helps to do better.
func (r *Runs) refusal(err error) error {
	var no *trigger.Refusal
	if errors.As(err, &no) {
		return r.Refuse(no.Rejection, Diagnostics(no.Diagnostics), no.Choices)
	}
	return err
}

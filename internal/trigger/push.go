package trigger

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/core/repository"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/workflow"
)

// Push says that a ref moved. Hooks, polls and repeats of both say it of the same move;
// the key of a run is (ref, commit, workflow), so all of them together start it once.
//
// Trust: all fields but Tenant and Cause come from whoever may report pushes. What they
// claim is checked against the repository itself.
type Push struct {
	Tenant     domain.TenantID
	Repository string // id or name
	Ref        string // in full
	Before     string // commit before; zeros or "" for a new ref
	After      string // commit after; zeros for a deleted ref
	Pusher     string // for people
	Cause      domain.Cause
}

// Pushed is what a push started.
type Pushed struct {
	Runs    []Accepted
	Reasons []string // why each other workflow did not start, one sentence each
	Token   domain.Token
}

// Push takes the news of a push: it brings the mirror up to date, records where the ref
// is now, and starts what the push starts. Doing it again gives the same runs.
func (t *Triggers) Push(ctx context.Context, p Push) (Pushed, error) {
	row, err := t.repository(ctx, p.Tenant, p.Repository)
	if err != nil {
		return Pushed{}, err
	}
	switch {
	case !observable(p.Ref):
		return Pushed{}, reject(domain.CodeInvalidArgument, "ref", "%.100q is not the full name of a branch or tag.", p.Ref)
	case !scm.ValidCommit(p.After) || p.Before != "" && !scm.ValidCommit(p.Before):
		return Pushed{}, reject(domain.CodeInvalidArgument, "after", "Commits are named by their full id, in lower-case hex.")
	case len(p.Pusher) > nameBytesMax:
		return Pushed{}, reject(domain.CodeInvalidArgument, "pusher", "The pusher's name has over %d bytes.", nameBytesMax)
	case row.URL == "":
		return Pushed{}, reject(domain.CodeInvalidArgument, "repository",
			"Clients push to this repository, so the server has no address to look at; register one with repo add.")
	}
	p.Pusher = domain.Clip(p.Pusher, nameBytesMax)
	refs, err := t.cfg.Source.Fetch(ctx, mirrorOf(row), scm.Remote{URL: row.URL})
	if err != nil {
		c := &cause{triggers: t, row: row}
		return Pushed{}, c.missing(err, "The repository can't be fetched.")
	}
	tip := ""
	for _, ref := range refs {
		if ref.Name == p.Ref {
			tip = ref.Commit
		}
	}
	if err := t.observe(ctx, row, p.Cause, repository.SourcePush, false,
		[]repository.Ref{{Name: p.Ref, Commit: tip}}); err != nil {
		return Pushed{}, err
	}
	if scm.ZeroCommit(p.After) {
		return Pushed{Reasons: []string{p.Ref + " was deleted, which starts nothing"}}, nil
	}
	out, err := t.start(ctx, row, p)
	if err != nil && tip == p.After { // what is really there, not what was only claimed
		return t.settle(ctx, row, p, err)
	}
	return out, err
}

// observe records where refs are.
func (t *Triggers) observe(ctx context.Context, row store.RepositoryRow, cause domain.Cause, source string,
	complete bool, refs []repository.Ref) error {
	_, err := t.cfg.Engine.Submit(ctx, engine.Envelope{
		Tenant: row.Tenant, Partition: row.Partition, Stream: row.Repository.Stream(), Cause: cause,
		Command: repository.ObserveRefs{Cause: cause, Source: source, Complete: complete, Refs: refs},
	})
	if err != nil {
		return fmt.Errorf("observe refs of %s: %w", row.Repository, err)
	}
	return nil
}

// start starts every workflow of the pushed commit that the push matches. A definition
// that can't be executed becomes a run that says so: nobody waits for this answer.
func (t *Triggers) start(ctx context.Context, row store.RepositoryRow, p Push) (Pushed, error) {
	if scm.ZeroCommit(p.Before) {
		p.Before = ""
	}
	base := cause{triggers: t, row: row, push: &p, changes: new(changes), request: Request{
		Tenant: row.Tenant, Repository: string(row.Repository), Event: workflow.EventPush, Ref: p.Ref, Commit: p.After,
		Cause: p.Cause}}
	if err := base.resolve(ctx); err != nil {
		return Pushed{}, err
	}
	if err := base.read(ctx); err != nil {
		return Pushed{}, err
	}
	var out Pushed
	if len(base.files) == 0 {
		out.Reasons = append(out.Reasons, fmt.Sprintf("commit %.12s has no workflow", p.After))
	}
	for _, link := range base.links[:min(len(base.links), choicesMax)] {
		out.Reasons = append(out.Reasons, aLink(link))
	}
	for _, file := range base.files {
		accepted, reason, err := base.startOne(ctx, file)
		if err != nil {
			return out, fmt.Errorf("start %s at %s: %w", file.Path, p.After, err)
		}
		if reason != "" {
			out.Reasons = append(out.Reasons, reason)
			continue
		}
		out.Runs = append(out.Runs, accepted)
		if accepted.Token != (domain.Token{}) {
			out.Token = accepted.Token
		}
	}
	return out, nil
}

// startOne starts one workflow, or says why the push does not.
func (c cause) startOne(ctx context.Context, file scm.File) (Accepted, string, error) {
	in := c.inspect(file)
	unreadable := workflow.Failed(in.diagnostics)
	event := workflow.Event{Name: workflow.EventPush, Ref: c.ref}
	if in.triggers.Filters() && strings.HasPrefix(c.ref, "refs/heads/") {
		if err := c.compare(ctx); err != nil {
			return Accepted{}, "", err
		}
		event.Changed, event.Unknown = c.changes.paths, c.changes.unknown
	}
	if matches, reason := in.triggers.Match(event); !matches && !unreadable {
		return Accepted{}, file.Path + ": " + reason, nil
	}
	c.request.Key = pushKey(c.row.Repository, c.ref, c.commit.ID, file.Path)
	if why := c.stopped[file.Path]; why != "" {
		// What the same push started before is still its run.
		accepted, done, err := c.triggers.earlier(ctx, c.row.Tenant, *c.request.Key)
		if done || err != nil {
			accepted.Workflow = file.Path
			return accepted, "", err
		}
		c.triggers.cfg.Log.Info("a push does not start a workflow", "repository", c.row.Repository, "ref", c.ref,
			"commit", c.commit.ID, "reason", why)
		return Accepted{}, why, nil
	}
	accepted, reason, err := c.begin(ctx, file)
	if no, ok := domain.AsRejection(err); ok && no.Code == domain.CodeWorkflowInvalid {
		// Only its values show it, such as those of its concurrency group. The other workflows of the
		// push are none the worse for it.
		accepted, err = c.submit(ctx, file, nil, []string{no.Message})
	}
	return accepted, reason, err
}

// changes are the files that a push changes, once somebody has asked.
type changes struct {
	known   bool
	paths   []string
	unknown string // why they are not known
}

// compare finds out which files the push changes, once for all its workflows.
func (c cause) compare(ctx context.Context) error {
	switch {
	case c.changes.known:
		return nil
	case c.push.Before == "":
		*c.changes = changes{true, nil, "the branch is new, so there is nothing to compare with"}
		return nil
	}
	paths, more, err := c.triggers.cfg.Source.Changed(ctx, mirrorOf(c.row), c.push.Before, c.commit.ID, changesMax)
	switch {
	case errors.Is(err, scm.ErrNotFound):
		*c.changes = changes{true, nil, "the commit before is not there any more"}
	case err != nil:
		return fmt.Errorf("compare with the commit before: %w", err)
	case more:
		*c.changes = changes{true, nil, fmt.Sprintf("the push changes more than %d files", changesMax)}
	default:
		*c.changes = changes{true, append([]string{}, paths...), ""}
	}
	return nil
}

// begin starts one workflow under the key of the request, which nobody waits for: a
// definition that can't be executed becomes a run that says so.
func (c cause) begin(ctx context.Context, file scm.File) (Accepted, string, error) {
	if accepted, done, err := c.triggers.earlier(ctx, c.row.Tenant, *c.request.Key); done || err != nil {
		accepted.Workflow = file.Path
		return accepted, "", err
	}
	p, diagnostics, err := c.compile(ctx, file)
	if err != nil {
		return Accepted{}, "", err
	}
	var invalid []string
	if workflow.Failed(diagnostics) {
		p = nil
		for _, d := range diagnostics {
			if d.Severity == workflow.Error {
				invalid = append(invalid, d.String())
			}
		}
	}
	accepted, err := c.submit(ctx, file, p, invalid)
	if no, ok := domain.AsRejection(err); ok && no.Code == domain.CodeTooManyOpenJobs {
		// To wait for room here would keep the pushes of all others waiting. The run that there is
		// says that it did not start, also to whoever tells of the push again.
		accepted, err = c.submit(ctx, file, nil, []string{"It was not started. " + no.Message})
	}
	accepted.Warnings = workflow.Warnings(diagnostics)
	return accepted, "", err
}

// pushKey is the dedupe key of a push: readable when it is short enough.
func pushKey(repo domain.RepositoryID, ref, commit, path string) *engine.Key {
	text := strings.Join([]string{"push", ref, commit, path}, ":")
	body := domain.DigestOf([]byte(text))
	if len(text) > keyBytesMax {
		text = "push:" + body.Hex()
	}
	return &engine.Key{Scope: engine.TriggerScope(repo), Key: text, Body: body}
}

// Reactor starts runs from moved refs: whoever saw the move first, a poll or a hook, the
// event is in the repository's history, so no crash between seeing and starting loses it.
func (t *Triggers) Reactor() engine.Reactor { return reactor{t} }

type reactor struct{ triggers *Triggers }

const reactorName = "trigger"

// Name implements engine.Reactor.
func (reactor) Name() string { return reactorName }

// React implements engine.Reactor. A row that comes again finds its runs by their keys.
func (r reactor) React(ctx context.Context, row engine.Committed) error {
	if row.Stream.Kind() != "repository" {
		return nil
	}
	t := r.triggers
	for n, event := range row.Events {
		moved, ok := event.(*repository.RefMoved)
		if !ok || !observable(moved.Ref) {
			continue
		}
		listed, err := t.repository(ctx, row.Tenant, row.Stream.ID())
		if err != nil {
			return fmt.Errorf("start runs of %s: %w", row.Stream, err)
		}
		version := row.First + uint64(n)
		p := Push{
			Tenant: row.Tenant, Repository: row.Stream.ID(), Ref: moved.Ref, Before: moved.Before, After: moved.After,
			Pusher: pusherOf(moved.Actor),
			Cause: domain.Cause{Actor: domain.Actor{Kind: "reactor", ID: reactorName, Via: "internal"},
				Request: engine.CommandID(reactorName, row.Stream, version, 0), Policy: t.cfg.Policy},
		}
		if _, err = t.start(ctx, listed, p); err != nil {
			_, err = t.settle(ctx, listed, p, err)
		}
		if err != nil {
			return fmt.Errorf("start runs of %s at %s: %w", moved.Ref, moved.After, err)
		}
	}
	return nil
}

// settle keeps a reactor from trying for ever what can't succeed: a commit that is gone
// or a file over a limit is the same the next time. Nobody waits for the answer, so it
// becomes a run that says what was wrong. A hook hears of the same run, whoever was first.
func (t *Triggers) settle(ctx context.Context, row store.RepositoryRow, p Push, err error) (Pushed, error) {
	rejection, rejected := domain.AsRejection(err)
	if !rejected || errors.Is(err, domain.ErrRetry) || !lasting(rejection) {
		return Pushed{}, err
	}
	c := &cause{triggers: t, row: row, push: &p, ref: p.Ref, commit: scm.Commit{ID: p.After},
		tier: domain.TierTrusted, class: domain.ClassBatch, request: Request{
			Tenant: row.Tenant, Repository: string(row.Repository), Event: workflow.EventPush, Ref: p.Ref, Commit: p.After,
			Title: "Push to " + p.Ref, Cause: p.Cause,
			Key: pushKey(row.Repository, p.Ref, p.After, workflow.FolderFairlead)}}
	accepted, err := c.submit(ctx, scm.File{Path: workflow.FolderFairlead}, nil, []string{rejection.Message})
	if err != nil {
		return Pushed{}, err
	}
	return Pushed{Runs: []Accepted{accepted}, Token: accepted.Token}, nil
}

// lasting reports whether the same try is refused for ever. The others somebody mends, and then
// it succeeds.
func lasting(no *domain.Rejection) bool {
	switch no.Code {
	case domain.CodeNotOwner, domain.CodeStorageFull, domain.CodeStreamQuarantined, domain.CodeUpgradeUnfinished,
		domain.CodeObjectDamaged, domain.CodeOverloaded, domain.CodeTooManyOpenJobs:
		return false
	}
	return true
}

// pusherOf is whom a move is put down to. A poll does not know.
func pusherOf(actor domain.Actor) string {
	if actor.Kind == "reactor" || actor.Kind == "timer" || actor.ID == "" {
		return ""
	}
	return actor.ID
}

package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/core/repository"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
	"github.com/fairlead-ci/fairlead/internal/workflow"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// Run accepts a request for a run. An error is a *Refusal or *domain.Rejection (nothing
// was created) or a fault.
func (t *Triggers) Run(ctx context.Context, r Request) (Accepted, error) {
	leave, err := t.gate.enter(ctx, line{r.Tenant, r.Repository})
	if err != nil {
		return Accepted{}, err
	}
	defer leave()
	row, err := t.repository(ctx, r.Tenant, r.Repository)
	if err != nil {
		return Accepted{}, err
	}
	if r.Key != nil {
		key := *r.Key
		if key.Body == "" {
			key.Body = bodyOf(r)
		}
		r.Key = &key
		// A repeat must find its run even when the branch or the workflow has changed since.
		if accepted, done, err := t.earlier(ctx, r.Tenant, key); done || err != nil {
			return accepted, err
		}
	}
	// A flood is refused here already, where it has cost next to nothing.
	if no := t.cfg.Engine.Admits(row.Partition, row.Tenant, row.Repository, 1); no != nil {
		return Accepted{}, no
	}
	c := &cause{triggers: t, row: row, request: r, leave: leave}
	if err := c.resolve(ctx); err != nil {
		return Accepted{}, err
	}
	if err := c.read(ctx); err != nil {
		return Accepted{}, err
	}
	file, err := c.choose()
	if err != nil {
		return Accepted{}, err
	}
	p, diagnostics, err := c.compile(ctx, file)
	if err != nil {
		return Accepted{}, err
	}
	if workflow.Failed(diagnostics) {
		return Accepted{}, &Refusal{
			Rejection: &domain.Rejection{Code: domain.CodeWorkflowInvalid, Field: "workflow",
				Message: fmt.Sprintf("%s can't be executed: %s", file.Path, firstError(diagnostics))},
			Diagnostics: diagnostics,
		}
	}
	accepted, err := c.submit(ctx, file, p, nil)
	accepted.Warnings = workflow.Warnings(diagnostics)
	return accepted, err
}

// earlier answers a request whose key has acted.
func (t *Triggers) earlier(ctx context.Context, tenant domain.TenantID, key engine.Key) (Accepted, bool, error) {
	found, ok, err := t.cfg.Engine.Earlier(ctx, tenant, key)
	switch {
	case err != nil:
		return Accepted{}, false, fmt.Errorf("look up key: %w", err)
	case !ok:
		return Accepted{}, false, nil
	case found.Expired:
		return Accepted{}, false, reject(domain.CodeIdempotencyExpired, "",
			"This idempotency key is too old for its reply to be kept; look the run up, or use a new key.")
	case found.Body != key.Body:
		return Accepted{}, false, reject(domain.CodeIdempotencyMismatch, "",
			"This idempotency key was used for another request; use a new key for a new request.")
	}
	return Accepted{Run: domain.RunID(found.Stream.ID()), Repeat: true}, true, nil
}

// bodyOf is the digest of what was asked for, in one form whatever the order of a map.
func bodyOf(r Request) domain.Digest {
	fields := []any{r.Repository, r.Event, r.Ref, r.Commit, r.Workflow, r.Title, r.Captured}
	for _, name := range slices.Sorted(maps.Keys(r.Inputs)) {
		fields = append(fields, name, r.Inputs[name])
	}
	data, err := json.Marshal(fields)
	if err != nil {
		panic(fmt.Sprintf("encode request: %v", err)) // only strings and booleans: can't happen
	}
	return domain.DigestOf(data)
}

// cause is one request or push on its way to a run.
type cause struct {
	triggers *Triggers
	row      store.RepositoryRow
	request  Request  // of a push: made from it
	push     *Push    // nil for a request
	changes  *changes // of a push
	cron     string   // of a schedule: which one it is; "" otherwise
	mirrored bool     // what the mirror lacks is not fetched: somebody else looks after that
	leave    func()   // gives the place at the gate back; nil without one
	used     *used    // what the file uses from elsewhere

	asWritten   bool // withdrawals don't count: nothing starts
	state       *repository.State
	withdrawals map[string]*repository.Withdrawal // of the commit's workflows, by path
	stopped     map[string]string                 // why those don't start that are withdrawn, by path

	ref       string // in full; "" when there is none
	commit    scm.Commit
	files     []scm.File
	links     []string // paths of workflows that are symbolic links: nothing follows them
	tier      domain.Tier
	class     domain.Class
	protected bool // the ref is protected, and the commit is on it
}

// resolve finds out which commit is meant, once. From here on nothing asks for a name
// again. Whether the mirror has it is read's to find out.
func (c *cause) resolve(ctx context.Context) error {
	r := c.request
	if r.Ref != "" && (!scm.ValidRefName(r.Ref) || strings.HasPrefix(r.Ref, "refs/fairlead/")) {
		return reject(domain.CodeInvalidArgument, "ref", "%.100q can't be the name of a branch or tag.", r.Ref)
	}
	if r.Commit == "" {
		return c.resolveRef(ctx)
	}
	if !scm.ValidCommit(r.Commit) {
		return reject(domain.CodeInvalidArgument, "commit", "A commit is named by its full id, in lower-case hex.")
	}
	c.ref, c.commit.ID = fullRef(r.Ref), r.Commit
	return nil
}

// resolveRef asks the remote itself, if there is one: a mirror may be some seconds old,
// and who asks for a branch means what it is now.
func (c *cause) resolveRef(ctx context.Context) error {
	source, repo := c.triggers.cfg.Source, mirrorOf(c.row)
	name := c.request.Ref
	if name == "" {
		name = "refs/heads/" + c.row.DefaultBranch
	}
	if c.row.URL != "" {
		if _, err := source.Fetch(ctx, repo, scm.Remote{URL: c.row.URL}); err != nil {
			return c.missing(err, "The repository can't be reached at its address.")
		}
	}
	found, err := source.Resolve(ctx, repo, name)
	if err != nil {
		return c.missing(err, fmt.Sprintf("The repository has no branch or tag %.200q.", name))
	}
	c.ref, c.commit.ID = found.Ref, found.Commit
	return nil
}

// missing turns what the source says into a refusal; a fault stays one.
func (c *cause) missing(err error, message string) error {
	switch {
	case errors.Is(err, scm.ErrUnreachable):
		// What it has is not known, so message would claim too much.
		return reject(domain.CodeCommitNotFound, "commit", "The repository's address did not answer: try again.")
	case errors.Is(err, scm.ErrNotFound):
		return reject(domain.CodeCommitNotFound, "commit", "%s", message)
	case errors.Is(err, scm.ErrRefused):
		return reject(domain.CodeInvalidArgument, "repository", "The repository's address is not allowed: %v.", err)
	case errors.Is(err, scm.ErrTooLarge):
		return reject(domain.CodeTooLarge, "repository", "The repository is over a limit: %v.", err)
	}
	return fmt.Errorf("resolve commit in %s: %w", c.row.Repository, err)
}

// fullRef makes a full ref of a branch's name.
func fullRef(name string) string {
	if name == "" || strings.HasPrefix(name, "refs/") {
		return name
	}
	return "refs/heads/" + name
}

// read reads the commit with its workflow files, and pins it. Between the two it is safe:
// maintenance keeps whatever is younger than two weeks.
func (c *cause) read(ctx context.Context) error {
	source, repo, id := c.triggers.cfg.Source, mirrorOf(c.row), c.commit.ID
	q := scm.Query{
		Dirs: []string{workflow.FolderFairlead, workflow.FolderGitHub}, Suffixes: []string{".yml", ".yaml"},
		FilesMax: filesMax, BytesMax: filesBytesMax, TotalMax: filesBytesMax,
	}
	commit, files, err := c.triggers.remembered.read(ctx, source, repo, id, q)
	if errors.Is(err, scm.ErrNotFound) && c.row.URL != "" && !c.request.Captured && !c.mirrored {
		// Only what is on a branch or tag, or was pushed here by a member, may run: a remote
		// that is asked for a bare id may also give a stranger's commit, from a fork.
		if _, err = source.Fetch(ctx, repo, scm.Remote{URL: c.row.URL}); err == nil {
			commit, files, err = c.triggers.remembered.read(ctx, source, repo, id, q)
		}
	}
	if errors.Is(err, scm.ErrTooLarge) {
		return reject(domain.CodeTooLarge, "workflow", "The workflow files are over a limit: %v.", err)
	}
	if err == nil && !(c.asWritten && c.mirrored) { // what is only looked at need not be kept
		err = source.Pin(ctx, repo, id)
	}
	if err != nil {
		return c.missing(err, "The repository has no commit "+id+".")
	}
	var paths []string
	for _, f := range files {
		if f.Link {
			c.links = append(c.links, f.Path)
			continue
		}
		paths = append(paths, f.Path)
	}
	chosen, _ := workflow.Select(paths)
	c.commit = commit
	for _, f := range files {
		if slices.Contains(chosen, f.Path) {
			c.files = append(c.files, f)
		}
	}
	if c.asWritten {
		return nil
	}
	if err := c.withdraw(ctx); err != nil {
		return err
	}
	return c.judge(ctx)
}

// compile makes the plan of one file for this cause, when everything that it uses is resolved.
func (c *cause) compile(ctx context.Context, file scm.File) (*compiled, []workflow.Diagnostic, error) {
	if err := c.components(ctx, file); err != nil {
		return nil, nil, err
	}
	p, diagnostics := c.triggers.remembered.compile(workflow.Source{Path: file.Path, Text: file.Bytes}, workflow.Inputs{
		Event: c.request.Event, Ref: c.ref, SHA: c.commit.ID, Repository: c.row.Name, Actor: c.actor(),
		Dispatch: c.request.Inputs, Components: c.used.known, Pins: c.used.pins,
	}, c.triggers.cfg.Limits)
	return p, diagnostics, nil
}

// The event formats from which on all servers read plans of forms 2 and 3.
const (
	formatPlanTwo   = 4
	formatPlanThree = 5
)

// formatOneObject is the format from which on all servers read a snapshot of version 2.
const formatOneObject = 3

// submit stores what the run rests on and asks for it. invalid, when it is not empty,
// says why there is no plan.
func (c *cause) submit(ctx context.Context, file scm.File, p *compiled, invalid []string) (Accepted, error) {
	t := c.triggers
	id := domain.RunID(domain.EncodeID(domain.PrefixRun, t.cfg.NewID()))
	key := "request:" + string(id)
	if c.request.Key != nil {
		key = c.request.Key.Key
	}
	name := file.Path
	request := run.Request{
		Run: id, Tenant: c.row.Tenant, Repository: c.row.Repository, RepositoryName: c.row.Name,
		Trigger: run.Trigger{Event: c.request.Event, Key: key, Actor: c.who(), ReceivedAt: t.cfg.Now().UTC()},
		Source:  run.Source{Commit: c.commit.ID, Ref: c.ref, Title: c.title()},
		Tier:    c.tier, Class: c.class, Invalid: invalid, Limits: t.cfg.RunLimits,
	}
	if c.request.Captured {
		request.Source.Ref = ""
	}
	objects := t.newObjects(c.row.Tenant)
	var inputs []plan.Input
	if p != nil {
		name, inputs = p.plan.Name, p.plan.Inputs
		request.Skeleton = p.skeleton
		text, ok := p.lowered(t.cfg.Engine.Format())
		if !ok {
			return Accepted{}, reject(domain.CodeUpgradeUnfinished, "workflow", "The workflow has what a server of the "+
				"fleet does not know yet: ask again when all of them are upgraded.")
		}
		request.Plan = objects.add(text)
	}
	request.WorkflowPath, request.WorkflowName = file.Path, name
	request.Inputs = objects.add(inputsJSON(inputs))
	frozen := c.freeze(file, name, inputs)
	frozen.Workflow.Digest = objects.add(file.Bytes)
	frozen.Github = c.githubJSON(file, name, inputs)
	if p != nil && len(c.used.names()) > 0 {
		frozen.Version, frozen.Components = snapshot.Version, c.used.frozen(objects)
	}
	if p != nil && p.plan.Concurrency != nil {
		joins, err := groupOf(p.plan.Concurrency, frozen.Github, inputsJSON(inputs))
		if err != nil {
			return Accepted{}, reject(domain.CodeWorkflowInvalid, "concurrency",
				"%s can't be executed: %s (line %d).", file.Path, strings.TrimSuffix(err.Error(), "."), p.plan.Concurrency.Line)
		}
		request.Concurrency = joins
	}
	if t.cfg.Engine.Format() < formatOneObject {
		frozen.Version, frozen.Trigger.Key = snapshot.VersionOne, key
		frozen.Github, frozen.GithubObject = nil, objects.add(frozen.Github)
	}
	request.Snapshot = objects.add(frozen.Encode())
	if no := t.cfg.Engine.Admits(c.row.Partition, c.row.Tenant, c.row.Repository, len(request.Skeleton)); no != nil {
		return Accepted{}, no
	}
	if err := objects.store(ctx); err != nil {
		return Accepted{}, fmt.Errorf("store inputs of %s: %w", id, err)
	}
	if c.leave != nil {
		c.leave() // the engine has a queue of its own
	}
	ack, err := t.cfg.Engine.Submit(ctx, engine.Envelope{
		Tenant: c.row.Tenant, Partition: c.row.Partition, Stream: id.Stream(), Cause: c.request.Cause,
		Command: run.RequestRun{Cause: c.request.Cause, Request: request}, Key: c.request.Key,
		Counter: "runs/" + string(c.row.Repository) + "/" + file.Path,
	})
	if err != nil {
		return Accepted{}, fmt.Errorf("request run of %s: %w", file.Path, err)
	}
	return Accepted{Run: domain.RunID(ack.Stream.ID()), Repeat: ack.Repeat, Workflow: file.Path, Token: ack.Token,
		Partition: c.row.Partition, Begun: ack.Begun}, nil
}

// freeze writes down what the plan was made from.
func (c *cause) freeze(file scm.File, name string, inputs []plan.Input) *snapshot.Snapshot {
	s := &snapshot.Snapshot{
		Version: snapshot.VersionTwo, Evaluator: plan.Evaluator,
		Tenant: c.row.Tenant, Repository: c.row.Repository, RepositoryName: c.row.Name,
		Source: snapshot.Source{Commit: c.commit.ID, Tree: c.commit.Tree, Ref: c.ref,
			Captured: c.request.Captured},
		Workflow: snapshot.Workflow{Path: file.Path, Name: name},
		Policy:   c.triggers.cfg.Policy, Tier: c.tier, Class: c.class, Inputs: inputs,
		Trigger: snapshot.Trigger{Event: c.request.Event, Actor: c.who()},
	}
	if c.push != nil {
		s.Trigger.Before = c.push.Before
	}
	for _, name := range slices.Sorted(maps.Keys(c.request.Inputs)) {
		s.Given = append(s.Given, snapshot.Binding{Name: name, Value: c.request.Inputs[name]})
	}
	return s
}

// title is what lists show.
func (c *cause) title() string {
	title := c.request.Title
	if strings.TrimSpace(title) == "" {
		title = c.commit.Title()
	}
	line, _, _ := strings.Cut(strings.TrimSpace(title), "\n")
	return domain.Clip(line, titleBytesMax)
}

// who is the actor that the source names as the cause.
func (c *cause) who() domain.Actor {
	if c.push != nil && c.push.Pusher != "" {
		return domain.Actor{Kind: "source", ID: c.push.Pusher}
	}
	return c.request.Cause.Actor
}

// actor is github.actor: a name, not an identity that anything is decided by.
func (c *cause) actor() string { return c.who().ID }

func firstError(diagnostics []workflow.Diagnostic) string {
	for _, d := range diagnostics {
		if d.Severity == workflow.Error {
			return fmt.Sprintf("%s (line %d)", d.Message, d.Pos.Line)
		}
	}
	return ""
}

package trigger

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/repository"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/order"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
	"github.com/fairlead-ci/fairlead/internal/workflow"
)

// Actions of a Withdrawal.
const (
	ActionDisable = "disable" // nothing new starts with it
	ActionRestore = "restore" // new runs use its text at a commit
	ActionEnable  = "enable"  // it counts as it is written again
)

// Withdrawal asks for a workflow or a component to count no more as it is written, or to count again.
//
// Trust: all fields but Tenant and Cause come from who may administer the repository.
type Withdrawal struct {
	Tenant     domain.TenantID
	Repository string // id or name
	Workflow   string // path, or the file's name where it is one of the default branch
	Component  string // instead of Workflow
	Action     string
	Commit     string // of ActionRestore: full id, branch or tag
	Reason     string
	Cause      domain.Cause
	Key        *engine.Key // nil: each is a new one
}

// Withdraw records a withdrawal, or the end of one. What starts from its acknowledgement on, here or
// on another server, follows it; what is being started at the same moment may not.
func (t *Triggers) Withdraw(ctx context.Context, w Withdrawal) (domain.Token, error) {
	leave, err := t.gate.enter(ctx, line{w.Tenant, w.Repository})
	if err != nil {
		return domain.Token{}, err
	}
	defer leave()
	row, err := t.repository(ctx, w.Tenant, w.Repository)
	if err != nil {
		return domain.Token{}, err
	}
	if w.Key != nil {
		// A repeat is answered also when the branch that it named has gone since.
		if _, done, err := t.earlier(ctx, w.Tenant, *w.Key); done || err != nil {
			return domain.Token{}, err
		}
	}
	command, err := t.withdrawal(ctx, row, w)
	if err != nil {
		return domain.Token{}, err
	}
	ack, err := t.cfg.Engine.Submit(ctx, engine.Envelope{Tenant: row.Tenant, Partition: row.Partition,
		Stream: row.Repository.Stream(), Cause: w.Cause, Key: w.Key, Command: command})
	if err != nil {
		return domain.Token{}, fmt.Errorf("%s %s%s of %s: %w", w.Action, w.Workflow, w.Component, row.Repository, err)
	}
	return ack.Token, nil
}

// withdrawal is the command of a request.
func (t *Triggers) withdrawal(ctx context.Context, row store.RepositoryRow, w Withdrawal) (repository.Command, error) {
	if (w.Workflow == "") == (w.Component == "") {
		return nil, reject(domain.CodeInvalidArgument, "workflow", "Name either a workflow or a component.")
	}
	if (w.Action == ActionRestore) != (w.Commit != "") || w.Action == ActionRestore && w.Component != "" {
		return nil, reject(domain.CodeInvalidArgument, "commit",
			"A commit belongs to restoring a workflow: name the one that has its good text.")
	}
	if w.Workflow != "" {
		found, err := t.meant(ctx, row, w.Workflow)
		if err != nil {
			return nil, err
		}
		w.Workflow = found
	}
	switch w.Action {
	case ActionDisable:
		return repository.Withdraw{Cause: w.Cause, Workflow: w.Workflow, Component: w.Component, Reason: w.Reason}, nil
	case ActionEnable:
		return repository.Reinstate{Cause: w.Cause, Workflow: w.Workflow, Component: w.Component, Reason: w.Reason}, nil
	case ActionRestore:
		commit, text, err := t.good(ctx, row, w)
		if err != nil {
			return nil, err
		}
		return repository.Withdraw{Cause: w.Cause, Workflow: w.Workflow, Commit: commit, Text: text, Reason: w.Reason}, nil
	}
	return nil, reject(domain.CodeInvalidArgument, "action", "The action is %s, %s or %s, not %.50q.", ActionDisable,
		ActionRestore, ActionEnable, w.Action)
}

// meant is the path of the workflow that a name stands for. A path need not be on the default
// branch: what is to be stopped may be on another one.
func (t *Triggers) meant(ctx context.Context, row store.RepositoryRow, name string) (string, error) {
	clean := strings.TrimPrefix(path.Clean(name), "./")
	folder := path.Dir(clean)
	if ext := path.Ext(clean); (ext == ".yml" || ext == ".yaml") &&
		(folder == workflow.FolderFairlead || folder == workflow.FolderGitHub) {
		return clean, nil
	}
	state, err := t.stateOf(ctx, row)
	if err != nil {
		return "", err
	}
	var paths []string
	for i := range state.Withdrawals {
		if p := state.Withdrawals[i].Workflow; p != "" && called(p, clean) {
			paths = append(paths, p)
		}
	}
	if tip := state.Tip("refs/heads/" + row.DefaultBranch); tip != "" && len(paths) == 0 {
		c := t.look(row, tip)
		if err := c.read(ctx); err != nil {
			return "", err
		}
		for _, f := range c.files {
			if called(f.Path, clean) {
				paths = append(paths, f.Path)
			}
		}
	}
	if len(paths) != 1 {
		return "", &Refusal{Choices: paths, Rejection: &domain.Rejection{Code: domain.CodeWorkflowNotFound, Field: "workflow",
			Message: fmt.Sprintf("%.100q names no workflow of the default branch, or several: give its path, as in %s/ci.yml.",
				name, workflow.FolderGitHub)}}
	}
	return paths[0], nil
}

// look is a cause that starts nothing, at a commit as the mirror has it and as it is written.
func (t *Triggers) look(row store.RepositoryRow, commit string) *cause {
	return &cause{triggers: t, row: row, mirrored: true, asWritten: true, commit: scm.Commit{ID: commit},
		request: Request{Tenant: row.Tenant, Repository: string(row.Repository), Commit: commit}}
}

// good finds the text that a workflow is restored to, and pins its commit.
func (t *Triggers) good(ctx context.Context, row store.RepositoryRow, w Withdrawal) (string, domain.Digest, error) {
	c := &cause{triggers: t, row: row, asWritten: true, request: Request{Tenant: row.Tenant,
		Repository: string(row.Repository), Ref: w.Commit}}
	if scm.ValidCommit(w.Commit) {
		c.request.Ref, c.request.Commit = "", w.Commit
	}
	if err := c.resolve(ctx); err != nil {
		return "", "", err
	}
	if err := c.read(ctx); err != nil {
		return "", "", err
	}
	at := slices.IndexFunc(c.files, func(f scm.File) bool { return f.Path == w.Workflow })
	if at < 0 {
		return "", "", &Refusal{Choices: c.choices(c.files), Rejection: &domain.Rejection{Code: domain.CodeWorkflowNotFound,
			Field: "commit", Message: fmt.Sprintf("Commit %.12s has no workflow %.200s.", c.commit.ID, w.Workflow)}}
	}
	src := workflow.Source{Path: w.Workflow, Text: c.files[at].Bytes}
	if _, found := workflow.Compile(src, workflow.Inputs{}, t.cfg.Limits); workflow.Failed(found) {
		return "", "", &Refusal{Diagnostics: found, Rejection: &domain.Rejection{Code: domain.CodeWorkflowInvalid,
			Field: "commit", Message: fmt.Sprintf("The text of %.200s at commit %.12s can't be executed: %s", w.Workflow,
				c.commit.ID, firstError(found))}}
	}
	return c.commit.ID, domain.DigestOf(c.files[at].Bytes), nil
}

// stateOf is what history has of a repository.
func (t *Triggers) stateOf(ctx context.Context, row store.RepositoryRow) (*repository.State, error) {
	history, err := t.cfg.Engine.Read(ctx, row.Tenant, row.Repository.Stream(), false)
	if err != nil {
		return nil, fmt.Errorf("read repository %s: %w", row.Repository, err)
	}
	state, ok := history.State.(*repository.State)
	if !ok {
		return nil, fmt.Errorf("read repository %s: unexpected state %T", row.Repository, history.State)
	}
	return state, nil
}

// Withdrawals lists the withdrawals of a repository.
func (t *Triggers) Withdrawals(ctx context.Context, tenant domain.TenantID, name string) (
	[]repository.Withdrawal, error) {
	row, err := t.repository(ctx, tenant, name)
	if err != nil {
		return nil, err
	}
	state, err := t.stateOf(ctx, row)
	if err != nil {
		return nil, err
	}
	return state.Withdrawals, nil
}

// history is stateOf, read once for a cause.
func (c *cause) history(ctx context.Context) (*repository.State, error) {
	if c.state == nil {
		state, err := c.triggers.stateOf(ctx, c.row)
		if err != nil {
			return nil, err
		}
		c.state = state
	}
	return c.state, nil
}

// withdraw finds which of the commit's workflows do not count as they are written: a restored one
// has the text of its good commit from here on, a disabled one starts nothing.
func (c *cause) withdraw(ctx context.Context) error {
	state, err := c.history(ctx)
	if err != nil || len(state.Withdrawals) == 0 {
		return err
	}
	c.withdrawals = map[string]*repository.Withdrawal{}
	c.stopped = map[string]string{}
	c.files = slices.Clone(c.files)
	for i := range c.files {
		file := &c.files[i]
		w := state.Withdrawn(file.Path)
		if w == nil {
			continue
		}
		c.withdrawals[file.Path] = w
		if !w.Restored() {
			c.stopped[file.Path] = disabled(file.Path, w)
			continue
		}
		text, why, err := c.restored(ctx, w)
		switch {
		case err != nil:
			return err
		case why != "":
			c.stopped[file.Path] = why
		default:
			file.Bytes = text
		}
	}
	return nil
}

// disabled says why a workflow does not start.
func disabled(name string, w *repository.Withdrawal) string {
	return fmt.Sprintf("%s is disabled since %s by %s %s: %s", name, w.At.UTC().Format(time.RFC3339), w.Actor.Kind,
		w.Actor.ID, w.Reason)
}

// restored reads the text that a workflow is restored to. why is a sentence when it is not there any
// more: to start with another one is what nobody has allowed.
func (c *cause) restored(ctx context.Context, w *repository.Withdrawal) (text []byte, why string, err error) {
	from := c.triggers.look(c.row, w.Commit)
	err = from.read(ctx)
	if no, ok := domain.AsRejection(err); ok && !errors.Is(err, domain.ErrRetry) {
		return nil, fmt.Sprintf("%s is restored to its text at commit %.12s, which can't be read: %s", w.Workflow, w.Commit,
			strings.TrimSuffix(no.Message, ".")), nil
	}
	if err != nil {
		return nil, "", err
	}
	for _, f := range from.files {
		if f.Path == w.Workflow && domain.DigestOf(f.Bytes) == w.Text {
			return f.Bytes, "", nil
		}
	}
	return nil, fmt.Sprintf("%s is restored to its text at commit %.12s, where it is not as it was", w.Workflow,
		w.Commit), nil
}

// textCommit is the commit that a workflow's text is from: the run's own, or the one that it is
// restored to.
func (c *cause) textCommit(name string) string {
	if w := c.withdrawals[name]; w != nil && w.Restored() {
		return w.Commit
	}
	return c.commit.ID
}

// stop refuses a workflow that is disabled to a person who asks.
func (c *cause) stop(name string) error {
	if why := c.stopped[name]; why != "" {
		return &Refusal{Rejection: &domain.Rejection{Code: domain.CodeWorkflowDisabled, Field: "workflow",
			Message: why + "."}}
	}
	return nil
}

// withdrawn says why a component must not be part of a run; "" when it may. Whoever resolves a
// workflow's references asks of each.
func withdrawn(s *repository.State, c workflow.Component) string {
	pinned := ""
	if c.Reference.Repository != "" && c.Commit != "" {
		pinned = c.Reference.Repository + "@" + c.Commit
	}
	w := s.WithdrawnComponent(pinned, c.Tree, c.Digest())
	if w == nil {
		return ""
	}
	return disabled(c.Reference.String(), w)
}

// MayRerun says why a run must not be run again without force: a rerun has the run's own plan, so
// it would do once more what its workflow was withdrawn for.
func (t *Triggers) MayRerun(ctx context.Context, tenant domain.TenantID, q *run.Request) error {
	row, err := t.repository(ctx, tenant, string(q.Repository))
	if no, ok := domain.AsRejection(err); ok && no.Code == domain.CodeNotFound {
		return nil // it was forgotten, and so were its withdrawals
	} else if err != nil {
		return err
	}
	state, err := t.stateOf(ctx, row)
	if err != nil {
		return err
	}
	w := state.Withdrawn(q.WorkflowPath)
	if w == nil {
		return t.mayUse(ctx, tenant, q, state)
	}
	why := disabled(q.WorkflowPath, w)
	if w.Restored() {
		same, err := t.madeFrom(ctx, tenant, q, w.Text)
		if err != nil {
			return err
		}
		if same {
			return t.mayUse(ctx, tenant, q, state)
		}
		why = fmt.Sprintf("%s is restored to its text at commit %.12s, and this run is of another text: %s", q.WorkflowPath,
			w.Commit, w.Reason)
	}
	return reject(domain.CodeWorkflowDisabled, "run",
		"%s. A rerun would use the run's own plan; force it, or start a new run.", strings.TrimSuffix(why, "."))
}

// mayUse refuses a rerun of a run that rests on a disabled component.
func (t *Triggers) mayUse(ctx context.Context, tenant domain.TenantID, q *run.Request, state *repository.State) error {
	if !slices.ContainsFunc(state.Withdrawals, func(w repository.Withdrawal) bool { return w.Component != "" }) {
		return nil
	}
	data, err := order.ReadObject(ctx, t.cfg.Blobs, tenant, q.Snapshot, snapshotBytesMax)
	if err != nil {
		return err
	}
	s, err := snapshot.Decode(data)
	if err != nil {
		return err
	}
	for _, c := range s.Components {
		if c.Commit() == "" {
			continue
		}
		pinned := ""
		if parts := strings.SplitN(strings.SplitN(c.Name, "@", 2)[0], "/", 3); len(parts) > 1 {
			pinned = parts[0] + "/" + parts[1] + "@" + c.Commit()
		}
		tree := strings.TrimPrefix(c.Digest, "git:"+c.Commit()+":")
		if w := state.WithdrawnComponent(pinned, tree, c.Digest); w != nil {
			return reject(domain.CodeWorkflowDisabled, "run",
				"%s. A rerun would use it again at the same commit; force it, or start a new run.",
				strings.TrimSuffix(disabled(c.Name, w), "."))
		}
	}
	return nil
}

// madeFrom reports whether a run was made from that text. A snapshot that can't be read is no proof.
func (t *Triggers) madeFrom(ctx context.Context, tenant domain.TenantID, q *run.Request, text domain.Digest) (
	bool, error) {
	data, err := order.ReadObject(ctx, t.cfg.Blobs, tenant, q.Snapshot, snapshotBytesMax)
	if _, ok := domain.AsRejection(err); ok {
		return false, nil
	} else if err != nil {
		return false, err
	}
	s, err := snapshot.Decode(data)
	return err == nil && s.Workflow.Digest == text, nil
}

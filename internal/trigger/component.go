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
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
	"github.com/fairlead-ci/fairlead/internal/workflow"
)

// Bounds of what a run may use from elsewhere.
const (
	// componentsMax bounds the components of one run; over it: refused.
	componentsMax = 200
	// definitionBytesMax bounds one action.yml; over it the component is refused.
	definitionBytesMax = 1 << 20
	// componentsPatience bounds resolving all components of one run.
	componentsPatience = 5 * time.Minute
)

// used is what a run uses from elsewhere: its components, where they are, and the policy.
type used struct {
	known   workflow.Components
	mirrors map[string]scm.Repo // by repository and revision
	pins    workflow.Pins
}

// definition names a file of a commit.
type definition struct {
	repo         scm.Repo
	commit, path string
}

// definitionValue is what there is.
type definitionValue struct {
	tree, file string
	text       []byte
	problem    string
	when       time.Time
}

// components resolves everything that the file uses, and what that uses in turn. What can't be
// resolved is a problem that the compiler reports at its place. An error is a refusal or a fault.
func (c *cause) components(ctx context.Context, file scm.File) error {
	t := c.triggers
	src := workflow.Source{Path: file.Path, Text: file.Bytes}
	u := &used{known: workflow.Components{}, mirrors: make(map[string]scm.Repo)}
	c.used = u
	key := keyOf(file.Bytes)
	if _, alone := t.remembered.alone.Get(key); alone {
		return nil
	}
	r := &resolver{cause: c, used: u, at: make(map[string]resolved)}
	for {
		wanted := workflow.Wanted(src, workflow.Inputs{Components: u.known}, t.cfg.Limits)
		if len(wanted) == 0 {
			break
		}
		if len(u.known)+len(wanted) > componentsMax {
			return reject(domain.CodeTooLarge, "workflow",
				"The workflow uses more than %d actions, those that they use included.", componentsMax)
		}
		if err := r.all(ctx, wanted); err != nil {
			return err
		}
	}
	if len(u.known) == 0 {
		t.remembered.alone.Put(key, struct{}{}, len(key))
	}
	if len(r.at) == 0 { // nothing of other repositories
		return nil
	}
	return c.policy(ctx)
}

// policy reads what the repository says about references, and its lock file.
func (c *cause) policy(ctx context.Context) error {
	state, err := c.history(ctx)
	if err != nil {
		return err
	}
	c.used.pins.Policy = state.Components
	if c.used.pins.Policy != workflow.PinsLock {
		return nil
	}
	lock, err := c.lock(ctx)
	c.used.pins.Lock = lock
	return err
}

// lock reads the lock file of the run's commit; one that is missing has no entries.
func (c *cause) lock(ctx context.Context) (workflow.Lock, error) {
	_, files, err := c.triggers.cfg.Source.Read(ctx, mirrorOf(c.row), c.commit.ID, scm.Query{
		Dirs: []string{path.Dir(workflow.LockFile)}, Suffixes: []string{path.Base(workflow.LockFile)}, FilesMax: 10,
		BytesMax: definitionBytesMax, TotalMax: definitionBytesMax})
	if err != nil {
		return nil, c.missing(err, "The lock file can't be read.")
	}
	for _, f := range files {
		if f.Path != workflow.LockFile || f.Link {
			continue
		}
		lock, err := workflow.ParseLock(f.Bytes)
		if err != nil {
			return nil, reject(domain.CodeWorkflowInvalid, "workflow", "%s is not valid: %v.", workflow.LockFile, err)
		}
		return lock, nil
	}
	return workflow.Lock{}, nil
}

// resolved is what a repository at a revision is.
type resolved struct {
	repo    scm.Repo
	commit  string
	problem string
}

// resolver resolves the references of one cause. Each repository is asked once.
type resolver struct {
	cause *cause
	used  *used
	at    map[string]resolved // by repository and revision
}

func (r *resolver) all(ctx context.Context, wanted []workflow.Reference) error {
	ctx, cancel := context.WithTimeout(ctx, componentsPatience)
	defer cancel()
	for _, reference := range wanted {
		found, err := r.one(ctx, reference)
		if err != nil {
			return fmt.Errorf("resolve %s: %w", reference, err)
		}
		r.used.known[reference.String()] = found
	}
	return nil
}

// one resolves a reference and reads its definition.
func (r *resolver) one(ctx context.Context, reference workflow.Reference) (workflow.Component, error) {
	out := workflow.Component{Reference: reference}
	if clean := path.Clean("/" + reference.Path); clean != "/"+reference.Path && reference.Path != "" ||
		strings.ContainsAny(reference.Path, ":\x00\n") {
		out.Problem = "its folder is not written plainly"
		return out, nil
	}
	at := resolved{repo: mirrorOf(r.cause.row), commit: r.cause.commit.ID}
	if name := reference.Source(); name != "" {
		var known bool
		if at, known = r.at[name]; !known {
			var err error
			if at, err = r.find(ctx, reference); err != nil {
				return out, err
			}
			r.at[name] = at
		}
		r.used.mirrors[name] = at.repo
	}
	if at.problem != "" {
		out.Problem = at.problem
		return out, nil
	}
	d, err := r.cause.triggers.define(ctx, definition{at.repo, at.commit, reference.Path})
	if err != nil {
		return out, err
	}
	out.File, out.Text, out.Problem = d.file, d.text, d.problem
	if reference.Repository != "" {
		out.Commit, out.Tree = at.commit, d.tree
	}
	if out.Problem == "" && out.Commit != "" {
		state, err := r.cause.history(ctx)
		if err != nil {
			return out, err
		}
		out.Problem = withdrawn(state, out)
	}
	return out, nil
}

// find resolves a repository's revision to a commit, and pins that.
func (r *resolver) find(ctx context.Context, reference workflow.Reference) (resolved, error) {
	source := r.cause.triggers.cfg.Source
	repo, url, problem, err := r.cause.triggers.mirrorFor(ctx, r.cause.row.Tenant, reference.Repository)
	if problem != "" || err != nil {
		return resolved{problem: problem}, err
	}
	whole := scm.ValidCommit(reference.Revision)
	found, err := source.Resolve(ctx, repo, reference.Revision)
	if url != "" && (!whole || err != nil) {
		if _, err = source.Fetch(ctx, repo, scm.Remote{URL: url}); err == nil {
			found, err = source.Resolve(ctx, repo, reference.Revision)
		}
	}
	if err == nil {
		err = source.Pin(ctx, repo, found.Commit)
	}
	switch {
	case err == nil:
		return resolved{repo: repo, commit: found.Commit}, nil
	case errors.Is(err, scm.ErrNotFound):
		return resolved{problem: fmt.Sprintf("%s has no branch, tag or commit %.200q", reference.Repository,
			reference.Revision)}, nil
	case errors.Is(err, scm.ErrUnreachable):
		return resolved{problem: fmt.Sprintf("the address of %s did not answer: try again", reference.Repository)}, nil
	case errors.Is(err, scm.ErrRefused), errors.Is(err, scm.ErrTooLarge):
		return resolved{problem: fmt.Sprintf("%s can't be fetched: %v", reference.Repository, err)}, nil
	}
	return resolved{}, err
}

// mirrorFor finds the mirror of OWNER/NAME: of a repository that is registered in the tenant under
// that name or with such an address, or else one of the configured source. A repository of another
// tenant is as good as none.
func (t *Triggers) mirrorFor(ctx context.Context, tenant domain.TenantID, name string,
) (repo scm.Repo, url, problem string, err error) {
	row, err := t.cfg.Views.Repository(ctx, tenant, name)
	if err == nil && !domain.ValidID(domain.PrefixRepository, name) {
		return mirrorOf(row), row.URL, "", nil
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return repo, "", "", err
	}
	rows, err := t.cfg.Views.Repositories(ctx, tenant)
	if err != nil {
		return repo, "", "", err
	}
	rows = slices.DeleteFunc(slices.Clone(rows), func(row store.RepositoryRow) bool {
		return row.URL == "" || strings.HasPrefix(row.URL, "/") || !strings.EqualFold(nameOf(row.URL), name)
	})
	switch {
	case len(rows) == 1:
		return mirrorOf(rows[0]), rows[0].URL, "", nil
	case len(rows) > 1:
		return repo, "", fmt.Sprintf("several repositories of this server have addresses that end in %s: "+
			"register the one that is meant under that name", name), nil
	case t.cfg.ComponentSource == "":
		return repo, "", fmt.Sprintf("this server has no repository %s; register it with "+
			"fairlead repo add URL --name %s", name, name), nil
	}
	url = strings.TrimRight(t.cfg.ComponentSource, "/") + "/" + name
	repo = scm.Repo{Tenant: tenant, Repository: componentMirror(url)}
	return repo, url, "", t.cfg.Source.Init(ctx, repo)
}

// componentMirror names the mirror of an address that nobody registered: always in the same way.
func componentMirror(url string) domain.RepositoryID {
	var id [16]byte
	copy(id[:], domain.DigestOf([]byte("component:"+url)).Hex())
	return domain.RepositoryID(domain.EncodeID(domain.PrefixRepository, id))
}

// define reads the definition of an action, or the file of a workflow, or remembers.
func (t *Triggers) define(ctx context.Context, d definition) (definitionValue, error) {
	if found, ok := t.remembered.definitions.Get(d); ok {
		return found, nil
	}
	names, folder := []string{"action.yml", "action.yaml"}, d.path
	out := definitionValue{problem: "its folder has no action.yml"}
	if ext := path.Ext(d.path); ext == ".yml" || ext == ".yaml" {
		names, folder = []string{path.Base(d.path)}, path.Dir(d.path)
		out.problem = "the commit has no such file"
	}
	commit, files, err := t.cfg.Source.Read(ctx, d.repo, d.commit, scm.Query{Dirs: []string{folder}, Suffixes: names,
		FilesMax: 100, BytesMax: definitionBytesMax, TotalMax: 4 * definitionBytesMax})
	if errors.Is(err, scm.ErrTooLarge) {
		return definitionValue{problem: fmt.Sprintf("its definition is over a limit: %v", err)}, nil
	}
	if err != nil {
		return definitionValue{}, err
	}
	out.tree, out.when = commit.Tree, commit.Committer.When
	for _, name := range slices.Backward(names) {
		for _, f := range files {
			switch {
			case path.Base(f.Path) != name:
			case f.Link:
				out.problem = "its " + name + " is a symbolic link, and links are not followed"
			default:
				out.file, out.text, out.problem = strings.TrimLeft(f.Path, "/"), f.Bytes, ""
			}
		}
	}
	t.remembered.definitions.Put(d, out, len(out.text)+len(d.path))
	return out, nil
}

// frozenComponents are the components of a run in the form of its snapshot.
func (u *used) frozen(objects *objects) (out []snapshot.Component) {
	for _, name := range u.names() {
		found := u.known[name]
		out = append(out, snapshot.Component{Name: name, Digest: found.Digest(),
			Mirror: u.mirrors[found.Reference.Source()].Repository, File: found.File, Text: objects.add(found.Text)})
	}
	return out
}

func (u *used) names() (out []string) {
	if u == nil {
		return nil
	}
	for name := range u.known {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// parts are what the compiler sees of it, for a key.
func partsOf(in workflow.Inputs) (out []string) {
	u := used{known: in.Components}
	for _, name := range u.names() {
		c := in.Components[name]
		out = append(out, name, c.Digest(), c.File, string(domain.DigestOf(c.Text)), c.Problem)
	}
	return append(out, in.Pins.Policy, string(in.Pins.Lock.Encode()))
}

// Resolved is a component with the time at which its commit was made, as the commit says.
type Resolved struct {
	workflow.Component
	Committed time.Time
}

// Resolve says what references lead to now, as a run of the repository would resolve them.
//
// Trust: repository and references may come from any member.
func (t *Triggers) Resolve(
	ctx context.Context, tenant domain.TenantID, repository string, references []string,
) ([]Resolved, error) {
	leave, err := t.gate.enter(ctx, line{tenant, repository})
	if err != nil {
		return nil, err
	}
	defer leave()
	row, err := t.repository(ctx, tenant, repository)
	if err != nil {
		return nil, err
	}
	if len(references) > componentsMax {
		return nil, reject(domain.CodeTooLarge, "references", "More than %d references are not resolved at once.",
			componentsMax)
	}
	r := &resolver{cause: &cause{triggers: t, row: row}, at: make(map[string]resolved),
		used: &used{known: workflow.Components{}, mirrors: make(map[string]scm.Repo)}}
	var wanted []workflow.Reference
	for _, text := range references {
		reference, ok := workflow.ParseReference(text)
		if !ok || reference.Repository == "" {
			return nil, reject(domain.CodeInvalidArgument, "references", "%.200q is not OWNER/NAME@REVISION.", text)
		}
		wanted = append(wanted, reference)
	}
	if err := r.all(ctx, wanted); err != nil {
		return nil, err
	}
	out := make([]Resolved, len(wanted))
	for i, reference := range wanted {
		out[i].Component = r.used.known[reference.String()]
		at := r.at[reference.Source()]
		if at.problem != "" || at.commit == "" {
			continue
		}
		d, err := t.define(ctx, definition{at.repo, at.commit, reference.Path})
		if err != nil {
			return nil, err
		}
		out[i].Committed = d.when
	}
	return out, nil
}

// SetComponentPolicy says which references to other repositories a repository's workflows may have.
//
// tidy:long as the call has it
func (t *Triggers) SetComponentPolicy(
	ctx context.Context, tenant domain.TenantID, name, policy string, cause domain.Cause,
) error {
	row, err := t.repository(ctx, tenant, name)
	if err != nil {
		return err
	}
	if t.cfg.Engine.Format() < repository.FormatComponents {
		return reject(domain.CodeUpgradeUnfinished, "policy", "A server of the fleet does not know policies about "+
			"references yet: ask again when all of them are upgraded.")
	}
	_, err = t.cfg.Engine.Submit(ctx, engine.Envelope{Tenant: tenant, Partition: row.Partition,
		Stream: row.Repository.Stream(), Cause: cause, Command: repository.SetComponents{Cause: cause, Policy: policy}})
	return err
}

package trigger

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/fairlead-ci/fairlead/internal/core/repository"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Registration asks for a repository to be known.
//
// Trust: all fields but Tenant, Administrator and Cause come from a client.
type Registration struct {
	Tenant        domain.TenantID
	Name          string // unique in the tenant; "" takes the last parts of the address
	URL           string // "" for a repository that clients push to
	DefaultBranch string // short; "" asks the remote, else "main"
	Poll          bool
	// Administrator lets URL be a path on the server's machine: a client must never make
	// the server open a path of its choice.
	Administrator bool
	Cause         domain.Cause
}

// Registered is the repository as it is known.
type Registered struct {
	Row     store.RepositoryRow
	Existed bool
	Token   domain.Token
}

var namePattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*){0,4}$`)
})

// AddRepository registers a repository and fetches what it has. The first look records
// where its refs are and starts nothing: registering must not run history. Adding what
// is there already, with the same address, is no error.
func (t *Triggers) AddRepository(ctx context.Context, r Registration) (Registered, error) {
	remote := scm.Remote{URL: r.URL}
	if r.Name == "" {
		r.Name = nameOf(r.URL)
	}
	switch {
	case len(r.Name) > nameBytesMax || !namePattern().MatchString(r.Name):
		return Registered{}, reject(domain.CodeInvalidArgument, "name",
			"A repository's name has letters, digits, dots, dashes and underscores, with slashes between parts.")
	case domain.ValidID(domain.PrefixRepository, r.Name):
		return Registered{}, reject(domain.CodeInvalidArgument, "name", "That name looks like a repository's id.")
	case remote.Local() && !r.Administrator:
		return Registered{}, reject(domain.CodeInvalidArgument, "url",
			"Only an administrator may register a path on the server's machine.")
	case r.DefaultBranch != "" && !observable("refs/heads/"+r.DefaultBranch):
		return Registered{}, reject(domain.CodeInvalidArgument, "default_branch", "%.100q can't be a branch.",
			r.DefaultBranch)
	}
	found, err := t.cfg.Views.Repository(ctx, r.Tenant, r.Name)
	switch {
	case err == nil:
		return existing(found, r)
	case !errors.Is(err, store.ErrNotFound):
		return Registered{}, fmt.Errorf("find repository %s: %w", r.Name, err)
	}
	return t.register(ctx, r, remote)
}

// EnsureRepository finds the repository of that name or registers it as one that clients
// push to. `run` uses it.
func (t *Triggers) EnsureRepository(ctx context.Context, tenant domain.TenantID, name string, cause domain.Cause,
) (Registered, error) {
	found, err := t.cfg.Views.Repository(ctx, tenant, name)
	if err == nil {
		return Registered{Row: found, Existed: true}, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return Registered{}, fmt.Errorf("find repository %.100q: %w", name, err)
	}
	return t.AddRepository(ctx, Registration{Tenant: tenant, Name: name, Cause: cause})
}

func existing(found store.RepositoryRow, r Registration) (Registered, error) {
	if r.URL != "" && r.URL != found.URL {
		return Registered{}, reject(domain.CodeAlreadyExists, "name",
			"There is a repository %s with another address already; choose another name.", r.Name)
	}
	return Registered{Row: found, Existed: true}, nil
}

// register makes the mirror, then the record. A crash between the two leaves a folder
// that nothing names; the next try makes its own.
func (t *Triggers) register(ctx context.Context, r Registration, remote scm.Remote) (Registered, error) {
	id := domain.RepositoryID(domain.EncodeID(domain.PrefixRepository, t.cfg.NewID()))
	repo := scm.Repo{Tenant: r.Tenant, Repository: id}
	c := &cause{triggers: t, row: store.RepositoryRow{Repository: id}}
	if r.URL != "" {
		seen, err := t.cfg.Source.Advertised(ctx, remote)
		if err != nil {
			return Registered{}, unusable(c.missing(err, "The address has no repository."))
		}
		if r.DefaultBranch == "" {
			r.DefaultBranch = seen.DefaultBranch
		}
	}
	if r.DefaultBranch == "" {
		r.DefaultBranch = "main"
	}
	if err := t.cfg.Source.Init(ctx, repo); err != nil {
		return Registered{}, fmt.Errorf("make mirror of %s: %w", r.Name, err)
	}
	var refs []scm.Ref
	if r.URL != "" {
		var err error
		if refs, err = t.cfg.Source.Fetch(ctx, repo, remote); err != nil {
			return Registered{}, unusable(c.missing(err, "The address can't be fetched from."))
		}
	}
	partition := t.cfg.Engine.Route(r.Tenant, id)
	// The key makes names unique even for two requests at the same time.
	ack, err := t.cfg.Engine.Submit(ctx, engine.Envelope{
		Tenant: r.Tenant, Partition: partition, Stream: id.Stream(), Cause: r.Cause,
		Key: &engine.Key{Scope: "name/repository", Key: r.Name, Body: domain.DigestOf([]byte(r.Name))},
		Command: repository.Register{Cause: r.Cause, Tenant: r.Tenant, Repository: id, RepoName: r.Name, URL: r.URL,
			DefaultBranch: r.DefaultBranch, Poll: r.Poll && r.URL != ""},
	})
	if err != nil {
		return Registered{}, fmt.Errorf("register %s: %w", r.Name, err)
	}
	row, err := t.repository(ctx, r.Tenant, ack.Stream.ID())
	if err != nil {
		return Registered{}, err
	}
	if ack.Repeat {
		return existing(row, r)
	}
	if r.URL != "" {
		if err := t.observe(ctx, row, r.Cause, repository.SourcePoll, true, observed(refs)); err != nil {
			return Registered{}, err
		}
	}
	return Registered{Row: row, Token: ack.Token}, nil
}

// unusable makes a refusal about a commit one about the address.
func unusable(err error) error {
	if rejection, ok := domain.AsRejection(err); ok {
		return &domain.Rejection{Code: domain.CodeInvalidArgument, Field: "url", Message: rejection.Message}
	}
	return err
}

// observed are refs in the form of the core, without those it would not take.
func observed(refs []scm.Ref) []repository.Ref {
	out := make([]repository.Ref, 0, len(refs))
	for _, ref := range refs {
		if observable(ref.Name) {
			out = append(out, repository.Ref{Name: ref.Name, Commit: ref.Commit})
		}
	}
	return out
}

var oddName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[^A-Za-z0-9._-]+`)
})

// nameOf takes the last two parts of a network address, or the last of a path.
func nameOf(url string) string {
	location, local := url, strings.HasPrefix(url, "/")
	if _, rest, ok := strings.Cut(url, "://"); ok {
		_, location, _ = strings.Cut(rest, "/")
	} else if !local {
		_, location, _ = strings.Cut(url, ":")
	}
	location = strings.TrimSuffix(strings.TrimRight(location, "/"), "/.git")
	parts := strings.FieldsFunc(strings.TrimSuffix(location, ".git"), func(r rune) bool { return r == '/' })
	keep := 2
	if local {
		keep = 1
	}
	parts = parts[max(len(parts)-keep, 0):]
	for i, part := range parts {
		parts[i] = strings.Trim(oddName().ReplaceAllString(part, "-"), "-.")
	}
	return strings.Join(parts, "/")
}

// Package git keeps bare mirrors with the git program and serves them over smart HTTP.
//
// It is deliberately without a git library, a shell or a hook: every call is one process
// with an empty environment, a time limit, an output limit and one allowed transport. It
// decides nothing about people: who may fetch or push is told by the Authorizer.
//
// Invariants: a mirror's path is made of identifiers only; its HEAD leads nowhere, so no
// commit is ever implied; refs/fairlead/pins/<commit> always holds exactly <commit>, and
// so does refs/fairlead/captures/<commit>; no process outlives the request it serves.
//
// Read next: internal/scm/git/git_exec.go, internal/scm/git/http.go
package git

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/scm"
)

// Names of refs that are the server's own.
const (
	// PinPrefix is where pins live: refs/fairlead/pins/<commit>.
	PinPrefix = "refs/fairlead/pins/"
	// CapturePrefix is where clients push to: refs/fairlead/captures/<commit>.
	CapturePrefix = "refs/fairlead/captures/"
)

// Config is what a Mirrors needs to know.
type Config struct {
	// Root is the folder of all mirrors: Root/<tenant>/<repository id>.git.
	Root string
	// AllowLoopback lets remotes be on this machine, over https, ssh or plain http.
	AllowLoopback bool
	// AllowPrivate lets remotes be in private networks. Without it a name that leads to
	// a private address is refused, so nobody can look around in the server's network.
	AllowPrivate bool
	// Shared: other servers work in the same folder, so what is queued here is queued with
	// theirs, by locks on files.
	Shared bool
	// Lookup resolves host names; nil means the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// Mirrors implements scm.Source. Its methods may be called from many goroutines.
type Mirrors struct {
	binary string
	root   string
	config Config
	locks  keyedLocks
}

var _ scm.Source = (*Mirrors)(nil)

// New makes the folder if need be and finds git.
func New(ctx context.Context, config Config) (*Mirrors, error) {
	binary, err := locate(ctx)
	if err != nil {
		return nil, err
	}
	root, err := filepath.Abs(config.Root)
	if err != nil {
		return nil, fmt.Errorf("open mirrors %s: %w", config.Root, err)
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("open mirrors: %w", err)
	}
	if config.Lookup == nil {
		config.Lookup = lookup
	}
	return &Mirrors{binary: binary, root: root, config: config, locks: keyedLocks{shared: config.Shared}}, nil
}

// Dir is where the mirror of repo lives. It fails when an identifier is malformed, so
// what it returns is always below the root.
//
// Trust: repo may come from anybody.
func (m *Mirrors) Dir(repo scm.Repo) (string, error) {
	if !validTenant(string(repo.Tenant)) || !domain.ValidID(domain.PrefixRepository, string(repo.Repository)) {
		return "", fmt.Errorf("locate mirror: %w", scm.ErrNotFound)
	}
	return filepath.Join(m.root, string(repo.Tenant), string(repo.Repository)+".git"), nil
}

func validTenant(text string) bool {
	suffix, ok := strings.CutPrefix(text, "tnt_")
	if !ok || suffix == "" || len(suffix) > 40 {
		return false
	}
	return strings.Trim(suffix, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// existing is the folder of a mirror that has been made.
func (m *Mirrors) existing(repo scm.Repo) (string, error) {
	dir, err := m.Dir(repo)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err != nil {
		return "", fmt.Errorf("open mirror %s: %w", repo.Repository, scm.ErrNotFound)
	}
	return dir, nil
}

// Init implements scm.Mirrors. The mirror appears whole: it is made under another name
// and renamed, so a crash can't leave half of one.
func (m *Mirrors) Init(ctx context.Context, repo scm.Repo) error {
	dir, err := m.Dir(repo)
	if err != nil {
		return err
	}
	unlock, err := m.locks.lock(ctx, lockKey{dir: dir})
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := m.existing(repo); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("init mirror %s: %w", repo.Repository, err)
	}
	fresh := dir + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("init mirror %s: %w", repo.Repository, err)
	}
	_, err = m.run(ctx, call{timeout: readTimeout, args: []string{
		"init", "--quiet", "--bare", "--template=", "--initial-branch=fairlead-none", "--", fresh}})
	if err != nil {
		return fmt.Errorf("init mirror %s: %w", repo.Repository, err)
	}
	// HEAD leads outside of refs/heads, to a ref that nobody can make: an answer that
	// depended on HEAD would be a branch name nobody asked for.
	if err := os.WriteFile(filepath.Join(fresh, "HEAD"), []byte("ref: refs/fairlead/none\n"), 0o600); err != nil {
		return fmt.Errorf("init mirror %s: %w", repo.Repository, err)
	}
	if err := os.Rename(fresh, dir); err != nil {
		return fmt.Errorf("init mirror %s: %w", repo.Repository, err)
	}
	return nil
}

// Fetch implements scm.Mirrors.
func (m *Mirrors) Fetch(ctx context.Context, repo scm.Repo, from scm.Remote) ([]scm.Ref, error) {
	dir, err := m.existing(repo)
	if err != nil {
		return nil, err
	}
	unlock, err := m.locks.lock(ctx, lockKey{dir: dir})
	if err != nil {
		return nil, err
	}
	defer unlock()
	err = m.fetch(ctx, dir, from, "--prune", "--force", "--",
		"+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", repo.Repository, err)
	}
	refs, err := m.list(ctx, dir, "refs/heads/", "refs/tags/")
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", repo.Repository, err)
	}
	return refs, nil
}

// fetch runs one fetch; args are options, "--" and refspecs. The remote goes between.
func (m *Mirrors) fetch(ctx context.Context, dir string, from scm.Remote, args ...string) error {
	way, err := m.route(ctx, from)
	if err != nil {
		return err
	}
	defer way.close()
	at := slices.Index(args, "--")
	all := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
		"--no-recurse-submodules", "--no-show-forced-updates"}
	all = append(all, args[:at+1]...)
	all = append(all, way.url)
	all = append(all, args[at+1:]...)
	_, err = m.run(ctx, call{dir: dir, config: way.config, env: way.env, protocol: way.protocol,
		args: all, timeout: fetchTimeout})
	return remoteFault(ctx, err)
}

// FetchCommit implements scm.Mirrors.
func (m *Mirrors) FetchCommit(ctx context.Context, repo scm.Repo, from scm.Remote, commit string) error {
	dir, err := m.existing(repo)
	if err != nil {
		return err
	}
	if !scm.ValidCommit(commit) {
		return fmt.Errorf("fetch commit of %s: %w", repo.Repository, scm.ErrNotFound)
	}
	if m.has(ctx, dir, commit) == nil {
		return nil
	}
	// Most servers give any commit that is on a branch. One that doesn't still gives the
	// branches themselves, so they are the second try.
	unlock, err := m.locks.lock(ctx, lockKey{dir: dir})
	if err != nil {
		return err
	}
	err = m.fetch(ctx, dir, from, "--", commit)
	unlock()
	if err != nil {
		if errors.Is(err, scm.ErrRefused) || ctx.Err() != nil {
			return fmt.Errorf("fetch commit %s: %w", commit, err)
		}
		if _, err := m.Fetch(ctx, repo, from); err != nil {
			return fmt.Errorf("fetch commit %s: %w", commit, err)
		}
	}
	if err := m.has(ctx, dir, commit); err != nil {
		return fmt.Errorf("fetch commit %s: %w", commit, err)
	}
	return nil
}

// has is nil when the mirror holds the commit.
func (m *Mirrors) has(ctx context.Context, dir, commit string) error {
	_, err := m.run(ctx, call{dir: dir, timeout: readTimeout,
		args: []string{"cat-file", "-e", commit + "^{commit}"}})
	var exit *exitError
	if errors.As(err, &exit) {
		return scm.ErrNotFound
	}
	return err
}

// Pin implements scm.Mirrors.
func (m *Mirrors) Pin(ctx context.Context, repo scm.Repo, commit string) error {
	dir, err := m.existing(repo)
	if err != nil {
		return err
	}
	if !scm.ValidCommit(commit) {
		return fmt.Errorf("pin commit in %s: %w", repo.Repository, scm.ErrNotFound)
	}
	ref := PinPrefix + commit
	if pinned(dir, commit) {
		return nil
	}
	unlock, err := m.locks.lock(ctx, m.locks.pinKey(dir, ref))
	if err != nil {
		return err
	}
	defer unlock()
	if pinned(dir, commit) {
		return nil
	}
	// update-ref refuses an object that is not there, and takes the present value as well.
	_, err = m.run(ctx, call{dir: dir, timeout: readTimeout,
		args: []string{"update-ref", "--end-of-options", ref, commit}})
	var exit *exitError
	if errors.As(err, &exit) && m.has(ctx, dir, commit) != nil {
		return fmt.Errorf("pin commit %s: %w", commit, scm.ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("pin commit %s: %w", commit, err)
	}
	return nil
}

// pinned reports whether the pin is there as a file of its own. A false answer only
// means to ask git, which also knows packed refs.
func pinned(dir, commit string) bool {
	text, err := os.ReadFile(filepath.Join(dir, PinPrefix+commit))
	return err == nil && strings.TrimSpace(string(text)) == commit
}

// Maintain packs refs and objects and removes what crashed transfers left behind. It is
// safe beside anything else; call it now and then for mirrors in use.
func (m *Mirrors) Maintain(ctx context.Context, repo scm.Repo) error {
	dir, err := m.existing(repo)
	if err != nil {
		return err
	}
	unlock, err := m.locks.lock(ctx, lockKey{dir: dir})
	if err != nil {
		return err
	}
	defer unlock()
	// gc keeps everything that a pin, a capture or a branch leads to, and for two weeks
	// whatever is younger: an object between its push and its pin is never at risk.
	_, err = m.run(ctx, call{dir: dir, timeout: fetchTimeout,
		config: []string{"gc.auto=6700", "gc.autoDetach=false"},
		args:   []string{"gc", "--quiet", "--auto"}})
	if err != nil {
		return fmt.Errorf("maintain mirror %s: %w", repo.Repository, err)
	}
	if err := sweepQuarantine(dir); err != nil {
		return fmt.Errorf("maintain mirror %s: %w", repo.Repository, err)
	}
	return nil
}

// list gives the refs under the prefixes by name, tags followed to their commits. Refs
// that lead to no commit (a tag of a file) are left out: nothing can run on them.
func (m *Mirrors) list(ctx context.Context, dir string, prefixes ...string) ([]scm.Ref, error) {
	args := []string{"for-each-ref", "--sort=refname", fmt.Sprintf("--count=%d", refsMax+1),
		"--format=%(objecttype) %(objectname) %(*objecttype) %(*objectname) %(refname)"}
	out, err := m.run(ctx, call{dir: dir, timeout: readTimeout, args: append(args, prefixes...)})
	if err != nil {
		return nil, fmt.Errorf("list refs: %w", err)
	}
	var refs []scm.Ref
	lines := 0
	for line := range strings.Lines(string(out)) {
		if lines++; lines > refsMax {
			return nil, fmt.Errorf("list refs: over %d: %w", refsMax, scm.ErrTooLarge)
		}
		field := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 5)
		if len(field) != 5 {
			return nil, fmt.Errorf("list refs: unexpected line %q", line)
		}
		switch {
		case field[0] == "commit":
			refs = append(refs, scm.Ref{Name: field[4], Commit: field[1]})
		case field[2] == "commit":
			refs = append(refs, scm.Ref{Name: field[4], Commit: field[3]})
		}
	}
	return refs, nil
}

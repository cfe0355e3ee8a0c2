package fault_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/scm/git"
	"github.com/fairlead-ci/fairlead/internal/scm/scmtest"
)

// branches is source control without git: remotes with one branch each, and mirrors that hold
// what was fetched. A sweep asks it thousands of times; TestSweepOnGit asks git itself.
type branches struct {
	mu      sync.Mutex
	remotes map[string]*remote // by address
	mirrors map[scm.Repo]*mirror
}

type remote struct {
	commits []scm.Commit
	files   map[string][]scm.File // by commit
}

type mirror struct {
	tip     string
	holds   map[string]bool // commits
	pinned  map[string]bool
	address string
}

const branch = "refs/heads/main"

// origin is the repository that the client works on.
type origin struct {
	address string
	push    func() (before, after string) // adds a commit
}

// files of every commit.
var files = map[string]string{ciFile: ciText, slowFile: slowText}

// inBranches is a repository without git.
func inBranches(testing.TB) (scm.Source, origin) {
	const address = "/srv/shop.git"
	b := newBranches()
	first := b.push(address, "one", files)
	return b, origin{address, func() (string, string) { return first, b.push(address, "two", files) }}
}

// inGit is a real repository, and mirrors that git keeps.
func inGit(t testing.TB) (scm.Source, origin) {
	repo := scmtest.NewRepo(t)
	first := repo.Write(ciFile, ciText, slowFile, slowText).Commit("one")
	mirrors, err := git.New(context.Background(), git.Config{Root: filepath.Join(t.TempDir(), "git")})
	if err != nil {
		t.Fatal(err)
	}
	return mirrors, origin{repo.Dir, func() (string, string) {
		return first, repo.Write("README", "two").Commit("two")
	}}
}

func newBranches() *branches {
	return &branches{remotes: map[string]*remote{}, mirrors: map[scm.Repo]*mirror{}}
}

// push adds a commit to the branch of a remote and gives its id.
func (b *branches) push(url, message string, files map[string]string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.remotes[url]
	if r == nil {
		r = &remote{files: map[string][]scm.File{}}
		b.remotes[url] = r
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", url, len(r.commits), message))
	id := hex.EncodeToString(sum[:20])
	who := scm.Person{Name: "ada", Email: "ada@example.org", When: time.Unix(1_700_000_000, 0).UTC()}
	r.commits = append(r.commits, scm.Commit{ID: id, Tree: id, Author: who, Committer: who, Message: message + "\n"})
	for _, path := range slices.Sorted(maps.Keys(files)) {
		r.files[id] = append(r.files[id], scm.File{Path: path, Blob: id, Bytes: []byte(files[path])})
	}
	return id
}

func (r *remote) tip() string { return r.commits[len(r.commits)-1].ID }

// pinned reports whether a commit stays whatever happens to its branch.
func (b *branches) pinned(repo scm.Repo, commit string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.mirrors[repo]
	return m != nil && m.pinned[commit]
}

func (b *branches) mirror(repo scm.Repo) (*mirror, error) {
	m := b.mirrors[repo]
	if m == nil {
		return nil, fmt.Errorf("find mirror %s: %w", repo.Repository, scm.ErrNotFound)
	}
	return m, nil
}

// Init implements scm.Mirrors.
func (b *branches) Init(_ context.Context, repo scm.Repo) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mirrors[repo] == nil {
		b.mirrors[repo] = &mirror{holds: map[string]bool{}, pinned: map[string]bool{}}
	}
	return nil
}

// Advertised implements scm.Mirrors.
func (b *branches) Advertised(_ context.Context, from scm.Remote) (scm.Advertisement, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.remotes[from.URL]
	if r == nil {
		return scm.Advertisement{}, scm.ErrNotFound
	}
	return scm.Advertisement{DefaultBranch: "main", Refs: []scm.Ref{{Name: branch, Commit: r.tip()}}}, nil
}

// Fetch implements scm.Mirrors.
func (b *branches) Fetch(_ context.Context, repo scm.Repo, from scm.Remote) ([]scm.Ref, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, m := b.remotes[from.URL], b.mirrors[repo]
	if r == nil || m == nil {
		return nil, scm.ErrNotFound
	}
	m.tip, m.address = r.tip(), from.URL
	for _, c := range r.commits {
		m.holds[c.ID] = true
	}
	return []scm.Ref{{Name: branch, Commit: m.tip}}, nil
}

// FetchCommit implements scm.Mirrors.
func (b *branches) FetchCommit(ctx context.Context, repo scm.Repo, from scm.Remote, _ string) error {
	_, err := b.Fetch(ctx, repo, from)
	return err
}

// Pin implements scm.Mirrors.
func (b *branches) Pin(_ context.Context, repo scm.Repo, commit string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	m, err := b.mirror(repo)
	if err != nil {
		return err
	}
	if !m.holds[commit] {
		return scm.ErrNotFound
	}
	m.pinned[commit] = true
	return nil
}

// Resolve implements scm.Reader.
func (b *branches) Resolve(_ context.Context, repo scm.Repo, name string) (scm.Resolution, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m, err := b.mirror(repo)
	if err != nil {
		return scm.Resolution{}, err
	}
	if m.tip == "" || name != "main" && name != branch {
		return scm.Resolution{}, scm.ErrNotFound
	}
	return scm.Resolution{Ref: branch, Commit: m.tip}, nil
}

// Read implements scm.Reader.
func (b *branches) Read(_ context.Context, repo scm.Repo, commit string, q scm.Query) (scm.Commit, []scm.File, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m, err := b.mirror(repo)
	if err != nil {
		return scm.Commit{}, nil, err
	}
	if !m.holds[commit] {
		return scm.Commit{}, nil, scm.ErrNotFound
	}
	r := b.remotes[m.address]
	i := slices.IndexFunc(r.commits, func(c scm.Commit) bool { return c.ID == commit })
	var files []scm.File
	for _, f := range r.files[commit] {
		if slices.ContainsFunc(q.Dirs, func(dir string) bool { return strings.HasPrefix(f.Path, dir+"/") }) {
			files = append(files, f)
		}
	}
	return r.commits[i], files, nil
}

// Contains implements scm.Reader.
func (b *branches) Contains(_ context.Context, repo scm.Repo, commit string, refs []string) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m, err := b.mirror(repo)
	if err != nil || !m.holds[commit] || !slices.Contains(refs, branch) {
		return nil, err
	}
	return []string{branch}, nil
}

// Changed implements scm.Reader.
func (b *branches) Changed(context.Context, scm.Repo, string, string, int) ([]string, bool, error) {
	return nil, false, nil
}

var _ scm.Source = (*branches)(nil)

package capture

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/scm/scmtest"
)

// shape is a repository, and whether it is looked at without asking git.
type shape struct {
	name  string
	plain bool
	make  func(t *testing.T, repo *scmtest.Repo) (dir string)
}

func configure(entries ...string) func(*testing.T, *scmtest.Repo) string {
	return func(_ *testing.T, repo *scmtest.Repo) string {
		for i := 0; i < len(entries); i += 2 {
			repo.Git("config", "--add", entries[i], entries[i+1])
		}
		return repo.Dir
	}
}

// written appends to the configuration as a person may.
func written(text string) func(*testing.T, *scmtest.Repo) string {
	return func(t *testing.T, repo *scmtest.Repo) string {
		f, err := os.OpenFile(filepath.Join(repo.Dir, ".git", "config"), os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		return repo.Dir
	}
}

func file(name, text string) func(*testing.T, *scmtest.Repo) string {
	return func(_ *testing.T, repo *scmtest.Repo) string {
		repo.Write(name, text)
		return repo.Dir
	}
}

func run(args ...string) func(*testing.T, *scmtest.Repo) string {
	return func(_ *testing.T, repo *scmtest.Repo) string {
		repo.Git(args...)
		return repo.Dir
	}
}

var shapes = []shape{
	{"usual", true, configure("remote.origin.url", "https://example.org/acme/app.git")},
	{"no origin", true, configure()},
	{"another remote", true, configure("remote.upstream.url", "https://example.org/x/y")},
	{"two addresses", true, configure("remote.origin.url", "/one", "remote.origin.url", "/two")},
	{"an address of a user", true, configure("remote.origin.url", "git@example.org:acme/app.git")},
	{"changed", true, file("a", "2")},
	{"staged", true, func(_ *testing.T, repo *scmtest.Repo) string {
		repo.Write("new", "1").Git("add", "new")
		return repo.Dir
	}},
	{"detached", true, run("checkout", "-q", "--detach")},
	{"a branch with slashes", true, run("checkout", "-q", "-b", "feature/one/two")},
	{"packed refs", true, run("pack-refs", "--all")},
	{"sparse", false, run("sparse-checkout", "set", "in")},
	{"a folder below", true, func(t *testing.T, repo *scmtest.Repo) string {
		dir := filepath.Join(repo.Dir, "some", "folder")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		return dir
	}},
	{"through a link", true, func(t *testing.T, repo *scmtest.Repo) string {
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(repo.Dir, link); err != nil {
			t.Fatal(err)
		}
		return link
	}},
	{"odd spelling", true, written("[REMOTE \"origin\"]\n\tURL=https://example.org/odd/spelling\n; word\n# word\n\n")},
	{"a key without a value", true, written("[core]\n\tsymlinks\n")},
	{"a section with a dot", false, written("[remote.origin]\n\turl = /dotted\n")},
	{"key beside its section", false, written("[remote \"origin\"] url = /beside\n")},
	{"quoted", false, written("[remote \"origin\"]\n\turl = \"/quoted\"\n")},
	{"remark behind", false, written("[remote \"origin\"]\n\turl = /remark # behind\n")},
	{"continued", false, written("[remote \"origin\"]\n\turl = /conti\\\nnued\n")},
	{"included", false, func(t *testing.T, repo *scmtest.Repo) string {
		repo.Write(".git/more", "[remote \"origin\"]\n\turl = /included\n")
		return written("[include]\n\tpath = more\n")(t, repo)
	}},
	{"included where", false, func(t *testing.T, repo *scmtest.Repo) string {
		repo.Write(".git/more", "[remote \"origin\"]\n\turl = /included\n")
		return written("[includeIf \"gitdir:/**\"]\n\tpath = more\n")(t, repo)
	}},
	{"another working tree", false, func(t *testing.T, repo *scmtest.Repo) string {
		dir := filepath.Join(t.TempDir(), "other")
		repo.Git("worktree", "add", "-q", "-b", "topic", dir)
		return dir
	}},
	{"settings of a working tree", false, func(_ *testing.T, repo *scmtest.Repo) string {
		repo.Git("config", "extensions.worktreeConfig", "true")
		repo.Git("config", "--worktree", "remote.origin.url", "/own")
		return repo.Dir
	}},
	{"a working tree elsewhere", false, func(t *testing.T, repo *scmtest.Repo) string {
		repo.Git("config", "core.worktree", repo.Dir)
		return repo.Dir
	}},
	{"a submodule", false, func(t *testing.T, repo *scmtest.Repo) string {
		library := scmtest.NewRepo(t)
		library.Write("lib", "1").Commit("library")
		repo.Git("submodule", "--quiet", "add", library.Dir, "lib")
		return filepath.Join(repo.Dir, "lib")
	}},
	{"shallow", false, func(t *testing.T, repo *scmtest.Repo) string {
		repo.Write("a", "3").Commit("second")
		clone := filepath.Join(t.TempDir(), "clone")
		repo.Git("clone", "-q", "--depth=1", "file://"+repo.Dir, clone)
		return clone
	}},
	{"separate folder of git", false, func(t *testing.T, repo *scmtest.Repo) string {
		clone := filepath.Join(t.TempDir(), "clone")
		repo.Git("clone", "-q", "--separate-git-dir="+filepath.Join(t.TempDir(), "elsewhere"), repo.Dir, clone)
		return clone
	}},
	{"a nested repository in a bare one", false, func(t *testing.T, repo *scmtest.Repo) string {
		bare := filepath.Join(t.TempDir(), "bare.git")
		repo.Git("clone", "-q", "--bare", repo.Dir, bare)
		return bare
	}},
	{"HEAD is no branch", false, func(_ *testing.T, repo *scmtest.Repo) string {
		repo.Git("update-ref", "refs/other/x", "HEAD")
		repo.Git("symbolic-ref", "HEAD", "refs/other/x")
		return repo.Dir
	}},
	{"an empty .git on the way", false, func(t *testing.T, repo *scmtest.Repo) string {
		dir := filepath.Join(repo.Dir, "in")
		if err := os.MkdirAll(filepath.Join(dir, ".git"), 0o755); err != nil {
			t.Fatal(err)
		}
		return dir
	}},
	{"a file HEAD on the way", false, func(_ *testing.T, repo *scmtest.Repo) string {
		repo.Write("in/HEAD", "of something")
		return filepath.Join(repo.Dir, "in")
	}},
}

// TestAPlainLookSeesWhatGitSees: whatever is looked at without git, git says the same of it.
func TestAPlainLookSeesWhatGitSees(t *testing.T) {
	t.Parallel()
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			repo := scmtest.NewRepo(t)
			repo.Write("a", "1", "in/b", "1").Commit("first")
			dir := s.make(t, repo)
			want, err := Open(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			own := openPlain(t.Context(), dir)
			if (own != nil) != s.plain {
				t.Errorf("looked at without asking git: %v, want %v", own != nil, s.plain)
			}
			got, err := OpenForTake(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, tree := range []*Tree{own, got} {
				if tree == nil {
					continue
				}
				seen := *tree
				seen.changes = nil
				if a, b := fmt.Sprintf("%+v", seen), fmt.Sprintf("%+v", *want); a != b {
					t.Errorf("got\n%s, git says\n%s", a, b)
				}
			}
		})
	}
	t.Run("before the first commit", func(t *testing.T) {
		t.Parallel()
		repo := scmtest.NewRepo(t)
		if tree := openPlain(t.Context(), repo.Dir); tree == nil || tree.Head != "" || tree.Branch != "" {
			t.Errorf("got %+v", tree)
		}
	})
}

// TestGitIsStartedOnce counts processes.
func TestGitIsStartedOnce(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	bin, repo := t.TempDir(), scmtest.NewRepo(t)
	repo.Write("a", "1").Commit("first")
	other := filepath.Join(t.TempDir(), "other")
	repo.Git("worktree", "add", "-q", "-b", "topic", other)
	log := filepath.Join(bin, "log")
	script := fmt.Sprintf("#!/bin/sh\necho run >>'%s'\nexec '%s' \"$@\"\n", log, git)
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	count := func(what, dir string, want int) {
		t.Helper()
		if err := os.WriteFile(log, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		tree, err := OpenForTake(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		c, err := tree.Take(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(text), "\n"); got != want {
			t.Errorf("%s: git was started %d times, want %d", what, got, want)
		}
	}
	count("no origin", repo.Dir, 2)
	count("another working tree", other, 3)
	repo.Git("remote", "add", "origin", "https://example.org/acme/app.git")
	count("usual", repo.Dir, 1)
}

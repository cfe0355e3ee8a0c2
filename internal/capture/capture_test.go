package capture_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/capture"
	"github.com/fairlead-ci/fairlead/internal/scm/git"
	"github.com/fairlead-ci/fairlead/internal/scm/scmtest"
)

func take(t *testing.T, dir string) *capture.Capture {
	t.Helper()
	tree, err := capture.OpenForTake(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tree.Take(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// footprint is everything about a folder that a capture must leave alone: names, modes,
// sizes, times and bytes, the repository's own files included. Times of objects are left
// out: git sets them anew when it meets an object that it was about to write.
func footprint(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at, err := os.Lstat(path)
		if err != nil {
			return err
		}
		fmt.Fprint(&out, path, at.Mode(), at.Size())
		if !strings.Contains(path, "/.git/objects/") {
			fmt.Fprint(&out, " ", at.ModTime().UnixNano())
		}
		fmt.Fprintln(&out)
		if at.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&out, "%x\n", sha256.Sum256(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Promises: [SRC-13].
func TestCleanTreeIsHead(t *testing.T) {
	t.Parallel()
	repo := scmtest.NewRepo(t)
	head := repo.Write("a", "1", ".gitignore", "ignored\n").Commit("first")
	repo.Write("ignored", "x")
	c := take(t, repo.Dir)
	if c.Commit != head || c.Captured || c.Ref != "refs/heads/main" || len(c.Notes) > 0 {
		t.Errorf("got %+v, want HEAD %s", c, head)
	}
	repo.Git("checkout", "-q", "--detach")
	if c := take(t, repo.Dir); c.Commit != head || c.Ref != "" {
		t.Errorf("detached: got %+v", c)
	}
	// Staged and taken back in the working tree: the index differs, the tree does not.
	repo.Git("checkout", "-q", "main")
	repo.Write("a", "2").Git("add", "a")
	repo.Write("a", "1")
	if c := take(t, repo.Dir); c.Commit != head || c.Captured || c.Ref != "refs/heads/main" {
		t.Errorf("staged and undone: got %+v", c)
	}
}

// TestUncommittedTree: every way in which a tree can differ from HEAD is in the capture,
// and the repository is as it was, byte for byte and second for second.
// Promises: [SRC-13].
func TestUncommittedTree(t *testing.T) {
	t.Parallel()
	repo := scmtest.NewRepo(t)
	head := repo.Write("kept", "1", "changed", "1", "removed", "1", "staged", "1", "dir/file", "1", "becomes-dir", "1",
		"tool", "1", ".gitignore", "*.log\nbuild/\n").Commit("first")
	repo.Write("stashed", "1").Git("stash", "-u", "-q")
	repo.Write("changed", "2", "staged", "2").Git("add", "staged")
	repo.Write("staged", "3", "new file", "1", "odd\nname", "1", "new/deep/er", "1", "out.log", "no", "build/x", "no")
	for _, name := range []string{"removed", "becomes-dir", "dir/file"} {
		if err := os.Remove(filepath.Join(repo.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	repo.Write("becomes-dir/x", "1")
	if err := os.Remove(filepath.Join(repo.Dir, "dir")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("kept", filepath.Join(repo.Dir, "dir")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(repo.Dir, "tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	before := footprint(t, repo.Dir)
	first, second := take(t, repo.Dir), take(t, repo.Dir)
	if after := footprint(t, repo.Dir); after != before {
		t.Errorf("the repository changed:\n%s", after)
	}
	if !first.Captured || first.Commit == head || first.Commit != second.Commit || first.Ref != "" {
		t.Fatalf("got %+v and %+v", first, second)
	}

	server := newServer(t)
	server.push(t, first)
	check := scmtest.NewRepo(t)
	check.Git("fetch", "-q", server.dir, "refs/fairlead/captures/"+first.Commit)
	var got []string
	for line := range strings.SplitSeq(check.Git("ls-tree", "-r", "-z", "FETCH_HEAD"), "\x00") {
		head, name, _ := strings.Cut(line, "\t")
		got = append(got, strings.TrimSpace(head[:min(6, len(head))]+" "+name))
	}
	want := []string{"100644 .gitignore", "100644 becomes-dir/x", "100644 changed", "120000 dir", "100644 kept",
		"100644 new file", "100644 new/deep/er", "100644 odd\nname", "100644 staged", "100755 tool", ""}
	if !slices.Equal(got, want) {
		t.Errorf("captured: %q", got)
	}
	if got := check.Git("show", "FETCH_HEAD:staged"); got != "3" {
		t.Errorf("staged and changed again: got %q, want what the working tree has", got)
	}
	commit := check.Git("log", "-1", "--format=%P|%an|%ae|%ad|%cn|%cd|%B", "--date=raw", "FETCH_HEAD")
	if want := head + "|Fairlead working tree|working-tree@fairlead.invalid|1700000100 +0000|Fairlead working tree|" +
		"1700000100 +0000|Working tree on " + head; commit != want {
		t.Errorf("commit: got %s, want %s", commit, want)
	}
}

// TestConfigurationDoesNotMatter: who captures, and with which settings, does not change
// the id of the commit.
func TestConfigurationDoesNotMatter(t *testing.T) {
	t.Parallel()
	repo := scmtest.NewRepo(t)
	repo.Write("a", "1\n").Commit("first")
	repo.Write("a", "2\n", "b", "1\n")
	want := take(t, repo.Dir).Commit
	for _, setting := range [][2]string{{"user.name", "Eve"}, {"user.email", "eve@example.org"},
		{"commit.gpgSign", "true"},
		{"i18n.commitEncoding", "ISO-8859-1"}, {"core.fsmonitor", "false-program"}, {"status.showUntrackedFiles", "no"},
		{"core.quotePath", "true"}, {"index.version", "4"}, {"core.untrackedCache", "true"}, {"status.relativePaths", "true"},
		{"core.hooksPath", "/nonexistent"}, {"core.abbrev", "4"}, {"log.date", "relative"}, {"status.branch", "true"},
		{"core.autocrlf", "input"}, {"status.showStash", "true"}} {
		repo.Git("config", setting[0], setting[1])
		if got := take(t, repo.Dir).Commit; got != want {
			t.Errorf("%s = %s: got %s, want %s", setting[0], setting[1], got, want)
		}
	}
	if err := os.MkdirAll(filepath.Join(repo.Dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := take(t, filepath.Join(repo.Dir, "sub")).Commit; got != want {
		t.Errorf("from a folder below: got %s, want %s", got, want)
	}
}

// tidy:long one shape after another, each on its own
func TestShapesOfRepositories(t *testing.T) {
	t.Parallel()
	t.Run("no commit yet", func(t *testing.T) {
		repo := scmtest.NewRepo(t)
		tree, err := capture.Open(t.Context(), repo.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tree.Take(t.Context(), false); !errors.Is(err, capture.ErrNoCommit) {
			t.Errorf("an empty repository: got %v", err)
		}
		repo.Write("a", "1")
		first, second := take(t, repo.Dir), take(t, repo.Dir)
		if !first.Captured || first.Commit != second.Commit {
			t.Errorf("got %+v and %+v", first, second)
		}
		newServer(t).push(t, first)
		if _, err := tree.Take(t.Context(), true); !errors.Is(err, capture.ErrNoCommit) {
			t.Errorf("HEAD of a repository without one: got %v", err)
		}
	})
	t.Run("bare", func(t *testing.T) {
		repo := scmtest.NewRepo(t)
		head := repo.Write("a", "1").Commit("first")
		bare := filepath.Join(t.TempDir(), "project.git")
		repo.Git("clone", "-q", "--bare", repo.Dir, bare)
		c := take(t, bare)
		if c.Commit != head || c.Captured || c.Ref != "refs/heads/main" {
			t.Errorf("got %+v", c)
		}
		newServer(t).push(t, c)
	})
	t.Run("worktree", func(t *testing.T) {
		repo := scmtest.NewRepo(t)
		repo.Write("a", "1").Commit("first")
		other := filepath.Join(t.TempDir(), "other")
		repo.Git("worktree", "add", "-q", "-b", "topic", other)
		if err := os.WriteFile(filepath.Join(other, "b"), []byte("1"), 0o600); err != nil {
			t.Fatal(err)
		}
		repo.Write("b", "1")
		before := footprint(t, repo.Dir)
		if got, want := take(t, other).Commit, take(t, repo.Dir).Commit; got != want {
			t.Errorf("the same tree in a worktree: got %s, want %s", got, want)
		}
		if after := footprint(t, repo.Dir); after != before {
			t.Errorf("the repository changed from\n%s\nto\n%s", before, after)
		}
		newServer(t).push(t, take(t, other))
	})
	t.Run("sparse", func(t *testing.T) {
		repo := scmtest.NewRepo(t)
		head := repo.Write("in/a", "1", "out/b", "1").Commit("first")
		repo.Git("sparse-checkout", "set", "in")
		if c := take(t, repo.Dir); c.Commit != head {
			t.Errorf("what is not checked out counts as changed: %+v", c)
		}
		repo.Write("in/a", "2")
		c, server := take(t, repo.Dir), newServer(t)
		server.push(t, c)
		check := scmtest.NewRepo(t)
		check.Git("fetch", "-q", server.dir, "refs/fairlead/captures/"+c.Commit)
		if got := check.Git("ls-tree", "-r", "--name-only", "FETCH_HEAD"); got != "in/a\nout/b" {
			t.Errorf("captured: %q", got)
		}
	})
	t.Run("no repository", func(t *testing.T) {
		if _, err := capture.Open(t.Context(), t.TempDir()); !errors.Is(err, capture.ErrNoRepository) {
			t.Errorf("got %v", err)
		}
		repo := scmtest.NewRepo(t)
		if _, err := capture.Open(t.Context(), filepath.Join(repo.Dir, ".git")); !errors.Is(err, capture.ErrUnsupported) {
			t.Errorf("inside .git: got %v", err)
		}
	})
	t.Run("shallow", func(t *testing.T) {
		repo := scmtest.NewRepo(t)
		repo.Write("a", "1").Commit("first")
		repo.Write("a", "2").Commit("second")
		clone := filepath.Join(t.TempDir(), "clone")
		repo.Git("clone", "-q", "--depth=1", "file://"+repo.Dir, clone)
		c, server := take(t, clone), newServer(t)
		err := c.Push(t.Context(), server.url, server.header)
		if !errors.Is(err, capture.ErrUnsupported) || !strings.Contains(err.Error(), "--unshallow") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("conflicts", func(t *testing.T) {
		repo := scmtest.NewRepo(t)
		repo.Write("a", "1\n").Commit("first")
		repo.Git("checkout", "-q", "-b", "topic")
		repo.Write("a", "2\n").Commit("theirs")
		repo.Git("checkout", "-q", "main")
		repo.Write("a", "3\n").Commit("ours")
		if out, err := repo.Try("merge", "topic"); err == nil {
			t.Fatalf("no conflict: %s", out)
		}
		if c := take(t, repo.Dir); !c.Captured || len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "conflict markers") {
			t.Errorf("got %+v", c)
		}
	})
}

func TestSubmodulesAndNestedRepositories(t *testing.T) {
	t.Parallel()
	library := scmtest.NewRepo(t)
	library.Write("lib", "1").Commit("library")
	repo := scmtest.NewRepo(t)
	repo.Git("submodule", "--quiet", "add", library.Dir, "lib")
	head := repo.Write("a", "1").Commit("first")
	if c := take(t, repo.Dir); c.Commit != head {
		t.Fatalf("a clean tree with a submodule: %+v", c)
	}
	repo.Write("lib/lib", "changed")
	c := take(t, repo.Dir)
	if c.Commit != head || len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "lib is a submodule with uncommitted") {
		t.Errorf("a changed submodule: %+v", c)
	}
	// A new commit in the submodule is a change of this tree.
	inner := append([]string{"-C", "lib"}, "commit", "-q", "-a", "-m", "inside")
	repo.Git(inner...)
	if c := take(t, repo.Dir); !c.Captured || len(c.Notes) != 0 {
		t.Errorf("a submodule on another commit: %+v", c)
	}
	repo.Git("-C", "lib", "reset", "-q", "--hard", "HEAD^")
	repo.Git("init", "-q", "nested")
	repo.Write("nested/x", "1", "beside", "1")
	c = take(t, repo.Dir)
	if !c.Captured || len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "nested is a git repository of its own") {
		t.Errorf("a nested repository: %+v", c)
	}
}

func TestFiltersStayTheUsersOwn(t *testing.T) {
	t.Parallel()
	repo := scmtest.NewRepo(t)
	repo.Git("config", "core.autocrlf", "true")
	head := repo.Write("a", "1\n", ".gitattributes", "*.up filter=upper\n").Commit("first")
	repo.Write("a", "1\r\n") // as a checkout with that setting writes it
	if c := take(t, repo.Dir); c.Commit != head {
		t.Errorf("line endings alone make a change: %+v", c)
	}
	repo.Git("config", "filter.upper.clean", "tr a-z A-Z")
	repo.Write("x.up", "shout\n")
	c, server := take(t, repo.Dir), newServer(t)
	server.push(t, c)
	check := scmtest.NewRepo(t)
	check.Git("fetch", "-q", server.dir, "refs/fairlead/captures/"+c.Commit)
	if got := check.Git("show", "FETCH_HEAD:x.up"); got != "SHOUT" {
		t.Errorf("got %q, want what git add would store", got)
	}
}

func TestLargeFilesAreRefusedByName(t *testing.T) {
	t.Parallel()
	repo := scmtest.NewRepo(t)
	repo.Write("a", "1").Commit("first")
	file, err := os.Create(filepath.Join(repo.Dir, "core.dump"))
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(file.Truncate(101<<20), file.Close()) // a hole: takes no space
	if err != nil {
		t.Fatal(err)
	}
	tree, err := capture.Open(t.Context(), repo.Dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tree.Take(t.Context(), false)
	if !errors.Is(err, capture.ErrTooLarge) || !strings.Contains(err.Error(), "core.dump (101 MiB)") {
		t.Errorf("got %v", err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for origin, want := range map[string]string{
		"https://github.com/acme/app.git":       "acme/app",
		"https://github.com/acme/app/":          "acme/app",
		"git@github.com:acme/app.git":           "acme/app",
		"ssh://git@host:22/group/sub/app":       "sub/app",
		"https://host/app.git":                  "app",
		"/srv/git/app.git":                      "app",
		"../app":                                "app",
		"https://user:secret@host/acme/app.git": "acme/app",
		"git@host:app.git":                      "app",
		"https://host/a b/c&d.git":              "a-b/c-d",
		"/home/me/project/.git":                 "project",
	} {
		tree := capture.Tree{Root: "/x/folder", Origin: origin}
		if got := tree.Name(); got != want {
			t.Errorf("%s: got %q, want %q", origin, got, want)
		}
	}
	for root, want := range map[string]string{"/x/my project": "my-project", "/": "repository"} {
		tree := capture.Tree{Root: filepath.Clean(root)}
		if got := tree.Name(); got != want {
			t.Errorf("folder %s: got %q, want %q", root, got, want)
		}
	}
}

// server is a real door on the loopback.
type server struct {
	url    string
	dir    string
	header http.Header
}

func newServer(t *testing.T) *server {
	t.Helper()
	mirrors, err := git.New(t.Context(), git.Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	repo := scmtest.NewID("a", 1)
	if err := mirrors.Init(t.Context(), repo); err != nil {
		t.Fatal(err)
	}
	handler := mirrors.Handler(func(_ context.Context, r *http.Request, _ git.Target) (git.Access, error) {
		return git.Access{Repo: repo, Push: r.Header.Get("Authorization") == "Bearer right"}, nil
	}, git.HandlerOptions{})
	listener := httptest.NewServer(handler)
	t.Cleanup(listener.Close)
	dir, err := mirrors.Dir(repo)
	if err != nil {
		t.Fatal(err)
	}
	return &server{url: listener.URL + git.Path(repo), dir: dir,
		header: http.Header{"Authorization": {"Bearer right"}}}
}

func (s *server) push(t *testing.T, c *capture.Capture) {
	t.Helper()
	for range 2 { // the second time the server has it all
		if err := c.Push(t.Context(), s.url, s.header); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPush(t *testing.T) {
	t.Parallel()
	repo := scmtest.NewRepo(t)
	head := repo.Write("a", "1").Commit("first")
	// Settings that would send the push elsewhere, add to it, or run a program.
	proof := filepath.Join(t.TempDir(), "proof")
	hook := filepath.Join(repo.Dir, ".git", "hooks", "pre-push")
	if err := os.MkdirAll(filepath.Dir(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hook, []byte("#!/bin/sh\ntouch "+proof+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	repo.Git("tag", "-a", "v1", "-m", "x")
	repo.Git("config", "push.followTags", "true")
	repo.Git("config", "http.extraHeader", "Authorization: Bearer wrong")
	repo.Write("a", "2")
	before := footprint(t, repo.Dir)
	c, server := take(t, repo.Dir), newServer(t)
	server.push(t, c)
	if footprint(t, repo.Dir) != before {
		t.Error("the push changed the repository")
	}
	if _, err := os.Stat(proof); err == nil {
		t.Error("a hook ran")
	}
	check := scmtest.NewRepo(t)
	refs := check.Git("ls-remote", server.dir)
	for _, want := range []string{"refs/fairlead/captures/" + c.Commit, "refs/fairlead/captures/" + head} {
		if !strings.Contains(refs, want) {
			t.Errorf("%s is missing in\n%s", want, refs)
		}
	}
	if strings.Contains(refs, "refs/tags") {
		t.Errorf("a tag was pushed:\n%s", refs)
	}
	err := c.Push(t.Context(), server.url, http.Header{"Authorization": {"Bearer wrong"}})
	if !errors.Is(err, capture.ErrPush) || !strings.Contains(err.Error(), "no such repository, or you may not use it") {
		t.Errorf("a wrong token: got %v", err)
	}
	for _, remote := range []string{"", "/srv/x", "ext::sh -c x", "--help", "ssh://host/x", "https://u:p@host/x"} {
		if err := c.Push(t.Context(), remote, nil); !errors.Is(err, capture.ErrPush) {
			t.Errorf("%q: got %v", remote, err)
		}
	}
	for _, answer := range []http.HandlerFunc{
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, // killed in the middle
		func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "starting", http.StatusServiceUnavailable) },
	} {
		ill := httptest.NewServer(answer)
		if err := c.Push(t.Context(), ill.URL, nil); !errors.Is(err, capture.ErrUnreached) {
			t.Errorf("a server that can't answer: got %v", err)
		}
		ill.Close()
		if err := c.Push(t.Context(), ill.URL, nil); !errors.Is(err, capture.ErrUnreached) {
			t.Errorf("a server that is gone: got %v", err)
		}
	}
	if err := c.Push(t.Context(), server.url, http.Header{"X": {"a\nb: c"}}); !errors.Is(err, capture.ErrPush) {
		t.Errorf("a header with a line break: got %v", err)
	}
}

package git_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/scm/git"
	"github.com/fairlead-ci/fairlead/internal/scm/scmtest"
)

func newMirrors(t *testing.T) *git.Mirrors {
	t.Helper()
	m, err := git.New(t.Context(), git.Config{Root: filepath.Join(t.TempDir(), "git"), AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestConformance(t *testing.T) {
	t.Parallel()
	scmtest.Run(t, func(t *testing.T) scm.Source { return newMirrors(t) })
}

// TestAddresses: a name that leads into the server's own network is refused, whatever
// scheme it comes with, and so is one that leads to both a public and a private address.
// Promises: [SRC-8].
func TestAddresses(t *testing.T) {
	t.Parallel()
	names := map[string][]string{
		"loop.example":  {"127.0.0.1"},
		"inner.example": {"10.1.2.3"},
		"mixed.example": {"203.0.113.7", "192.168.0.1"},
		"meta.example":  {"169.254.169.254"},
		"six.example":   {"fd00::1"},
		"none.example":  {},
		"cgnat.example": {"100.64.1.1"},
		"map.example":   {"::ffff:10.0.0.1"},
	}
	m, err := git.New(t.Context(), git.Config{Root: t.TempDir(),
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			var addrs []netip.Addr
			for _, text := range names[host] {
				addrs = append(addrs, netip.MustParseAddr(text))
			}
			return addrs, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"https://loop.example/x", "http://loop.example/x", "ssh://git@loop.example/x",
		"git@inner.example:x", "https://inner.example/x", "https://mixed.example/x", "https://meta.example/x",
		"https://six.example/x", "https://cgnat.example/x", "https://map.example/x", "https://127.0.0.1/x",
		"https://[::1]/x", "https://10.0.0.1/x", "http://93.184.216.34/x", "https://0.0.0.0/x"} {
		if _, err := m.Advertised(t.Context(), scm.Remote{URL: url}); !errors.Is(err, scm.ErrRefused) {
			t.Errorf("%s: got %v, want a refusal", url, err)
		}
	}
	_, err = m.Advertised(t.Context(), scm.Remote{URL: "https://none.example/x"})
	if !errors.Is(err, scm.ErrUnreachable) {
		t.Errorf("a name without an address: got %v", err)
	}
}

// TestRemoteHooksDoNotRun: what a remote repository or a mirror has configured never
// starts a program.
// Promises: [SRC-9].
func TestRemoteHooksDoNotRun(t *testing.T) {
	t.Parallel()
	m := newMirrors(t)
	remote := scmtest.NewRepo(t)
	remote.Write("a", "1").Commit("first")
	proof := filepath.Join(t.TempDir(), "proof")
	script := "#!/bin/sh\ntouch " + proof + "\n"
	repo := scmtest.NewID("a", 1)
	if err := m.Init(t.Context(), repo); err != nil {
		t.Fatal(err)
	}
	dir, err := m.Dir(repo)
	if err != nil {
		t.Fatal(err)
	}
	for _, hooks := range []string{filepath.Join(remote.Dir, ".git", "hooks"), filepath.Join(dir, "hooks")} {
		if err := os.MkdirAll(hooks, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"reference-transaction", "pre-receive", "post-update", "post-receive"} {
			if err := os.WriteFile(filepath.Join(hooks, name), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	remote.Git("config", "core.fsmonitor", "touch "+proof)
	remote.Git("config", "uploadpack.packObjectsHook", "touch "+proof)
	if _, err := m.Fetch(t.Context(), repo, scm.Remote{URL: remote.Dir}); err != nil {
		t.Fatal(err)
	}
	if err := m.Maintain(t.Context(), repo); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(proof); err == nil {
		t.Error("a configured program ran")
	}
}

// TestOwnMirrorsAreNoRemotes: a registered path must not open another tenant's mirror.
func TestOwnMirrorsAreNoRemotes(t *testing.T) {
	t.Parallel()
	m := newMirrors(t)
	mine, theirs := scmtest.NewID("a", 1), scmtest.NewID("b", 1)
	for _, repo := range []scm.Repo{mine, theirs} {
		if err := m.Init(t.Context(), repo); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := m.Dir(theirs)
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, link} {
		if _, err := m.Fetch(t.Context(), mine, scm.Remote{URL: path}); !errors.Is(err, scm.ErrRefused) {
			t.Errorf("fetch from %s: got %v, want a refusal", path, err)
		}
	}
}

// Promises: [SRC-8].
func TestRefNames(t *testing.T) {
	t.Parallel()
	repo := scmtest.NewRepo(t)
	for _, name := range []string{"main", "a/b", "ä", "a@b", "a.b", "a-", "-a", "a..b", "a//b", "/a", "a/", "a.lock",
		"a.lock/b", ".a", "a/.b", "a b", "a~", "a^", "a:b", "a?", "a*", "a[", `a\b`, "a@{b", "a.", "a\x7fb", "{", "a}"} {
		out, err := repo.Try("check-ref-format", "--branch", name)
		git := err == nil && out == name
		if got := scm.ValidRefName(name); got != git {
			t.Errorf("%q: got %v, git says %v", name, got, git)
		}
	}
	if scm.ValidRefName(strings.Repeat("a", 1025)) {
		t.Error("a name without a bound is valid")
	}
}

// TestMirrorsAreListedInAFolderOfAnyName: the characters that patterns are made of are no
// patterns in the name of an operator's folder, and what is no mirror is not listed.
func TestMirrorsAreListedInAFolderOfAnyName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a[b]", "a*b", "a?b", "a[", `a\b`} {
		root := filepath.Join(t.TempDir(), name)
		m, err := git.New(t.Context(), git.Config{Root: root})
		if err != nil {
			t.Fatal(err)
		}
		want := []scm.Repo{scmtest.NewID("a", 1), scmtest.NewID("a", 2), scmtest.NewID("b", 1)}
		for _, repo := range want {
			if err := m.Init(t.Context(), repo); err != nil {
				t.Fatal(err)
			}
		}
		for _, other := range []string{"lost+found/x.git", "tnt_a/x.git", "tnt_c"} {
			if err := os.MkdirAll(filepath.Join(root, other), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		half, err := m.Dir(scmtest.NewID("a", 3)) // a folder without HEAD
		if err = errors.Join(err, os.MkdirAll(half, 0o700),
			os.WriteFile(filepath.Join(root, "tnt_d"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		found, err := m.Mirrored(t.Context())
		if err != nil || !slices.Equal(found, want) {
			t.Errorf("in %s: found %v, %v, want %v", name, found, err, want)
		}
	}
}

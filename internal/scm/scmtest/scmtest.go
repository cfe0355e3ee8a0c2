// Package scmtest is the meaning of the port scm: one suite that every adapter passes.
//
// It is deliberately without doubles: remotes are real repositories on disk.
//
// Invariants: every subtest makes its own mirror and remote and leaves nothing behind;
// two tenants are in play wherever a name could be confused.
//
// Read next: internal/scm/scm.go
package scmtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/scm"
)

// NewID names the n-th repository of a tenant.
func NewID(tenant string, n byte) scm.Repo {
	return scm.Repo{Tenant: domain.TenantID("tnt_" + tenant),
		Repository: domain.RepositoryID(domain.EncodeID(domain.PrefixRepository, [16]byte{1, 15: n}))}
}

// Run runs the suite. Each call of open gives an empty source.
func Run(t *testing.T, open func(t *testing.T) scm.Source) {
	tests := []struct {
		name string
		run  func(t *testing.T, source scm.Source)
	}{
		{"fetch and resolve", fetchAndResolve},
		{"fetch follows moves and deletions", fetchFollows},
		{"a pin outlives its branch", pinOutlives},
		{"fetch one commit", fetchCommit},
		{"read files", readFiles},
		{"read limits", readLimits},
		{"contains", contains},
		{"changed", changed},
		{"tenants are apart", tenantsApart},
		{"hostile names", hostileNames},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

func mirror(t *testing.T, source scm.Source, repo scm.Repo) scm.Repo {
	t.Helper()
	for range 2 { // the second time changes nothing
		if err := source.Init(t.Context(), repo); err != nil {
			t.Fatal(err)
		}
	}
	return repo
}

func mustFetch(t *testing.T, source scm.Source, repo scm.Repo, from *Repo) []scm.Ref {
	t.Helper()
	refs, err := source.Fetch(t.Context(), repo, scm.Remote{URL: from.Dir})
	if err != nil {
		t.Fatal(err)
	}
	return refs
}

func wantErr(t *testing.T, err, want error, what string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

func fetchAndResolve(t *testing.T, source scm.Source) {
	remote := NewRepo(t)
	c1 := remote.Write("a", "1").Commit("first")
	remote.Git("tag", "-a", "v1", "-m", "one")
	remote.Git("tag", "blob-tag", remote.Git("hash-object", "-w", "a"))
	remote.Git("branch", "feature/x")
	c2 := remote.Write("a", "2").Commit("second")

	ad, err := source.Advertised(t.Context(), scm.Remote{URL: remote.Dir})
	if err != nil || ad.DefaultBranch != "main" {
		t.Fatalf("advertised: default branch %q, error %v", ad.DefaultBranch, err)
	}
	if !slices.Contains(ad.Refs, scm.Ref{Name: "refs/tags/v1", Commit: c1}) {
		t.Errorf("advertised: the annotated tag is not followed to its commit: %v", ad.Refs)
	}

	repo := mirror(t, source, NewID("a", 1))
	want := []scm.Ref{{Name: "refs/heads/feature/x", Commit: c1}, {Name: "refs/heads/main", Commit: c2},
		{Name: "refs/tags/v1", Commit: c1}}
	if refs := mustFetch(t, source, repo, remote); !slices.Equal(refs, want) {
		t.Errorf("refs: got %v, want %v", refs, want)
	}
	for name, want := range map[string]scm.Resolution{
		"main":            {Ref: "refs/heads/main", Commit: c2},
		"refs/heads/main": {Ref: "refs/heads/main", Commit: c2},
		"v1":              {Ref: "refs/tags/v1", Commit: c1},
		"feature/x":       {Ref: "refs/heads/feature/x", Commit: c1},
		c1:                {Commit: c1},
	} {
		got, err := source.Resolve(t.Context(), repo, name)
		if err != nil || got != want {
			t.Errorf("resolve %s: got %v, %v, want %v", name, got, err, want)
		}
	}
	for _, name := range []string{"feature", "HEAD", "nothing", "blob-tag", strings.Repeat("0", 39) + "1"} {
		_, err := source.Resolve(t.Context(), repo, name)
		wantErr(t, err, scm.ErrNotFound, "resolve "+name)
	}
}

func fetchFollows(t *testing.T, source scm.Source) {
	remote := NewRepo(t)
	c1 := remote.Write("a", "1").Commit("first")
	remote.Git("branch", "gone")
	repo := mirror(t, source, NewID("a", 1))
	mustFetch(t, source, repo, remote)

	remote.Git("branch", "-D", "gone")
	remote.Git("branch", "gone/below") // takes the place of the deleted name
	remote.Write("a", "other")
	remote.Git("commit", "--quiet", "--amend", "-am", "rewritten") // a forced move
	c2 := remote.Git("rev-parse", "HEAD")
	want := []scm.Ref{{Name: "refs/heads/gone/below", Commit: c1}, {Name: "refs/heads/main", Commit: c2}}
	if refs := mustFetch(t, source, repo, remote); !slices.Equal(refs, want) {
		t.Errorf("refs: got %v, want %v", refs, want)
	}
}

// Promises: [SRC-7].
func pinOutlives(t *testing.T, source scm.Source) {
	remote := NewRepo(t)
	remote.Write("a", "1").Commit("base")
	remote.Git("checkout", "-q", "-b", "topic")
	pinned := remote.Write("a", "2").Commit("topic")
	repo := mirror(t, source, NewID("a", 1))
	mustFetch(t, source, repo, remote)
	for range 2 {
		if err := source.Pin(t.Context(), repo, pinned); err != nil {
			t.Fatal(err)
		}
	}
	remote.Git("checkout", "-q", "main")
	remote.Git("branch", "-D", "topic")
	mustFetch(t, source, repo, remote)
	if _, err := source.Resolve(t.Context(), repo, "topic"); !errors.Is(err, scm.ErrNotFound) {
		t.Errorf("the deleted branch still resolves: %v", err)
	}
	c, _, err := source.Read(t.Context(), repo, pinned, scm.Query{})
	if err != nil || c.Title() != "topic" {
		t.Errorf("the pinned commit is gone: %v", err)
	}
	err = source.Pin(t.Context(), repo, strings.Repeat("1", 40))
	wantErr(t, err, scm.ErrNotFound, "pin a commit that is not there")
}

func fetchCommit(t *testing.T, source scm.Source) {
	remote := NewRepo(t)
	c1 := remote.Write("a", "1").Commit("first")
	remote.Write("a", "2").Commit("second")
	repo := mirror(t, source, NewID("a", 1))
	from := scm.Remote{URL: remote.Dir}
	if err := source.FetchCommit(t.Context(), repo, from, c1); err != nil {
		t.Fatal(err)
	}
	if got, err := source.Resolve(t.Context(), repo, c1); err != nil || got.Commit != c1 {
		t.Errorf("resolve: %v, %v", got, err)
	}
	err := source.FetchCommit(t.Context(), repo, from, strings.Repeat("2", 40))
	wantErr(t, err, scm.ErrNotFound, "a commit that the remote does not have")
	err = source.FetchCommit(t.Context(), repo, scm.Remote{URL: remote.Dir + "-none"}, strings.Repeat("2", 40))
	wantErr(t, err, scm.ErrNotFound, "a remote that does not exist")
}

func readFiles(t *testing.T, source scm.Source) {
	remote := NewRepo(t)
	remote.Write(".fairlead/workflows/b.yml", "b", ".fairlead/workflows/a.yaml", "a",
		".fairlead/workflows/deep/c.yml", "no", ".fairlead/workflows/note.txt", "no",
		".github/workflows/d.yml", "d")
	remote.Git("add", "-A")
	remote.Git("update-index", "--add", "--cacheinfo", "120000,"+remote.Git("hash-object", "-w", "-t", "blob",
		".fairlead/workflows/b.yml")+",.github/workflows/link.yml")
	remote.Git("commit", "-q", "-m", "  Title of it  \n\nBody\n")
	id := remote.Git("rev-parse", "HEAD")
	repo := mirror(t, source, NewID("a", 1))
	mustFetch(t, source, repo, remote)
	q := scm.Query{Dirs: []string{".fairlead/workflows", ".none", ".github/workflows"},
		Suffixes: []string{".yml", ".yaml"}, FilesMax: 10, BytesMax: 100, TotalMax: 1000}
	c, files, err := source.Read(t.Context(), repo, id, q)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		text := f.Path + "=" + string(f.Bytes)
		if f.Link {
			text += " (a link)"
		}
		got = append(got, text)
	}
	want := []string{".fairlead/workflows/a.yaml=a", ".fairlead/workflows/b.yml=b", ".github/workflows/d.yml=d",
		".github/workflows/link.yml= (a link)"} // listed, and not followed
	if !slices.Equal(got, want) {
		t.Errorf("files: got %v, want %v", got, want)
	}
	if c.Title() != "Title of it" || c.Author.Name != "Ada" || c.Committer.Email != "bob@example.org" ||
		c.Committer.When.Unix() != 1700000100 || len(c.Parents) != 0 || c.Tree != remote.Git("rev-parse", "HEAD^{tree}") {
		t.Errorf("commit: %+v", c)
	}
	_, _, err = source.Read(t.Context(), repo, c.Tree, q)
	wantErr(t, err, scm.ErrNotFound, "a tree where a commit is asked for")
}

func readLimits(t *testing.T, source scm.Source) {
	remote := NewRepo(t)
	for i := range 4 {
		remote.Write(fmt.Sprintf("w/%d.yml", i), strings.Repeat("x", 100))
	}
	id := remote.Commit("four files")
	repo := mirror(t, source, NewID("a", 1))
	mustFetch(t, source, repo, remote)
	base := scm.Query{Dirs: []string{"w"}, Suffixes: []string{".yml"}, FilesMax: 4, BytesMax: 100, TotalMax: 400}
	if _, files, err := source.Read(t.Context(), repo, id, base); err != nil || len(files) != 4 {
		t.Fatalf("at the limits: %d files, %v", len(files), err)
	}
	for what, change := range map[string]func(*scm.Query){
		"files": func(q *scm.Query) { q.FilesMax = 3 },
		"bytes": func(q *scm.Query) { q.BytesMax = 99 },
		"total": func(q *scm.Query) { q.TotalMax = 399 },
	} {
		q := base
		change(&q)
		_, _, err := source.Read(t.Context(), repo, id, q)
		wantErr(t, err, scm.ErrTooLarge, what)
	}
}

func contains(t *testing.T, source scm.Source) {
	remote := NewRepo(t)
	c1 := remote.Write("a", "1").Commit("first")
	remote.Git("branch", "old")
	c2 := remote.Write("a", "2").Commit("second")
	repo := mirror(t, source, NewID("a", 1))
	mustFetch(t, source, repo, remote)
	refs := []string{"refs/heads/main", "refs/heads/old", "refs/heads/none", "refs/heads"}
	for commit, want := range map[string][]string{
		c1: {"refs/heads/main", "refs/heads/old"},
		c2: {"refs/heads/main"},
	} {
		got, err := source.Contains(t.Context(), repo, commit, refs)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("contains %s: got %v, %v, want %v", commit, got, err, want)
		}
	}
	_, err := source.Contains(t.Context(), repo, strings.Repeat("3", 40), refs)
	wantErr(t, err, scm.ErrNotFound, "a commit that is not there")
}

func changed(t *testing.T, source scm.Source) {
	remote := NewRepo(t)
	c1 := remote.Write("a", "1", "b/c", "1", "d", "1").Commit("first")
	c2 := remote.Write("a", "2", "b/c", "2", "new\nline", "2").Commit("second")
	repo := mirror(t, source, NewID("a", 1))
	mustFetch(t, source, repo, remote)
	paths, more, err := source.Changed(t.Context(), repo, c1, c2, 10)
	if want := []string{"a", "b/c", "new\nline"}; err != nil || more || !slices.Equal(paths, want) {
		t.Errorf("changed: got %q, %v, %v, want %q", paths, more, err, want)
	}
	paths, more, err = source.Changed(t.Context(), repo, c1, c2, 2)
	if err != nil || !more || len(paths) != 2 {
		t.Errorf("changed with a limit: got %q, %v, %v", paths, more, err)
	}
	paths, more, err = source.Changed(t.Context(), repo, c1, c1, 2)
	if err != nil || more || len(paths) != 0 {
		t.Errorf("nothing changed: got %q, %v, %v", paths, more, err)
	}
	_, _, err = source.Changed(t.Context(), repo, strings.Repeat("3", 40), c2, 2)
	wantErr(t, err, scm.ErrNotFound, "a commit that is not there")
}

func tenantsApart(t *testing.T, source scm.Source) {
	remote := NewRepo(t)
	c1 := remote.Write("a", "1").Commit("first")
	mine, theirs := mirror(t, source, NewID("a", 1)), mirror(t, source, NewID("b", 1))
	mustFetch(t, source, mine, remote)
	if _, err := source.Resolve(t.Context(), mine, c1); err != nil {
		t.Fatal(err)
	}
	_, err := source.Resolve(t.Context(), theirs, c1)
	wantErr(t, err, scm.ErrNotFound, "the same repository id of another tenant")
	_, err = source.Resolve(t.Context(), NewID("a", 2), c1)
	wantErr(t, err, scm.ErrNotFound, "a mirror that was never made")
}

// Promises: [SRC-8].
func hostileNames(t *testing.T, source scm.Source) {
	remote := NewRepo(t)
	remote.Write("a", "1").Commit("first")
	repo := mirror(t, source, NewID("a", 1))
	mustFetch(t, source, repo, remote)
	for _, name := range []string{"", "-", "--help", "--upload-pack=touch /tmp/x", "..", "a..b", "main^", "main~1",
		"@{-1}",
		"main:a", "refs/heads/../../x", "a b", "a\x00b", "a\nb", ":/first", "main@{0}", "refs/heads/*", "*",
		strings.Repeat("a", 2000), "refs/fairlead/none", "a.lock", "/main", "main/"} {
		_, err := source.Resolve(t.Context(), repo, name)
		wantErr(t, err, scm.ErrNotFound, fmt.Sprintf("resolve %.40q", name))
	}
	for _, id := range []scm.Repo{{Tenant: "tnt_a", Repository: "../tnt_a"}, {Tenant: "..", Repository: repo.Repository},
		{Tenant: "", Repository: repo.Repository}, {Tenant: "tnt_a/../tnt_b", Repository: repo.Repository}, {}} {
		wantErr(t, source.Init(t.Context(), id), scm.ErrNotFound, fmt.Sprintf("init %v", id))
	}
	for _, url := range []string{"ext::sh -c x", "ext::sh", "-u", "--upload-pack=x", "file:///etc", "git://host/x",
		"ftp://h/x",
		"https://user:secret@host/x", "https://token@host/x", "relative/path", "/a/../etc", "https://", "https:///x",
		"ssh://-oProxyCommand=x/y", "-oProxyCommand=x:y", "host:-x", "fd::1", "https://host/x?y=z", "http://ho st/x",
		"/tmp/a:b", ""} {
		_, err := source.Fetch(t.Context(), repo, scm.Remote{URL: url})
		wantErr(t, err, scm.ErrRefused, fmt.Sprintf("fetch from %.40q", url))
		_, err = source.Advertised(t.Context(), scm.Remote{URL: url})
		wantErr(t, err, scm.ErrRefused, fmt.Sprintf("ask %.40q", url))
	}
}

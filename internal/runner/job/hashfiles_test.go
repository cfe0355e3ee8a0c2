package job

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// tree makes files with their own path as content, folders (a path that ends with a slash)
// and links ("name -> target").
func tree(t *testing.T, paths ...string) (folder string, root *os.Root) {
	t.Helper()
	folder = t.TempDir()
	for _, name := range paths {
		name, target, link := strings.Cut(name, " -> ")
		at := filepath.Join(folder, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		switch {
		case err != nil:
		case link:
			err = os.Symlink(target, at)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(at, 0o755)
		default:
			err = os.WriteFile(at, []byte(name), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return folder, root
}

// digestOf is what hashFiles gives for files with their paths as content, in that order.
func digestOf(paths ...string) string {
	all := sha256.New()
	for _, name := range paths {
		one := sha256.Sum256([]byte(name))
		all.Write(one[:])
	}
	return hex.EncodeToString(all.Sum(nil))
}

func TestHashFilesChoosesByPatterns(t *testing.T) {
	folder, root := tree(t, "go.sum", "package-lock.json", "web/package-lock.json", "web/a/b/package-lock.json",
		".hidden/x",
		"web/[odd].txt", "src/a.js", "src/ab.js", "src/lib/c.js", "empty/")
	lock := []string{"package-lock.json", "web/a/b/package-lock.json", "web/package-lock.json"}
	for _, test := range []struct {
		patterns []string
		want     []string
	}{
		{[]string{"go.sum"}, []string{"go.sum"}}, {[]string{"./go.sum"}, []string{"go.sum"}}, {[]string{"nope"}, nil},
		{[]string{"**/package-lock.json"}, lock}, {[]string{"**/**/package-lock.json"}, lock},
		{[]string{"web/*/package-lock.json"}, nil}, {[]string{"web"}, []string{"web/[odd].txt", lock[1], lock[2]}},
		{[]string{"web/"}, []string{"web/[odd].txt", lock[1], lock[2]}}, {[]string{"go.sum/"}, nil}, {[]string{"empty"}, nil},
		{[]string{"**/package-lock.json", "!web/**"}, lock[:1]}, {[]string{"**/package-lock.json", "!web"}, lock[:1]},
		{[]string{"**/package-lock.json\n!web/**\n# no\n\nweb/a/**"}, lock[:2]},
		{[]string{"src/?.js"}, []string{"src/a.js"}}, {[]string{"src/[!x]b.js"}, []string{"src/ab.js"}},
		{[]string{"src/**.js"}, []string{"src/a.js", "src/ab.js"}}, {[]string{".hidden/*"}, []string{".hidden/x"}},
		{[]string{"*/x"}, []string{".hidden/x"}}, {[]string{`web/\[odd\].txt`}, []string{"web/[odd].txt"}},
		{[]string{"src/lib/*.js", "src/a.js"}, []string{"src/lib/c.js", "src/a.js"}}, {[]string{"src/lib/*", "src/**"},
			[]string{"src/a.js", "src/ab.js", "src/lib/c.js"}},
		{[]string{"/inside/go.sum"}, []string{"go.sum"}}, {[]string{"/elsewhere/x"}, nil}, {[]string{"~/x"}, nil},
		{[]string{"!go.sum"}, nil}, {[]string{"GO.SUM"}, nil},
	} {
		want := ""
		if len(test.want) > 0 {
			want = digestOf(test.want...)
		}
		got, err := hashFiles(context.Background(), root, "/inside", test.patterns)
		if err != nil || got.digest != want || got.files != len(test.want) {
			t.Errorf("%q: %d files, %q, %v; want %v", test.patterns, got.files, got.digest, err, test.want)
		}
	}
	for _, pattern := range []string{"../x", "a/../b", "--follow-symbolic-links"} {
		if _, err := hashFiles(context.Background(), root, "/inside", []string{pattern}); err == nil ||
			!strings.Contains(err.Error(), pattern) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	all, err := hashFiles(context.Background(), root, folder, []string{folder + "/**"})
	if err != nil || all.files != 9 {
		t.Errorf("everything: %d files, %v", all.files, err)
	}
}

// A link that leads nowhere never makes the digest empty.
func TestS42LinksNeverGiveAnEmptyDigest(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("s"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, root := tree(t, "a", "b -> a", "dangling -> nowhere", "out -> "+outside+"/secret", "folder/c", "behind -> folder",
		"loop -> loop", "up -> ../x")
	got, err := hashFiles(context.Background(), root, "/inside", []string{"**"})
	if want := digestOf("a", "a", "folder/c"); err != nil || got.digest != want {
		t.Errorf("digest %q, %v", got.digest, err)
	}
	if links := strings.Join(got.left, " "); links != "dangling loop out up" {
		t.Errorf("left out: %s", links)
	}
	for _, pattern := range []string{"dangling", "d*g", "out", "loop", "up"} {
		got, err := hashFiles(context.Background(), root, "/inside", []string{pattern})
		if err == nil || got.digest != "" || !strings.Contains(err.Error(), "is a link") {
			t.Errorf("%s: %q, %v", pattern, got.digest, err)
		}
	}
	for _, pattern := range []string{"behind", "behind/**"} {
		if got, err := hashFiles(context.Background(), root, "/inside", []string{pattern}); err != nil || got.files != 0 {
			t.Errorf("%s enters a folder behind a link: %d files, %v", pattern, got.files, err)
		}
	}
}

func TestHashFilesEndsAndReadsPlainFilesOnly(t *testing.T) {
	folder, root := tree(t, "a")
	if err := unix.Mkfifo(filepath.Join(folder, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := hashFiles(context.Background(), root, "/inside", []string{"**"}); err == nil ||
		!strings.Contains(err.Error(), "pipe is not a plain file") {
		t.Errorf("a pipe: %v", err)
	}
	killed := errors.New("killed")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(killed)
	if _, err := hashFiles(ctx, root, "/inside", []string{"**"}); !errors.Is(err, killed) {
		t.Errorf("a job that was killed: %v", err)
	}
}

func TestPatternsAreMatchedInBoundedTime(t *testing.T) {
	pattern, segments := strings.Repeat("**/a/", 200)+"x", strings.Repeat("a/", 2_000)+"y"
	g, _, err := readGlob(pattern, "/inside")
	if err != nil || match(g.segments, strings.Split(segments, "/")) {
		t.Errorf("matches: %v", err)
	}
}

func TestStepsHashTheFilesOfTheirWorkspace(t *testing.T) {
	b := newBench(t,
		plan.Step{Script: "mkdir d && printf d/x >d/x && ln -s nowhere d/y"},
		plan.Step{Script: "echo key=${{ hashFiles('d/**') }}."},
		plan.Step{Script: "echo none=${{ hashFiles('absent') }}."},
		plan.Step{If: "hashFiles('d/x') != ''", Script: "echo by condition"},
		plan.Step{Script: "echo ${{ hashFiles('d/y') }}"},
	)
	b.run()
	log := b.sink.raw(0)
	for _, want := range []string{"key=" + digestOf("d/x") + ".", "none=.", "by condition", "d/y is left out"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %q:\n%s", want, log)
		}
	}
	last := b.result.GetSteps()[4]
	if last.GetOutcome() != "failure" || !strings.Contains(last.GetMessage(), "d/y is a link") {
		t.Errorf("the last step: %s, %q", last.GetOutcome(), last.GetMessage())
	}
}

package scmtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Repo is a real repository with a working tree, made for one test.
type Repo struct {
	t   testing.TB
	Dir string
}

// NewRepo makes an empty repository with the branch main, untouched by the
// configuration of whoever runs the test.
func NewRepo(t testing.TB) *Repo {
	t.Helper()
	r := &Repo{t: t, Dir: filepath.Join(t.TempDir(), "work")}
	if err := os.Mkdir(r.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.Git("init", "--quiet", "--initial-branch=main")
	return r
}

// Git runs git in the repository and returns its trimmed output; it fails the test when
// git does.
func (r *Repo) Git(args ...string) string {
	r.t.Helper()
	out, err := r.Try(args...)
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// Try runs git in the repository and returns its output, standard error included.
func (r *Repo) Try(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = r.Dir
	cmd.Env = Env()
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// Env is an environment in which git reads no configuration but the repository's own and
// makes the same commits every time.
func Env() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_AUTHOR_DATE=1700000000 +0100",
		"GIT_COMMITTER_NAME=Bob", "GIT_COMMITTER_EMAIL=bob@example.org", "GIT_COMMITTER_DATE=1700000100 +0000",
		"GIT_ALLOW_PROTOCOL=file:http",
	}
}

// Write writes files (path, content, path, content, …) into the working tree.
func (r *Repo) Write(pairs ...string) *Repo {
	r.t.Helper()
	for i := 0; i+1 < len(pairs); i += 2 {
		path := filepath.Join(r.Dir, pairs[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(pairs[i+1]), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
	return r
}

// Commit commits the whole working tree and returns the commit's id.
func (r *Repo) Commit(message string) string {
	r.t.Helper()
	r.Git("add", "-A")
	r.Git("commit", "--quiet", "--allow-empty", "-m", message)
	return r.Git("rev-parse", "HEAD")
}

package hook_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/scm/scmtest"
	"github.com/fairlead-ci/fairlead/internal/trigger/hook"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// world is a bare repository that a real client pushes to, and a program in the place of
// fairlead that writes down what it was told.
func world(t *testing.T, program string) (work *scmtest.Repo, bare, said string, o hook.Options) {
	t.Helper()
	work = scmtest.NewRepo(t)
	bare = filepath.Join(t.TempDir(), "it's a repository.git")
	work.Git("init", "-q", "--bare", "--template=", bare)
	said = filepath.Join(t.TempDir(), "said")
	dir := filepath.Join(t.TempDir(), "it's $(a) `folder`")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text := "#!/bin/sh\n{ echo \"$FAIRLEAD_SERVER|$GIT_DIR|$*\"; cat; } >>" + said + "\n" + program + "\n"
	return work, bare, said, hook.Options{Binary: write(t, filepath.Join(dir, "fairlead"), text),
		Server: "http://127.0.0.1:1/'x", Repository: "acme/app"}
}

func TestPushReachesTheProgram(t *testing.T) {
	t.Parallel()
	work, bare, said, o := world(t, "exit 0")
	for _, want := range []bool{true, false} {
		if changed, err := hook.Install(bare, o); err != nil || changed != want {
			t.Fatalf("install: changed %v, %v; want %v", changed, err, want)
		}
	}
	tip := work.Write("a", "1").Commit("first")
	work.Git("push", "-q", bare, "main", "main:refs/heads/other")
	zero := strings.Repeat("0", 40)
	want := "http://127.0.0.1:1/'x||hook post-receive --repository acme/app\n" +
		zero + " " + tip + " refs/heads/main\n" + zero + " " + tip + " refs/heads/other\n"
	if got := read(t, said); got != want {
		t.Errorf("the program was told %q, want %q", got, want)
	}
}

func TestServerAway(t *testing.T) {
	t.Parallel()
	work, bare, _, o := world(t, "exit 4")
	if _, err := hook.Install(bare, o); err != nil {
		t.Fatal(err)
	}
	work.Write("a", "1").Commit("first")
	out := work.Git("push", bare, "main") // fails the test if the push fails
	if !strings.Contains(out, "the server did not take the news of this push") {
		t.Errorf("no warning: %s", out)
	}
	o.Binary = filepath.Join(t.TempDir(), "gone")
	if changed, err := hook.Install(bare, o); err != nil || !changed {
		t.Fatalf("install with another program: %v, %v", changed, err)
	}
	work.Write("a", "2").Commit("second")
	work.Git("push", bare, "main")
}

func TestPresentHookStaysAndRunsFirst(t *testing.T) {
	t.Parallel()
	work, bare, said, o := world(t, "exit 0")
	hooks := filepath.Join(bare, "hooks")
	if err := os.Mkdir(hooks, 0o755); err != nil {
		t.Fatal(err)
	}
	old := "#!/bin/sh\n{ echo old; cat; } >>" + said + "\n"
	write(t, filepath.Join(hooks, "post-receive"), old)
	for _, want := range []bool{true, false} {
		if changed, err := hook.Install(bare, o); err != nil || changed != want {
			t.Fatalf("install: changed %v, %v; want %v", changed, err, want)
		}
	}
	if got := read(t, filepath.Join(hooks, "post-receive.before-fairlead")); got != old {
		t.Errorf("the hook that was there is now %q", got)
	}
	tip := work.Write("a", "1").Commit("first")
	work.Git("push", "-q", bare, "main")
	got := read(t, said)
	if !strings.HasPrefix(got, "old\n") || strings.Count(got, tip) != 2 {
		t.Errorf("told: %q", got)
	}
	// Somebody replaced our hook by another one: both can't be kept.
	write(t, filepath.Join(hooks, "post-receive"), "#!/bin/sh\n")
	if _, err := hook.Install(bare, o); !errors.Is(err, hook.ErrConflict) {
		t.Errorf("two foreign hooks: got %v", err)
	}
}

func TestHooksPathIsFollowed(t *testing.T) {
	t.Parallel()
	work, bare, said, o := world(t, "exit 0")
	elsewhere := filepath.Join(t.TempDir(), "hooks")
	work.Git("--git-dir="+bare, "config", "core.hooksPath", elsewhere)
	if _, err := hook.Install(bare, o); err != nil {
		t.Fatal(err)
	}
	work.Write("a", "1").Commit("first")
	work.Git("push", "-q", bare, "main")
	if read(t, said) == "" {
		t.Error("the hook did not run")
	}
}

func TestInstallRefusals(t *testing.T) {
	t.Parallel()
	_, bare, _, o := world(t, "exit 0")
	if _, err := hook.Install(t.TempDir(), o); err == nil {
		t.Error("a folder that is no repository was taken")
	}
	for _, bad := range []func(*hook.Options){
		func(o *hook.Options) { o.Binary = "fairlead" },
		func(o *hook.Options) { o.Repository = "" },
		func(o *hook.Options) { o.Repository = "a\nb" },
	} {
		options := o
		bad(&options)
		if _, err := hook.Install(bare, options); err == nil {
			t.Errorf("%+v was taken", options)
		}
	}
}

func TestParseUpdates(t *testing.T) {
	t.Parallel()
	a, b := strings.Repeat("a", 40), strings.Repeat("b", 40)
	got, err := hook.ParseUpdates(a + " " + b + " refs/heads/with space\r\n\n")
	if err != nil || len(got) != 1 || got[0] != (hook.Update{Before: a, After: b, Ref: "refs/heads/with space"}) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"x", a + " " + b, a + " " + b + " main", a + " zz refs/heads/x"} {
		if _, err := hook.ParseUpdates(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// Package isolatetest is the meaning of the isolation port: one suite that every driver
// passes, with real processes.
//
// It is deliberately free of knowledge about any driver; what a driver adds beyond the
// port (masked folders, say) is switched on by a field of Options.
//
// Invariants: the suite never skips; a machine on which a driver can't work is a
// failure that says what to install.
//
// Read next: suite.go, ../isolate.go
package isolatetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/isolate/inside"
)

// Options say what a driver promises beyond the port.
type Options struct {
	Driver isolate.Driver
	// Walls: the driver hides masked paths, other processes and root's files.
	Walls bool
	// Orphan prepares a sandbox in a process of its own that then dies without a word;
	// it returns when that process is dead. Commands are started inside before.
	Orphan func(t *testing.T, spec isolate.Spec, script string)
}

// patience bounds every wait of the suite; nothing of it is expected to take that long.
const patience = 30 * time.Second

// Run runs the suite.
func Run(t *testing.T, o Options) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	report, err := o.Driver.Probe(ctx)
	if err != nil {
		t.Fatalf("the driver %s does not work on this machine: %v", o.Driver.Name(), err)
	}
	if report.Reason == "" {
		t.Error("the report has no reason for people")
	}
	s := &suite{Options: o, report: report}
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"exit codes and signals are told apart", s.exits},
		{"the environment is exactly what was given", s.environment},
		{"output arrives whole and in order", s.output},
		{"a missing program is named", s.missing},
		{"files are shared as promised", s.files},
		{"nothing survives", s.survivors},
		{"a command is killed with its session only", s.session},
		{"a signal reaches the whole group", s.group},
		{"destroying erases everything and can be repeated", s.destroy},
		{"sandboxes don't see each other", s.concurrent},
		{"a dead owner's sandbox is cleaned up by its id", s.orphan},
		{"the sandbox says when it is gone", s.gone},
	} {
		t.Run(c.name, c.run)
	}
	if o.Walls {
		t.Run("what is masked can't be read", s.masked)
		t.Run("there are no privileges", s.privileges)
	}
}

type suite struct {
	Options
	report isolate.Report
}

func (s *suite) spec(t *testing.T) isolate.Spec {
	return isolate.Spec{
		ID:     fmt.Sprintf("t%d-%s", os.Getpid(), filepath.Base(t.TempDir())+fmt.Sprint(time.Now().UnixNano())),
		Dir:    filepath.Join(t.TempDir(), "box"),
		Choice: s.report.Choice,
	}
}

func (s *suite) prepare(t *testing.T) isolate.Sandbox {
	t.Helper()
	return s.prepareSpec(t, s.spec(t))
}

func (s *suite) prepareSpec(t *testing.T, spec isolate.Spec) isolate.Sandbox {
	t.Helper()
	box, err := s.Driver.Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := box.Destroy(ctx); err != nil {
			t.Errorf("destroy: %v", err)
		}
	})
	return box
}

// sh runs a script to its end and returns what it printed.
func sh(t *testing.T, box isolate.Sandbox, script string, env ...string) (string, isolate.Exit) {
	t.Helper()
	run, out := start(t, box, script, env...)
	exit, err := run.Wait()
	if err != nil {
		t.Fatalf("wait for %q: %v", script, err)
	}
	return out(), exit
}

// start starts a script; the returned function closes our end and gives the output.
func start(t *testing.T, box isolate.Sandbox, script string, env ...string) (isolate.Running, func() string) {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	run, err := box.Start(t.Context(), isolate.Command{
		Args: []string{"sh", "-c", script}, Dir: box.Inside().Workspace,
		Env: append([]string{"PATH=" + os.Getenv("PATH")}, env...), Stdout: f, Stderr: f,
	})
	if err != nil {
		t.Fatalf("start %q: %v", script, err)
	}
	return run, func() string {
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// eventually polls a condition that another process brings about.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
		<-tick.C
	}
}

func (s *suite) exits(t *testing.T) {
	box := s.prepare(t)
	for script, want := range map[string]isolate.Exit{
		"exit 0":       {},
		"exit 7":       {Code: 7},
		"exit 255":     {Code: 255},
		"kill -9 $$":   {Code: 137, Signal: syscall.SIGKILL},
		"kill -TERM 0": {Code: 143, Signal: syscall.SIGTERM},
	} {
		if _, exit := sh(t, box, script); exit != want {
			t.Errorf("%q ended with %v, want %v", script, exit, want)
		}
	}
}

// Promises: [RNR-7].
func (s *suite) environment(t *testing.T) {
	t.Setenv("OF_THE_RUNNER", "leaked")
	spec := s.spec(t)
	box := s.prepareSpec(t, spec)
	out, _ := sh(t, box, "env", "A=1", "B=two words", "C=line\nbreak", "EMPTY=")
	want := []string{
		"A=1", "B=two words", "C=line", "break", "EMPTY=", "PATH=" + os.Getenv("PATH"), isolate.Marker + "=" + spec.ID,
	}
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		name, _, _ := strings.Cut(line, "=")
		if slices.Contains([]string{"PWD", "SHLVL", "_", "OLDPWD"}, name) {
			continue // made by the shell itself
		}
		if at := slices.Index(want, line); at >= 0 {
			want = slices.Delete(want, at, at+1)
		} else {
			t.Errorf("unexpected in the environment: %q", line)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing in the environment: %q", want)
	}
}

func (s *suite) output(t *testing.T) {
	box := s.prepare(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	re, we, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	const megabytes = 8
	run, err := box.Start(t.Context(), isolate.Command{
		Args: []string{"sh", "-c", fmt.Sprintf("printf '\\377\\000x' >&2; head -c %d /dev/zero | tr '\\0' a",
			megabytes<<20)},
		Env: []string{"PATH=" + os.Getenv("PATH")}, Dir: "/", Stdout: w, Stderr: we,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Close(), we.Close()
	var other []byte
	var wait sync.WaitGroup
	wait.Go(func() { other, _ = io.ReadAll(re) })
	data, err := io.ReadAll(r)
	wait.Wait()
	_, _ = r.Close(), re.Close()
	if err != nil || len(data) != megabytes<<20 || len(bytes.Trim(data, "a")) != 0 {
		t.Errorf("standard output: %d bytes, %v", len(data), err)
	}
	if string(other) != "\xff\x00x" {
		t.Errorf("standard error: %q", other)
	}
	if exit, err := run.Wait(); err != nil || exit.Code != 0 {
		t.Errorf("exit %v, %v", exit, err)
	}
}

func (s *suite) missing(t *testing.T) {
	box := s.prepare(t)
	for _, name := range []string{"no-such-program", "/no/such/program"} {
		_, err := box.Start(t.Context(), isolate.Command{
			Args: []string{name}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/", Stdout: os.Stdout, Stderr: os.Stderr,
		})
		if !errors.Is(err, isolate.ErrProgramNotFound) || !strings.Contains(err.Error(), name) {
			t.Errorf("starting %s: %v", name, err)
		}
	}
	_, err := box.Start(t.Context(), isolate.Command{
		Args: []string{"sh"}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/no/such/folder", Stdout: os.Stdout,
		Stderr: os.Stderr,
	})
	if !errors.Is(err, isolate.ErrUnstartable) || errors.Is(err, isolate.ErrProgramNotFound) {
		t.Errorf("starting in a missing folder: %v", err)
	}
}

func (s *suite) files(t *testing.T) {
	box := s.prepare(t)
	out := box.Outside()
	if err := os.WriteFile(filepath.Join(out.Source, "given"), []byte("from the runner"), 0o644); err != nil {
		t.Fatal(err)
	}
	in := box.Inside()
	text, exit := sh(t, box, fmt.Sprintf(
		`cat %s/given && pwd && for d in . %s %s %s %s; do touch $d/made || exit 1; done
chmod 0700 . && mkdir -m 0 locked`,
		in.Source, in.Temp, in.Home, in.Files, in.Tools))
	if exit.Code != 0 || text != "from the runner"+in.Workspace+"\n" {
		t.Errorf("ended with %v: %q", exit, text)
	}
	for _, dir := range []string{out.Workspace, out.Temp, out.Home, out.Files, out.Tools} {
		if _, err := os.Lstat(filepath.Join(dir, "made")); err != nil {
			t.Error(err)
		}
	}
}

// survivors tries the known ways to outlive a job.
// Promises: [RNR-4].
func (s *suite) survivors(t *testing.T) {
	for name, script := range map[string]string{
		"in the background":      `sleep 1000 &`,
		"double fork and setsid": `setsid sh -c 'while :; do sleep 30 & sleep 0.01; done' >/dev/null 2>&1 &`,
		"ignores every request":  `(trap '' TERM INT HUP; while :; do sleep 1; done) &`,
		"cleared environment":    `env -i /bin/sh -c 'setsid sleep 1000 &' `,
		"stopped":                `sleep 1000 & kill -STOP $!`,
	} {
		t.Run(name, func(t *testing.T) {
			spec := s.spec(t)
			box := s.prepareSpec(t, spec)
			tag := fmt.Sprintf("%d", time.Now().UnixNano())
			_, exit := sh(t, box, strings.ReplaceAll(script, "1000", "1"+tag[len(tag)-9:]))
			if exit.Code != 0 {
				t.Fatalf("exit %v", exit)
			}
			if err := box.KillAll(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left := others(spec.ID); len(left) > 0 {
				t.Errorf("still there: %v", left)
			}
			if left := running("1" + tag[len(tag)-9:]); len(left) > 0 {
				t.Errorf("still there: %v", left)
			}
			if _, err := box.Start(t.Context(), isolate.Command{Args: []string{"sh"}, Stdout: os.Stdout,
				Stderr: os.Stderr}); !errors.Is(err, isolate.ErrGone) {
				t.Errorf("starting after the end: %v", err)
			}
			if err := box.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left := inside.Marked(isolate.Marker + "=" + spec.ID); len(left) > 0 {
				t.Errorf("still there after its end: %v", left)
			}
		})
	}
}

// running lists processes with that word in their command line.
func running(word string) []string {
	var found []string
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		text, err := os.ReadFile(path)
		if err == nil && bytes.Contains(text, []byte(word)) {
			found = append(found, string(bytes.ReplaceAll(text, []byte{0}, []byte(" "))))
		}
	}
	return found
}

func (s *suite) session(t *testing.T) {
	box := s.prepare(t)
	work := box.Outside().Workspace
	// One command leaves a server behind, which the next one's end must not touch.
	_, _ = sh(t, box, `(trap '' TERM; touch server-up; while [ ! -e stop ]; do sleep 0.02; done
touch server-done) >/dev/null 2>&1 &`)
	run, _ := start(t, box, `trap '' TERM; (trap '' TERM; sleep 1000) & touch ready; wait; sleep 1000`)
	for _, name := range []string{"server-up", "ready"} {
		eventually(t, name, func() bool { _, err := os.Lstat(filepath.Join(work, name)); return err == nil })
	}
	if err := run.Kill(); err != nil {
		t.Fatal(err)
	}
	if exit, err := run.Wait(); err != nil || exit.Signal != syscall.SIGKILL {
		t.Fatalf("ended with %v, %v", exit, err)
	}
	if _, exit := sh(t, box, `touch stop; until [ -e server-done ]; do sleep 0.02; done`); exit.Code != 0 {
		t.Errorf("the server of the earlier command: %v", exit)
	}
}

func (s *suite) group(t *testing.T) {
	box := s.prepare(t)
	run, out := start(t, box, `(trap 'echo child; exit 0' TERM; touch a; while :; do sleep 0.01; done) &
trap 'wait; echo parent; exit 3' TERM; touch b; while :; do sleep 0.01; done`)
	for _, name := range []string{"a", "b"} {
		path := filepath.Join(box.Outside().Workspace, name)
		eventually(t, name, func() bool { _, err := os.Lstat(path); return err == nil })
	}
	if err := run.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	exit, err := run.Wait()
	// The shell may have said "Terminated" of a sleep in between.
	said := strings.ReplaceAll(out(), "Terminated\n", "")
	if err != nil || exit.Code != 3 || said != "child\nparent\n" {
		t.Errorf("ended with %v, %v: %q", exit, err, out())
	}
}

// Promises: [RNR-5].
func (s *suite) destroy(t *testing.T) {
	spec := s.spec(t)
	box := s.prepareSpec(t, spec)
	_, exit := sh(t, box, `mkdir -p deep/er && touch deep/er/file && chmod 0 deep/er deep && ln -s /etc loop`)
	if exit.Code != 0 {
		t.Fatalf("exit %v", exit)
	}
	for range 2 {
		if err := box.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Driver.Cleanup(t.Context(), spec); err != nil {
		t.Errorf("clean up what is gone: %v", err)
	}
	if _, err := os.Lstat(spec.Dir); !os.IsNotExist(err) {
		t.Errorf("the folder: %v", err)
	}
	if _, err := os.Lstat("/etc/passwd"); err != nil {
		t.Errorf("something of the machine was erased: %v", err)
	}
}

// Promises: [RNR-6].
func (s *suite) concurrent(t *testing.T) {
	var boxes []isolate.Sandbox
	for range 3 {
		boxes = append(boxes, s.prepare(t))
	}
	var wait sync.WaitGroup
	for i, box := range boxes {
		wait.Go(func() {
			out, exit := sh(t, box, fmt.Sprintf(`ls -A; echo %d > mine; cat mine`, i))
			if exit.Code != 0 || out != fmt.Sprintf("%d\n", i) {
				t.Errorf("sandbox %d: %v %q", i, exit, out)
			}
		})
	}
	wait.Wait()
	if err := boxes[0].KillAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, exit := sh(t, boxes[1], `cat mine`); exit.Code != 0 || out != "1\n" {
		t.Errorf("after its neighbour was killed: %v %q", exit, out)
	}
}

// Promises: [RNR-4].
func (s *suite) orphan(t *testing.T) {
	spec := s.spec(t)
	s.Orphan(t, spec, `setsid sh -c 'while :; do sleep 0.05; done' >/dev/null 2>&1 & touch left-behind`)
	if err := s.Driver.Cleanup(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if left := inside.Marked(isolate.Marker + "=" + spec.ID); len(left) > 0 {
		t.Errorf("still there: %v", left)
	}
	if _, err := os.Lstat(spec.Dir); !os.IsNotExist(err) {
		t.Errorf("the folder: %v", err)
	}
}

func (s *suite) gone(t *testing.T) {
	box := s.prepare(t)
	run, _ := start(t, box, `sleep 1000`)
	if err := box.KillAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-box.Gone():
	case <-time.After(patience):
		t.Fatal("the sandbox did not say so")
	}
	if exit, err := run.Wait(); err == nil && exit.Signal != syscall.SIGKILL {
		t.Errorf("the command ended with %v", exit)
	}
}

// Promises: [RNR-12].
func (s *suite) masked(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "vault")
	if err := os.Mkdir(secret, 0o755); err != nil {
		t.Fatal(err)
	}
	// A folder that is not hidden anyway, as /tmp is.
	open, err := os.MkdirTemp("/var", "fairlead-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(open) })
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(open, "key"), []byte("canary"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := s.spec(t)
	spec.Mask = []string{open}
	box := s.prepareSpec(t, spec)
	for _, path := range []string{open + "/key", "/etc/shadow", "/root/.bashrc", filepath.Dir(spec.Dir), secret} {
		if out, exit := sh(t, box, `cat `+path+`/* `+path+` 2>/dev/null`); exit.Code == 0 || out != "" {
			t.Errorf("%s can be read: %v %q", path, exit, out)
		}
	}
	out, _ := sh(t, box, `ls -A /root /home /run /tmp; grep -l . /proc/[0-9]*/environ | wc -l`)
	if strings.Contains(out, ".bashrc") {
		t.Errorf("the home of root is there: %q", out)
	}
	if pids, _ := sh(t, box, `ls -d /proc/[0-9]* | wc -l`); len(strings.TrimSpace(pids)) > 1 {
		t.Errorf("processes of others are there: %s", pids)
	}
}

// Promises: [RNR-12].
func (s *suite) privileges(t *testing.T) {
	box := s.prepare(t)
	out, _ := sh(t, box, `grep -E '^(CapEff|CapBnd|CapPrm|NoNewPrivs|Seccomp):' /proc/self/status; id -u; whoami`)
	for _, want := range []string{
		"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "CapPrm:\t0000000000000000",
		"NoNewPrivs:\t1", "Seccomp:\t2", "fairlead",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %q", want, out)
		}
	}
	for _, forbidden := range []string{
		`unshare -U true`, `mount -t tmpfs x /tmp`, `touch /usr/bin/x`, `echo 1 > /proc/sys/kernel/pid_max`, `touch ` +
			box.Inside().Source + `/x`,
	} {
		if _, exit := sh(t, box, forbidden+` 2>/dev/null`); exit.Code == 0 {
			t.Errorf("%q is allowed", forbidden)
		}
	}
}

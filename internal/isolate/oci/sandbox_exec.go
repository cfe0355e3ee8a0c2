package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/isolate/inside"
)

// sandbox implements isolate.Sandbox.
type sandbox struct {
	spec    isolate.Spec
	runtime string
	client  *inside.Client
	pid     int // of the container's first process, in our pid namespace
	pidfd   int // of the same, so that no other process is ever mistaken for it

	// mu makes KillAll and Destroy safe to repeat from anywhere.
	mu      sync.Mutex
	emptied bool // nobody but the init was left, and it was killed
	killed  bool // it has ended
	removed bool
}

// answerPatience is how long the init may take to kill everything before it is killed
// itself.
const answerPatience = 5 * time.Second

// find looks for a runtime in the runner's own PATH.
func find(name string) (string, error) { return exec.LookPath(name) }

// Prepare implements isolate.Driver.
func (d *Driver) Prepare(ctx context.Context, spec isolate.Spec) (_ isolate.Sandbox, err error) {
	runtime, err := d.runtime(spec)
	if err != nil {
		return nil, fmt.Errorf("prepare sandbox %s: %w", spec.ID, err)
	}
	spec.Choice = runtime
	defer func() {
		if err != nil {
			_ = d.Cleanup(context.WithoutCancel(ctx), spec)
			err = fmt.Errorf("prepare sandbox %s: %w", spec.ID, err)
		}
	}()
	l := layout{dir: spec.Dir}
	if err := l.makeFolders(user(spec.ID)); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	config, err := l.config(spec, self)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(l.at("bundle", "config.json"), text, 0o600); err != nil {
		return nil, err
	}
	s := &sandbox{spec: spec, runtime: runtime, pidfd: -1}
	if err := s.launch(ctx, l); err != nil {
		return nil, err
	}
	return s, nil
}

// Warm implements isolate.Warmer: a container of the same kind runs ahead under an ID of
// its own. Nothing reaches it: its folders are masked in every other one.
func (d *Driver) Warm(ctx context.Context, spec isolate.Spec) (isolate.Warm, error) {
	box, err := d.Prepare(ctx, spec)
	if err != nil {
		return nil, err
	}
	s, ok := box.(*sandbox)
	if !ok {
		return nil, fmt.Errorf("warm sandbox %s: it is a %T", spec.ID, box)
	}
	s.spec.Choice = spec.Choice
	if err := s.client.Rehearse(ctx); err != nil {
		return nil, errors.Join(err, s.Destroy(context.WithoutCancel(ctx)))
	}
	return &warm{s}, nil
}

// warm implements isolate.Warm.
type warm struct{ s *sandbox }

// Take implements isolate.Warm. The mounts of a container hold folders, not names, so
// its folder may move.
func (w *warm) Take(ctx context.Context, spec isolate.Spec) (isolate.Sandbox, error) {
	s := w.s
	err := isolate.CheckTake(s.spec, spec)
	if err == nil {
		err = os.Rename(s.spec.Dir, spec.Dir)
	}
	if err == nil {
		s.spec = spec
		err = s.client.Name(ctx, spec.ID)
	}
	if err != nil {
		return nil, errors.Join(err, w.Discard(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// Gone implements isolate.Warm.
func (w *warm) Gone() <-chan struct{} { return w.s.Gone() }

// Discard implements isolate.Warm.
func (w *warm) Discard(ctx context.Context) error { return w.s.Destroy(ctx) }

// launch runs the container detached: the runtime ends, the container stays.
func (s *sandbox) launch(ctx context.Context, l layout) error {
	client, child, err := inside.NewClient(s.spec.ID)
	if err != nil {
		return err
	}
	said, err := os.Create(l.at("runtime.log"))
	if err != nil {
		_ = child.Close()
		client.Close()
		return err
	}
	pidFile := l.at("pid")
	cmd := exec.CommandContext(ctx, s.runtime, "--root", l.at("state"), "run", "--detach",
		"--preserve-fds", "1", "--bundle", l.at("bundle"), "--pid-file", pidFile, s.spec.ID)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	// Files, not pipes: the container keeps them, and a pipe would never end.
	cmd.Stdout, cmd.Stderr = said, said
	cmd.ExtraFiles = []*os.File{child}
	err = cmd.Run()
	_ = said.Close()
	_ = child.Close()
	if err == nil {
		err = s.attach(pidFile)
	}
	if err == nil {
		err = client.Hello(ctx)
	}
	if err != nil {
		client.Close()
		return fmt.Errorf("run container with %s: %w%s", filepath.Base(s.runtime), err, tail(l.at("runtime.log")))
	}
	s.client = client
	return nil
}

func (s *sandbox) attach(pidFile string) error {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return err
	}
	s.pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("read pid file: %w", err)
	}
	s.pidfd, err = unix.PidfdOpen(s.pid, 0)
	if err != nil {
		return fmt.Errorf("open process %d: %w", s.pid, err)
	}
	return nil
}

// tail is the end of what the runtime printed, on a line of its own.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil || len(text) == 0 {
		return ""
	}
	text = bytes.TrimSpace(text)
	if len(text) > 1000 {
		text = text[len(text)-1000:]
	}
	return ":\n" + string(text)
}

// Inside implements isolate.Sandbox.
func (s *sandbox) Inside() isolate.Paths { return insidePaths() }

// Outside implements isolate.Sandbox.
func (s *sandbox) Outside() isolate.Paths { return layout{dir: s.spec.Dir}.outside() }

// Start implements isolate.Sandbox.
func (s *sandbox) Start(ctx context.Context, c isolate.Command) (isolate.Running, error) {
	return s.client.Start(ctx, c)
}

// Gone implements isolate.Sandbox.
func (s *sandbox) Gone() <-chan struct{} { return s.client.Gone() }

// KillAll implements isolate.Sandbox. The init is the first process of a pid namespace,
// so what is left of the job is its child, and no job can speak for it. After its word
// that there is none, it is killed; its mounts take the kernel a while, which is for
// Destroy to wait for. Without its word, its end says the same.
func (s *sandbox) KillAll(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.killed || s.emptied {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, answerPatience)
	err := s.client.KillAll(asking)
	cancel()
	select {
	case <-s.client.Gone():
		return s.kill(ctx) // it ended without a word
	default:
	}
	if err != nil {
		return s.kill(ctx)
	}
	if err := unix.PidfdSendSignal(s.pidfd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill sandbox %s: %w", s.spec.ID, err)
	}
	s.client.Close()
	s.emptied = true
	return nil
}

// kill ends the init and waits for that. The end of the first process of a pid namespace
// is reported only when every other process of it is gone.
func (s *sandbox) kill(ctx context.Context) error {
	if s.killed {
		return nil
	}
	err := unix.PidfdSendSignal(s.pidfd, unix.SIGKILL, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill sandbox %s: %w", s.spec.ID, err)
	}
	s.client.Close()
	for {
		set := []unix.PollFd{{Fd: int32(s.pidfd), Events: unix.POLLIN}}
		n, err := unix.Poll(set, 100)
		if n == 1 {
			break
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("kill sandbox %s: %w", s.spec.ID, err)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("kill sandbox %s: it is still there: %w", s.spec.ID, context.Cause(ctx))
		}
	}
	// It is our child if we are a subreaper, and init's otherwise.
	_, _ = unix.Wait4(s.pid, nil, unix.WNOHANG, nil)
	_ = unix.Close(s.pidfd)
	s.pidfd = -1
	s.killed = true
	return nil
}

// Destroy implements isolate.Sandbox.
func (s *sandbox) Destroy(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.kill(ctx); err != nil {
		return err
	}
	if !s.removed {
		if err := remove(ctx, s.runtime, s.spec); err != nil {
			return fmt.Errorf("destroy sandbox %s: %w", s.spec.ID, err)
		}
		s.removed = true
	}
	return isolate.Erase(s.spec.Dir)
}

// remove makes the runtime forget the container, and kill it if it still runs.
func remove(ctx context.Context, runtime string, spec isolate.Spec) error {
	state := layout{dir: spec.Dir}.at("state")
	if _, err := os.Lstat(filepath.Join(state, spec.Born())); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, runtime, "--root", state, "delete", "--force", spec.Born())
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("delete container with %s: %w: %s", filepath.Base(runtime), err, bytes.TrimSpace(out))
	}
	return nil
}

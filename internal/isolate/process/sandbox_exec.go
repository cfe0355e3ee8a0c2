package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/isolate/inside"
)

// sandbox implements isolate.Sandbox.
type sandbox struct {
	spec   isolate.Spec
	client *inside.Client
	group  *group // nil where none can be made
	init   *os.Process
	before inside.Census // who was there before the init
	ended  chan struct{} // closed when the init was reaped

	// mu makes KillAll and Destroy safe to repeat from anywhere.
	mu     sync.Mutex
	killed bool // no process that came after the init carries the marker, and it was killed
}

func (d *Driver) prepare(ctx context.Context, spec isolate.Spec) (_ *sandbox, err error) {
	defer func() {
		if err != nil {
			_ = d.Cleanup(context.WithoutCancel(ctx), spec)
			err = fmt.Errorf("prepare sandbox %s: %w", spec.ID, err)
		}
	}()
	s := &sandbox{spec: spec, ended: make(chan struct{})}
	if err := s.makeFolders(); err != nil {
		return nil, err
	}
	if err := s.start(ctx, false); err != nil {
		return nil, err
	}
	return s, nil
}

// makeFolders makes what steps find.
func (s *sandbox) makeFolders() error {
	paths := s.Outside()
	if err := os.MkdirAll(s.spec.Dir, 0o700); err != nil {
		return err
	}
	for _, dir := range []string{paths.Workspace, paths.Temp, paths.Home, paths.Files, paths.Source, paths.Tools} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// start starts the init, in a cgroup where one can be made.
func (s *sandbox) start(ctx context.Context, hidden bool) error {
	if s.spec.Network != "" && s.spec.Network != "pool" {
		return fmt.Errorf("%w: network %q", isolate.ErrUnsupported, s.spec.Network)
	}
	s.before = inside.TakeCensus()
	g, grouped := newGroup(s.spec.ID)
	if grouped {
		s.group = g
		if err := s.keepHandle(); err != nil {
			return err
		}
	}
	err := s.launch(s.group, hidden)
	if err != nil && s.group != nil {
		// A cgroup that may be made but not entered: do without, as where there is none.
		s.group.remove(ctx)
		s.group = nil
		err = s.launch(nil, hidden)
	}
	if err != nil {
		return err
	}
	if err := s.client.Hello(ctx); err != nil {
		s.client.Close()
		return err
	}
	return nil
}

// keepHandle writes down what Cleanup needs beyond the spec.
func (s *sandbox) keepHandle() error {
	if s.group == nil {
		return nil
	}
	text, err := json.Marshal(handle{Cgroup: s.group.path})
	if err != nil {
		return err
	}
	return os.WriteFile(handlePath(s.spec), text, 0o600)
}

// Warm implements isolate.Warmer: the init and its cgroup are made ahead, the folders
// are not. They would be within reach of every job of the same user, and a fresh one
// must be empty.
func (d *Driver) Warm(ctx context.Context, spec isolate.Spec) (_ isolate.Warm, err error) {
	defer func() {
		if err != nil {
			_ = d.Cleanup(context.WithoutCancel(ctx), spec)
			err = fmt.Errorf("warm sandbox %s: %w", spec.ID, err)
		}
	}()
	if err := os.MkdirAll(spec.Dir, 0o700); err != nil {
		return nil, err
	}
	s := &sandbox{spec: spec, ended: make(chan struct{})}
	if err := s.start(ctx, true); err != nil {
		return nil, err
	}
	if err := s.client.Rehearse(ctx); err != nil {
		return nil, errors.Join(err, s.Destroy(context.WithoutCancel(ctx)))
	}
	return &warm{s}, nil
}

// warm implements isolate.Warm.
type warm struct{ s *sandbox }

// Take implements isolate.Warm. While the init takes its name, the folders are made.
func (w *warm) Take(ctx context.Context, spec isolate.Spec) (isolate.Sandbox, error) {
	s, own := w.s, w.s.spec
	err := isolate.CheckTake(own, spec)
	if err == nil {
		named := make(chan error, 1)
		go func() { named <- s.client.Name(ctx, spec.ID) }()
		s.spec = spec
		if err = s.makeFolders(); err == nil {
			err = s.keepHandle()
		}
		err = errors.Join(err, <-named)
	}
	if err != nil {
		return nil, errors.Join(err, s.Destroy(context.WithoutCancel(ctx)), isolate.Erase(own.Dir))
	}
	return s, nil
}

// Gone implements isolate.Warm.
func (w *warm) Gone() <-chan struct{} { return w.s.Gone() }

// Discard implements isolate.Warm.
func (w *warm) Discard(ctx context.Context) error { return w.s.Destroy(ctx) }

// launch starts the init, inside the group from its first instruction.
func (s *sandbox) launch(g *group, hidden bool) error {
	client, child, err := inside.NewClient(s.spec.ID)
	if err != nil {
		return err
	}
	defer func() { _ = child.Close() }()
	cmd := exec.Command("/proc/self/exe", inside.Arg)
	cmd.Args[0] = "fairlead-inside"
	if hidden {
		cmd.Args = append(cmd.Args, inside.Waiting)
	}
	cmd.Env = []string{isolate.Marker + "=" + s.spec.ID, "GOMAXPROCS=2"}
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{child}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if g != nil {
		f, err := g.open()
		if err != nil {
			client.Close()
			return err
		}
		defer func() { _ = f.Close() }()
		cmd.SysProcAttr.UseCgroupFD = true
		cmd.SysProcAttr.CgroupFD = int(f.Fd())
	}
	if err := cmd.Start(); err != nil {
		client.Close()
		return fmt.Errorf("start the sandbox's init: %w", err)
	}
	s.client, s.init = client, cmd.Process
	go func() {
		_ = cmd.Wait() // how an init ended says nothing; that it ended does
		close(s.ended)
	}()
	return nil
}

// Inside implements isolate.Sandbox: a process sees what everybody sees.
func (s *sandbox) Inside() isolate.Paths { return s.Outside() }

// Outside implements isolate.Sandbox.
func (s *sandbox) Outside() isolate.Paths {
	at := func(name string) string { return filepath.Join(s.spec.Dir, name) }
	return isolate.Paths{
		Workspace: at("workspace"), Temp: at("temp"), Home: at("home"),
		Files: at("files"), Source: at("source"), Tools: at("tools"),
	}
}

// Start implements isolate.Sandbox.
func (s *sandbox) Start(ctx context.Context, c isolate.Command) (isolate.Running, error) {
	return s.client.Start(ctx, c)
}

// Gone implements isolate.Sandbox.
func (s *sandbox) Gone() <-chan struct{} { return s.client.Gone() }

// KillAll implements isolate.Sandbox. The init knows its descendants, the cgroup knows
// its members, and the marker is known to both kinds of process that got away from
// these two: each look is cheap, and each has caught what another did not.
func (s *sandbox) KillAll(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.killed {
		return nil
	}
	defer s.client.Close()
	asked := s.client.KillAll(ctx)
	if s.group != nil {
		dying := 0
		if asked == nil {
			dying = s.init.Pid // by its word it has nobody left
		}
		if err := s.group.kill(ctx, dying); err != nil {
			return fmt.Errorf("kill sandbox %s: %w", s.spec.ID, err)
		}
		asked = nil // whatever the init could not do, the kernel has done
	}
	if asked == nil {
		// It has nobody left to bury, and it may have been stopped by one of them.
		_ = s.init.Kill()
	} else {
		s.client.Close() // it tries once more
		if err := s.wait(ctx); err != nil {
			return errors.Join(asked, err)
		}
	}
	if err := errors.Join(asked, killMarked(ctx, s.before, s.spec.ID, s.init.Pid)); err != nil {
		return err
	}
	s.killed = true
	return nil
}

// wait waits until the init was reaped.
func (s *sandbox) wait(ctx context.Context) error {
	select {
	case <-s.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("kill sandbox %s: its init: %w", s.spec.ID, context.Cause(ctx))
	}
}

// Destroy implements isolate.Sandbox.
func (s *sandbox) Destroy(ctx context.Context) error {
	if err := s.KillAll(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.wait(ctx); err != nil {
		return err
	}
	// Once more among all: somebody who was there before may have begun to run what the
	// job gave it. That is no reason for the result to wait.
	if err := killMarked(ctx, nil, s.spec.ID, 0); err != nil {
		return fmt.Errorf("destroy sandbox %s: %w", s.spec.ID, err)
	}
	if s.group != nil {
		s.group.remove(ctx)
	}
	return isolate.Erase(s.spec.Dir)
}

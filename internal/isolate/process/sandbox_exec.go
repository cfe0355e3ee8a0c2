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
	group  *group        // nil where none can be made
	ended  chan struct{} // closed when the init was reaped

	// mu makes KillAll and Destroy safe to repeat from anywhere.
	mu sync.Mutex
}

func (d *Driver) prepare(ctx context.Context, spec isolate.Spec) (_ *sandbox, err error) {
	if spec.Network != "" && spec.Network != "pool" {
		return nil, fmt.Errorf("prepare sandbox %s: %w: network %q", spec.ID, isolate.ErrUnsupported, spec.Network)
	}
	defer func() {
		if err != nil {
			_ = d.Cleanup(context.WithoutCancel(ctx), spec)
			err = fmt.Errorf("prepare sandbox %s: %w", spec.ID, err)
		}
	}()
	s := &sandbox{spec: spec, ended: make(chan struct{})}
	paths := s.Outside()
	for _, dir := range []string{
		spec.Dir, paths.Workspace, paths.Temp, paths.Home, paths.Files, paths.Source, paths.Tools,
	} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	g, grouped := newGroup(spec.ID)
	if grouped {
		s.group = g
		text, err := json.Marshal(handle{Cgroup: g.path})
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(handlePath(spec), text, 0o600); err != nil {
			return nil, err
		}
	}
	err = s.launch(s.group)
	if err != nil && s.group != nil {
		// A cgroup that may be made but not entered: do without, as where there is none.
		s.group.remove(ctx)
		s.group = nil
		err = s.launch(nil)
	}
	if err != nil {
		return nil, err
	}
	if err := s.client.Hello(ctx); err != nil {
		s.client.Close()
		return nil, err
	}
	return s, nil
}

// launch starts the init, inside the group from its first instruction.
func (s *sandbox) launch(g *group) error {
	client, child, err := inside.NewClient(s.spec.ID)
	if err != nil {
		return err
	}
	defer func() { _ = child.Close() }()
	cmd := exec.Command("/proc/self/exe", inside.Arg)
	cmd.Args[0] = "fairlead-inside"
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
	s.client = client
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
	asked := s.client.KillAll(ctx)
	s.client.Close()
	if s.group != nil {
		if err := s.group.kill(ctx); err != nil {
			return fmt.Errorf("kill sandbox %s: %w", s.spec.ID, err)
		}
		asked = nil // whatever the init could not do, the kernel has done
	}
	select {
	case <-s.ended:
	case <-ctx.Done():
		return fmt.Errorf("kill sandbox %s: its init: %w", s.spec.ID, context.Cause(ctx))
	}
	return errors.Join(asked, killMarked(ctx, s.spec.ID))
}

// Destroy implements isolate.Sandbox.
func (s *sandbox) Destroy(ctx context.Context) error {
	if err := s.KillAll(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.group != nil {
		s.group.remove(ctx)
	}
	return isolate.Erase(s.spec.Dir)
}

// Package oci is the isolation driver that puts an attempt into one container, made by
// an OCI runtime of the machine (crun or runc). The root file system is the machine's
// own as read-only lower layers under a throw-away upper one, so that a job finds the
// tools that are installed, without its homes, keys and run-time folders.
//
// It is deliberately not an image puller and not a network: a container uses the
// machine's network unless the spec says "none". It is no wall against a kernel bug.
//
// Invariants: which runtime is used is found by running a real container, not by
// asking versions; steps run under a user id of the attempt alone, without
// capabilities, without new privileges, in a pid namespace whose end ends them all; all
// mounts live in the container's own mount namespace, so a crash leaves none behind.
//
// Read next: spec.go, seccomp.go, sandbox_exec.go, ../inside/doc.go
package oci

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fairlead-ci/fairlead/internal/isolate"
)

// runtimes in order of preference: crun starts in half of runc's time.
var runtimes = []string{"crun", "runc"}

// InstallHint is what to tell somebody whose machine has no working runtime.
const InstallHint = "install crun or runc (Debian, Ubuntu: apt-get install crun runc) and run as root"

// Driver implements isolate.Driver.
type Driver struct {
	// mu guards the memory of the last probe.
	mu     sync.Mutex
	choice string
}

// New makes the driver.
func New() *Driver { return &Driver{} }

// Name implements isolate.Driver.
func (*Driver) Name() string { return isolate.OCI }

// Probe implements isolate.Driver. It runs a tiny container with each runtime it finds
// until one works, and says why those before did not.
func (d *Driver) Probe(ctx context.Context) (isolate.Report, error) {
	if os.Geteuid() != 0 {
		return isolate.Report{}, fmt.Errorf(
			"probe containers: %w: making containers takes root here; %s", isolate.ErrUnavailable, InstallHint)
	}
	var against []string
	for _, name := range runtimes {
		path, err := find(name)
		if err != nil {
			against = append(against, name+" is not installed")
			continue
		}
		if err := d.try(ctx, path); err != nil {
			against = append(against, fmt.Sprintf("%s does not work here: %s", name, lastLine(err)))
			continue
		}
		d.mu.Lock()
		d.choice = path
		d.mu.Unlock()
		reason := "containers made by " + name + ", proved by running one"
		if len(against) > 0 {
			reason += " (" + strings.Join(against, "; ") + ")"
		}
		return isolate.Report{Choice: path, Reason: reason}, nil
	}
	return isolate.Report{}, fmt.Errorf("probe containers: %w: %s; %s",
		isolate.ErrUnavailable, strings.Join(against, "; "), InstallHint)
}

// try runs a command in a container made by the runtime.
func (d *Driver) try(ctx context.Context, runtime string) error {
	dir, err := os.MkdirTemp("", "fairlead-probe-")
	if err != nil {
		return err
	}
	defer func() { _ = isolate.Erase(dir) }()
	spec := isolate.Spec{ID: filepath.Base(dir), Dir: filepath.Join(dir, "box"), Choice: runtime}
	box, err := d.Prepare(ctx, spec)
	if err != nil {
		return err
	}
	exit, err := probeCommand(ctx, box)
	if destroyed := box.Destroy(ctx); err == nil {
		err = destroyed
	}
	if err != nil {
		return err
	}
	if exit.Code != 0 {
		return fmt.Errorf("a test command ended with %s", exit)
	}
	return nil
}

func probeCommand(ctx context.Context, box isolate.Sandbox) (isolate.Exit, error) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return isolate.Exit{}, err
	}
	defer func() { _ = null.Close() }()
	run, err := box.Start(ctx, isolate.Command{
		Args:   []string{"/bin/sh", "-c", "test -w . && test -d /proc/self"},
		Dir:    box.Inside().Workspace,
		Stdout: null, Stderr: null,
	})
	if err != nil {
		return isolate.Exit{}, err
	}
	return run.Wait()
}

// runtime is the program that the spec chose, or the last probe.
func (d *Driver) runtime(spec isolate.Spec) (string, error) {
	if spec.Choice != "" {
		return spec.Choice, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.choice == "" {
		return "", fmt.Errorf("%w: no runtime was probed", isolate.ErrUnavailable)
	}
	return d.choice, nil
}

// Cleanup implements isolate.Driver.
func (d *Driver) Cleanup(ctx context.Context, spec isolate.Spec) error {
	if _, err := os.Lstat(spec.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	runtime, err := d.runtime(spec)
	if err != nil {
		return fmt.Errorf("clean up sandbox %s: %w", spec.ID, err)
	}
	if err := remove(ctx, runtime, spec); err != nil {
		return fmt.Errorf("clean up sandbox %s: %w", spec.ID, err)
	}
	return isolate.Erase(spec.Dir)
}

// lastLine is the end of an error's text: runtimes put the reason last.
func lastLine(err error) string {
	text := strings.TrimSpace(err.Error())
	if at := strings.LastIndexByte(text, '\n'); at >= 0 {
		text = text[at+1:]
	}
	return text
}

// Package process is the isolation driver that isolates next to nothing: steps are
// plain processes of the runner's own user, with fresh folders and a sure end.
//
// It is deliberately for pools of trusted work only, and says so wherever it is named:
// a step can read what the runner's user can read, see the machine's processes and
// reach its network. What it does promise is what the port promises of every driver:
// a fresh workspace, nobody left alive, nothing left on disk.
//
// Invariants: each sandbox has an init that is a subreaper, and where the kernel lets
// us a cgroup of its own, so a double fork with setsid escapes neither; KillAll uses
// both and then looks for the marker in every environment it may read.
//
// Read next: sandbox_exec.go, cgroup.go, ../inside/doc.go
package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/isolate/inside"
)

// Driver implements isolate.Driver.
type Driver struct{}

// New makes the driver.
func New() *Driver { return &Driver{} }

// Name implements isolate.Driver.
func (*Driver) Name() string { return isolate.Process }

// Probe implements isolate.Driver: it prepares a sandbox and destroys it.
func (d *Driver) Probe(ctx context.Context) (isolate.Report, error) {
	dir, err := os.MkdirTemp("", "fairlead-probe-")
	if err != nil {
		return isolate.Report{}, fmt.Errorf("probe process isolation: %w: %w", isolate.ErrUnavailable, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	spec := isolate.Spec{ID: filepath.Base(dir), Dir: filepath.Join(dir, "box")}
	box, err := d.prepare(ctx, spec)
	if err != nil {
		return isolate.Report{}, fmt.Errorf("probe process isolation: %w: %w", isolate.ErrUnavailable, err)
	}
	grouped := box.group != nil
	if err := box.Destroy(ctx); err != nil {
		return isolate.Report{}, fmt.Errorf("probe process isolation: %w: %w", isolate.ErrUnavailable, err)
	}
	how := "a cgroup and a subreaper see to it that nothing of a job survives"
	if !grouped {
		how = "a subreaper sees to it that nothing of a job survives (no cgroup can be made here)"
	}
	return isolate.Report{Reason: "plain processes, for trusted work only; " + how}, nil
}

// Prepare implements isolate.Driver.
func (d *Driver) Prepare(ctx context.Context, spec isolate.Spec) (isolate.Sandbox, error) {
	box, err := d.prepare(ctx, spec)
	if err != nil {
		return nil, err
	}
	return box, nil
}

// handle is what Cleanup needs to know, kept in the sandbox's folder.
type handle struct {
	Cgroup string `json:"cgroup,omitempty"`
}

func handlePath(spec isolate.Spec) string { return filepath.Join(spec.Dir, "handle.json") }

// Cleanup implements isolate.Driver.
func (*Driver) Cleanup(ctx context.Context, spec isolate.Spec) error {
	var h handle
	text, err := os.ReadFile(handlePath(spec))
	if err == nil {
		err = json.Unmarshal(text, &h)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		// A torn handle must not keep the rest from being cleaned up.
		h = handle{}
	}
	if h.Cgroup != "" {
		g := &group{path: h.Cgroup}
		if err := g.kill(ctx, 0); err != nil {
			return fmt.Errorf("clean up sandbox %s: %w", spec.ID, err)
		}
		g.remove(ctx)
	}
	if err := killMarked(ctx, nil, spec.ID, 0); err != nil {
		return fmt.Errorf("clean up sandbox %s: %w", spec.ID, err)
	}
	if spec.Warm != "" {
		// The init may have died, or been stopped, before it took its name.
		if err := killMarked(ctx, nil, spec.Warm, 0); err != nil {
			return fmt.Errorf("clean up sandbox %s: %w", spec.ID, err)
		}
	}
	return isolate.Erase(spec.Dir)
}

// killMarked ends what carries the sandbox's marker, and descendants of that, until a
// look finds none. It leaves out those whom the census knows, and one that is dying.
func killMarked(ctx context.Context, before inside.Census, id string, dying int) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		roots := slices.DeleteFunc(before.Marked(isolate.Marker+"="+id), func(pid int) bool { return pid == dying })
		if len(roots) == 0 {
			return nil
		}
		for _, pid := range roots {
			for _, p := range inside.Descendants(pid) {
				_ = unix.Kill(p, unix.SIGKILL)
			}
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		pause.Reset(2 * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return fmt.Errorf("kill process %d: %w", roots[0], context.Cause(ctx))
		}
	}
}

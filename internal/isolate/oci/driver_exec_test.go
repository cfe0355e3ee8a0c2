package oci

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/isolate/inside"
	"github.com/fairlead-ci/fairlead/internal/isolate/isolatetest"
)

const orphanArg = "__orphan"

func TestMain(m *testing.M) {
	inside.Maybe()
	if len(os.Args) > 1 && os.Args[1] == orphanArg {
		if err := orphan(os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// orphan prepares a sandbox, runs the script in it and dies by SIGKILL.
func orphan(id, dir, choice, script string) error {
	ctx := context.Background()
	box, err := New().Prepare(ctx, isolate.Spec{ID: id, Dir: dir, Choice: choice})
	if err != nil {
		return err
	}
	run, err := box.Start(ctx, isolate.Command{
		Args: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")},
		Dir: box.Inside().Workspace, Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		return err
	}
	if _, err := run.Wait(); err != nil {
		return err
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	return self.Kill()
}

func TestConformance(t *testing.T) {
	isolatetest.Run(t, isolatetest.Options{
		Driver: New(),
		Walls:  true,
		Orphan: func(t *testing.T, spec isolate.Spec, script string) {
			cmd := exec.Command("/proc/self/exe", orphanArg, spec.ID, spec.Dir, spec.Choice, script)
			cmd.Stderr = os.Stderr
			_ = cmd.Run()
			if cmd.ProcessState.Exited() {
				t.Fatalf("the owner ended with %v, not by a signal", cmd.ProcessState)
			}
			if _, err := os.Lstat(filepath.Join(spec.Dir, "workspace", "left-behind")); err != nil {
				t.Fatal(err)
			}
		},
	})
}

func TestWarmConformance(t *testing.T) {
	isolatetest.RunWarm(t, isolatetest.Options{Driver: New(), Walls: true})
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fairlead-ci/fairlead/internal/bench"
)

const (
	product = "github.com/fairlead-ci/fairlead"
	// stopPatience is for the measurement of Fairlead to end its server.
	stopPatience = 40 * time.Second
)

// build makes the program from the product's own module, so that nothing of this one's
// versions gets into it.
func build(ctx context.Context, folder string) (string, error) {
	root, err := output(exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", product))
	if err != nil {
		return "", err
	}
	program := filepath.Join(folder, "fairlead")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./cmd/fairlead")
	cmd.Dir, cmd.Env = strings.TrimSpace(string(root)), append(os.Environ(), "CGO_ENABLED=0")
	_, err = output(cmd)
	return program, err
}

// output runs a program to its end and returns what it printed.
func output(cmd *exec.Cmd) ([]byte, error) {
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", filepath.Base(cmd.Path), strings.Join(cmd.Args[1:], " "), err)
	}
	return out, nil
}

// fairlead measures with `fairlead bench fleet`, which counts from history what was committed
// and gives no figure when anything was lost or executed twice.
func (c *comparison) fairlead(flags ...string) func(context.Context, string) (Row, error) {
	flags = append([]string{"bench", "fleet", "--json", "--runners", fmt.Sprint(c.Runners), "--slots",
		fmt.Sprint(c.Slots)}, flags...)
	return func(ctx context.Context, database string) (Row, error) {
		cmd := exec.CommandContext(ctx, c.program, append(flags, "--store", database, "--dir", c.folder)...)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = stopPatience
		text, err := output(cmd)
		if err != nil {
			return Row{}, err
		}
		var r bench.Report
		if err := json.Unmarshal(text, &r); err != nil {
			return Row{}, fmt.Errorf("read the report of fairlead: %w", err)
		}
		if r.Dispatch == nil || r.Lost == nil || *r.Lost != 0 || r.Duplicated == nil || *r.Duplicated != 0 {
			return Row{}, errors.New("the report of fairlead does not say that nothing was lost or executed twice")
		}
		c.report.Fairlead = r.Version
		return Row{JobsPerSecond: r.JobsPerSecond + r.DrainJobsPerSecond, Jobs: r.Dispatch.Count, Settings: r.Settings,
			Wait: &Wait{P50: r.Dispatch.P50, P99: r.Dispatch.P99}, Disk: &r.Disk}, nil
	}
}

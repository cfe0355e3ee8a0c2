package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/manifest"
	"github.com/fairlead-ci/fairlead/internal/runner/job"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// rehearsed is the name of the driver that rehearsals run under.
const rehearsed = "rehearsal"

// rehearse runs a job of one step through all that a real one goes through, up to the
// start of its process. The first time costs the reading of this program's pages, memory
// from the kernel and tables that are made at first use: twice what the job itself takes.
// It also shows before a job depends on it that the disk takes what it is given.
func rehearse(folder Folder) error {
	run := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{}))
	text, err := json.Marshal(instruction{Order: &Order{
		Folder: string(folder), Driver: rehearsed, AbandonAt: Now().Add(time.Hour),
		Sandbox: isolate.Spec{ID: rehearsed, Dir: folder.Box()},
		Manifest: &manifest.Manifest{
			Run: run, Job: run.Job(0), Attempt: run.Job(0).Attempt(1), JobKey: rehearsed,
			Github: json.RawMessage(`{"event":{}}`),
			Steps:  []plan.Step{{Uses: plan.UsesRun, ID: "__run", Name: rehearsed, Script: ":"}},
		},
		Runner: job.Runner{Name: rehearsed}, Env: []string{"PATH=/usr/bin:/bin"},
	}})
	if err != nil {
		return err
	}
	var i instruction
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&i); err != nil {
		return err
	}
	if err := os.MkdirAll(string(folder), 0o700); err != nil {
		return err
	}
	s, err := begin(*i.Order, nil, []isolate.Driver{stage{}})
	if err != nil {
		return err
	}
	defer func() { _ = s.alarm.file.Close() }()
	if err := s.run(context.Background()); err != nil {
		return err
	}
	_, concluded, _, err := survey(folder)
	if err == nil && !concluded {
		err = errors.New("there is no result")
	}
	if err != nil {
		return fmt.Errorf("rehearse: %w", err)
	}
	return isolate.Erase(string(folder))
}

// stage is a driver whose sandboxes hold no process: a command is over when it starts,
// and has printed a line.
type stage struct{}

// Name implements isolate.Driver.
func (stage) Name() string { return rehearsed }

// Probe implements isolate.Driver.
func (stage) Probe(context.Context) (isolate.Report, error) { return isolate.Report{}, nil }

// Prepare implements isolate.Driver.
func (stage) Prepare(_ context.Context, spec isolate.Spec) (isolate.Sandbox, error) {
	for _, name := range []string{"files", "workspace"} {
		if err := os.MkdirAll(filepath.Join(spec.Dir, name), 0o700); err != nil {
			return nil, err
		}
	}
	return scene{spec.Dir, make(chan struct{})}, nil
}

// Cleanup implements isolate.Driver.
func (stage) Cleanup(context.Context, isolate.Spec) error { return nil }

type scene struct {
	dir  string
	gone chan struct{}
}

// Inside implements isolate.Sandbox.
func (s scene) Inside() isolate.Paths { return s.Outside() }

// Outside implements isolate.Sandbox.
func (s scene) Outside() isolate.Paths {
	at := func(name string) string { return filepath.Join(s.dir, name) }
	return isolate.Paths{
		Workspace: at("workspace"), Temp: at("workspace"), Home: at("workspace"), Files: at("files"),
		Source: at("workspace"), Tools: at("workspace"),
	}
}

// Start implements isolate.Sandbox.
func (s scene) Start(_ context.Context, c isolate.Command) (isolate.Running, error) {
	_, err := fmt.Fprintln(c.Stdout, rehearsed)
	return act{}, err
}

// Gone implements isolate.Sandbox.
func (s scene) Gone() <-chan struct{} { return s.gone }

// KillAll implements isolate.Sandbox.
func (s scene) KillAll(context.Context) error { return nil }

// Destroy implements isolate.Sandbox.
func (s scene) Destroy(context.Context) error { return isolate.Erase(s.dir) }

type act struct{}

// Wait implements isolate.Running.
func (act) Wait() (isolate.Exit, error) { return isolate.Exit{}, nil }

// Signal implements isolate.Running.
func (act) Signal(syscall.Signal) error { return nil }

// Kill implements isolate.Running.
func (act) Kill() error { return nil }

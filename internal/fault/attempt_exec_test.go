package fault_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/fault"
	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/isolate/process"
	"github.com/fairlead-ci/fairlead/internal/manifest"
	"github.com/fairlead-ci/fairlead/internal/runner/job"
	"github.com/fairlead-ci/fairlead/internal/runner/spool"
	"github.com/fairlead-ci/fairlead/internal/runner/supervisor"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// TestSweepOfAnAttempt fails every call of the isolation driver during one attempt with two
// steps, the first of which leaves a process behind. The supervisor is a real process with
// the real driver below the wrapper.
// Promises: [RNR-4], [RNR-5], [RNR-11].
func TestSweepOfAnAttempt(t *testing.T) {
	var rows []row
	for _, m := range modes(fault.Before, fault.After) {
		t.Run(strings.ReplaceAll(m.String(), " ", "-"), func(t *testing.T) {
			r := row{port: fault.PortSandbox, mode: m, by: 1, struck: map[string]int{}}
			begin := time.Now()
			for k := max(*only, 1); ; k++ {
				a := newAttempt(t, m, k)
				struck := a.play()
				if *only > 0 || len(struck) == 0 {
					break
				}
				r.swept++
				r.struck[struck[0]]++
				if t.Failed() {
					r.failed++
					break
				}
			}
			r.took = time.Since(begin)
			rows = append(rows, r)
		})
	}
	report(t, rows)
}

// trial is one attempt with one plan.
type trial struct {
	t      *testing.T
	name   string
	folder supervisor.Folder
	told   string // the file that says what was struck
	order  supervisor.Order
	chunks []*runnerv1.Chunk
	result *runnerv1.Result
}

func newAttempt(t *testing.T, m fault.Mode, k int) *trial {
	dir := t.TempDir()
	run := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{0: 1, 15: byte(k)}))
	id := run.Job(0).Attempt(1)
	a := &trial{t: t, name: fmt.Sprintf("%s k=%d", m, k), folder: supervisor.Folder(filepath.Join(dir, "attempt")),
		told: filepath.Join(dir, "struck")}
	t.Setenv(planVariable, fmt.Sprintf("%s %t %d %s", m.How, m.Lasting, k, a.told))
	step := func(i int, script string) plan.Step {
		return plan.Step{Index: i, ID: fmt.Sprintf("__run_%d", i), Name: fmt.Sprint("step ", i), Uses: plan.UsesRun,
			Script: script, Shell: "sh"}
	}
	a.order = supervisor.Order{Folder: string(a.folder), Driver: isolate.Process, Server: "http://127.0.0.1:1",
		Sandbox: isolate.Spec{ID: string(id), Dir: a.folder.Box()}, Runner: job.Runner{Name: "test"},
		Env: []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}, AbandonAt: supervisor.Now().Add(time.Minute),
		Manifest: &manifest.Manifest{Version: manifest.Version, Run: run, Job: run.Job(0), Attempt: id, Number: 1, Epoch: 7,
			RepositoryName: "acme/shop", JobKey: "test", RunNumber: 12, IdempotencyKey: "idem", Effectful: true,
			Source: manifest.Source{Commit: strings.Repeat("a", 40), Ref: branch, Path: "/source/x.git"},
			Github: json.RawMessage(`{}`), Inputs: json.RawMessage(`{}`), Needs: json.RawMessage(`{}`), TimeoutSeconds: 50,
			Steps:  []plan.Step{step(0, "echo one; setsid sleep 300 >/dev/null 2>&1 &"), step(1, "echo two")},
			Limits: manifest.Limits{GraceSeconds: 1}}}
	return a
}

// play runs the attempt to its end, buries what is left as a runner does, and looks at what
// the attempt told and what it left. It gives what was struck.
func (a *trial) play() []string {
	h, err := supervisor.Spawn("", a.order)
	if err != nil {
		a.t.Fatalf("%s: %v", a.name, err)
	}
	select {
	case <-h.Gone():
	case <-time.After(time.Minute):
		a.t.Errorf("%s: the supervisor does not end", a.name)
		_ = h.Force()
		<-h.Gone()
	}
	if err := supervisor.Bury(context.Background(), a.folder, process.New()); err != nil {
		a.t.Errorf("%s: bury: %v", a.name, err)
	}
	struck := strings.Fields(read(a.told))
	a.read()
	a.judge(struck)
	a.gone()
	return struck
}

func read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		panic(err)
	}
	return string(text)
}

// read takes what the attempt told out of its spool.
func (a *trial) read() {
	r := spool.NewReader(a.folder.Spool())
	defer r.Close()
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			a.t.Fatalf("%s: %v", a.name, err)
		}
		switch f.Kind {
		case spool.KindChunk:
			c := new(runnerv1.Chunk)
			err = proto.Unmarshal(f.Payload, c)
			a.chunks = append(a.chunks, c)
		case spool.KindResult:
			if a.result != nil {
				a.t.Errorf("%s: a second result", a.name)
			}
			a.result = new(runnerv1.Result)
			err = proto.Unmarshal(f.Payload, a.result)
		}
		if err != nil {
			a.t.Fatalf("%s: %v", a.name, err)
		}
	}
}

// judge wants one result that is true: success only if both steps did what they say, and
// otherwise a failure of the platform which says what failed.
func (a *trial) judge(struck []string) {
	if a.result == nil {
		a.t.Errorf("%s: there is no result (struck %v)", a.name, struck)
		return
	}
	var out bytes.Buffer
	for i, c := range a.chunks {
		if c.GetSequence() != uint64(i+1) {
			a.t.Errorf("%s: chunk %d has sequence %d", a.name, i+1, c.GetSequence())
		}
		if c.GetStream() == 1 {
			out.Write(c.GetData())
		}
	}
	if a.result.GetLogEnd() != uint64(len(a.chunks)) {
		a.t.Errorf("%s: the result counts %d chunks of %d", a.name, a.result.GetLogEnd(), len(a.chunks))
	}
	whole := strings.Contains(out.String(), "one\n") && strings.Contains(out.String(), "two\n")
	switch outcome := a.result.GetOutcome(); {
	case outcome == string(domain.OutcomeSuccess) && !whole:
		a.t.Errorf("%s: success, and the log is %q (struck %v)", a.name, out.String(), struck)
	case outcome == string(domain.OutcomeSuccess):
	case len(struck) == 0:
		a.t.Errorf("%s: nothing failed, and the result is %v", a.name, a.result)
	case a.result.GetFailureClass() != string(domain.FailurePlatform) ||
		!strings.Contains(a.result.GetMessage(), fault.ErrInjected.Error()):
		a.t.Errorf("%s: struck %v, and the result is %s: %q", a.name, struck, a.result.GetFailureClass(),
			a.result.GetMessage())
	}
}

// gone wants neither process nor storage of the attempt.
func (a *trial) gone() {
	if !a.folder.Finished() {
		a.t.Errorf("%s: the sandbox's folder is there", a.name)
	}
	mark := []byte(isolate.Marker + "=" + a.order.Sandbox.ID + "\x00")
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		a.t.Fatal(err)
	}
	for _, path := range all {
		// A process that ended meanwhile has no file, and is gone.
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(append(text, 0), mark) {
			a.t.Errorf("%s: %s is alive", a.name, filepath.Dir(path))
		}
	}
}

// TestBuryingIsTriedAgain fails the one call that a runner makes of the driver by itself.
func TestBuryingIsTriedAgain(t *testing.T) {
	for _, m := range modes(fault.Before, fault.After) {
		a := newAttempt(t, fault.Mode{How: fault.Before}, 1) // the sandbox is never prepared
		h, err := supervisor.Spawn("", a.order)
		if err != nil {
			t.Fatal(err)
		}
		<-h.Gone()
		failing := fault.NewDriver(process.New(), fault.NewPlan(fault.PortSandbox, m, 1))
		if err := supervisor.Bury(t.Context(), a.folder, failing); !errors.Is(err, fault.ErrInjected) {
			t.Errorf("%s: bury: %v", m, err)
		}
		if err := supervisor.Bury(t.Context(), a.folder, process.New()); err != nil {
			t.Errorf("%s: bury again: %v", m, err)
		}
		a.read()
		a.judge([]string{"prepare"})
		a.gone()
	}
}

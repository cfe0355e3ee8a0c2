package runner

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/isolate/inside"
	"github.com/fairlead-ci/fairlead/internal/runner/supervisor"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// hatched lists the supervisors that wait for an attempt, once there are so many.
func hatched(t testing.TB, data string, want int) (found []supervisor.State) {
	t.Helper()
	waitFor(t, func() bool {
		found = nil
		folders, _ := filepath.Glob(filepath.Join(data, "warm", "*"))
		for _, f := range folders {
			// Its init carries the marker once it is there.
			state, err := supervisor.Folder(f).Load()
			if err == nil && len(inside.Marked(isolate.Marker+"="+state.Sandbox.ID)) > 0 {
				found = append(found, state)
			}
		}
		return len(found) == want
	})
	return found
}

func signalAll(t *testing.T, states []supervisor.State, sig unix.Signal) {
	t.Helper()
	for _, s := range states {
		if err := unix.Kill(s.Pid, sig); err != nil {
			t.Fatal(err)
		}
	}
}

// stopAll returns when no thread of them runs any more, which is later than the signal.
func stopAll(t *testing.T, states []supervisor.State) {
	t.Helper()
	signalAll(t, states, unix.SIGSTOP)
	waitFor(t, func() bool {
		for _, s := range states {
			threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.Pid))
			for _, path := range threads {
				text, err := os.ReadFile(path)
				if err != nil || !bytes.Contains(text, []byte(") T ")) {
					return false
				}
			}
		}
		return true
	})
}

// swept waits until nothing of supervisors that waited is left.
func swept(t *testing.T, data string, states []supervisor.State) {
	t.Helper()
	waitFor(t, func() bool {
		for _, s := range states {
			if len(inside.Marked(isolate.Marker+"="+s.Sandbox.ID)) > 0 {
				return false
			}
			if _, err := os.Lstat(filepath.Join(data, "warm", s.Sandbox.ID)); err == nil {
				return false
			}
		}
		return true
	})
}

func TestAJobIsTheSameWithoutAnythingStartedAhead(t *testing.T) {
	for _, isolation := range []string{isolate.Process, isolate.OCI} {
		t.Run(isolation, func(t *testing.T) {
			p := newPeer(t)
			data := t.TempDir()
			startCold(t, p, data, isolation)
			a := p.start(p.order(plan.Step{Script: "echo $FAIRLEAD_ATTEMPT; ls -A"}))
			wantResult(t, p, p.result(a), domain.OutcomeSuccess, "")
			if got := p.log(a); got != a+"\n" {
				t.Errorf("log %q", got)
			}
			empty(t, data, a)
			if _, err := os.Lstat(filepath.Join(data, "warm")); err == nil {
				t.Error("something was started ahead")
			}
		})
	}
}

func TestWhatWaitsIsReplacedAndUsedOnce(t *testing.T) {
	for _, isolation := range []string{isolate.Process, isolate.OCI} {
		t.Run(isolation, func(t *testing.T) {
			p := newPeer(t)
			data := t.TempDir()
			stop := startRunner(t, p, data, isolation)
			first := hatched(t, data, 2)
			var attempts []string
			for i := range 3 {
				a := p.start(p.order(plan.Step{Script: fmt.Sprintf("echo %d; ls -A . $HOME $RUNNER_TEMP | grep -v :", i)}))
				wantResult(t, p, p.result(a), domain.OutcomeSuccess, "")
				if got := p.log(a); got != fmt.Sprintf("%d\n", i) && got != fmt.Sprintf("%d\n\n\n", i) {
					t.Errorf("log %q", got)
				}
				attempts = append(attempts, a)
			}
			empty(t, data, attempts...)
			swept(t, data, first[:1])
			last := hatched(t, data, 2)
			stop()
			swept(t, data, last)
		})
	}
}

func TestWhatWaitedAndDiedCostsNoJob(t *testing.T) {
	for _, isolation := range []string{isolate.Process, isolate.OCI} {
		t.Run(isolation, func(t *testing.T) {
			p := newPeer(t)
			data := t.TempDir()
			startRunner(t, p, data, isolation)
			first := hatched(t, data, 2)
			// With the order in its hands, before it could begin.
			stopAll(t, first)
			a := p.start(p.order(plan.Step{Script: "echo here"}))
			waitFor(t, func() bool {
				_, err := os.Lstat(filepath.Join(data, "attempts", a, "control.sock"))
				return err == nil
			})
			signalAll(t, first, unix.SIGKILL)
			wantResult(t, p, p.result(a), domain.OutcomeSuccess, "")
			if got := p.log(a); got != "here\n" {
				t.Errorf("log %q", got)
			}
			swept(t, data, first)
			empty(t, data, a)
		})
	}
}

func TestWhatWaitsDiesWithItsRunner(t *testing.T) {
	p := newPeer(t)
	data := t.TempDir()
	first := startProcess(t, p, data)
	states := hatched(t, data, 2)
	// One of them can't notice; the next runner ends it.
	stopAll(t, states[:1])
	if err := first.Process.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	swept(t, data, states[1:])
	startRunner(t, p, data, isolate.Process)
	swept(t, data, states)
	wantResult(t, p, p.result(p.start(p.order(plan.Step{Script: "true"}))), domain.OutcomeSuccess, "")
}

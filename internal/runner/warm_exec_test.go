package runner

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/isolate/inside"
	"github.com/fairlead-ci/fairlead/internal/manifest"
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

// served tells of each attempt which process supervised it: the parent of its sandbox's init,
// which is the parent of a step.
func served(t *testing.T, p *peer, m *manifest.Manifest) (pid int) {
	t.Helper()
	a := p.start(m)
	p.result(a)
	for line := range strings.Lines(p.log(a)) {
		if _, err := fmt.Sscanf(line, "supervisor %d", &pid); err == nil {
			return pid
		}
	}
	t.Fatalf("log %q", p.log(a))
	return 0
}

const sayWho = `read -r line < /proc/$PPID/stat; set -- ${line##*) }; echo supervisor $2
`

// TestASupervisorServesOneAttemptAfterTheOther counts processes: a chain of jobs starts none
// but those of its sandboxes.
func TestASupervisorServesOneAttemptAfterTheOther(t *testing.T) {
	p := newPeer(t)
	data := t.TempDir()
	startRunner(t, p, data, isolate.Process)
	pids := map[int]bool{}
	for _, s := range hatched(t, data, 2) {
		pids[s.Pid] = true
	}
	for i := range 6 {
		step := plan.Step{Script: sayWho}
		if i%2 == 1 {
			step.Script += "exit 3" // its own affair
		}
		if pid := served(t, p, p.order(step)); !pids[pid] {
			t.Errorf("attempt %d was supervised by process %d, not by one of %v", i, pid, pids)
		}
		for _, s := range hatched(t, data, 2) {
			if !pids[s.Pid] || s.Attempt != "" {
				t.Errorf("after attempt %d process %d waits, with state %+v", i, s.Pid, s)
			}
		}
	}
	for pid := range pids {
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			t.Fatal(err)
		}
		if len(open) > 20 {
			t.Errorf("process %d holds %d files after its attempts", pid, len(open))
		}
	}
}

// TestASupervisorThatMayNotGoOnDoesNot: one whose attempt was a stranger's, was stopped, or left
// something has no other.
func TestASupervisorThatMayNotGoOnDoesNot(t *testing.T) {
	for _, c := range []struct {
		name, script string
		tier         domain.Tier
		cancel       bool
	}{
		{name: "the attempt was a stranger's", tier: domain.TierUntrusted},
		{name: "the attempt was cancelled", tier: domain.TierTrusted, script: "sleep 60", cancel: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPeer(t)
			data := t.TempDir()
			startRunner(t, p, data, isolate.Process)
			first := hatched(t, data, 2)
			m := p.order(plan.Step{Script: sayWho + c.script})
			m.Tier = c.tier
			a := p.start(m)
			if c.cancel {
				p.logged(a, "supervisor")
				p.update(func() { p.cancels[a] = &runnerv1.Cancel{Attempt: a, Epoch: 1, Reason: "cancelled", GraceMs: 300} })
			}
			p.result(a)
			var pid int
			if _, err := fmt.Sscanf(p.log(a), "supervisor %d", &pid); err != nil {
				t.Fatalf("log %q: %v", p.log(a), err)
			}
			if !slices.ContainsFunc(first, func(s supervisor.State) bool { return s.Pid == pid }) {
				t.Fatalf("process %d had not waited", pid)
			}
			waitFor(t, func() bool { return unix.Kill(pid, 0) != nil })
			for _, s := range hatched(t, data, 2) {
				if s.Pid == pid {
					t.Errorf("process %d waits for another attempt", pid)
				}
			}
		})
	}
}

// TestNobodyLessTrustedComesAfterATier: remains of what a process was trusted with may be in its
// memory still.
func TestNobodyLessTrustedComesAfterATier(t *testing.T) {
	p := newPeer(t)
	data := t.TempDir()
	startRunner(t, p, data, isolate.Process)
	hatched(t, data, 2)
	order := func(tier domain.Tier) int {
		m := p.order(plan.Step{Script: sayWho})
		m.Tier = tier
		return served(t, p, m)
	}
	trusted := order(domain.TierProtected)
	hatched(t, data, 2)
	for range 3 {
		if pid := order(domain.TierTrusted); pid == trusted {
			t.Errorf("process %d had a protected attempt, and a trusted one after it", pid)
		}
		hatched(t, data, 2)
	}
}

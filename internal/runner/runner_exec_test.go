package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/isolate/choose"
	"github.com/fairlead-ci/fairlead/internal/isolate/inside"
	"github.com/fairlead-ci/fairlead/internal/runner/supervisor"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

const runnerArg = "__runner"

// tokenPattern finds the attempt's token, but not itself.
const tokenPattern = "attempt-token-canar[y]"

func TestMain(m *testing.M) {
	MaybeSupervise(choose.Drivers()...)
	if len(os.Args) > 1 && os.Args[1] == runnerArg {
		// A runner of its own process, which tests may kill.
		if err := Run(context.Background(), testConfig(os.Args[2], os.Args[3], os.Args[4], nil)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func testConfig(server, data, isolation string, ready func(Ready)) Config {
	d, report, err := choose.Pick(context.Background(), isolation)
	if err != nil {
		panic(err)
	}
	return Config{
		Server: server, Token: registrationToken, Name: "test", Data: data, Capacity: 2, Driver: d, Report: report,
		Drivers: choose.Drivers(), Ready: ready, Logger: slog.New(slog.NewTextHandler(os.Stderr,
			&slog.HandlerOptions{Level: slog.LevelError})),
	}
}

// startRunner runs a runner in this process until the test ends or stop is called.
func startRunner(t testing.TB, p *peer, data, isolation string) (stop func()) {
	t.Helper()
	return startWith(t, testConfig(p.url(), data, isolation, nil))
}

// startCold runs one that starts nothing ahead.
func startCold(t testing.TB, p *peer, data, isolation string) {
	t.Helper()
	c := testConfig(p.url(), data, isolation, nil)
	c.Cold = true
	startWith(t, c)
}

func startWith(t testing.TB, c Config) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	c.Ready = func(Ready) { close(ready) }
	go func() { done <- Run(ctx, c) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatal("the runner was not ready within a minute")
	}
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		stop()
		sweep(filepath.Join(c.Data, "attempts"))
	})
	return stop
}

// sweep removes the folders of supervisors that outlive their runner, as those of attempts
// should and those that wait do when it is killed, and write for a moment more: it is done
// when all of them have stayed away for a while.
func sweep(folders ...string) {
	quiet := 0
	for range 400 {
		quiet++
		for _, folder := range folders {
			_, err := os.Lstat(folder)
			if os.RemoveAll(folder) != nil || err == nil {
				quiet = 0
			}
		}
		if quiet == 10 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// startProcess runs a runner in a process of its own.
func startProcess(t *testing.T, p *peer, data string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", runnerArg, p.url(), data, isolate.Process)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		sweep(filepath.Join(data, "attempts"), warmDir(data))
	})
	return cmd
}

// empty waits until nothing of any attempt is left on the machine.
func empty(t *testing.T, data string, attempts ...string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var left []string
		entries, _ := os.ReadDir(filepath.Join(data, "attempts"))
		for _, e := range entries {
			left = append(left, e.Name())
		}
		for _, a := range attempts {
			for _, pid := range inside.Marked(isolate.Marker + "=" + a) {
				left = append(left, fmt.Sprintf("process %d of %s", pid, a))
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left behind: %v", left)
		}
		<-tick.C
	}
}

func wantResult(t *testing.T, p *peer, r *runnerv1.Result, outcome domain.Outcome, class domain.FailureClass) {
	t.Helper()
	if r.GetOutcome() != string(outcome) || r.GetFailureClass() != string(class) {
		t.Errorf("result %s/%s %q, want %s/%s; log: %q", r.GetOutcome(), r.GetFailureClass(), r.GetMessage(), outcome,
			class,
			p.log(r.GetAttempt()))
	}
}

func TestAJobFromLeaseToResult(t *testing.T) {
	for _, isolation := range []string{isolate.Process, isolate.OCI} {
		t.Run(isolation, func(t *testing.T) {
			p := newPeer(t)
			data := t.TempDir()
			commit := p.commitAll(map[string]string{"greeting": "hello\n"})
			startRunner(t, p, data, isolation)
			m := p.order(plan.Step{Uses: plan.UsesCheckout, Name: "checkout"},
				plan.Step{Script: `cat greeting; git rev-parse HEAD; git rev-parse --abbrev-ref HEAD; git status --porcelain
git log --oneline | wc -l
grep -rl '` + tokenPattern + `' . "$HOME" "$RUNNER_TEMP" $(dirname "$GITHUB_ENV") 2>/dev/null || true
env | grep -c '` + tokenPattern + `' || true`})
			m.Source.Commit = commit
			r := p.result(p.start(m))
			wantResult(t, p, r, domain.OutcomeSuccess, "")
			if got, want := p.log(r.GetAttempt()), "hello\nhello\n"+commit+"\nmain\n1\n0\n"; got != want {
				t.Errorf("log %q, want %q", got, want)
			}
			empty(t, data, r.GetAttempt())
		})
	}
}

// The commit comes into the folder that is asked for, with as much of its history as is asked for.
func TestOptionsOfCheckout(t *testing.T) {
	p := newPeer(t)
	commit := p.commitAll(map[string]string{"greeting": "bye\n"})
	startRunner(t, p, t.TempDir(), isolate.Process)
	into := func(path, depth string) plan.Step {
		return plan.Step{Uses: plan.UsesCheckout, With: []plan.Binding{{Name: "path", Value: path},
			{Name: "fetch-depth", Value: depth}}}
	}
	m := p.order(into("${{ 'a b' }}/c", "${{ 1 }}"), into("all", "0"), into("two", "2"),
		plan.Step{Script: `for d in "a b/c" all two; do cat "$d/greeting"; git -C "$d" log --oneline | wc -l; done; ls`},
		into("${{ '../x' }}", ""))
	m.Source.Commit = commit
	r := p.result(p.start(m))
	wantResult(t, p, r, domain.OutcomeFailure, domain.FailureInvalid)
	if got, want := p.log(r.GetAttempt()), "bye\nbye\n1\nbye\nbye\n2\nbye\nbye\n2\na b\nall\ntwo\n"; got != want {
		t.Errorf("log %q, want %q", got, want)
	}
	if !strings.Contains(r.GetMessage(), `its option path can't be "../x"`) {
		t.Errorf("message %q", r.GetMessage())
	}
}

func TestACommitThatIsNotThereIsAClearError(t *testing.T) {
	p := newPeer(t)
	p.commitAll(map[string]string{"a": "b"})
	startRunner(t, p, t.TempDir(), isolate.Process)
	m := p.order(plan.Step{Uses: plan.UsesCheckout}, plan.Step{Script: "echo never"})
	m.Source.Commit = strings.Repeat("12", 20)
	r := p.result(p.start(m))
	wantResult(t, p, r, domain.OutcomeFailure, domain.FailurePlatform)
	if !strings.Contains(r.GetMessage(), m.Source.Commit) || r.GetEffect() != string(domain.EffectNone) {
		t.Errorf("message %q, effect %q", r.GetMessage(), r.GetEffect())
	}
}

func TestJobsRunSideBySideAndSlotsAreUsedAgain(t *testing.T) {
	p := newPeer(t)
	data := t.TempDir()
	startRunner(t, p, data, isolate.Process)
	var attempts []string
	for i := range 6 {
		attempts = append(attempts, p.start(p.order(plan.Step{Script: fmt.Sprintf("echo %d; ls -A", i)})))
	}
	for i, a := range attempts {
		wantResult(t, p, p.result(a), domain.OutcomeSuccess, "")
		if got := p.log(a); got != fmt.Sprintf("%d\n", i) {
			t.Errorf("log %q", got)
		}
	}
	empty(t, data, attempts...)
}

// Promises: [LEASE-10].
func TestLeasesThatAreNotForThisRunnerAreDeclined(t *testing.T) {
	p := newPeer(t)
	startRunner(t, p, t.TempDir(), isolate.Process)
	for name, tamper := range map[string]func(*runnerv1.Lease){
		"signature": func(l *runnerv1.Lease) { l.Signature[3] ^= 1 },
		"signature does not ver": func(l *runnerv1.Lease) {
			l.Manifest = bytes.Replace(l.Manifest, []byte("true"), []byte("fals"), 1)
			l.KeyId = "k2"
		},
		"is not open": func(l *runnerv1.Lease) { l.Slot = p.runner + "/0/1" },
		"the manifest is for attempt": func(l *runnerv1.Lease) {
			l.Epoch++
		},
	} {
		p.update(func() { p.tamper = tamper })
		a := p.start(p.order(plan.Step{Script: "true"}))
		p.await("a decline", func() bool { return p.attempts[a] != nil && p.attempts[a].declined != "" })
		if got := p.attempts[a].declined; !strings.Contains(got, name) {
			t.Errorf("declined with %q, want %q", got, name)
		}
	}
	p.update(func() { p.tamper = nil })
	expired, foreign := p.order(plan.Step{Script: "true"}), p.order(plan.Step{Script: "true"})
	expired.Expires = time.Now().Add(-time.Second).UTC()
	foreign.Runner = "rnr_somebody"
	for m, want := range map[string]string{p.start(expired): "expired", p.start(foreign): "is for the runner"} {
		p.await("a decline", func() bool { return p.attempts[m] != nil && p.attempts[m].declined != "" })
		if got := p.attempts[m].declined; !strings.Contains(got, want) {
			t.Errorf("declined with %q, want %q", got, want)
		}
	}
	wantResult(t, p, p.result(p.start(p.order(plan.Step{Script: "true"}))), domain.OutcomeSuccess, "")
}

// Promises: [CANCEL-5].
func TestCancelStopsWhatIgnoresIt(t *testing.T) {
	p := newPeer(t)
	data := t.TempDir()
	startRunner(t, p, data, isolate.Process)
	a := p.start(p.order(
		plan.Step{Script: "trap '' TERM; setsid sh -c 'while :; do sleep 30 & sleep 0.01; done' >/dev/null & echo up; " +
			"while :; do sleep 1; done"},
		plan.Step{Cleanup: true, Script: "echo tidy"},
	))
	p.logged(a, "up\n")
	p.update(func() { p.cancels[a] = &runnerv1.Cancel{Attempt: a, Epoch: 1, Reason: "cancelled", GraceMs: 300} })
	r := p.result(a)
	wantResult(t, p, r, domain.OutcomeCancelled, domain.FailureCancelled)
	if !p.attempts[a].known {
		t.Error("the runner did not say that it knew of the cancellation")
	}
	empty(t, data, a)
}

// Promises: [RNR-1].
func TestAServerThatIsAwayCostsNothing(t *testing.T) {
	p := newPeer(t)
	data := t.TempDir()
	startRunner(t, p, data, isolate.Process)
	flag := filepath.Join(t.TempDir(), "go")
	a := p.start(p.order(plan.Step{Script: "echo one; i=0; while [ $i -lt 200 ]; do echo line $i; i=$((i+1)); done; " +
		"until [ -e " + flag + " ]; do sleep 0.02; done; echo end"}))
	p.logged(a, "one\n")
	p.down()
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// The job ends while nobody hears it.
	waitFor(t, func() bool { _, err := os.Stat(filepath.Join(data, "attempts", a, "box")); return err != nil })
	p.up()
	r := p.result(a)
	wantResult(t, p, r, domain.OutcomeSuccess, "")
	if got := p.log(a); strings.Count(got, "\n") != 202 || !strings.HasSuffix(got, "line 199\nend\n") {
		t.Errorf("log of %d bytes", len(got))
	}
	empty(t, data, a)
}

func waitFor(t testing.TB, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen within 30 s")
		}
		<-tick.C
	}
}

func TestALeaseThatIsGoneKillsTheJob(t *testing.T) {
	p := newPeer(t)
	data := t.TempDir()
	startRunner(t, p, data, isolate.Process)
	a := p.start(p.order(plan.Step{Script: "trap '' TERM; echo up; sleep 300"}))
	p.logged(a, "up\n")
	p.update(func() { p.dead[a] = true })
	empty(t, data, a)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.attempts[a].results) != 0 {
		t.Errorf("it was reported: %v", p.attempts[a].results[0])
	}
}

// Promises: [LEASE-4].
func TestWithoutContactTheJobIsDeadBeforeItsLease(t *testing.T) {
	p := newPeer(t)
	p.timing.AbandonMs = 6000
	data := t.TempDir()
	startRunner(t, p, data, isolate.Process)
	a := p.start(p.order(plan.Step{Script: "trap '' TERM; (setsid sleep 300 &) ; echo up; sleep 300"}))
	p.logged(a, "up\n")
	p.down()
	down := time.Now()
	waitFor(t, func() bool { return len(inside.Marked(isolate.Marker+"="+a)) == 0 })
	if took := time.Since(down); took > 6*time.Second {
		t.Errorf("it lived for %v without contact", took)
	}
	p.up()
	r := p.result(a)
	wantResult(t, p, r, domain.OutcomeFailure, domain.FailureRunnerLost)
	// The late report is refused by a server that has moved on; then all is forgotten.
	p.update(func() { p.refused[a] = "lease_epoch_stale" })
	empty(t, data, a)
}

// Promises: [RNR-2].
func TestARunnerThatIsKilledTakesItsJobsUpAgain(t *testing.T) {
	p := newPeer(t)
	data := t.TempDir()
	first := startProcess(t, p, data)
	flag := filepath.Join(t.TempDir(), "go")
	a := p.start(p.order(plan.Step{Script: "echo before; until [ -e " + flag + " ]; do sleep 0.02; done; echo after"}))
	p.logged(a, "before\n")
	if err := first.Process.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	p.mu.Lock()
	offers := slices.Clone(p.offers)
	p.mu.Unlock()
	startProcess(t, p, data)
	p.await("new offers", func() bool { return len(p.offers) > 0 && !slices.Contains(offers, p.offers[0]) })
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantResult(t, p, p.result(a), domain.OutcomeSuccess, "")
	if got := p.log(a); got != "before\nafter\n" {
		t.Errorf("log %q", got)
	}
	empty(t, data, a)
}

// Promises: [RNR-2].
func TestAJobThatEndedWithoutItsRunnerIsReportedByTheNext(t *testing.T) {
	p := newPeer(t)
	data := t.TempDir()
	stop := startRunner(t, p, data, isolate.Process)
	flag := filepath.Join(t.TempDir(), "go")
	a := p.start(p.order(plan.Step{Script: "echo before; until [ -e " + flag +
		" ]; do sleep 0.02; done; echo after; exit 4"}))
	p.logged(a, "before\n")
	stop() // as SIGTERM does: the supervisor goes on
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return len(inside.Marked(isolate.Marker+"="+a)) == 0 })
	startRunner(t, p, data, isolate.Process)
	wantResult(t, p, p.result(a), domain.OutcomeFailure, domain.FailureUserCode)
	if got := p.log(a); got != "before\nafter\n" {
		t.Errorf("log %q", got)
	}
	empty(t, data, a)
}

// Promises: [RNR-3].
func TestASupervisorThatIsKilledLeavesNothingButAReport(t *testing.T) {
	for _, isolation := range []string{isolate.Process, isolate.OCI} {
		t.Run(isolation, func(t *testing.T) {
			p := newPeer(t)
			data := t.TempDir()
			startRunner(t, p, data, isolation)
			a := p.start(p.order(plan.Step{Script: "trap '' TERM; (setsid sleep 300 &); echo up; sleep 300"}))
			p.logged(a, "up\n")
			pid := supervisorOf(t, data, a)
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			r := p.result(a)
			wantResult(t, p, r, domain.OutcomeFailure, domain.FailurePlatform)
			if r.GetEffect() != string(domain.EffectUnknown) || len(r.GetSteps()) != 1 ||
				!strings.Contains(r.GetMessage(), "supervisor") {
				t.Errorf("result %v", r)
			}
			empty(t, data, a)
		})
	}
}

func TestASupervisorThatIsStuckCanBeEnded(t *testing.T) {
	p := newPeer(t)
	data := t.TempDir()
	startRunner(t, p, data, isolate.Process)
	a := p.start(p.order(plan.Step{Script: "echo up; sleep 300"}))
	p.logged(a, "up\n")
	pid := supervisorOf(t, data, a)
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	h, err := supervisor.Adopt(supervisor.Folder(filepath.Join(data, "attempts", a)))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Force(); err != nil {
		t.Fatal(err)
	}
	wantResult(t, p, p.result(a), domain.OutcomeFailure, domain.FailurePlatform)
	empty(t, data, a)
}

// Promises: [RNR-9].
func TestAFullDiskIsSaidAndSurvived(t *testing.T) {
	data := t.TempDir()
	if err := unix.Mount("tmpfs", data, "tmpfs", 0, "size=6m"); err != nil {
		t.Fatalf("this test needs a small disk, and so the right to mount one (run it as root): %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(data, unix.MNT_DETACH) })
	p := newPeer(t)
	startRunner(t, p, data, isolate.Process)
	flag := filepath.Join(t.TempDir(), "go")
	a := p.start(p.order(plan.Step{Script: "echo begin; until [ -e " + flag + " ]; do sleep 0.02; done; " +
		"dd if=/dev/zero of=fill bs=64k 2>/dev/null || :; seq 1 1000000; sleep 300"}))
	p.logged(a, "begin\n")
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := p.result(a)
	wantResult(t, p, r, domain.OutcomeFailure, domain.FailurePlatform)
	if !strings.Contains(r.GetMessage(), "disk is full") || !strings.HasPrefix(p.log(a), "begin\n") {
		t.Errorf("message %q", r.GetMessage())
	}
	empty(t, data, a)
	wantResult(t, p, p.result(p.start(p.order(plan.Step{Script: "dd if=/dev/zero of=fill bs=64k count=10"}))),
		domain.OutcomeSuccess, "")
}

func supervisorOf(t *testing.T, data, attempt string) int {
	t.Helper()
	state, err := supervisor.Folder(filepath.Join(data, "attempts", attempt)).Load()
	if err != nil {
		t.Fatal(err)
	}
	return state.Pid
}

func TestABusyMachineKeepsItsLease(t *testing.T) {
	p := newPeer(t)
	p.timing.AbandonMs, p.timing.RenewMs = 4000, 200
	startRunner(t, p, t.TempDir(), isolate.Process)
	flag := filepath.Join(t.TempDir(), "go")
	a := p.start(p.order(plan.Step{Script: "for i in 1 2 3 4 5 6 7 8; do (while [ ! -e " + flag +
		" ]; do :; done) & done; echo up; wait; echo done"}))
	p.logged(a, "up\n")
	p.await("ten renewals", func() bool { return p.attempts[a].renewals >= 10 })
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantResult(t, p, p.result(a), domain.OutcomeSuccess, "")
}

// Promises: [RNR-8].
func TestNoSecretIsOnDisk(t *testing.T) {
	p := newPeer(t)
	data := t.TempDir()
	commit := p.commitAll(map[string]string{"a": "b"})
	startRunner(t, p, data, isolate.Process)
	flag := filepath.Join(t.TempDir(), "go")
	m := p.order(plan.Step{Uses: plan.UsesCheckout}, plan.Step{Script: "echo up; until [ -e " + flag +
		" ]; do sleep 0.02; done"})
	m.Source.Commit = commit
	a := p.start(m)
	p.logged(a, "up\n")
	if out, err := exec.Command("grep", "-rl", attemptToken, data).CombinedOutput(); err == nil || len(out) > 0 {
		t.Errorf("the attempt's token is in %s", out)
	}
	st, err := os.Stat(identityPath(data))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the identity's file: %v, %v", st.Mode(), err)
	}
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.result(a)
}

func TestAnIdentityIsKeptAndGuarded(t *testing.T) {
	p := newPeer(t)
	data := t.TempDir()
	stop := startRunner(t, p, data, isolate.Process)
	// A second runner can't share the folder.
	if err := Run(t.Context(), testConfig(p.url(), data, isolate.Process, nil)); err == nil ||
		!strings.Contains(err.Error(), "another runner") {
		t.Errorf("a second runner: %v", err)
	}
	stop()
	// A restart needs no token, and its offers are new.
	ctx, cancel := context.WithCancel(t.Context())
	c := testConfig(p.url(), data, isolate.Process, func(Ready) { cancel() })
	c.Token = ""
	if err := Run(ctx, c); err != nil {
		t.Error(err)
	}
	var id identity
	text, err := os.ReadFile(identityPath(data))
	if err == nil {
		err = json.Unmarshal(text, &id)
	}
	if err != nil || id.Boot != 2 || id.Runner != p.runner {
		t.Errorf("identity %+v, %v", id, err)
	}
	// A server that does not know it is a clear end.
	p.update(func() { p.digest = "other" })
	c = testConfig(p.url(), data, isolate.Process, nil)
	c.Token = ""
	if err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "does not know this runner") {
		t.Errorf("an unknown runner: %v", err)
	}
}

// Promises: [LOG-14].
func TestAStepThatPrintsFasterThanTheServerTakesIsSlowedDown(t *testing.T) {
	p := newPeer(t)
	startRunner(t, p, t.TempDir(), isolate.Process)
	const bytes = 80_000_000 // more than a spool holds
	a := p.start(p.order(plan.Step{Script: "yes 0123456789 | head -c " + fmt.Sprint(bytes)}))
	wantResult(t, p, p.result(a), domain.OutcomeSuccess, "")
	p.mu.Lock()
	defer p.mu.Unlock()
	got := 0
	for _, c := range p.attempts[a].chunks {
		got += len(c.GetData())
		if c.GetMark() != "" {
			t.Errorf("%d bytes are missing: %s", c.GetDroppedBytes(), c.GetMark())
		}
	}
	if got != bytes {
		t.Errorf("log of %d bytes, want %d", got, bytes)
	}
}

func TestAcknowledgementsMayBeLate(t *testing.T) {
	p := newPeer(t)
	data := t.TempDir()
	startRunner(t, p, data, isolate.Process)
	p.update(func() { p.holdAcks = true })
	a := p.start(p.order(plan.Step{Script: "head -c 3000000 /dev/zero | tr '\\0' x; echo"}))
	r := p.result(a)
	if _, err := os.Stat(filepath.Join(data, "attempts", a, "spool")); err != nil {
		t.Errorf("the spool went before it was acknowledged: %v", err)
	}
	p.update(func() { p.holdAcks = false })
	empty(t, data, a)
	wantResult(t, p, r, domain.OutcomeSuccess, "")
	if got := len(p.log(a)); got != 3_000_001 {
		t.Errorf("log of %d bytes", got)
	}
}

// BenchmarkNoOpJob is one job whose only step does nothing, from the server's grant to
// the server's having its result and log, on a runner that has had a moment's rest.
func BenchmarkNoOpJob(b *testing.B) {
	for _, isolation := range []string{isolate.Process, isolate.OCI} {
		b.Run(isolation, func(b *testing.B) {
			p := newPeer(b)
			data := b.TempDir()
			startRunner(b, p, data, isolation)
			var took []time.Duration
			for b.Loop() {
				b.StopTimer()
				hatched(b, data, warmMax)
				b.StartTimer()
				m := p.order(plan.Step{Script: "true"})
				begun := time.Now()
				p.result(p.start(m))
				took = append(took, time.Since(begun))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[0].Microseconds())/1000, "best-ms")
		})
	}
}

// BenchmarkLog is a job that prints 100 MB as fast as it can, from the server's grant to
// the server's having all of it. What the spool had no room for is reported: a step does
// not wait for the server.
func BenchmarkLog(b *testing.B) {
	const bytes = 100_000_000
	p := newPeer(b)
	startRunner(b, p, b.TempDir(), isolate.Process)
	b.SetBytes(bytes)
	missing := 0
	for b.Loop() {
		a := p.start(p.order(plan.Step{Script: "yes 'level=info msg=done status=200' | head -c " + fmt.Sprint(bytes)}))
		p.result(a)
		p.update(func() {
			missing += bytes
			for _, c := range p.attempts[a].chunks {
				if c.GetStream() == 1 {
					missing -= len(c.GetData())
				}
			}
			delete(p.attempts, a)
		})
	}
	b.ReportMetric(float64(missing)/float64(b.N)/1e6, "MB-missing/op")
}

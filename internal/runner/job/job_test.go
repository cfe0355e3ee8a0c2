package job

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/isolate/inside"
	"github.com/fairlead-ci/fairlead/internal/isolate/process"
	"github.com/fairlead-ci/fairlead/internal/manifest"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

func TestMain(m *testing.M) {
	inside.Maybe()
	os.Exit(m.Run())
}

// memory is a sink that keeps everything.
type memory struct {
	mu       sync.Mutex
	chunks   []*runnerv1.Chunk
	progress []*runnerv1.Progress
	refuse   func(*runnerv1.Chunk) error
	grew     chan struct{}
}

func (m *memory) Chunk(c *runnerv1.Chunk) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse != nil {
		if err := m.refuse(c); err != nil {
			return err
		}
	}
	m.chunks = append(m.chunks, proto.CloneOf(c))
	if m.grew != nil {
		select {
		case m.grew <- struct{}{}:
		default:
		}
	}
	return nil
}

func (m *memory) Progress(p *runnerv1.Progress) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.progress = append(m.progress, proto.CloneOf(p))
	return nil
}

// raw is the whole log, or only what one stream holds.
func (m *memory) raw(stream uint32) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out bytes.Buffer
	for i, c := range m.chunks {
		if c.GetSequence() != uint64(i+1) || c.GetChecksum() != domain.Checksum(c.GetData()) ||
			len(c.GetData()) > chunkBytesMax {
			return fmt.Sprintf("chunk %d is broken: %v", i, c.GetSequence())
		}
		if stream == 0 || c.GetStream() == stream {
			out.Write(c.GetData())
		}
	}
	return out.String()
}

// until waits until the log holds text.
func (m *memory) until(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !strings.Contains(m.raw(0), text) {
		select {
		case <-m.grew:
		case <-deadline:
			t.Fatalf("%q did not appear in %q", text, m.raw(0))
		}
	}
}

type bench struct {
	t      *testing.T
	sink   *memory
	stops  chan Stop
	order  Order
	box    isolate.Sandbox
	result *runnerv1.Result
}

func newBench(t *testing.T, steps ...plan.Step) *bench {
	t.Helper()
	var id [16]byte
	_, _ = rand.Read(id[:])
	run := domain.RunID(domain.EncodeID(domain.PrefixRun, id))
	attempt := run.Job(0).Attempt(1)
	for i := range steps {
		steps[i].Index = i
		if steps[i].Uses == "" {
			steps[i].Uses = plan.UsesRun
		}
		if steps[i].ID == "" {
			steps[i].ID = fmt.Sprintf("__run_%d", i)
		}
		if steps[i].Name == "" {
			steps[i].Name = "Step " + fmt.Sprint(i)
		}
	}
	b := &bench{t: t, sink: &memory{grew: make(chan struct{}, 1)}, stops: make(chan Stop, 1)}
	b.order = Order{
		Server: "http://127.0.0.1:1",
		Env:    []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"},
		Runner: Runner{Name: "test"},
		Manifest: &manifest.Manifest{
			Version: manifest.Version, Run: run, Job: run.Job(0), Attempt: attempt, Number: 1, Epoch: 7,
			RepositoryName: "acme/shop", JobKey: "test", RunNumber: 12, IdempotencyKey: "idem",
			Source: manifest.Source{Commit: strings.Repeat("a", 40), Ref: "refs/heads/main", Path: "/source/x.git"},
			Github: json.RawMessage(
				`{"sha":"abc","ref":"refs/heads/main","ref_name":"main","actor":"ann","event":{"inputs":{"a":"b"}}}`),
			Inputs: json.RawMessage(`{"who":"world"}`),
			Needs:  json.RawMessage(`{"build":{"result":"success","outputs":{"digest":"d1"}}}`),
			Steps:  steps, TimeoutSeconds: 60,
			Limits: manifest.Limits{GraceSeconds: 1},
		},
	}
	box, err := process.New().Prepare(t.Context(), isolate.Spec{
		ID: string(attempt), Dir: filepath.Join(t.TempDir(), "box"),
	})
	if err != nil {
		t.Fatal(err)
	}
	b.box = box
	t.Cleanup(func() {
		if err := box.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) run() *bench {
	b.t.Helper()
	b.result = Run(b.t.Context(), b.order, b.box, b.sink, b.stops)
	return b
}

func (b *bench) want(outcome domain.Outcome, class domain.FailureClass, message string) *bench {
	b.t.Helper()
	r := b.result
	if r.GetOutcome() != string(outcome) || r.GetFailureClass() != string(class) ||
		!strings.Contains(r.GetMessage(), message) {
		b.t.Errorf("result %s/%s %q, want %s/%s %q\nlog: %q", r.GetOutcome(), r.GetFailureClass(), r.GetMessage(),
			outcome, class, message, b.sink.raw(0))
	}
	if !domain.Digest(r.GetDigest()).Valid() || r.GetLogEnd() != uint64(len(b.sink.chunks)) {
		b.t.Errorf("digest %q, log end %d of %d", r.GetDigest(), r.GetLogEnd(), len(b.sink.chunks))
	}
	return b
}

// steps compares "outcome/conclusion" of all steps.
func (b *bench) steps(want ...string) *bench {
	b.t.Helper()
	var got []string
	for _, s := range b.result.GetSteps() {
		got = append(got, s.GetOutcome()+"/"+s.GetConclusion())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		b.t.Errorf("steps %v, want %v", got, want)
	}
	return b
}

func (b *bench) log(want string) *bench {
	b.t.Helper()
	// A shell may say that a program it waited for was terminated.
	if got := strings.ReplaceAll(b.sink.raw(streamStep), "Terminated\n", ""); got != want {
		b.t.Errorf("log %q, want %q", got, want)
	}
	return b
}

func TestStepsSeeTheirContextsAndVariables(t *testing.T) {
	b := newBench(t,
		plan.Step{ID: "one", Script: `echo "a=1" >> $GITHUB_OUTPUT; echo "FROM_FILE=x y" >> "$GITHUB_ENV"
echo /extra/bin >> $GITHUB_PATH`},
		plan.Step{Name: "Greet ${{ inputs.who }}", Env: []plan.Binding{{Name: "MINE",
			Value: "${{ steps.one.outputs.a }}-${{ env.FROM_FILE }}"}},
			Script: `echo "$MINE ${{ inputs.who }} ${{ needs.build.outputs.digest }} ${{ job.status }} ${{ runner.os }}"
echo "$CI $GITHUB_ACTIONS $GITHUB_SHA $GITHUB_REF_NAME $GITHUB_JOB $GITHUB_RUN_NUMBER" \
  "$FAIRLEAD_IDEMPOTENCY_KEY $FAIRLEAD_ATTEMPT"
test "$GITHUB_WORKSPACE" = "$PWD" && test -d "$RUNNER_TEMP" -a -d "$HOME" -a -f "$GITHUB_STEP_SUMMARY"
test -z "$FROM_OTHER_STEP"
case "$PATH" in /extra/bin:*) echo path;; esac; cat $GITHUB_EVENT_PATH`},
	)
	b.run().want(domain.OutcomeSuccess, "", "").steps("success/success", "success/success").log(
		"1-x y world d1 success Linux\ntrue true abc main test 12 idem " + string(b.order.Manifest.Attempt) +
			"\npath\n" + `{"inputs":{"a":"b"}}`)
}

// Promises: [RNR-7].
func TestTheRunnersEnvironmentDoesNotLeak(t *testing.T) {
	t.Setenv("SECRET_OF_THE_RUNNER", "canary")
	b := newBench(t, plan.Step{Script: "env; " +
		"cat /proc/self/environ | tr '\\0' '\\n'"}).run().want(domain.OutcomeSuccess, "", "")
	if strings.Contains(b.sink.raw(0), "canary") {
		t.Error("it leaked")
	}
}

func TestContinueOnErrorKeepsOutcomeApartFromConclusion(t *testing.T) {
	newBench(t,
		plan.Step{ID: "x", SoftFail: true, Script: "exit 1"},
		plan.Step{Script: "echo ${{ steps.x.outcome }} ${{ steps.x.conclusion }}"},
		plan.Step{If: "failure()", Script: "echo never"},
		plan.Step{ID: "skipped", If: "false", Script: "echo never"},
		plan.Step{Script: "echo ${{ steps.skipped.outcome }} ${{ steps.skipped.conclusion }}"},
	).run().want(domain.OutcomeSuccess, "", "").
		steps("failure/success", "success/success", "skipped/skipped", "skipped/skipped", "success/success").
		log("failure success\nskipped skipped\n")
}

func TestFailureSkipsWhatFollowsButNotWhatAsksForIt(t *testing.T) {
	newBench(t,
		plan.Step{Script: "exit 3"},
		plan.Step{Script: "echo never"},
		plan.Step{If: "failure()", Script: "echo on failure"},
		plan.Step{If: "always()", Script: "echo always"},
		plan.Step{Cleanup: true, Script: "echo cleanup"},
	).run().want(domain.OutcomeFailure, domain.FailureUserCode, "step 1 (Step 0): ended with exit code 3").
		steps("failure/failure", "skipped/skipped", "success/success", "success/success", "success/success").
		log("on failure\nalways\ncleanup\n")
}

func TestShells(t *testing.T) {
	for _, c := range []struct{ shell, script, outcome string }{
		{"", "false | true", "success"},
		{"bash", "false | true", "failure"},
		{"", "true | false", "failure"},
		{"sh", "false; echo no", "failure"},
		{"bash -e {0}", "false | true", "success"},
		{"cat {0}", "text", "success"},
		{"'sh' \"-c\" 'exit 0' {0}", "x", "success"},
		{"bash", "", "success"},
	} {
		b := newBench(t, plan.Step{Shell: c.shell, Script: c.script}).run()
		if got := b.result.GetSteps()[0].GetOutcome(); got != c.outcome {
			t.Errorf("shell %q, script %q: %s, want %s (%s)", c.shell, c.script, got, c.outcome, b.result.GetMessage())
		}
	}
	newBench(t, plan.Step{Shell: "no-such-shell {0}"}).run().
		want(domain.OutcomeFailure, domain.FailureInvalid, `the shell "no-such-shell" is not installed on this runner`)
	newBench(t, plan.Step{Shell: "zsh"}).run().want(domain.OutcomeFailure, domain.FailureInvalid, "has no {0}")
}

func TestWorkingDirectory(t *testing.T) {
	newBench(t,
		plan.Step{Script: "mkdir -p a/b; pwd > a/b/here"},
		plan.Step{WorkDir: "a/${{ 'b' }}", Script: "cat here | grep -q . && basename $PWD"},
		plan.Step{WorkDir: "missing", Script: "true"},
	).run().want(domain.OutcomeFailure, domain.FailureUserCode, "no such file or directory").log("b\n")
}

func TestAStepTimesOut(t *testing.T) {
	b := newBench(t,
		plan.Step{TimeoutSeconds: 1, Script: "trap '' TERM; sleep 100 & wait; sleep 100; sleep 100"},
		plan.Step{If: "always()", Script: "echo after"},
	)
	begun := time.Now()
	b.run().want(domain.OutcomeTimedOut, domain.FailureTimeout, "timed out after 1s").
		steps("timed_out/timed_out", "success/success").log("after\n")
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestAJobTimesOut(t *testing.T) {
	b := newBench(t, plan.Step{Script: "sleep 100"}, plan.Step{If: "always()", Script: "echo never"},
		plan.Step{Cleanup: true, Script: "echo tidy"})
	b.order.Manifest.TimeoutSeconds = 1
	b.run().want(domain.OutcomeTimedOut, domain.FailureTimeout, "timed out").
		steps("cancelled/cancelled", "cancelled/cancelled", "success/success").log("tidy\n")
}

// Promises: [CANCEL-8].
func TestCancelRunsOnlyCleanupAndOnlyWithinTheGrace(t *testing.T) {
	b := newBench(t,
		plan.Step{Script: "trap 'echo got it; exit 0' TERM; echo up; while :; do sleep 0.01; done"},
		plan.Step{If: "always()", Script: "echo never"},
		plan.Step{Cleanup: true, Script: "echo tidy ${{ job.status }}; sleep 100"},
		plan.Step{Cleanup: true, Script: "echo too late"},
	)
	go func() {
		b.sink.until(t, "up")
		b.stops <- Stop{Reason: "cancelled", Grace: time.Second}
	}()
	b.run().want(domain.OutcomeCancelled, domain.FailureCancelled, "cancelled").
		steps("cancelled/cancelled", "cancelled/cancelled", "cancelled/cancelled", "cancelled/cancelled").
		log("up\ngot it\ntidy cancelled\n")
}

// Promises: [CANCEL-5].
func TestWhatIgnoresARequestIsKilled(t *testing.T) {
	b := newBench(t, plan.Step{Script: "trap '' TERM; setsid sh -c 'sleep 300' & echo up; while :; do sleep 1; done"})
	go func() {
		b.sink.until(t, "up")
		b.stops <- Stop{Reason: "cancelled", Grace: 100 * time.Millisecond}
	}()
	b.run().want(domain.OutcomeCancelled, domain.FailureCancelled, "cancelled")
}

func TestAKilledJobSaysWhy(t *testing.T) {
	b := newBench(t, plan.Step{Script: "echo up; sleep 100"}, plan.Step{If: "always()", Script: "echo never"})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		b.sink.until(t, "up")
		cancel(&Killed{domain.FailureRunnerLost, "the lease ran out"})
	}()
	b.result = Run(ctx, b.order, b.box, b.sink, b.stops)
	b.want(domain.OutcomeFailure, domain.FailureRunnerLost, "the lease ran out").log("up\n")
}

func TestCommandFileErrorsFailTheStep(t *testing.T) {
	for script, want := range map[string]string{
		`echo EOF >> $GITHUB_OUTPUT`:                                "neither = nor <<",
		`printf 'A=1\nx<<EOF\nlast' >> $GITHUB_ENV`:                 "matching delimiter not found",
		`echo NODE_OPTIONS=--require=/x >> $GITHUB_ENV`:             "NODE_OPTIONS",
		`rm $GITHUB_OUTPUT; ln -s /etc/passwd $GITHUB_OUTPUT`:       "GITHUB_OUTPUT",
		`rm $GITHUB_ENV; mkfifo $GITHUB_ENV`:                        "no longer a plain file",
		`head -c 5000000 /dev/zero | tr '\0' a > $GITHUB_ENV`:       "larger than",
		`printf 'a=%01100000d' 1 >> $GITHUB_OUTPUT`:                 "outputs of this job exceed",
		`echo "::set-env name=A::b"`:                                "not available",
		`rm -rf $(dirname $GITHUB_ENV)/*; ln -s / $GITHUB_ENV || :`: "GITHUB_ENV",
	} {
		newBench(t, plan.Step{Script: script}).run().want(domain.OutcomeFailure, domain.FailureUserCode, want)
	}
	newBench(t, plan.Step{ID: "a", SoftFail: true, Script: `printf 'k=1\nbad\nz=2\n' >> $GITHUB_OUTPUT`},
		plan.Step{Script: "echo ${{ steps.a.outputs.k }},${{ steps.a.outputs.z }},"}).run().log("1,,\n")
}

// Promises: [LOG-10].
func TestMasksHideFromTheVeryNextByte(t *testing.T) {
	newBench(t, plan.Step{Script: `echo "::add-mask::abc%0Ddef%0Aghi%0D%0Ajkl"; echo "::add-mask:: %0D  %0A"
for w in abc def ghi jkl; do echo "<$w>"; done; printf 'ab'; sleep 0.1; printf 'c err\n' >&2; echo other`}).run().
		log("::add-mask::***\n::add-mask:: %0D  %0A\n<***>\n<***>\n<***>\n<***>\n*** err\nother\n")
}

func TestStopCommands(t *testing.T) {
	newBench(t, plan.Step{ID: "a", Script: `echo "::stop-commands::tok"; echo "::set-output name=x::1"
echo "::tok::"; echo "::set-output name=y::2"`},
		plan.Step{Script: "echo ${{ steps.a.outputs.x }},${{ steps.a.outputs.y }}"}).run().
		want(domain.OutcomeSuccess, "", "").
		log("::stop-commands::tok\n::set-output name=x::1\n::tok::\n::set-output name=y::2\n,2\n")
}

func TestBothOutputsKeepTheirOrder(t *testing.T) {
	newBench(t, plan.Step{Script: "for i in 1 2 3; do echo out $i; echo err $i >&2; done"}).run().
		log("out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n")
}

// Promises: [LOG-11].
func TestHostileOutputArrivesByteForByte(t *testing.T) {
	b := newBench(t, plan.Step{Script: `printf '\377\376\000\r\n  ::'; head -c 10000000 /dev/zero | tr '\0' x; i=0
while [ $i -lt 20 ]; do head -c 100000 /dev/zero | tr '\0' y; echo; i=$((i+1)); done; printf 'done'`}).run().
		want(domain.OutcomeSuccess, "", "")
	got := b.sink.raw(0)
	want := "\xff\xfe\x00\r\n  ::" + strings.Repeat("x", 10_000_000) + strings.Repeat(strings.Repeat("y",
		100_000)+"\n", 20) + "done"
	if got != want {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}

// Promises: [LOG-9].
func TestOutputOverTheLimitIsCountedAndMarked(t *testing.T) {
	b := newBench(t, plan.Step{Script: "head -c 300000 /dev/zero | tr '\\0' a; echo; exit 0"},
		plan.Step{Script: "echo next"},
		plan.Step{Script: "head -c 300000 /dev/zero | tr '\\0' b"})
	b.order.Manifest.Limits.StepLogBytes, b.order.Manifest.Limits.AttemptLogBytes = 200_000, 250_000
	b.run().want(domain.OutcomeSuccess, "", "")
	var dropped uint64
	marks := make(map[string]int)
	for _, c := range b.sink.chunks {
		dropped += c.GetDroppedBytes()
		if c.GetMark() != "" {
			marks[c.GetMark()]++
		}
	}
	kept := len(b.sink.raw(streamStep))
	if kept != 250_000 || dropped != 600_006-250_000 || marks["truncated:step"] == 0 || marks["truncated:attempt"] == 0 {
		t.Errorf("kept %d, dropped %d, marks %v", kept, dropped, marks)
	}
	if !strings.Contains(b.sink.raw(streamRunner), "over its limit") {
		t.Error("the truncation can't be seen")
	}
}

func TestAFullSinkCostsOutputNotTheJob(t *testing.T) {
	b := newBench(t, plan.Step{Script: "echo first; sleep 0.2; echo lost; sleep 0.2; echo last"})
	b.sink.refuse = func(c *runnerv1.Chunk) error {
		if strings.Contains(string(c.GetData()), "lost") {
			return ErrDropped
		}
		return nil
	}
	b.run().want(domain.OutcomeSuccess, "", "").log("first\nlast\n")
	for _, c := range b.sink.chunks {
		if c.GetMark() == "truncated:spool" && c.GetDroppedBytes() == 5 {
			return
		}
	}
	t.Error("no mark stands for what was lost")
}

func TestABrokenSinkIsAPlatformError(t *testing.T) {
	b := newBench(t, plan.Step{Script: "echo x; sleep 100"})
	b.sink.refuse = func(*runnerv1.Chunk) error { return fmt.Errorf("write spool: no space left on device") }
	b.result = Run(t.Context(), b.order, b.box, b.sink, b.stops)
	if b.result.GetFailureClass() != string(domain.FailurePlatform) || !strings.Contains(b.result.GetMessage(),
		"no space left") {
		t.Errorf("%v", b.result)
	}
}

func TestWhatAStepLeavesBehindMayPrintUntilTheEnd(t *testing.T) {
	newBench(t,
		plan.Step{Script: "(while [ ! -e go ]; do sleep 0.01; done; echo from behind; touch went) & echo ready"},
		plan.Step{Script: "touch go; while [ ! -e went ]; do sleep 0.01; done"},
	).run().want(domain.OutcomeSuccess, "", "").log("ready\nfrom behind\n")
}

func TestEffectsAreSaidOnlyOfEffectfulJobs(t *testing.T) {
	for script, want := range map[string]domain.SideEffect{"exit 0": domain.EffectConfirmed,
		"exit 1": domain.EffectUnknown} {
		b := newBench(t, plan.Step{Script: script})
		b.order.Manifest.Effectful = true
		if got := b.run().result.GetEffect(); got != string(want) {
			t.Errorf("%s: %s", script, got)
		}
	}
	b := newBench(t, plan.Step{If: "${{ broken", Script: "exit 0"})
	b.order.Manifest.Effectful = true
	b.run().want(domain.OutcomeFailure, domain.FailureInvalid, "condition")
	if got := b.result.GetEffect(); got != string(domain.EffectNone) {
		t.Errorf("before any step: %s", got)
	}
}

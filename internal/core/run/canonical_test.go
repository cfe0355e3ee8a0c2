package run

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// canonical is a state that a run can be in, as a story that leads there. Job "test" (or
// "deploy", where effects matter) is the one in the named state.
type canonical struct {
	name  string
	says  string
	story []string // commands, one block each; lines of a block separated by newlines
	job   string
	wait  ReasonCode // why the job waits; empty: it doesn't
	ends  []ending
}

// ending is a way out of a wait, and the command that takes it.
type ending struct{ kind, what, command string }

const (
	oneTest   = "request\njob test backoff=60s"
	oneDeploy = "request\njob deploy effectful"
	toCancel  = "cancel by=ben"
)

// tidy:long a table of one state each
func canonicals() []canonical {
	cancel := ending{EndsByPerson, "RequestCancel", toCancel}
	return []canonical{
		{name: "no run", says: "Nobody has requested the run.", job: "test"},
		{
			name: "waiting for needs", says: "A need has no outcome yet.", job: "test", wait: ReasonNeedsUnfinished,
			story: []string{"request\njob build\njob test needs=build", "lease build"},
			ends:  []ending{{EndsByEvent, "JobConcluded", "report build/a1 success"}, cancel},
		},
		{
			name: "waiting for its condition", says: "The condition is over values and was asked for.", job: "test",
			wait: ReasonEvaluating, story: []string{"request\njob test if=\"github.ref == 'refs/heads/main'\""},
			ends: []ending{
				{EndsByEvent, "EvaluationRecorded", "evaluate test true"}, {EndsByTimer, "Wake", "wake at=01:00:00"}, cancel,
			},
		},
		{
			name: "waiting for its matrix", says: "The condition holds, and the legs are asked for.", job: "test",
			wait: ReasonExpanding, story: []string{"request\njob test later"},
			ends: []ending{
				{EndsByEvent, "MatrixExpanded", "matrix test legs=a,b"}, {EndsByTimer, "Wake", "wake at=01:00:00"}, cancel,
			},
		},
		{
			name: "its legs run", says: "A job with a matrix; it concludes as its legs do.", job: "test",
			wait: ReasonLegsUnfinished, story: []string{"request\njob test legs=1", "lease test.1"},
			ends: []ending{{EndsByEvent, "JobConcluded", "report test.1/a1 success"}, {EndsByPerson, "RequestCancel", ""}},
		},
		{
			name: "a leg whose job has not begun", says: "The condition of its job is not decided.", job: "test.1",
			wait:  ReasonMatrixUnexpanded,
			story: []string{"request\njob build\njob test needs=build legs=1", "lease build"},
			ends: []ending{
				{EndsByEvent, "MatrixExpanded", "report build/a1 success"},
				{EndsByEvent, "JobConcluded", "report build/a1 failure"}, cancel,
			},
		},
		{
			name: "a leg that waits for a place", says: "As many legs run as may at the same time.", job: "test.2",
			wait: ReasonMaxParallel, story: []string{"request\njob test legs=2 parallel=1", "lease test.1"},
			ends: []ending{{EndsByEvent, "JobConcluded", "report test.1/a1 success"}, cancel},
		},
		{
			name: "called, its call has not begun", says: "What the caller needs is not done.", job: "test/a",
			wait:  ReasonCallUnopened,
			story: []string{"request\njob build\njob test needs=build calls\njob test/a", "lease build"},
			ends: []ending{
				{EndsByEvent, "CallOpened", "report build/a1 success"},
				{EndsByEvent, "JobConcluded", "report build/a1 failure"}, cancel,
			},
		},
		{
			name: "a call that waits for its inputs", says: "Its condition holds, and the values of its inputs are asked for.",
			job: "test", wait: ReasonCallInputs, story: []string{"request\njob test calls=ask\njob test/a"},
			ends: []ending{
				{EndsByEvent, "CallOpened", "call test inputs"}, {EndsByTimer, "Wake", "wake at=01:00:00"},
				{EndsByPerson, "RequestCancel", ""},
			},
		},
		{
			name: "the jobs that it calls run", says: "A job that calls a workflow; it concludes as the jobs of that do.",
			job: "test", wait: ReasonCallUnfinished,
			story: []string{"request\njob test calls\njob test/a", "lease test/a"},
			ends:  []ending{{EndsByEvent, "JobConcluded", "report test/a/a1 success"}, {EndsByPerson, "RequestCancel", ""}},
		},
		{
			name: "a call that waits for its outputs", says: "The jobs that it calls have ended.",
			job: "test", wait: ReasonCallOutputs,
			story: []string{"request\njob test calls outputs\njob test/a", "lease test/a", "report test/a/a1 success"},
			ends: []ending{
				{EndsByEvent, "JobConcluded", "call test outputs outputs=id:x"}, {EndsByTimer, "Wake", "wake at=01:00:00"},
				{EndsByPerson, "RequestCancel", ""},
			},
		},
		{
			name: "held by its concurrency group", says: "Another member of the group goes on.", job: "test",
			wait: ReasonGroup, story: []string{"request\njob test group=g", "place test joined ahead=run8"},
			ends: []ending{{EndsByEvent, "GroupAdmitted", "place test admitted"},
				{EndsByEvent, "GroupReplaced", "place test superseded by=run9"}, cancel},
		},
		{
			name: "held by the run's concurrency group", says: "Another run of the group goes on.", job: "test",
			wait: ReasonGroup, story: []string{"request group=g\njob test"},
			ends: []ending{{EndsByEvent, "GroupAdmitted", "place run admitted"},
				{EndsByEvent, "GroupReplaced", "place run superseded by=run9"}, cancel},
		},
		{
			name: "waiting for the name of its group", says: "The name is over values and was asked for.", job: "test",
			wait: ReasonGroupEvaluating, story: []string{"request\njob test named-later"},
			ends: []ending{{EndsByEvent, "GroupAsked", "concurrency test group=g"}, {EndsByTimer, "Wake", "wake at=01:00:00"},
				cancel},
		},
		{
			name: "yielding to a newer member", says: "The group asked it to stop.", job: "test",
			wait:  ReasonYieldGrace,
			story: []string{"request\njob test group=g", "place test admitted", "lease test", "place test yield by=run9"},
			ends: []ending{{EndsByEvent, "AttemptConcluded", "report test/a1 cancelled"},
				{EndsByEvent, "LeaseLapsed", "lapse test/a1 at=00:10:00"}, {EndsByPerson, "RequestCancel", ""}},
		},
		{
			name: "held for back-off", says: "An attempt failed and the next one waits.", job: "test",
			wait: ReasonRetryBackoff, story: []string{oneTest, "lease test", "report test/a1 failure class=platform_error"},
			ends: []ending{{EndsByTimer, "Wake", "wake at=00:01:00"}, cancel},
		},
		{
			name: "ready", says: "The job waits for a runner and nothing else.", job: "test", wait: ReasonWaitingForRunner,
			story: []string{oneTest},
			ends:  []ending{{EndsByEvent, "LeaseGranted", "lease test"}, {EndsByTimer, "Wake", "wake at=24:00:00"}, cancel},
		},
		{
			name: "active", says: "An attempt holds a lease and executes.", job: "test", wait: ReasonExecuting,
			story: []string{oneTest, "lease test slot=m1/0/1", "progress test/a1 running steps=1:started"},
			ends: []ending{
				{EndsByEvent, "AttemptConcluded", "report test/a1 success"},
				{EndsByEvent, "LeaseLapsed", "lapse test/a1 at=00:01:00"},
				{EndsByTimer, "Wake", "wake at=01:01:00"}, cancel,
			},
		},
		{
			name: "active, another leg failed", says: "A leg beside it failed, and fail-fast ends the others.", job: "test.1",
			wait: ReasonFailFastGrace,
			story: []string{"request\njob test legs=2", "lease test.1 slot=m1/0/1", "lease test.2 slot=m1/0/2",
				"report test.2/a1 failure"},
			ends: []ending{
				{EndsByEvent, "AttemptConcluded", "report test.1/a1 cancelled"},
				{EndsByEvent, "LeaseLapsed", "lapse test.1/a1 at=00:01:00"}, {EndsByPerson, "RequestCancel", ""},
			},
		},
		{
			name: "active, cancel requested", says: "Somebody asked for the run to stop; the runner has not said that it did.",
			job: "test", wait: ReasonCancelGrace,
			story: []string{oneTest, "lease test slot=m1/0/1", "progress test/a1 running steps=1:started", toCancel},
			ends: []ending{
				{EndsByEvent, "AttemptConcluded", "report test/a1 cancelled"},
				{EndsByEvent, "LeaseLapsed", "lapse test/a1 at=00:01:00"},
			},
		},
		{
			name: "active, timeout passed", says: "The server asked for the stop because the timeout passed.", job: "test",
			wait:  ReasonTimeoutGrace,
			story: []string{"request\njob test timeout=10s", "lease test slot=m1/0/1", "wake at=00:01:10"},
			ends: []ending{
				{EndsByEvent, "AttemptConcluded", "report test/a1 cancelled"},
				{EndsByEvent, "LeaseLapsed", "lapse test/a1 at=00:01:11"},
				{EndsByPerson, "RequestCancel", ""}, // changes the run's desired state; the attempt is being stopped already
			},
		},
		{
			name: "uncertain", says: "The runner was not heard in time and might still act.", job: "test",
			wait: ReasonUncertainUntil,
			story: []string{oneTest, "lease test slot=m1/0/1", "progress test/a1 running steps=1:started",
				"lapse test/a1 at=00:01:00"},
			ends: []ending{
				{EndsByEvent, "LeaseRegained", "regain test/a1"}, {EndsByEvent, "AttemptConcluded", "report test/a1 success"},
				{EndsByTimer, "Wake", "wake at=00:01:40"},
				{EndsByPerson, "RequestCancel", ""}, // decides what the end will be, not when
			},
		},
		{
			name: "uncertain and effectful", says: "The same, of a job that may change the outside.", job: "deploy",
			wait: ReasonUncertainUntil,
			story: []string{oneDeploy, "lease deploy slot=m1/0/1", "progress deploy/a1 running steps=1:started",
				"lapse deploy/a1 at=00:01:00"},
			ends: []ending{
				{EndsByEvent, "LeaseRegained", "regain deploy/a1"}, {EndsByEvent, "AttemptConcluded", "report deploy/a1 success"},
				{EndsByTimer, "Wake", "wake at=00:01:40"}, {EndsByPerson, "RequestCancel", ""},
			},
		},
		{
			name: "held for a person", says: "The runner can't be acting any more, but nobody knows what it did.",
			job:  "deploy",
			wait: ReasonUncertainHeld,
			story: []string{
				oneDeploy, "lease deploy slot=m1/0/1", "progress deploy/a1 running steps=1:started",
				"lapse deploy/a1 at=00:01:00",
				"wake at=00:01:40",
			},
			ends: []ending{
				{EndsByPerson, "Settle", "settle deploy/a1 effect=none then=retry by=ben"},
				{EndsByEvent, "AttemptConcluded", "report deploy/a1 success"}, cancel,
			},
		},
		{
			name: "concluded, succeeded", says: "The run has an outcome; the log is not sealed.", job: "test",
			wait:  ReasonLogUnsealed,
			story: []string{oneTest, "lease test slot=m1/0/1", "report test/a1 success digest=d1"},
			ends:  []ending{{EndsByEvent, "LogSealed", "log test/a1 bytes=5 lines=1"}},
		},
		{
			name: "concluded, failed", says: "The run failed, and its log is sealed.", job: "test",
			story: []string{
				oneTest, "lease test slot=m1/0/1", "report test/a1 failure digest=d1 steps=1:failure:1",
				"log test/a1 bytes=5 lines=1",
			},
		},
		{
			name: "concluded, effect unknown", says: "The run was cancelled while a deployment was unreachable.",
			job: "deploy",
			story: []string{
				oneDeploy, "lease deploy slot=m1/0/1", "progress deploy/a1 running steps=1:started",
				"lapse deploy/a1 at=00:01:00", toCancel,
				"wake at=00:01:40", "log deploy/a1",
			},
		},
		{
			name: "invalid", says: "The definition can't be executed.", job: "test",
			story: []string{"request\ninvalid \"ci.yml:3:5: unknown key stepz\""},
		},
	}
}

// arrive plays the story of a canonical state.
func (c canonical) arrive(t *testing.T) *teller {
	t.Helper()
	teller := &teller{world: newWorld()}
	for _, block := range c.story {
		lines, err := teller.tell(strings.Split(block, "\n"))
		if err != nil {
			t.Fatalf("%s: %s: %v", c.name, block, err)
		}
		if strings.HasPrefix(lines[0], "rejected") {
			t.Fatalf("%s: %s: %s", c.name, block, lines[0])
		}
	}
	return teller
}

// TestEveryWaitEnds proves for each reason to wait that a reachable state has it, that the
// state names its cause and its ends, and that every end it names really ends it.
// Promises: [RUN-5].
func TestEveryWaitEnds(t *testing.T) {
	reached := map[ReasonCode]bool{}
	for _, c := range canonicals() {
		if c.wait == "" || c.story == nil {
			continue
		}
		reached[c.wait] = true
		at := func(s *State) (Wait, bool) {
			i := slices.IndexFunc(Waits(s), func(w Wait) bool {
				return w.Reason.Code == c.wait && s.Skeleton(w.Job).Key == c.job
			})
			if i < 0 {
				return Wait{}, false
			}
			return Waits(s)[i], true
		}
		w, ok := at(c.arrive(t).live)
		if !ok {
			t.Errorf("%s: nothing waits because of %s", c.name, c.wait)
			continue
		}
		var named, proven []string
		for _, e := range w.EndedBy {
			named = append(named, e.Kind+" "+e.What)
		}
		for _, e := range c.ends {
			proven = append(proven, e.kind+" "+e.what)
			if e.command == "" {
				continue
			}
			teller := c.arrive(t)
			lines, err := teller.tell([]string{e.command})
			if err != nil {
				t.Fatalf("%s: %s: %v", c.name, e.command, err)
			}
			if after, still := at(teller.live); still && after.CausedBy == w.CausedBy {
				t.Errorf("%s: %s does not end it: %v", c.name, e.command, lines)
			}
		}
		slices.Sort(named)
		slices.Sort(proven)
		if !slices.Equal(named, proven) {
			t.Errorf("%s: the state names the ends %v, proven are %v", c.name, named, proven)
		}
	}
	for _, code := range ReasonCodes() {
		if code.Waits() && !reached[code] {
			t.Errorf("no canonical state waits because of %s", code)
		}
	}
}

const transitionsPage = "../../../docs/reference/transitions.md"

// TestTransitionsPage writes what every command does in every canonical state, by asking
// Decide. The page is generated: -rewrite.
func TestTransitionsPage(t *testing.T) {
	var page bytes.Buffer
	page.WriteString("# Every transition of a run\n\n" +
		"Generated from the code: each entry was made by giving the command to the core in that state. " +
		"An entry is the events that follow, `nothing new` for a repeat that is acknowledged, or the code of the refusal. " +
		"*Rejected* means that nothing happened; *refused* means an answer of no that is kept with its evidence.\n\n" +
		"`go test ./internal/core/run -run TestTransitionsPage -rewrite` writes this page.\n")
	for _, c := range canonicals() {
		if c.story == nil && c.name != "no run" {
			continue
		}
		fmt.Fprintf(&page, "\n## State: %s\n\n%s", c.name, c.says)
		teller := c.arrive(t)
		for _, w := range Waits(teller.live) {
			if w.Reason.Code == c.wait {
				fmt.Fprintf(&page, " Stored reason: `%s`. Caused by: `%s`. Ended by:", c.wait, w.CausedBy.Event)
				for i, e := range w.EndedBy {
					fmt.Fprintf(&page, "%s %s `%s`", map[bool]string{true: ","}[i > 0], e.Kind, e.What)
				}
				page.WriteString(".")
				break
			}
		}
		page.WriteString("\n\n| command | what follows |\n| --- | --- |\n")
		for _, row := range transitionRows(c.job) {
			fmt.Fprintf(&page, "| %s | %s |\n", row.says, c.outcomeOf(t, row.command))
		}
	}
	want, _ := os.ReadFile(transitionsPage)
	if bytes.Equal(want, page.Bytes()) {
		return
	}
	if !*rewrite {
		t.Fatalf("%s is not what the code does; -rewrite it\n%s", transitionsPage,
			firstDifference(string(want), page.String()))
	}
	if err := os.MkdirAll("../../../docs/reference", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(transitionsPage, page.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (c canonical) outcomeOf(t *testing.T, command string) string {
	t.Helper()
	teller := c.arrive(t)
	w := split(strings.Split(command, "\n")[0])
	if at, ok := w.named["after"]; ok { // relative to where the story ended
		teller.now = teller.now.Add(w.duration("after", 0))
		command = strings.Replace(command, "after="+at, "", 1)
	}
	cmd, err := teller.command(split(strings.Split(command, "\n")[0]), strings.Split(command, "\n")[1:])
	if err != nil {
		t.Fatalf("%s: %s: %v", c.name, command, err)
	}
	d, rejection, err := teller.do(cmd)
	if err != nil {
		t.Fatalf("%s: %s: %v", c.name, command, err)
	}
	if rejection != nil {
		return "rejected `" + string(rejection.Code) + "`"
	}
	var parts []string
	for _, e := range d.Events {
		parts = append(parts, transitionText(e))
	}
	if len(parts) == 0 && d.Refusal == nil {
		parts = append(parts, "nothing new")
	}
	if d.Refusal != nil {
		parts = append(parts, "refused `"+string(d.Refusal.Code)+"`")
	}
	return strings.Join(parts, ", ")
}

func transitionText(e Event) string {
	switch e := e.(type) {
	case *AttemptConcluded:
		return fmt.Sprintf("AttemptConcluded (%s)", traceResult(e.Outcome, e.Class))
	case *JobConcluded:
		return fmt.Sprintf("JobConcluded (%s)", e.Outcome)
	case *RunConcluded:
		return fmt.Sprintf("RunConcluded (%s)", e.Outcome)
	case *JobHeld:
		return fmt.Sprintf("JobHeld (%s)", e.Reason.Code)
	}
	return e.Name()
}

type transitionRow struct{ says, command string }

func transitionRows(job string) []transitionRow {
	a := job + "/a1"
	return []transitionRow{
		{"RequestRun", "request\njob test"},
		{"GrantLease, a new slot", "lease " + job + " runner=m9"},
		{"GrantLease, the slot of attempt 1 again", "lease " + job + " slot=m1/0/1"},
		{"GrantLease, pool without the tier", "lease " + job + " runner=m9 accepts=protected"},
		{"DeclineLease", "decline " + a + " reason=busy"},
		{"DeclineLease, stale epoch", "decline " + a + " epoch=99"},
		{"ReportProgress", "progress " + a + " running steps=1:success,2:started"},
		{"ReportProgress, stale epoch", "progress " + a + " running epoch=99"},
		{"ReportResult, success", "report " + a + " success digest=d1 steps=1:success"},
		{"ReportResult, failure of user_code", "report " + a + " failure digest=d2 steps=1:failure:1"},
		{"ReportResult, failure of platform_error", "report " + a + " failure digest=d3 class=platform_error"},
		{"ReportResult, cancelled", "report " + a + " cancelled digest=d4"},
		{"ReportResult, timed_out", "report " + a + " timed_out digest=d5"},
		{"ReportResult, stale epoch", "report " + a + " success digest=d6 epoch=99"},
		{"LapseLease, before the lease ran out", "lapse " + a},
		{"LapseLease, two minutes later", "lapse " + a + " after=2m"},
		{"RegainLease", "regain " + a},
		{"RegainLease, an hour later", "regain " + a + " after=1h"},
		{"RequestCancel", "cancel by=ben"},
		{"Wake, at once", "wake"},
		{"Wake, two minutes later", "wake after=2m"},
		{"Wake, two days later", "wake after=48h"},
		{"RecordEvaluation, true", "evaluate " + job + " true"},
		{"RecordEvaluation, false", "evaluate " + job + " false"},
		{"RecordEvaluation, an error", "evaluate " + job + " false error=broken"},
		{"RecordEvaluation, of other inputs", "evaluate " + job + " true stale"},
		{"RecordMatrix, two legs", "matrix " + job + " legs=a,b"},
		{"RecordMatrix, an error", "matrix " + job + " error=broken"},
		{"RecordMatrix, of other inputs", "matrix " + job + " legs=a stale"},
		{"RecordCall, inputs", "call " + job + " inputs"},
		{"RecordCall, outputs", "call " + job + " outputs outputs=id:x"},
		{"RecordCall, an error", "call " + job + " inputs error=broken"},
		{"RecordCall, of other inputs", "call " + job + " inputs stale"},
		{"Rerun, all", "rerun all by=ben"},
		{"Rerun, failed", "rerun failed by=ben"},
		{"Rerun, this job", "rerun jobs jobs=" + job + " by=ben"},
		{"Settle, then retry", "settle " + a + " effect=none then=retry by=ben"},
		{"Settle, then success", "settle " + a + " effect=confirmed then=success by=ben"},
		{"Settle, then failure", "settle " + a + " effect=unknown then=failure by=ben"},
		{"RecordLog", "log " + a + " bytes=5 lines=1"},
		{"RecordLog, other content", "log " + a + " bytes=6 lines=1"},
		{"RefuseAccess", "refuse " + a + " chunk epoch=99"},
		{"RefuseAccess, many at once", "refuse " + a + " chunk epoch=99 count=40"},
	}
}

package canned

import (
	"fmt"
	"slices"
	"strings"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Names that somebody chose to break a page with.
const hostileName = `"><script>alert(1)</script><b onclick=x>` + "\u202egnp.exe"

var longName = strings.Repeat("a-very-long-name-without-any-place-to-break-it", 6)

// New is a world with a run in every state, and the addresses that show them.
func New(now func() time.Time) (*World, []State) {
	w := Empty(now)
	w.empty = false
	var states []State
	shown := func(name, says string, b *builder) string {
		states = append(states, State{Name: "run-" + name, Path: "/runs/" + b.run.GetRun(), Says: says})
		return b.run.GetRun()
	}
	waiting(w, shown)
	working(w, shown)
	doubtful(w, shown)
	finished(w, shown)
	shaped(w, shown)
	hostile(w, shown)
	live(w, shown)
	legs(w, shown)
	slices.SortStableFunc(w.runs, func(a, b *fairleadv1.Run) int {
		return strings.Compare(b.GetSummary().GetCreated(), a.GetSummary().GetCreated())
	})
	return w, append(states, otherPages(w)...)
}

type show func(name, says string, b *builder) string

func waiting(w *World, shown show) {
	b := w.build(2*time.Second, "Queue me")
	b.state("queued", "It is accepted and its jobs are about to be looked at.")
	b.addJob("test").is("waiting", "Its needs are being looked at.", "the first look of the scheduler")
	b.addJob("package", "test").is("waiting", "It needs test, which has not concluded.", "test concluding")
	shown("queued", "accepted, nothing decided", b)

	b = w.build(73*time.Second, "Train the price model")
	b.state("queued", "Job train waits for a runner with gpu: 3 jobs are ahead of it.")
	j := b.addJob("train").is("ready", "It waits for a runner with gpu: 3 jobs are ahead of it.",
		"a runner with gpu and a free slot")
	j.job.RunsOn = []string{"linux", "gpu"}
	j.segment("no_runner", 0.2, 0, "no runner with gpu has a free slot")
	b.say(0.2, "wait", "JobReady", "Job train is ready; no runner with gpu has a free slot.")
	b.addJob("publish", "train").is("waiting", "It needs train, which has not concluded.", "train concluding").
		segment("needs", 0, 0, "train has not concluded")
	shown("no-runner", "ready, but no runner fits", b)
}

func working(w *World, shown show) {
	b := w.build(64*time.Second, "Round prices half to even")
	b.state("running", "2 jobs are running.")
	b.addJob("lint").works(0.2, 0.6, 9).succeeds(9)
	j := b.addJob("test").works(0.2, 2, 0)
	j.job.Segments = j.job.Segments[:len(j.job.Segments)-2]
	j.segment("running", 3.2, 0, "").steps(3.2, []float64{1.4, 12, 0}, -1).prints(openLog(b.start))
	j.job.Reason = "Attempt 1 is running on build-1."
	j = b.addJob("docs").works(0.2, 50, 0)
	j.job.Segments = j.job.Segments[:1]
	j.segment("no_runner", 0.2, 55, "every slot was busy").segment("preparing", 55, 0, "")
	j.last().Observed.State = "preparing"
	b.addJob("package", "test", "lint").is("waiting", "It needs test, which has not concluded.", "test concluding").
		segment("needs", 0, 0, "test has not concluded")
	b.addJob("deploy-preview", "package").is("held", "Group preview is taken by run 41.", "run 41 leaving the group").
		segment("held", 1, 0, "group preview is taken by run 41")
	shown("running", "two jobs run, one waits, one is held", b)

	b = w.build(95*time.Second, "Stop the world")
	b.run.Desired, b.run.Summary.Desired = "cancel", "cancel"
	b.state("running", "Ana asked to cancel the run; the steps of test have until their grace period ends.")
	j = b.addJob("test").works(0.2, 1, 0)
	j.job.Segments = j.job.Segments[:len(j.job.Segments)-2]
	j.segment("running", 2.2, 0, "").steps(2.2, []float64{1, 4, 0}, -1).prints(openLog(b.start))
	j.last().Requested = &fairleadv1.Requested{Desired: "cancel", By: "ana", At: b.at(90), Reason: "wrong branch"}
	j.last().Observed.At = b.at(93)
	j.job.Reason = "It was asked to stop 5 seconds ago and still runs."
	j.job.EndsBy = "the end of its processes, or the kill after the grace period"
	b.say(90, "request", "CancelRequested", "Ana asked to cancel the run: wrong branch.")
	b.run.Timeline[len(b.run.GetTimeline())-1].Actor = "ana"
	shown("cancel-requested", "asked to stop, not stopped", b)
}

// legs is a run with a matrix: one leg failed, one is being stopped for it, one never began.
func legs(w *World, shown show) {
	b := w.build(84*time.Second, "Support two more systems")
	b.state("running", "Jobs: 1 active, 1 expanded, 1 waiting, 3 concluded.")
	prep := b.addJob("list").works(0.2, 0.6, 4).succeeds(4)
	prep.job.Outputs = []*fairleadv1.Output{{Name: "systems", Value: `["linux", "mac", "bsd"]`, Bytes: 23},
		{Name: "notes", Bytes: 6144}}
	group := b.addJob("test", "list").is("expanded", "Waits for its legs: test.2.", "the event JobConcluded of test.2").
		segment("running", 4, 0, "its legs run")
	group.job.Legs = []string{"test.1", "test.2", "test.3"}
	b.addJob("ship", "test").is("waiting", "Waits for test.", "the event JobConcluded of test").
		segment("needs", 0, 0, "test has not concluded")
	leg := func(n int, system string) *jobBuilder {
		j := b.addJob(fmt.Sprintf("test.%d", n), "list")
		j.job.Name, j.job.LegOf = fmt.Sprintf("test (%s)", system), "test"
		return j
	}
	j := leg(1, "linux").works(4, 5, 40)
	j.steps(6, []float64{1, 33}, 2).ends(40, "failure", "user_code", "step 2 (Run make test): ended with exit code 2")
	j = leg(2, "mac").works(4, 5, 0)
	j.last().Requested = &fairleadv1.Requested{Desired: "cancel", At: b.at(41),
		Reason: "test.1 failed, and fail-fast ends the other legs; attempt 1 may tidy up until 12:00:51 UTC."}
	j.job.Reason = j.last().GetRequested().GetReason()
	j = leg(3, "bsd")
	j.job.State, j.job.Outcome, j.job.Concluded = "concluded", "cancelled", b.at(41)
	j.job.Reason = "Cancelled: test.1 failed, and fail-fast ends the other legs."
	shown("matrix", "a job with a matrix: one leg failed, one is being stopped, one never began", b)
}

func doubtful(w *World, shown show) {
	b := w.build(4*time.Minute, "Lose a runner")
	b.state("running", "Job test is uncertain: its runner has been silent for 70 seconds.")
	j := b.addJob("test").works(0.2, 1, 170)
	lose(j, 170, "Its result is not known. A new attempt starts when its runner must have given up.")
	j.last().AbandonBy = b.at(270)
	j.job.Reason = "Attempt 1 is uncertain: runner build-1 was last heard of 70 seconds ago."
	j.job.EndsBy = "the time by which its runner gives up, or a person"
	shown("uncertain", "lost contact; a new attempt follows by itself", b)

	b = w.build(31*time.Minute, "Release 2.4")
	b.state("attention", "Job deploy waits for a person: its runner was lost after it may have changed the outside.")
	b.addJob("test").works(0.2, 1, 90).succeeds(90)
	j = b.addJob("deploy", "test")
	j.job.Effectful = true
	j.works(90, 92, 170)
	lose(j, 170, "Look at the target: did the deployment take place? Then settle the attempt here.")
	j.last().SideEffect = "unknown"
	j.job.Reason = "Attempt 1 is uncertain and the job is effectful, so nothing starts by itself."
	j.job.EndsBy = "a person who settles attempt 1"
	j.last().Refused = 2
	b.say(1500, "refuse", "ReportRefused", "A late report of attempt 1 was refused (lease_epoch_stale) and kept.")
	shown("uncertain-effectful", "held for a person", b)

	b = w.build(50*time.Second, "Try again in a moment")
	b.state("running", "Job test waits 20 seconds before attempt 2.")
	j = b.addJob("test").works(0.2, 1, 20).ends(20, "failure", "platform_error", "pull image: registry answered 503")
	j.steps(2, []float64{1}, 0).prints(testLog(b.start, false))
	j.is("held", "Attempt 1 failed by the platform; attempt 2 starts after a back-off.", "a timer")
	j.job.Outcome = ""
	j.segment("backoff", 20, 0, "attempt 2 starts 40 seconds after attempt 1 ended")
	b.say(20, "retry", "RetryScheduled", "Attempt 1 of test failed by the platform (platform_error); attempt 2 follows.")
	shown("backoff", "a retry waits for its time", b)
}

// lose makes the newest attempt one whose runner fell silent.
func lose(j *jobBuilder, second float64, next string) {
	a := j.last()
	a.Observed = &fairleadv1.Observation{State: "unreachable", At: j.at(second - 10)}
	a.Uncertain, a.NextStep, a.SideEffect = true, next, "none"
	j.job.Segments = j.job.Segments[:len(j.job.Segments)-1]
	j.segment("uncertain", second, 0, "no contact with the runner")
	j.steps(2.2, []float64{1, 3, 0}, -1).prints(openLog(j.start))
	j.say(second, "wait", "LeaseLapsed", "Runner build-1 fell silent; attempt 1 is uncertain.")
}

func finished(w *World, shown show) {
	b := w.build(22*time.Minute, "Round prices half to even")
	b.addJob("lint").works(0.2, 0.8, 8).succeeds(8)
	b.addJob("test", "lint").works(8, 8.6, 71).succeeds(71)
	b.addJob("package", "test").works(71, 71.3, 90).succeeds(90)
	b.conclude(90, "success", "Every job succeeded.")
	shown("success", "all is well", b)

	b = w.build(47*time.Minute, "Break the rounding")
	b.addJob("lint").works(0.2, 0.8, 8).succeeds(8)
	j := b.addJob("test").works(0.2, 1, 58).ends(58, "failure", "user_code", "step go test ./... exited with 1")
	j.steps(2.2, []float64{1.2, 9, 44}, 1).prints(testLog(b.start, true))
	j.job.Reason = "Step go test ./... exited with 1."
	j.last().Conflicts = 1
	b.say(58, "fail", "AttemptConcluded", "Attempt 1 of test failed: step go test ./... exited with 1.")
	packaging := b.addJob("package", "test").is("concluded", "It needs test, which failed.", "").job
	packaging.Outcome, packaging.Story = "skipped", "package was skipped because it depends on test, which concluded "+
		"failure, because step 3 'go test ./...' exited with 1."
	b.say(58, "skip", "JobSkipped", "Job package was skipped because it needs test, which failed.")
	b.conclude(58.2, "failure", "Job test failed: step go test ./... exited with 1.")
	shown("failure", "a step failed, what needs it was skipped", b)

	b = w.build(3*time.Hour, "Tolerate the nightly compiler")
	b.addJob("test").works(0.2, 1, 40).succeeds(40)
	j = b.addJob("nightly").works(0.2, 1, 36).ends(36, "failure", "user_code", "step go build ./... exited with 2")
	j.job.Outcome = "soft_failure"
	j.steps(2, []float64{1, 30}, 2).prints(testLog(b.start, true))
	j.job.Reason = "It failed, and continue-on-error lets the run go on."
	b.conclude(40.3, "success", "Every job succeeded, or may fail: nightly did.")
	shown("soft-failure", "a job that may fail did", b)

	b = w.build(5*time.Hour, "Wait for ever")
	j = b.addJob("test").works(0.2, 1, 600).ends(600, "timed_out", "timeout", "the job's limit of 10 minutes was reached")
	j.steps(2, []float64{1, 3, 590}, 0).prints(testLog(b.start, false))
	j.last().Steps[2].Outcome, j.last().Steps[2].Conclusion = "cancelled", "cancelled"
	j.job.Reason = "The job's limit of 10 minutes was reached."
	b.conclude(600.5, "failure", "Job test timed out after 10 minutes.")
	shown("timed-out", "a limit was reached", b)

	b = w.build(26*time.Hour, "Never mind")
	j = b.addJob("test").works(0.2, 1, 30).ends(30, "cancelled", "cancelled", "")
	j.steps(2, []float64{1, 3, 24}, 0).prints(testLog(b.start, false))
	j.last().Requested = &fairleadv1.Requested{Desired: "cancel", By: "ana", At: b.at(25)}
	j.job.Reason = "Ana cancelled it."
	b.addJob("package", "test").is("concluded", "The run was cancelled before it started.", "").job.Outcome = "skipped"
	b.run.Desired = "cancel"
	b.say(25, "request", "CancelRequested", "Ana asked to cancel the run.")
	b.conclude(30.2, "cancelled", "Ana cancelled the run.")
	shown("cancelled", "stopped by a person", b)

	b = w.build(27*time.Hour, "Skip everything")
	b.addJob("docs").is("concluded", "Its condition is false: no file under docs/ changed.", "").job.Outcome = "skipped"
	b.conclude(0.3, "success", "Every job was skipped by its condition.")
	shown("skipped", "conditions were false", b)

	b = w.build(28*time.Hour, "Mistype a key")
	b.run.Diagnostics = []string{
		".fairlead/workflows/ci.yaml:7:5: error: unknown key \"stepz\" [unknown_key]\n" +
			"      stepz:\n      ^~~~~\ndid you mean steps?",
		".fairlead/workflows/ci.yaml:12:12: error: job package needs tset, which is not a job [unknown_need]",
	}
	b.conclude(0.1, "invalid", "The workflow can't be executed: 2 errors.")
	shown("invalid", "the definition has errors", b)
}

func shaped(w *World, shown show) {
	b := w.build(30*time.Hour, "Pass at the third round")
	j := b.addJob("test").works(0.2, 1, 30).ends(30, "lost", "runner_lost", "no result came")
	j.steps(2, []float64{1, 3, 0}, -1).prints(testLog(b.start, false))
	j.segment("backoff", 30, 40, "attempt 2 starts 10 seconds after attempt 1 was given up").works(40, 41, 80)
	j.ends(80, "failure", "user_code", "step go test ./... exited with 1").steps(43, []float64{1, 3, 30}, 1)
	j.prints(testLog(b.start, true))
	j.job.Round = 2
	j.works(3600, 3601, 3650).ends(3650, "failure", "user_code", "step go test ./... exited with 1")
	j.steps(3602, []float64{1, 3, 40}, 1).prints(testLog(b.start, true))
	j.job.Round = 3
	j.works(90000, 90002, 90060).ends(90060, "success", "", "").steps(90003, []float64{1, 3, 50}, 0)
	j.prints(testLog(b.start, false))
	var kept []*fairleadv1.Segment
	for _, s := range j.job.GetSegments() {
		if s.GetKind() != "needs" {
			kept = append(kept, s)
		}
	}
	j.job.Segments, j.job.Reason = kept, "It succeeded in round 3."
	b.run.Rounds = []*fairleadv1.Round{
		{Number: 1, Outcome: "failure", Mode: "first", By: "ana", Opened: b.at(0), Concluded: b.at(80.5)},
		{Number: 2, Outcome: "failure", Mode: "failed", By: "ana", Opened: b.at(3600), Concluded: b.at(3650.5)},
		{Number: 3, Outcome: "success", Mode: "all", By: "ben", Opened: b.at(90000), Concluded: b.at(90061)},
	}
	b.run.Summary.Round = 3
	b.conclude(90061, "success", "Every job succeeded in round 3.")
	shown("rounds", "three rounds, four attempts", b)

	b = w.build(29*time.Hour, "Build everything for everyone")
	sixty(b)
	shown("sixty-jobs", "a graph of sixty jobs", b)
}

// sixty is a run like a monorepo has: a wide middle between narrow ends.
func sixty(b *builder) {
	b.addJob("prepare").works(0, 0.5, 12).succeeds(12)
	var middle []string
	for i := range 28 {
		key := fmt.Sprintf("build-%02d", i)
		b.addJob(key, "prepare").works(12, 12.5+float64(i%9), 40+float64(i*3%37)).succeeds(40 + float64(i*3%37))
		middle = append(middle, key)
	}
	var tested []string
	for i := range 28 {
		key := fmt.Sprintf("test-%02d", i)
		j := b.addJob(key, middle[i], middle[(i+5)%28])
		ready := 40 + float64(max(i*3%37, (i+5)%28*3%37))
		if i == 17 {
			j.works(ready, ready+1, ready+44).ends(ready+44, "failure", "user_code", "step go test ./... exited with 1")
			j.steps(ready+2, []float64{1, 3, 38}, 1).prints(testLog(b.start, true))
			j.job.Reason = "Step go test ./... exited with 1."
		} else {
			j.works(ready, ready+1, ready+30+float64(i%11)).succeeds(ready + 30 + float64(i%11))
		}
		tested = append(tested, key)
	}
	b.addJob("report", tested...).works(122, 123, 131).succeeds(131)
	b.addJob("package", tested...).is("concluded", "It needs test-17, which failed.", "").job.Outcome = "skipped"
	b.addJob("publish", "package").is("concluded", "It needs package, which was skipped.", "").job.Outcome = "skipped"
	b.conclude(131.5, "failure", "Job test-17 failed: step go test ./... exited with 1.")
}

func hostile(w *World, shown show) {
	b := w.build(31*time.Hour, longName+" "+longName)
	b.run.Summary.WorkflowName, b.run.Summary.RepositoryName = longName, longName
	b.run.Summary.Ref, b.run.Summary.Actor = "refs/heads/"+longName, longName
	j := b.addJob("test").works(0, 1, 30).ends(30, "failure", "user_code", longName)
	j.steps(2, []float64{1, 3, 20}, 1).prints(testLog(b.start, true))
	j.job.Name, j.job.Reason, j.last().RunnerName = longName, longName, longName
	j.last().Steps[1].Name = longName
	b.addJob(longName, "test").is("concluded", "It needs "+longName+", which failed.", "").job.Outcome = "skipped"
	b.conclude(30.5, "failure", "Job "+longName+" failed.")
	shown("long-names", "names without an end", b)

	big := strings.Repeat(hostileName+" ", 10<<10/len(hostileName))
	b = w.build(32*time.Hour, hostileName)
	s := b.run.GetSummary()
	s.WorkflowName, s.Workflow, s.RepositoryName = hostileName, hostileName, hostileName
	s.Ref, s.Actor, s.Event, s.Commit = "refs/heads/"+hostileName, hostileName, hostileName, hostileName
	b.run.Tier, b.run.Class = hostileName, hostileName
	j = b.addJob("test").works(0, 1, 30).ends(30, "failure", hostileName, big)
	j.steps(2, []float64{1, 3, 20}, 1).prints(hostileLog(b.start))
	a := j.last()
	a.RunnerName, a.Observed.State, a.SideEffect = hostileName, hostileName, hostileName
	a.Requested = &fairleadv1.Requested{Desired: hostileName, By: hostileName, At: hostileName, Reason: big}
	for _, step := range a.GetSteps() {
		step.Name, step.Message, step.Conclusion = hostileName, hostileName, hostileName
	}
	j.job.Name, j.job.Reason, j.job.EndsBy, j.job.RunsOn = hostileName, big, hostileName, []string{hostileName}
	j.segment(hostileName, 30, 40, hostileName)
	b.addJob(hostileName, "test", hostileName).is(hostileName, hostileName, hostileName)
	b.run.Diagnostics = []string{hostileName}
	b.say(30, hostileName, hostileName, big)
	b.conclude(30.5, "failure", big)
	shown("hostile", "names that attack the page", b)
}

// PlayKey is the job of the run that moves when the gallery plays.
const PlayKey = "play"

func live(w *World, shown show) {
	b := w.build(9*time.Second, "Watch me run")
	b.state("running", "Job play is running.")
	j := b.addJob(PlayKey).works(0.2, 0.9, 0)
	j.job.Segments = j.job.Segments[:len(j.job.Segments)-2]
	j.segment("running", 2.1, 0, "").steps(2.1, []float64{0.6, 0}, -1).prints(openLog(b.start))
	j.job.Reason = "Attempt 1 is running on build-1."
	shown("live", "grows while the gallery plays", b)
}

// openLog is a log that is still being written.
func openLog(start time.Time) Log {
	base := testLog(start, false)
	fixed := base.Line
	base.Sealed = false
	last := base.Lines
	base.Line = func(n int64) *fairleadv1.Line {
		if n < last {
			return fixed(n)
		}
		text := fmt.Sprintf("%sstill working%s, line %d", dim, reset, n+1)
		return &fairleadv1.Line{Text: text, Stream: "stdout", Offset: n * 64, Bytes: int64(len(text)),
			At: stampOf(start.Add(time.Duration(n) * 137 * time.Millisecond))}
	}
	return base
}

// otherPages are the states that are not a run's page.
func otherPages(w *World) []State {
	states := []State{
		{"runs", "/", "the list of runs"},
		{"runs-filtered", "/?q=outcome%3Afailure", "failures only"},
		{"runs-no-match", "/?q=branch%3Anowhere", "nothing matches"},
		{"runs-unknown-word", "/?q=colour%3Ared+branch%3Amain+loose", "words that mean nothing"},
		{"runners", "/runners", "pools and runners"},
		{"repositories", "/repositories", "registered repositories"},
		{"repository-schedules", "/repositories/" + identifier(domain.PrefixRepository, 2), "a repository with schedules"},
		{"repository-hostile", "/repositories/" + identifier(domain.PrefixRepository, 3), "one with odd names"},
		{"repository-plain", "/repositories/" + identifier(domain.PrefixRepository, 1), "one without a schedule"},
		{"workflows", "/repositories/" + identifier(domain.PrefixRepository, 2) + "/workflows", "forms that start runs"},
		{"replay-verified", "/runs/" + w.runs[len(w.runs)-1].GetRun() + "/replay", "a run that comes out again"},
		{"replay-differs", "/runs/" + w.failed() + "/replay", "a run that does not"},
		{"diff-ask", "/runs/" + w.failed() + "/diff", "which run to compare with"},
		{"diff", "/runs/" + w.failed() + "/diff?other=" + w.runs[0].GetRun(), "in what two runs differ"},
		{"diff-same", "/runs/" + w.failed() + "/diff?other=" + w.failed(), "a run and itself"},
		{"diff-missing", "/runs/" + w.failed() + "/diff?other=run_x", "no such run"},
		{"workflows-none", "/repositories/" + identifier(domain.PrefixRepository, 1) + "/workflows", "nothing to start"},
		{"expressions", "/expressions", "an expression to start with"},
		{"expressions-value", "/expressions?text=a.b+%3D%3D+1+%7C%7C+fromJSON%28a.c%29%5B0%5D" +
			"&contexts=%7B%22a%22%3A%7B%22c%22%3A%22%5B%5C%22%3Cb%3E%5C%22%5D%22%7D%7D", "a value and how it came about"},
		{"expressions-problem", "/expressions?text=github.ref+%3D%3D+ref&contexts=%7B%22github%22%3A%7B%7D%7D",
			"a mistake with its place"},
		{"not-found", "/nowhere", "no such page"},
		{"run-not-found", "/runs/run_00000000000000000000000000", "no such run"},
	}
	for _, run := range w.runs {
		for _, job := range run.GetJobs() {
			title := run.GetSummary().GetTitle()
			for _, a := range job.GetAttempts() {
				name, says := "", ""
				switch {
				case title == "Break the rounding" && job.GetKey() == "test":
					name, says = "log-failure", "a log with groups, colours, an error and a gap"
				case title == "Release 2.4" && job.GetKey() == "deploy":
					name, says = "log-uncertain", "a log whose attempt has no result"
				case title == "Pass at the third round" && a.GetNumber() == 2:
					name, says = "log-attempts", "one attempt of four"
				case title == hostileName:
					name, says = "log-hostile", "output that attacks the page"
				case title == "Watch me run":
					name, says = "log-live", "a log that grows"
				case title == "Skip everything", title == "Wait for ever":
					name, says = "log-timed-out", "a log that ended at a limit"
				}
				if name != "" {
					states = append(states, State{name, "/attempts/" + a.GetId(), says})
				}
			}
			if title == "Train the price model" && job.GetKey() == "train" {
				states = append(states, State{"log-no-attempt", "/runs/" + run.GetRun() + "/jobs/" + job.GetId(),
					"a job that has not started"})
			}
		}
	}
	return append(states, odd(w)...)
}

// odd replaces two logs by ones that are hard to show: very long, and damaged.
func odd(w *World) []State {
	var states []State
	for _, run := range w.runs {
		if run.GetSummary().GetTitle() != "Tolerate the nightly compiler" {
			continue
		}
		long, broken := run.GetJobs()[0].GetAttempts()[0], run.GetJobs()[1].GetAttempts()[0]
		w.logs[long.GetId()] = millionLog(w.now().Add(-3 * time.Hour))
		w.logs[broken.GetId()] = Log{}
		states = append(states, State{"log-million", "/attempts/" + long.GetId(), "a million lines"},
			State{"log-search", "/attempts/" + long.GetId() + "?q=needle&line=777777", "a search without scripts"},
			State{"log-damaged", "/attempts/" + broken.GetId(), "a log that can't be read"})
	}
	return states
}

// Play moves the live run on by one step: its log grows, and at the end it concludes.
func (w *World) Play() {
	run, attempt := w.playing()
	if run == nil {
		return
	}
	w.Grow(attempt, 3, 4000)
	w.mu.Lock()
	defer w.mu.Unlock()
	job := run.GetJobs()[0]
	if !w.logs[attempt].Sealed {
		w.tell()
		return
	}
	a := job.GetAttempts()[0]
	a.Outcome, a.Concluded, a.Observed = "success", w.stamp(), &fairleadv1.Observation{State: "exited", At: w.stamp()}
	a.Log.Sealed = true
	for _, step := range a.GetSteps() {
		step.Outcome, step.Conclusion = "success", "success"
		if step.GetFinished() == "" {
			step.Finished = w.stamp()
		}
	}
	job.State, job.Outcome, job.Concluded, job.Reason = "concluded", "success", w.stamp(), "Every step succeeded."
	job.Segments[len(job.GetSegments())-1].To = w.stamp()
	run.Outcome, run.Summary.Outcome, run.Summary.State = "success", "success", "concluded"
	run.Summary.Concluded, run.Reason = w.stamp(), "Every job succeeded."
	w.say(run, "run", "RunConcluded", "Every job succeeded.")
	w.tell()
}

// playing finds the live run and its attempt, while it is live.
func (w *World) playing() (*fairleadv1.Run, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, run := range w.runs {
		if job := run.GetJobs(); len(job) == 1 && job[0].GetKey() == PlayKey && run.GetOutcome() == "" {
			return run, string(domain.JobID(job[0].GetId()).Attempt(1))
		}
	}
	return nil, ""
}

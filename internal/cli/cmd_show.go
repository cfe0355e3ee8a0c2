package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

func (a *app) cmdShow() *cobra.Command {
	var timeline bool
	command := a.withJSON(&cobra.Command{
		Use:   "show RUN",
		Short: "Show a run: what was asked for, what was seen, what was committed",
		Long: `Show a run with its jobs and attempts.

Of every attempt three facts are shown apart: what was requested, what was last observed, and what was
committed. A request to cancel is not a cancelled attempt, and a silent runner is not a failed one.

RUN is the id of a run, a job or an attempt, the address of a run's page, or "latest": the newest run of
the repository that you stand in.`,
		Example:           "  fairlead show latest\n  fairlead show latest --json | jq -r .outcome",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.ask(a.completeRuns),
	})
	command.Flags().BoolVar(&timeline, "timeline", false, "list every event with its sentence")
	command.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		s, err := a.subject(ctx, c, args[0])
		if err != nil {
			return err
		}
		run, err := read(ctx, c, s.run, timeline)
		if err != nil {
			return err
		}
		return a.printRun(run)
	})
	return command
}

// printRun shows a run, for people or for scripts.
func (a *app) printRun(run *fairleadv1.Run) error {
	if a.json {
		return a.printJSON(showRun(run))
	}
	var out strings.Builder
	a.head(&out, run)
	for _, job := range run.GetJobs() {
		a.jobText(&out, job)
	}
	for _, text := range run.GetDiagnostics() {
		fmt.Fprintf(&out, "%s\n", clean(text))
	}
	if len(run.GetTimeline()) > 0 {
		out.WriteString("\n" + a.out.paint(strong, "Timeline") + "\n")
		for _, l := range run.GetTimeline() {
			fmt.Fprintf(&out, "  %s  %s\n", a.out.paint(faint, clock(l.GetAt())), clean(l.GetText()))
		}
	}
	_, err := fmt.Fprint(a.out, out.String())
	return err
}

// field writes one fact with its name.
func field(out io.Writer, name, value string) {
	if value != "" {
		fmt.Fprintf(out, "%-11s %s\n", name, value)
	}
}

func (a *app) head(out *strings.Builder, run *fairleadv1.Run) {
	s := run.GetSummary()
	title := clean(s.GetRepositoryName() + "  " + s.GetWorkflow() + " #" + strconv.FormatUint(s.GetNumber(), 10))
	fmt.Fprintf(out, "%s\n", a.out.paint(strong, title))
	field(out, "Run", clean(run.GetRun()))
	field(out, "Commit", clean(strings.TrimSpace(s.GetCommit()+"  "+s.GetTitle())))
	field(out, "Trigger", clean(strings.TrimSpace(s.GetEvent()+"  "+s.GetRef()))+" by "+clean(dash(s.GetActor())))
	field(out, "Trust", clean(run.GetTier()))
	field(out, "Created", clock(s.GetCreated()))
	requested := run.GetDesired()
	field(out, "Requested", a.out.word(clean(dash(requested))))
	committed := "nothing yet"
	if run.GetOutcome() != "" {
		committed = a.out.word(clean(run.GetOutcome())) + " after " + span(s.GetCreated(), s.GetConcluded(), time.Now())
	}
	field(out, "Committed", committed)
	field(out, "Reason", clean(run.GetReason()))
	if len(run.GetRounds()) > 1 {
		for _, round := range run.GetRounds() {
			field(out, "Round "+strconv.Itoa(int(round.GetNumber())), fmt.Sprintf("%s, %s by %s at %s",
				dash(round.GetOutcome()), clean(round.GetMode()), clean(dash(round.GetBy())), clock(round.GetOpened())))
		}
	}
	field(out, "Page", clean(run.GetUrl()))
	if run.GetAttention() {
		fmt.Fprintln(out, a.out.paint(warn, "This run waits for a person."))
	}
}

func (a *app) jobText(out *strings.Builder, job *fairleadv1.Job) {
	state := job.GetOutcome()
	if state == "" {
		state = job.GetState()
	}
	fmt.Fprintf(out, "\n%s  %s", a.out.paint(strong, clean(job.GetKey())), a.out.word(state))
	if job.GetName() != job.GetKey() && job.GetName() != "" {
		fmt.Fprintf(out, "  %s", a.out.paint(faint, clean(job.GetName())))
	}
	if job.GetEffectful() {
		fmt.Fprintf(out, "  %s", a.out.paint(faint, "effectful"))
	}
	out.WriteByte('\n')
	if job.GetReason() != "" {
		fmt.Fprintf(out, "  %s\n", clean(job.GetReason()))
	}
	if job.GetEndsBy() != "" && job.GetOutcome() == "" {
		fmt.Fprintf(out, "  What ends this: %s\n", clean(job.GetEndsBy()))
	}
	if len(job.GetAttempts()) == 0 {
		return
	}
	var rows [][]string
	for _, attempt := range job.GetAttempts() {
		committed := attempt.GetOutcome()
		if attempt.GetUncertain() {
			committed = "uncertain"
		}
		rows = append(rows, []string{"  " + strconv.Itoa(int(attempt.GetNumber())), attempt.GetRequested().GetDesired(),
			dash(attempt.GetObserved().GetState()), dash(committed), dash(attempt.GetFailureClass()),
			dash(attempt.GetSideEffect()), dash(attempt.GetRunnerName()),
			span(attempt.GetStarted(), attempt.GetConcluded(), time.Now())})
	}
	out.WriteString(a.out.table([]string{"  ATTEMPT", "REQUESTED", "OBSERVED", "COMMITTED", "CLASS", "SIDE EFFECT",
		"RUNNER", "TIME"}, rows, 1, 2, 3))
	for _, attempt := range job.GetAttempts() {
		a.attemptText(out, attempt)
	}
}

// attemptText says of an attempt what its row has no room for.
func (a *app) attemptText(out *strings.Builder, attempt *fairleadv1.Attempt) {
	say := func(t tone, format string, args ...any) {
		text := fmt.Sprintf("attempt %d: ", attempt.GetNumber()) + fmt.Sprintf(format, args...)
		fmt.Fprintf(out, "  %s\n", a.out.paint(t, text))
	}
	if r := attempt.GetRequested(); r.GetDesired() == "cancel" {
		say(plainTone, "cancellation requested by %s at %s. %s", clean(dash(r.GetBy())), clock(r.GetAt()),
			clean(r.GetReason()))
	}
	if attempt.GetObserved().GetState() == "unreachable" && attempt.GetOutcome() == "" {
		say(warn, "nothing was heard of it since %s", clock(attempt.GetObserved().GetAt()))
	}
	if attempt.GetMessage() != "" {
		say(plainTone, "%s", clean(attempt.GetMessage()))
	}
	if attempt.GetUncertain() {
		say(warn, "it is uncertain whether and how it ended. %s", clean(attempt.GetNextStep()))
	}
	if n := attempt.GetRefused(); n > 0 {
		say(plainTone, "%s from it came late or stale and changed nothing", plural(int(n), "report"))
	}
	if n := attempt.GetConflicts(); n > 0 {
		say(warn, "%s its committed result and is kept as evidence", map[bool]string{true: "a report contradicts",
			false: fmt.Sprintf("%d reports contradict", n)}[n == 1])
	}
	if log := attempt.GetLog(); log.GetTruncated() || log.GetGaps() > 0 {
		say(warn, "its log is not whole: cut by its limit %v, gaps %d", log.GetTruncated(), log.GetGaps())
	}
	if removed := attempt.GetLog().GetRemoved(); removed != "" {
		say(plainTone, "%s", clean(removed))
	}
	var rows [][]string
	for _, step := range attempt.GetSteps() {
		result := step.GetConclusion()
		if result == "" {
			result = step.GetOutcome()
		}
		text := step.GetMessage()
		if step.GetExitCode() != 0 {
			text = strings.TrimSpace("exit code " + strconv.Itoa(int(step.GetExitCode())) + "  " + text)
		}
		rows = append(rows, []string{"    " + strconv.Itoa(int(step.GetIndex())+1), dash(result),
			span(step.GetStarted(), step.GetFinished(), time.Now()), step.GetName(), text})
	}
	if len(rows) > 0 {
		out.WriteString(a.out.table([]string{"    STEP", "RESULT", "TIME", "NAME", ""}, rows, 1))
	}
}

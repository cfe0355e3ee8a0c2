package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

type logOptions struct {
	follow, raw   bool
	attempt, step int
}

// linesPage is how many lines one call of logs --json asks for.
const linesPage = 5000

func (a *app) cmdLogs() *cobra.Command {
	o := &logOptions{}
	command := a.withJSON(&cobra.Command{
		Use:   "logs RUN [JOB]",
		Short: "Print the log of a job",
		Long: `Print the log of a job's newest attempt, or of the attempt that is named.

JOB is needed when the run has several jobs; with --follow, without it, all of them are followed, each line
with the name of its job. With --raw the bytes are printed exactly as the job wrote them.`,
		Example: "  fairlead logs latest\n  fairlead logs -f latest test\n" +
			"  fairlead logs latest test --attempt 1 --raw >test.log",
		Args: cobra.RangeArgs(1, 2), ValidArgsFunction: a.ask(a.completeRunJob),
	})
	flags := command.Flags()
	flags.BoolVarP(&o.follow, "follow", "f", false, "go on until the log has its end")
	flags.BoolVar(&o.raw, "raw", false, "print exactly the bytes")
	flags.IntVar(&o.attempt, "attempt", 0, "`number` of the attempt (default the newest)")
	flags.IntVar(&o.step, "step", 0, "only the step with this `number`, from 1")
	command.MarkFlagsMutuallyExclusive("raw", "json")
	command.MarkFlagsMutuallyExclusive("follow", "json")
	command.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		if o.attempt < 0 || o.step < 0 {
			return usagef("--attempt and --step count from 1")
		}
		return a.printLog(ctx, c, o, args)
	})
	return command
}

func (a *app) printLog(ctx context.Context, c *client.Client, o *logOptions, args []string) error {
	s, err := a.subject(ctx, c, args[0])
	if err != nil {
		return err
	}
	word := string(s.job)
	if len(args) == 2 {
		word = args[1]
	}
	run, err := read(ctx, c, s.run, false)
	if err != nil {
		return err
	}
	exact := o.raw || o.step > 0 || o.attempt > 0 || s.attempt != ""
	if o.follow && !exact {
		return a.followLogs(ctx, c, run, word)
	}
	job, err := pickJob(run, word)
	if err != nil {
		return err
	}
	if o.follow && len(job.GetAttempts()) == 0 && o.attempt <= 1 {
		if job, err = awaitAttempt(ctx, c, run, job); err != nil {
			return err
		}
	}
	number := o.attempt
	if _, _, n, ok := s.attempt.Split(); ok && number == 0 {
		number = n
	}
	attempt, err := pickAttempt(job, number)
	if err != nil {
		return err
	}
	switch {
	case a.json:
		return a.logLines(ctx, c, attempt, o)
	case o.follow:
		return a.followBytes(ctx, c, attempt, o)
	}
	return a.logBytes(ctx, c, attempt, o)
}

// followLogs shows the lines of one job, or of all, through all further attempts.
func (a *app) followLogs(ctx context.Context, c *client.Client, run *fairleadv1.Run, word string) error {
	f := &follower{client: c, run: run.GetRun(), logs: true, newest: true, round: 1, ordered: true}
	if word != "" || len(run.GetJobs()) == 1 {
		job, err := pickJob(run, word)
		if err != nil {
			return err
		}
		f.job = job.GetId()
	}
	view := newPlainView(a.out)
	f.view = view
	if f.job != "" {
		view.quiet = true
		f.view = oneJob{view}
	}
	_, err := f.follow(ctx)
	return err
}

// oneJob shows lines without the name of their job: there is only one.
type oneJob struct{ *plainView }

// changed implements view.
func (v oneJob) changed(_, _ *fairleadv1.Run) {}

// awaitAttempt waits until a job has an attempt, or is done without one.
func awaitAttempt(ctx context.Context, c *client.Client, run *fairleadv1.Run,
	job *fairleadv1.Job) (*fairleadv1.Job, error) {
	found := job
	err := c.FollowRun(ctx, &fairleadv1.WatchRunRequest{Run: run.GetRun()}, func(r *fairleadv1.GetRunResponse) error {
		for _, now := range r.GetRun().GetJobs() {
			if now.GetId() != job.GetId() {
				continue
			}
			found = now
			if len(now.GetAttempts()) > 0 || now.GetOutcome() != "" {
				return errEnough
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return found, err
}

// logBytes prints what there is of a log now. A connection that breaks is taken up again
// where it broke.
func (a *app) logBytes(ctx context.Context, c *client.Client, attempt *fairleadv1.Attempt, o *logOptions) error {
	var to io.Writer = a.out
	var lines *lineWriter
	if a.out.tty && !o.raw {
		lines = &lineWriter{to: a.out}
		to = lines
	}
	var at int64
	for tries := 0; ; tries++ {
		content, err := c.RawLog(ctx, attempt.GetId(), int64(o.step)-1, at)
		if err != nil {
			return err
		}
		n, err := io.Copy(to, content)
		_ = content.Close()
		at += n
		if err == nil {
			return lines.end()
		}
		if ctx.Err() != nil || !errors.Is(err, io.ErrUnexpectedEOF) && !client.Unreachable(err) || (n == 0 && tries > 3) {
			return fmt.Errorf("read log of %s: %w", attempt.GetId(), err)
		}
	}
}

// followBytes prints a log until it has its end.
func (a *app) followBytes(ctx context.Context, c *client.Client, attempt *fairleadv1.Attempt, o *logOptions) error {
	var to io.Writer = a.out
	var lines *lineWriter
	if a.out.tty && !o.raw {
		lines = &lineWriter{to: a.out}
		to = lines
	}
	request := &fairleadv1.FollowLogRequest{Attempt: attempt.GetId()}
	if o.step > 0 {
		request.Step, request.OneStep = int32(o.step)-1, true
	}
	var next int64
	_, err := c.FollowLog(ctx, request, func(content []byte, offset int64) error {
		if offset > next {
			a.note("%d bytes of the log are missing: the server's record is damaged", offset-next)
		}
		next = offset + int64(len(content))
		_, err := to.Write(content)
		return err
	})
	return errors.Join(err, lines.end())
}

// logLines prints the lines as the API gives them, one object a line.
func (a *app) logLines(ctx context.Context, c *client.Client, attempt *fairleadv1.Attempt, o *logOptions) error {
	for from := int64(0); ; {
		page, err := c.Logs.ReadLines(ctx, &fairleadv1.ReadLinesRequest{Attempt: attempt.GetId(), From: from,
			Count: linesPage})
		if err != nil {
			return err
		}
		for _, line := range page.GetLines() {
			from = line.GetNumber() + 1
			if o.step > 0 && int(line.GetStep()) != o.step-1 {
				continue
			}
			if err := a.printMessage(line); err != nil {
				return err
			}
		}
		if len(page.GetLines()) == 0 || from > page.GetTotalLines() {
			return nil
		}
	}
}

// lineWriter makes every line safe for a terminal.
type lineWriter struct {
	to    io.Writer
	split splitter
}

// Write implements io.Writer.
func (w *lineWriter) Write(content []byte) (int, error) {
	return len(content), w.show(w.split.add(content, w.split.next))
}

func (w *lineWriter) show(pieces []piece) error {
	var out []byte
	for _, p := range pieces {
		out = append(out, forTerminal(p.text)...)
		if p.end {
			out = append(out, '\n')
		}
	}
	_, err := w.to.Write(out)
	return err
}

// end shows the last line, when it had no end. A nil writer has none.
func (w *lineWriter) end() error {
	if w == nil {
		return nil
	}
	return w.show(w.split.rest())
}

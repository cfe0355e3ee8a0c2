package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// TallyRequest asks for a count of jobs.
type TallyRequest struct {
	From, To time.Time // zero: no bound
	Book     string    // path of a file with what somebody else remembers; empty: none
}

func (a *app) cmdAdminTally() *cobra.Command {
	var from, to, book string
	command := &cobra.Command{
		Use:   "tally",
		Short: "Count the jobs that history holds, and how long they waited",
		Long: `Count runs, jobs and attempts in the history of a store, event by event, with or without a server: how many
jobs were committed between two moments, and how long each waited from ready to its lease.

--book compares history with what somebody outside remembers, a line each: "run RUN" for a request that was
answered, "asked RUN" for one whose run need not have ended, "got ATTEMPT MICROSECONDS" for a manifest that a
runner verified, "ack ATTEMPT MICROSECONDS" for a result that was acknowledged (microseconds of Unix time). What
the book has and history does not is lost; a job that was executed once more without a reason that history knows
is duplicated. Then the exit code is 1.`,
		Example: "  fairlead admin tally\n" +
			"  fairlead admin tally --from 2026-03-01T12:00:00Z --to 2026-03-01T13:00:00Z --json",
		Args: cobra.NoArgs,
	}
	command.Flags().StringVar(&from, "from", "", "count jobs that ended at this `time` or later (RFC 3339)")
	command.Flags().StringVar(&to, "to", "", "count jobs that ended before this `time` (RFC 3339)")
	command.Flags().StringVar(&book, "book", "", "`file` with what somebody else remembers")
	return a.operates(command, func(ctx context.Context, of Belongings, _ []string) (Result, error) {
		r := TallyRequest{Book: book}
		for _, bound := range []struct {
			flag, text string
			into       *time.Time
		}{{"from", from, &r.From}, {"to", to, &r.To}} {
			if bound.text == "" {
				continue
			}
			at, err := time.Parse(time.RFC3339Nano, bound.text)
			if err != nil {
				return Result{}, usagef("--%s is %q; it must be a time such as 2026-03-01T12:00:00Z", bound.flag, bound.text)
			}
			*bound.into = at
		}
		if !r.To.IsZero() && !r.From.Before(r.To) {
			return Result{}, usagef("--from is not before --to")
		}
		return a.Operator.Tally(ctx, of, r)
	})
}

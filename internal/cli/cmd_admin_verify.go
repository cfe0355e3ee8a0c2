package cli

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

func (a *app) cmdAdminVerify() *cobra.Command {
	var r VerifyRequest
	var sample string
	command := &cobra.Command{
		Use:   "verify",
		Short: "Examine everything that a server keeps, while it runs",
		Long: `Examine the history of every partition (no position missing, every batch with its digest), replay every
stream and compare what is stored beside it, and read every object and log that history names. It looks at
one moment and changes nothing, with or without a server.

Each damaged place is told with a code, where it is, and what to do; everything else is still examined. The
exit code is 1 when something is damaged. The codes are explained in docs/ops/backup.md.

--sample 5% examines a share that changes from day to day: run it daily, and everything where there is time.
--backup examines a backup instead: every byte of it, against its digest.`,
		Example: "  fairlead admin verify\n  fairlead admin verify --sample 5%\n" +
			"  fairlead admin verify --stream run/run_01kb --json\n  fairlead admin verify --backup /backups/tuesday",
		Args: cobra.NoArgs,
	}
	command.Flags().StringVar(&r.Stream, "stream", "", "examine only this `stream`, such as run/RUN")
	command.Flags().StringVar(&sample, "sample", "", "examine only this `share`, such as 5%")
	command.Flags().StringVar(&r.Backup, "backup", "", "examine the backup in this `folder`")
	return a.operates(command, func(ctx context.Context, of Belongings, _ []string) (Result, error) {
		if sample != "" {
			percent, err := strconv.Atoi(strings.TrimSuffix(sample, "%"))
			if err != nil || percent < 1 || percent > 100 {
				return Result{}, usagef("--sample is %q; it must be from 1%% to 100%%", sample)
			}
			// The days of a year go through all shares.
			r.Percent, r.Seed = percent, uint64(time.Now().YearDay()*percent)
		}
		if r.Backup != "" && (r.Stream != "" || sample != "") {
			return Result{}, usagef("--backup examines a whole backup: leave --stream and --sample out")
		}
		return a.Operator.Verify(ctx, of, r)
	})
}

func (a *app) cmdAdminRebuild() *cobra.Command {
	var stream string
	command := &cobra.Command{
		Use:   "rebuild-projections",
		Short: "Make list rows, heads and checkpoints anew from history",
		Long: `Make everything anew that can be made from events: the rows of lists, where each stream stands, and saved
states. What is right already is not written.

On PostgreSQL it may run beside servers: it takes a few streams at a time, and holds appends back that long.
On SQLite the server must be stopped.

The exit code is 1 when a stream's history is damaged; what is stored of such a stream stays as it is.`,
		Example: "  fairlead admin rebuild-projections\n  fairlead admin rebuild-projections --stream run/run_01kb",
		Args:    cobra.NoArgs,
	}
	command.Flags().StringVar(&stream, "stream", "", "only this `stream`, such as run/RUN")
	return a.operates(command, func(ctx context.Context, of Belongings, _ []string) (Result, error) {
		return a.Operator.Rebuild(ctx, of, stream)
	})
}

func (a *app) cmdAdminAcceptLoss() *cobra.Command {
	var r LossRequest
	var anyway bool
	command := &cobra.Command{
		Use:   "accept-loss PARTITION",
		Short: "Let a partition go on without history that is gone",
		Long: `A server that holds less than was acknowledged, after a restore or after a standby without the last
commits was promoted, stops the partition when somebody comes with a token of what is missing. It says which
position the token names. This command records that you accept the loss up to that position, and the
partition goes on within seconds.

Accepting brings nothing back. Runs, results and log lines of the lost part are gone; jobs that were begun in
it may run again. Wait before accepting until runners that the lost server knew must have given up
(--abandon-after, 90 s by default).

A running server that does not stand still on the partition knows of nothing that is missing, so the command
is refused then; --anyway records it all the same. Without a server nothing is asked.

Who accepted what, when and why stays on record: see "fairlead admin losses".`,
		Example: "  fairlead admin accept-loss main-0 --position 4711 --note \"disk of db1 died, restored Tuesday's backup\"",
		Args:    cobra.ExactArgs(1),
	}
	command.Flags().Uint64Var(&r.Position, "position", 0, "the last `position` that is given up (required)")
	command.Flags().StringVar(&r.Note, "note", "", "`why`, for the record")
	command.Flags().BoolVar(&anyway, "anyway", false, "also when the server knows of nothing that is missing")
	return a.operates(command, func(ctx context.Context, of Belongings, args []string) (Result, error) {
		if r.Position == 0 {
			return Result{}, usagef("--position is missing: the refusal that stopped the partition names it")
		}
		if r.Position > math.MaxInt64 {
			return Result{}, usagef("--position %d is beyond the end of any history: the refusal that stopped the partition "+
				"names the right one", r.Position)
		}
		r.Partition = args[0]
		if !anyway {
			if err := a.somethingMissing(ctx, r); err != nil {
				return Result{}, err
			}
		}
		return a.Operator.AcceptLoss(ctx, of, r)
	})
}

// askWithin is how long a running server is waited for that may know better.
const askWithin = 5 * time.Second

// somethingMissing refuses to accept a loss that a running server knows nothing of: it would
// take the partition from its owner and stay on record for nothing. Tokens of lost history
// lie with clients and runners, so only a server that was shown one can tell; where none
// answers, the operator is believed.
func (a *app) somethingMissing(ctx context.Context, r LossRequest) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	c, err := a.connect()
	if err != nil {
		return nil // there is no server that could be asked
	}
	res, err := c.Server.GetServer(ctx, &fairleadv1.GetServerRequest{})
	if err != nil {
		a.note("no server said whether something is missing: %s", client.Explain(err))
		return nil
	}
	for _, p := range res.GetPartitions() {
		if p.GetPartition() == r.Partition && p.GetState() == "owned" {
			if p.GetNotice() != "" {
				return Refused("nothing_missing", fmt.Errorf("partition %s does not stand still, and nothing proves what "+
					"somebody claims (%s). If keys were lost and it is true, give --anyway", r.Partition, p.GetNotice()))
			}
			return Refused("nothing_missing", fmt.Errorf("nothing is there to accept: the server has partition %s up to "+
				"position %d and does not miss any of it; nobody showed it an acknowledgement of more. To record a loss all "+
				"the same, give --anyway", r.Partition, p.GetPosition()))
		}
	}
	return nil
}

func (a *app) cmdAdminLosses() *cobra.Command {
	command := &cobra.Command{
		Use:     "losses",
		Short:   "List restores and losses that were accepted",
		Long:    `List what is on record of history that is gone: every restore, and every loss that somebody accepted.`,
		Example: "  fairlead admin losses\n  fairlead admin losses --json",
		Args:    cobra.NoArgs,
	}
	return a.operates(command, func(ctx context.Context, of Belongings, _ []string) (Result, error) {
		return a.Operator.Losses(ctx, of)
	})
}

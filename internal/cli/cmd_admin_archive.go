package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// ArchiveRequest asks for what is archived, or to archive more.
type ArchiveRequest struct {
	Move      bool
	OlderThan time.Duration
}

func (a *app) cmdAdminArchive() *cobra.Command {
	var r ArchiveRequest
	command := &cobra.Command{
		Use:   "archive",
		Short: "Show what history lies in the archive, or move more of it there",
		Long: `Show for every partition how much of its history lies in compressed objects instead of the database.

With --older-than, first move what is older than that: one range after the other, in small transactions, with
or without a running server. A server does the same by itself with --archive-after. Archived runs are shown,
verified and backed up as all others; an archive is never moved back.`,
		Example: "  fairlead admin archive\n  fairlead admin archive --older-than 720h",
		Args:    cobra.NoArgs,
	}
	command.Flags().DurationVar(&r.OlderThan, "older-than", 0, "move history of this `age` and older, such as 720h")
	return a.operates(command, func(ctx context.Context, of Belongings, _ []string) (Result, error) {
		if r.Move = command.Flags().Changed("older-than"); r.OlderThan < 0 {
			return Result{}, usagef("--older-than is negative")
		}
		return a.Operator.Archive(ctx, of, r)
	})
}

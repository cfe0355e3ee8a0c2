package cli

import (
	"context"

	"github.com/spf13/cobra"
)

// SeedRequest asks for finished runs that never happened.
type SeedRequest struct {
	Jobs int64
	Like string
}

// cmdAdminSeed is for `fairlead bench history`.
func (a *app) cmdAdminSeed() *cobra.Command {
	var r SeedRequest
	command := &cobra.Command{
		Use:    "seed",
		Short:  "Fill a store with finished runs for a measurement",
		Long:   "Write finished runs after the pattern of one into a store without a server. They never happened.",
		Args:   cobra.NoArgs,
		Hidden: true,
	}
	command.Flags().Int64Var(&r.Jobs, "jobs", 0, "so many `jobs`")
	command.Flags().StringVar(&r.Like, "like", "", "`run` that is the pattern")
	return a.operates(command, func(ctx context.Context, of Belongings, _ []string) (Result, error) {
		if r.Jobs < 1 || r.Like == "" {
			return Result{}, usagef("--jobs and --like are needed")
		}
		return a.Operator.Seed(ctx, of, r)
	})
}

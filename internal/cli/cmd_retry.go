package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

func (a *app) cmdRetry() *cobra.Command {
	var follow, force bool
	var key string
	command := a.withJSON(&cobra.Command{
		Use:   "retry RUN [JOB]",
		Short: "Run one job again, and what depends on it",
		Long: `Run one job of a concluded run again, with everything that depends on it, as a new attempt on the same commit
and plan. The attempts before it stay as they are. RUN may be the id of the job itself.`,
		Example: "  fairlead retry latest test -f",
		Args:    cobra.RangeArgs(1, 2), ValidArgsFunction: a.ask(a.completeRunJob),
	})
	command.Flags().BoolVarP(&follow, "follow", "f", false, "follow it; the exit code is then the run's result")
	command.Flags().BoolVar(&force, "force", false, "also when its workflow or what it uses is disabled, or restored")
	keyFlag(command, &key)
	command.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		s, err := a.subject(ctx, c, args[0])
		if err != nil {
			return err
		}
		id := string(s.job)
		if len(args) == 2 || id == "" {
			word := ""
			if len(args) == 2 {
				word = args[1]
			}
			run, err := read(ctx, c, s.run, false)
			if err != nil {
				return err
			}
			job, err := pickJob(run, word)
			if err != nil {
				return err
			}
			id = job.GetId()
		}
		response, err := c.Runs.RetryJob(client.WithKey(ctx, key),
			&fairleadv1.RetryJobRequest{Job: id, Force: force})
		if err != nil {
			return err
		}
		return a.reopened(ctx, c, response.GetRun(), follow)
	})
	return command
}

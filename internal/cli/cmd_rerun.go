package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

func (a *app) cmdRerun() *cobra.Command {
	var failed, follow, force bool
	var key string
	command := a.withJSON(&cobra.Command{
		Use:   "rerun RUN",
		Short: "Open the next round of a concluded run",
		Long: `Run a concluded run again on the same commit and the same plan: all of it, or what failed with everything
that depends on it. Earlier rounds keep their attempts, logs and outcomes.`,
		Example: "  fairlead rerun latest --failed -f",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.ask(a.completeRuns),
	})
	command.Flags().BoolVar(&failed, "failed", false, "only what failed, with what depends on it")
	command.Flags().BoolVarP(&follow, "follow", "f", false, "follow it; the exit code is then its result")
	command.Flags().BoolVar(&force, "force", false, "also when its workflow or what it uses is disabled, or restored")
	keyFlag(command, &key)
	command.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		s, err := a.subject(ctx, c, args[0])
		if err != nil {
			return err
		}
		mode := "all"
		if failed {
			mode = "failed"
		}
		response, err := c.Runs.RerunRun(client.WithKey(ctx, key),
			&fairleadv1.RerunRunRequest{Run: string(s.run), Mode: mode, Force: force})
		if err != nil {
			return err
		}
		return a.reopened(ctx, c, response.GetRun(), follow)
	})
	return command
}

// reopened says that a run has another round, and follows it when asked to.
func (a *app) reopened(ctx context.Context, c *client.Client, run *fairleadv1.Run, follow bool) error {
	if follow {
		f := &follower{client: c, run: run.GetRun(), logs: !a.json, round: run.GetSummary().GetRound()}
		return a.follow(ctx, f, false)
	}
	if a.json {
		return a.printRun(run)
	}
	_, err := fmt.Fprintf(a.out, "Round %d of %s is open.\n%s\n", run.GetSummary().GetRound(), run.GetRun(),
		a.out.paint(faint, clean(run.GetUrl())))
	return err
}

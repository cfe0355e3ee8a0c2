package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

func (a *app) cmdCancel() *cobra.Command {
	var reason, key string
	command := a.withJSON(&cobra.Command{
		Use:   "cancel RUN",
		Short: "Ask for a run to be stopped",
		Long: `Ask for a run to be stopped. The request is recorded at once; what runs gets a signal, and after the grace
period it is killed. Until that was seen the attempts are shown as they are: a request is not a result.`,
		Example: `  fairlead cancel latest --reason "wrong branch"`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.ask(a.completeRuns),
	})
	command.Flags().StringVar(&reason, "reason", "", "one sentence for the record")
	keyFlag(command, &key)
	command.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		s, err := a.subject(ctx, c, args[0])
		if err != nil {
			return err
		}
		response, err := c.Runs.CancelRun(client.WithKey(ctx, key),
			&fairleadv1.CancelRunRequest{Run: string(s.run), Reason: reason})
		if err != nil {
			return err
		}
		if a.json {
			return a.printRun(response.GetRun())
		}
		return a.requestedCancel(response.GetRun())
	})
	return command
}

// keyFlag lets a script send a write as often as it likes.
func keyFlag(command *cobra.Command, key *string) {
	command.Flags().StringVar(key, "idempotency-key", "", "`key` that makes this act once, however often it is sent")
}

// requestedCancel says what a request to cancel means for what runs now.
func (a *app) requestedCancel(run *fairleadv1.Run) error {
	if run.GetOutcome() != "" {
		_, err := fmt.Fprintf(a.out, "Cancellation of %s was requested; its committed outcome is %s.\n", run.GetRun(),
			a.out.word(run.GetOutcome()))
		return err
	}
	if _, err := fmt.Fprintf(a.out, "Cancellation of %s is requested.\n", run.GetRun()); err != nil {
		return err
	}
	for _, job := range run.GetJobs() {
		for _, attempt := range job.GetAttempts() {
			if attempt.GetOutcome() == "" {
				fmt.Fprintf(a.out, "%s, attempt %d: not stopped yet, last observed %s.\n", clean(job.GetKey()),
					attempt.GetNumber(), a.out.word(dash(attempt.GetObserved().GetState())))
			}
		}
	}
	return nil
}

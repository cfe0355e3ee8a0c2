package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

func (a *app) cmdSettle() *cobra.Command {
	request := &fairleadv1.SettleAttemptRequest{}
	var key string
	command := a.withJSON(&cobra.Command{
		Use:   "settle ATTEMPT|RUN [JOB]",
		Short: "Record what was found out about an attempt without a result",
		Long: `Record what a person found out about an uncertain attempt: whether it changed anything outside, and what
shall follow. Look at the target first. What the attempt itself said stays in the record; this is added to it.

ATTEMPT is the id of the attempt. With RUN, and JOB if need be, the one uncertain attempt there is meant.`,
		Example: `  fairlead settle latest deploy --effect none --then retry --note "the release is not on the host"
  fairlead settle latest deploy --effect confirmed --then success`,
		Args: cobra.RangeArgs(1, 2), ValidArgsFunction: a.ask(a.completeRunJob),
	})
	flags := command.Flags()
	flags.StringVar(&request.Effect, "effect", "", "what it did outside: none, confirmed or unknown")
	flags.StringVar(&request.Then, "then", "", "what follows: retry, success or failure")
	flags.StringVar(&request.Note, "note", "", "one sentence for the record")
	keyFlag(command, &key)
	fixed(command, "effect", "none", "confirmed", "unknown")
	fixed(command, "then", "retry", "success", "failure")
	for _, name := range []string{"effect", "then"} {
		if err := command.MarkFlagRequired(name); err != nil {
			panic(err.Error()) // the flag was made above
		}
	}
	command.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		if err := oneOf("effect", request.Effect, "none", "confirmed", "unknown"); err != nil {
			return err
		}
		if err := oneOf("then", request.Then, "retry", "success", "failure"); err != nil {
			return err
		}
		var err error
		if request.Attempt, err = a.uncertain(ctx, c, args); err != nil {
			return err
		}
		response, err := c.Runs.SettleAttempt(client.WithKey(ctx, key), request)
		if err != nil {
			return err
		}
		if a.json {
			return a.printRun(response.GetRun())
		}
		_, err = fmt.Fprintf(a.out, "Settled %s: effect %s, then %s.\n", request.Attempt, request.Effect, request.Then)
		return err
	})
	return command
}

// uncertain finds the attempt that is meant: the one named, else the only uncertain one.
func (a *app) uncertain(ctx context.Context, c *client.Client, args []string) (string, error) {
	s, err := a.subject(ctx, c, args[0])
	if err != nil {
		return "", err
	}
	if s.attempt != "" {
		return string(s.attempt), nil
	}
	run, err := read(ctx, c, s.run, false)
	if err != nil {
		return "", err
	}
	jobs := run.GetJobs()
	if word := string(s.job); word != "" || len(args) == 2 {
		if len(args) == 2 {
			word = args[1]
		}
		job, err := pickJob(run, word)
		if err != nil {
			return "", err
		}
		jobs = []*fairleadv1.Job{job}
	}
	var found []string
	for _, job := range jobs {
		for _, attempt := range job.GetAttempts() {
			if attempt.GetUncertain() {
				found = append(found, attempt.GetId())
			}
		}
	}
	switch len(found) {
	case 0:
		return "", &refusal{code: codeNoAttempt,
			text: fmt.Sprintf("No attempt of %s is uncertain, so nothing is to be settled.", s.run)}
	case 1:
		return found[0], nil
	}
	return "", &refusal{code: codeNoAttempt, choices: found, text: "Several attempts are uncertain; name one:"}
}

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

func (a *app) cmdReplay() *cobra.Command {
	command := a.withJSON(&cobra.Command{
		Use:   "replay RUN",
		Short: "Decide again what a run decided, and say whether the same comes out",
		Long: `Compile the workflow of a run again from what the run rests on, never from the repository, and evaluate again
what its history decided: conditions, and matrices that only results told. The answer is one of

  verified      the same plan, and the same of every decision
  differs       what comes out otherwise is named, with what was recorded
  unsupported   it was made by another evaluator; the release to ask is named
  unknown       something that it takes is missing or damaged

What the steps of a job did is not replayed. Exit code 0: verified. 1: it differs. 3: it can't be told.`,
		Example: "  fairlead replay latest\n  fairlead replay run_01ABC --json",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.ask(a.completeRuns),
	})
	command.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		s, err := a.subject(ctx, c, args[0])
		if err != nil {
			return err
		}
		response, err := c.Runs.ReplayRun(ctx, &fairleadv1.ReplayRunRequest{Run: string(s.run)})
		if err != nil {
			return err
		}
		if a.json {
			err = a.printMessage(response)
		} else {
			_, err = fmt.Fprint(a.out, a.replayText(response))
		}
		if err != nil {
			return err
		}
		switch response.GetAnswer() {
		case "verified":
			return nil
		case "differs":
			return &ended{ExitFailed}
		}
		return &ended{ExitRefused}
	})
	return command
}

func (a *app) replayText(r *fairleadv1.ReplayRunResponse) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s  %s\n", a.out.paint(strong, clean(r.GetRun())), a.out.word(clean(r.GetAnswer())))
	fmt.Fprintf(&out, "  %s\n", clean(r.GetSentence()))
	for _, f := range r.GetFindings() {
		of := "the run"
		if f.GetJob() != "" {
			of = f.GetJob()
		}
		fmt.Fprintf(&out, "\n  %s of %s: %s %s\n", clean(f.GetWhat()), clean(of), a.out.word(clean(f.GetAnswer())),
			a.out.paint(faint, fmt.Sprintf("[%s, version %d, round %d]", clean(f.GetEvent()), f.GetVersion(), f.GetRound())))
		fmt.Fprintf(&out, "    recorded: %s\n    now:      %s\n", clean(f.GetRecorded()), clean(f.GetNow()))
	}
	if n := r.GetMore(); n > 0 {
		fmt.Fprintf(&out, "\n  %d more.\n", n)
	}
	return out.String()
}

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

func (a *app) cmdDiff() *cobra.Command {
	command := a.withJSON(&cobra.Command{
		Use:   "diff RUN RUN",
		Short: "Show in what one run differs from another",
		Long: `Show in what the second run differs from the first: the commit, the text of the workflow, the evaluator, the
inputs, the event, resolved components, the plan job by job and key by key, and what came of each job. Of the commits'
other files nothing is compared.

Exit code 0: nothing differs. 1: something does, or could not be compared.`,
		Example: "  fairlead diff run_01ABC latest",
		Args:    cobra.ExactArgs(2), ValidArgsFunction: a.ask(a.completeRunPair),
	})
	command.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		first, err := a.subject(ctx, c, args[0])
		if err != nil {
			return err
		}
		other, err := a.subject(ctx, c, args[1])
		if err != nil {
			return err
		}
		response, err := c.Runs.DiffRuns(ctx,
			&fairleadv1.DiffRunsRequest{Run: string(first.run), Other: string(other.run)})
		if err != nil {
			return err
		}
		if a.json {
			err = a.printMessage(response)
		} else {
			_, err = fmt.Fprint(a.out, a.diffText(response))
		}
		if err != nil || response.GetSame() {
			return err
		}
		return &ended{ExitFailed}
	})
	return command
}

// completeRunPair completes both runs.
func (a *app) completeRunPair(ctx context.Context, c *client.Client, args []string) []string {
	if len(args) > 1 {
		return nil
	}
	return a.completeRuns(ctx, c, nil)
}

func (a *app) diffText(r *fairleadv1.DiffRunsResponse) string {
	var out strings.Builder
	for _, side := range []struct {
		mark string
		run  *fairleadv1.RunSummary
	}{{"---", r.GetRun()}, {"+++", r.GetOther()}} {
		fmt.Fprintf(&out, "%s %s  %s #%d  %s  %.12s\n", side.mark, clean(side.run.GetRun()), clean(side.run.GetWorkflow()),
			side.run.GetNumber(), clean(side.run.GetRef()), clean(side.run.GetCommit()))
	}
	if r.GetSame() {
		out.WriteString("Nothing differs.\n")
	}
	part := ""
	for _, d := range r.GetDifferences() {
		if d.GetPart() != part {
			part = d.GetPart()
			fmt.Fprintf(&out, "\n%s\n", a.out.paint(strong, clean(part)))
		}
		name := clean(d.GetName())
		switch d.GetKind() {
		case "added":
			fmt.Fprintf(&out, "  %s\n", a.out.paint(good, strings.TrimSuffix("+ "+name+": "+clean(d.GetAfter()), ": ")))
		case "removed":
			fmt.Fprintf(&out, "  %s\n", a.out.paint(bad, strings.TrimSuffix("- "+name+": "+clean(d.GetBefore()), ": ")))
		default:
			fmt.Fprintf(&out, "  ~ %s: %s -> %s\n", name, a.out.paint(bad, clean(d.GetBefore())),
				a.out.paint(good, clean(d.GetAfter())))
		}
	}
	a.diffLines(&out, r.GetLines())
	for _, note := range r.GetNotes() {
		fmt.Fprintf(&out, "\nnote: %s\n", clean(note))
	}
	return out.String()
}

func (a *app) diffLines(out *strings.Builder, lines []*fairleadv1.DiffLine) {
	if len(lines) > 0 {
		fmt.Fprintf(out, "\n%s\n", a.out.paint(strong, "text of the workflow"))
	}
	for _, l := range lines {
		text := clean(l.GetText())
		switch l.GetKind() {
		case "added":
			text = a.out.paint(good, "+"+text)
		case "removed":
			text = a.out.paint(bad, "-"+text)
		case "cut":
			text = a.out.paint(faint, "@@ "+text+" @@")
		default:
			text = " " + text
		}
		fmt.Fprintf(out, "  %s\n", text)
	}
}

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

func (a *app) cmdWorkflow() *cobra.Command {
	return a.family("workflow", "Stop a workflow from starting, or put a bad one back to a good text",
		a.cmdWorkflowDisable(), a.cmdWorkflowRestore(), a.cmdWorkflowEnable(), a.cmdWorkflowList())
}

func (a *app) cmdWorkflowDisable() *cobra.Command {
	return a.withdrawal(&fairleadv1.WithdrawRequest{Action: "disable"}, true, &cobra.Command{
		Use:   "disable [WORKFLOW]",
		Short: "Let nothing new start with a workflow, or with a component that workflows use",
		Long: `Disable a workflow: pushes, schedules and people start no run of it until it is enabled again, on any branch.
Runs that there are go on with the plan that they have, and are run again only with "fairlead rerun --force".

WORKFLOW is its path, or its file's name on the default branch. With --component it is something that workflows use: a
commit of another repository (OWNER/REPO@COMMIT, in full) or a digest (sha256:…).`,
		Example: "  fairlead workflow disable release --reason \"deploys to the wrong host\"\n" +
			"  fairlead workflow disable --component acme/tool@1f0c… --reason stolen",
	})
}

func (a *app) cmdWorkflowRestore() *cobra.Command {
	request := &fairleadv1.WithdrawRequest{Action: "restore"}
	command := a.withdrawal(request, false, &cobra.Command{
		Use:   "restore WORKFLOW",
		Short: "Let new runs of a workflow use its text at an earlier commit",
		Long: `Restore a workflow: whatever commit starts it from now on, its text is the one that it has at --commit, until
it is enabled again. The run is of the commit that started it in all else. Schedules become those of that text.`,
		Example: "  fairlead workflow restore release --commit v1.4 --reason \"1.5 skips the tests\"",
	})
	command.Flags().StringVar(&request.Commit, "commit", "", "full `commit`, branch or tag that has the good text")
	if err := command.MarkFlagRequired("commit"); err != nil {
		panic(err.Error()) // the flag was made above
	}
	return command
}

func (a *app) cmdWorkflowEnable() *cobra.Command {
	return a.withdrawal(&fairleadv1.WithdrawRequest{Action: "enable"}, true, &cobra.Command{
		Use:   "enable [WORKFLOW]",
		Short: "Let a workflow or a component count as it is written again",
		Long: `End what "disable" or "restore" began: from now on the workflow starts as its commits have it. What did not
start meanwhile is not started now.`,
		Example: "  fairlead workflow enable release --reason \"1.6 is good\"",
	})
}

// withdrawal makes a command of one that asks for a withdrawal.
func (a *app) withdrawal(
	request *fairleadv1.WithdrawRequest, components bool, command *cobra.Command,
) *cobra.Command {
	var key, of string
	command = a.withJSON(command)
	command.Args = cobra.MaximumNArgs(1)
	flags := command.Flags()
	flags.StringVar(&of, "repo", "", "`repository` on the server (default the one that you stand in)")
	flags.StringVar(&request.Reason, "reason", "", "one `sentence` for the record, and for everybody who is stopped by it")
	if components {
		flags.StringVar(&request.Component, "component", "", "`OWNER/REPO@COMMIT` or digest (git:…), instead of a workflow")
	}
	keyFlag(command, &key)
	a.complete(command, "repo", a.completeRepositories)
	if err := command.MarkFlagRequired("reason"); err != nil {
		panic(err.Error()) // the flag was made above
	}
	command.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		if (len(args) == 1) == (request.Component != "") {
			return usagef("name a workflow, or a component with --component")
		}
		if len(args) == 1 {
			request.Workflow = args[0]
		}
		r, err := repository(ctx, c, named(of))
		if err != nil {
			return err
		}
		request.Repository = r.GetRepository()
		response, err := c.Repositories.Withdraw(client.WithKey(ctx, key), request)
		if err != nil {
			return err
		}
		if a.json {
			return a.printMessage(response)
		}
		return a.printWithdrawals(r.GetName(), response.GetWithdrawals())
	})
	return command
}

func named(of string) []string {
	if of == "" {
		return nil
	}
	return []string{of}
}

func (a *app) cmdWorkflowList() *cobra.Command {
	command := a.withJSON(&cobra.Command{Use: "list [REPOSITORY]",
		Short:   "List the workflows and components of a repository that are disabled or restored",
		Example: "  fairlead workflow list acme/app",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: a.ask(a.completeRepositories)})
	command.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		r, err := repository(ctx, c, args)
		if err != nil {
			return err
		}
		response, err := c.Repositories.ListWithdrawals(ctx,
			&fairleadv1.ListWithdrawalsRequest{Repository: r.GetRepository()})
		if err != nil {
			return err
		}
		if a.json {
			return a.printMessage(response)
		}
		return a.printWithdrawals(r.GetName(), response.GetWithdrawals())
	})
	return command
}

func (a *app) printWithdrawals(of string, list []*fairleadv1.Withdrawal) error {
	if len(list) == 0 {
		_, err := fmt.Fprintf(a.out, "All workflows of %s count as they are written.\n", clean(of))
		return err
	}
	var rows [][]string
	for _, w := range list {
		what, state := w.GetWorkflow(), w.GetState()
		if what == "" {
			what = w.GetComponent()
		}
		if w.GetCommit() != "" {
			state += fmt.Sprintf(" to %.12s", w.GetCommit())
		}
		rows = append(rows, []string{what, state, clock(w.GetAt()), w.GetBy(), w.GetReason()})
	}
	_, err := fmt.Fprint(a.out, a.out.table([]string{"WORKFLOW OR COMPONENT", "IS", "SINCE", "BY", "REASON"}, rows))
	return err
}

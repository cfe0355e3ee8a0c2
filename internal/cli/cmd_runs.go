package cli

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

func (a *app) cmdRuns() *cobra.Command {
	request := &fairleadv1.ListRunsRequest{}
	command := a.withJSON(&cobra.Command{
		Use:     "runs",
		Short:   "List runs, newest first",
		Example: "  fairlead runs\n  fairlead runs -R . --outcome failure\n  fairlead runs --json | jq -r '.runs[].run'",
		Args:    cobra.NoArgs,
	})
	flags := command.Flags()
	flags.StringVarP(&request.Repository, "repository", "R", "",
		"`name` or id of a repository; . is the one you stand in")
	flags.StringVarP(&request.Workflow, "workflow", "w", "", "`path` of a workflow")
	flags.StringVar(&request.Ref, "ref", "", "full `ref`, as refs/heads/main")
	flags.StringVar(&request.Outcome, "outcome", "", "success, failure, cancelled, superseded or invalid")
	flags.StringVar(&request.State, "state", "", "queued, running, attention or concluded")
	flags.StringVar(&request.Before, "before", "", "only runs older than this `run`: the next of the page before")
	flags.Int32VarP(&request.Limit, "limit", "n", 20, "how many, at most 500")
	fixed(command, "outcome", "success", "failure", "cancelled", "superseded", "invalid")
	fixed(command, "state", "queued", "running", "attention", "concluded")
	a.complete(command, "repository", a.completeRepositories)
	command.RunE = a.call(func(ctx context.Context, c *client.Client, _ []string) error {
		if request.Limit < 1 || request.Limit > 500 {
			return usagef("--limit is %d; it must be 1 to 500", request.Limit)
		}
		if request.Repository == "." {
			name, err := standing(ctx)
			if err != nil {
				return err
			}
			request.Repository = name
		}
		response, err := c.Runs.ListRuns(ctx, request)
		if err != nil {
			return err
		}
		if a.json {
			return a.printMessage(response)
		}
		return a.printRuns(response)
	})
	return command
}

func (a *app) printRuns(response *fairleadv1.ListRunsResponse) error {
	if len(response.GetRuns()) == 0 {
		_, err := fmt.Fprintln(a.out, "No run.")
		return err
	}
	var rows [][]string
	for _, run := range response.GetRuns() {
		state := run.GetOutcome()
		if state == "" {
			state = run.GetState()
		}
		commit := run.GetCommit()
		rows = append(rows, []string{state, run.GetRun(), run.GetRepositoryName(), path.Base(run.GetWorkflow()) + " #" +
			strconv.FormatUint(run.GetNumber(), 10), strings.TrimPrefix(run.GetRef(), "refs/heads/"),
			commit[:min(7, len(commit))], span(run.GetCreated(), run.GetConcluded(), time.Now()), clock(run.GetCreated()),
			run.GetTitle()})
	}
	_, err := fmt.Fprint(a.out, a.out.table([]string{"STATE", "RUN", "REPOSITORY", "WORKFLOW", "REF", "COMMIT", "TIME",
		"CREATED", "TITLE"}, rows, 0))
	if next := response.GetNext(); next != "" && err == nil {
		_, err = fmt.Fprintln(a.out, a.out.paint(faint, "More: fairlead runs --before "+clean(next)))
	}
	return err
}

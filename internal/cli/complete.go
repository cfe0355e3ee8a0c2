package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// completionPatience bounds what a press of Tab may take.
const completionPatience = 1500 * time.Millisecond

// words is a source of completions; args are those before the word at hand.
type words func(ctx context.Context, c *client.Client, args []string) []string

// ask turns words into cobra's form. A server that is not there completes nothing.
func (a *app) ask(get words) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		c, err := a.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completionPatience)
		defer cancel()
		return get(ctx, c, args), cobra.ShellCompDirectiveNoFileComp
	}
}

// complete gives a flag completions from the server. The flag exists: the caller made it.
func (a *app) complete(command *cobra.Command, flag string, get words) {
	if err := command.RegisterFlagCompletionFunc(flag, a.ask(get)); err != nil {
		panic("flag " + flag + " of " + command.Name() + ": " + err.Error())
	}
}

// fixed gives a flag a closed list of completions.
func fixed(command *cobra.Command, flag string, texts ...string) {
	err := command.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(texts, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic("flag " + flag + " of " + command.Name() + ": " + err.Error())
	}
}

// completeRunJob completes RUN, then JOB.
func (a *app) completeRunJob(ctx context.Context, c *client.Client, args []string) []string {
	switch len(args) {
	case 0:
		return a.completeRuns(ctx, c, args)
	case 1:
		s, err := a.subject(ctx, c, args[0])
		if err != nil {
			return nil
		}
		run, err := read(ctx, c, s.run, false)
		if err != nil {
			return nil
		}
		var out []string
		for _, job := range run.GetJobs() {
			state := job.GetOutcome()
			if state == "" {
				state = job.GetState()
			}
			out = append(out, cobra.CompletionWithDesc(job.GetKey(), state))
		}
		return out
	}
	return nil
}

// completeRuns completes RUN with the newest runs.
func (a *app) completeRuns(ctx context.Context, c *client.Client, args []string) []string {
	if len(args) > 0 {
		return nil
	}
	response, err := c.Runs.ListRuns(ctx, &fairleadv1.ListRunsRequest{Limit: 30})
	if err != nil {
		return nil
	}
	out := []string{cobra.CompletionWithDesc(latest, "the newest run")}
	for _, run := range response.GetRuns() {
		state := run.GetOutcome()
		if state == "" {
			state = run.GetState()
		}
		what := state + "  " + clean(run.GetWorkflow()) + "  " + clean(run.GetTitle())
		out = append(out, cobra.CompletionWithDesc(run.GetRun(), what))
	}
	return out
}

func (a *app) completeRepositories(ctx context.Context, c *client.Client, _ []string) []string {
	response, err := c.Repositories.ListRepositories(ctx, &fairleadv1.ListRepositoriesRequest{})
	if err != nil {
		return nil
	}
	var out []string
	for _, repository := range response.GetRepositories() {
		out = append(out, cobra.CompletionWithDesc(repository.GetName(), clean(repository.GetUrl())))
	}
	return out
}

func (a *app) completeRunners(ctx context.Context, c *client.Client, args []string) []string {
	if len(args) > 0 {
		return nil
	}
	response, err := c.Pools.ListRunners(ctx, &fairleadv1.ListRunnersRequest{})
	if err != nil {
		return nil
	}
	var out []string
	for _, runner := range response.GetRunners() {
		out = append(out, cobra.CompletionWithDesc(runner.GetName(), runner.GetState()))
	}
	return out
}

func (a *app) completePools(ctx context.Context, c *client.Client, _ []string) []string {
	response, err := c.Pools.ListPools(ctx, &fairleadv1.ListPoolsRequest{})
	if err != nil {
		return nil
	}
	var out []string
	for _, pool := range response.GetPools() {
		out = append(out, pool.GetPool())
	}
	return out
}

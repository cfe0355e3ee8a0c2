package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/capture"
)

func (a *app) cmdRepo() *cobra.Command {
	return a.family("repo", "Register and list repositories", a.cmdRepoAdd(), a.cmdRepoList(), a.cmdRepoShow(),
		a.cmdRepoWorkflows(), a.cmdRepoSet(), a.cmdRepoHook())
}

func (a *app) cmdRepoAdd() *cobra.Command {
	request := &fairleadv1.AddRepositoryRequest{}
	var key string
	command := a.withJSON(&cobra.Command{
		Use:   "add PATH|URL",
		Short: "Register a repository that the server fetches from",
		Long: `Register a repository. The server keeps a mirror of it and looks for new commits on its branches.

PATH is a folder on the server's machine, and only an administrator may name one. A repository that nobody
fetches from needs no registration: "fairlead run" registers the one that you stand in and sends its commits.`,
		Example: "  fairlead repo add https://example.com/acme/app.git\n  fairlead repo add /srv/git/app.git --poll=false",
		Args:    cobra.ExactArgs(1),
	})
	flags := command.Flags()
	flags.StringVar(&request.Name, "name", "", "`name` of it on the server (default from its address)")
	flags.StringVar(&request.DefaultBranch, "default-branch", "",
		"protected `branch` (default the one that the repository says)")
	flags.BoolVar(&request.Poll, "poll", true, "look for new commits by itself; without it a hook must tell of pushes")
	keyFlag(command, &key)
	command.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		request.Url = args[0]
		if !strings.Contains(request.Url, "://") {
			if _, err := os.Stat(request.Url); err == nil || !strings.Contains(request.Url, ":") {
				path, err := filepath.Abs(request.Url)
				if err != nil {
					return fmt.Errorf("find %s: %w", request.Url, err)
				}
				request.Url = path
			}
		}
		if request.Name == "" {
			request.Name = (&capture.Tree{Root: "/", Origin: request.Url}).Name()
		}
		response, err := c.Repositories.AddRepository(client.WithKey(ctx, key), request)
		if err != nil {
			return err
		}
		if a.json {
			return a.printMessage(response)
		}
		verb := "Registered"
		if response.GetExisted() {
			verb = "Already registered:"
		}
		r := response.GetRepository()
		fmt.Fprintf(a.out, "%s %s (%s).\n", verb, clean(r.GetName()), clean(r.GetUrl()))
		if !r.GetPoll() {
			fmt.Fprintf(a.out, "It is not polled. To tell of pushes: fairlead repo hook %s --install %s\n",
				clean(r.GetName()), clean(request.Url))
		}
		return nil
	})
	return command
}

func (a *app) cmdRepoList() *cobra.Command {
	command := a.withJSON(&cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List repositories",
		Example: "  fairlead repo list", Args: cobra.NoArgs})
	command.RunE = a.call(func(ctx context.Context, c *client.Client, _ []string) error {
		response, err := c.Repositories.ListRepositories(ctx, &fairleadv1.ListRepositoriesRequest{})
		if err != nil {
			return err
		}
		if a.json {
			return a.printMessage(response)
		}
		if len(response.GetRepositories()) == 0 {
			_, err := fmt.Fprintln(a.out, "No repository.")
			return err
		}
		var rows [][]string
		for _, r := range response.GetRepositories() {
			rows = append(rows, []string{r.GetName(), dash(r.GetDefaultBranch()), fetched(r), dash(r.GetUrl()),
				r.GetRepository()})
		}
		_, err = fmt.Fprint(a.out, a.out.table([]string{"NAME", "BRANCH", "COMMITS", "URL", "ID"}, rows))
		return err
	})
	return command
}

// fetched says how commits of a repository reach the server.
func fetched(r *fairleadv1.Repository) string {
	switch {
	case r.GetUrl() == "":
		return "sent by clients"
	case r.GetPoll():
		return "polled"
	}
	return "on notice"
}

func (a *app) cmdRepoShow() *cobra.Command {
	command := a.withJSON(&cobra.Command{Use: "show [REPOSITORY]",
		Short: "Show a repository; without a name the one you stand in", Example: "  fairlead repo show acme/app",
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.ask(a.completeRepositories)})
	command.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		r, err := repository(ctx, c, args)
		if err != nil {
			return err
		}
		if a.json {
			return a.printMessage(r)
		}
		var out strings.Builder
		fmt.Fprintf(&out, "%s\n", a.out.paint(strong, clean(r.GetName())))
		field(&out, "Id", clean(r.GetRepository()))
		field(&out, "URL", clean(dash(r.GetUrl())))
		field(&out, "Branch", clean(dash(r.GetDefaultBranch())))
		field(&out, "Commits", fetched(r))
		field(&out, "Registered", clock(r.GetRegistered()))
		field(&out, "Git", clean(c.Base()+r.GetGitPath()))
		if schedules := r.GetSchedules(); len(schedules) > 0 {
			out.WriteString("\n" + a.out.table([]string{"SCHEDULE", "WORKFLOW", "NEXT", "LAST"}, scheduleRows(schedules)))
		}
		_, err = fmt.Fprint(a.out, out.String())
		return err
	})
	return command
}

func (a *app) cmdRepoWorkflows() *cobra.Command {
	request := &fairleadv1.ListWorkflowsRequest{}
	command := a.withJSON(&cobra.Command{Use: "workflows [REPOSITORY]",
		Short: "List the workflows of a repository, what starts them and their inputs",
		Long: `List the workflows of a repository at the tip of a branch, the events that start them, and the inputs that
"fairlead run --input NAME=VALUE" takes. Without a name it is the repository that you stand in.`,
		Example: "  fairlead repo workflows acme/app\n  fairlead repo workflows acme/app --ref release",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: a.ask(a.completeRepositories)})
	command.Flags().StringVar(&request.Ref, "ref", "", "`branch` or full ref (default the default branch)")
	command.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		r, err := repository(ctx, c, args)
		if err != nil {
			return err
		}
		request.Repository = r.GetRepository()
		response, err := c.Repositories.ListWorkflows(ctx, request)
		if err != nil {
			return err
		}
		if a.json {
			return a.printMessage(response)
		}
		if len(response.GetWorkflows()) == 0 {
			_, err := fmt.Fprintf(a.out, "No workflow at %s (%.12s).\n", clean(response.GetRef()), response.GetCommit())
			return err
		}
		var rows [][]string
		for _, w := range response.GetWorkflows() {
			var inputs []string
			for _, in := range w.GetInputs() {
				inputs = append(inputs, inputText(in))
			}
			rows = append(rows, []string{w.GetPath(), w.GetName(), dash(strings.Join(w.GetEvents(), ", ")),
				cmp.Or(w.GetProblem(), withdrawnText(w.GetWithdrawal())+dash(strings.Join(inputs, ", ")))})
		}
		_, err = fmt.Fprint(a.out, a.out.table([]string{"WORKFLOW", "NAME", "EVENTS", "INPUTS"}, rows))
		return err
	})
	return command
}

// withdrawnText says before its inputs that a workflow is disabled or restored.
func withdrawnText(w *fairleadv1.Withdrawal) string {
	switch {
	case w == nil:
		return ""
	case w.GetCommit() != "":
		return fmt.Sprintf("restored to %.12s; ", w.GetCommit())
	}
	return "disabled; "
}

// inputText is an input in a list: "level (number, required)", "size=small (small|large)".
func inputText(in *fairleadv1.WorkflowInput) string {
	out, kind := in.GetName(), in.GetType()
	if in.GetDefault() != "" {
		out += "=" + in.GetDefault()
	}
	if len(in.GetOptions()) > 0 {
		kind = strings.Join(in.GetOptions(), "|")
	}
	if in.GetRequired() {
		kind += ", required"
	}
	return out + " (" + kind + ")"
}

func scheduleRows(schedules []*fairleadv1.Schedule) (rows [][]string) {
	for _, one := range schedules {
		text := one.GetCron()
		if one.GetTimezone() != "" {
			text += " (" + one.GetTimezone() + ")"
		}
		rows = append(rows, []string{text, one.GetWorkflow(), clock(one.GetNextAt()), lastOf(one.GetLast())})
	}
	return rows
}

// lastOf says what came of an occurrence.
func lastOf(last *fairleadv1.Occurrence) string {
	if last == nil {
		return "-"
	}
	out := last.GetOccurrence() + " " + last.GetOutcome()
	if last.GetRun() != "" {
		out += " " + last.GetRun()
	}
	if n := last.GetMissed(); n > 0 {
		out += fmt.Sprintf(", %d before it missed", n)
	}
	if last.GetMessage() != "" {
		out += ": " + last.GetMessage()
	}
	return out
}

// repository finds the one that is named, else the one of the working folder.
func repository(ctx context.Context, c *client.Client, args []string) (*fairleadv1.Repository, error) {
	name := ""
	if len(args) > 0 {
		name = args[0]
	} else {
		var err error
		if name, err = standing(ctx); err != nil {
			return nil, err
		}
	}
	response, err := c.Repositories.GetRepository(ctx, &fairleadv1.GetRepositoryRequest{Repository: name})
	return response.GetRepository(), err
}

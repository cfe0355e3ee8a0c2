package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	"github.com/fairlead-ci/fairlead/internal/trigger/hook"
)

func (a *app) cmdRepoHook() *cobra.Command {
	var install string
	command := &cobra.Command{
		Use:   "hook [REPOSITORY]",
		Short: "Print or install the hook that tells Fairlead of pushes",
		Long: `Print a post-receive hook for a repository on this machine, or install it. A push then starts runs at once,
without polling. A hook that is there already is kept and runs first. The hook holds no credential, and never
fails a push, whatever happens.`,
		Example: "  fairlead repo hook app --install /srv/git/app.git",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: a.ask(a.completeRepositories),
	}
	command.Flags().StringVar(&install, "install", "", "write it into the git repository in this `folder`")
	command.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		r, err := repository(ctx, c, args)
		if err != nil {
			return err
		}
		options, err := a.hookOptions(r.GetName())
		if err != nil {
			return err
		}
		if install == "" {
			_, err := fmt.Fprint(a.out, hook.Script(options))
			return err
		}
		if _, err := os.Stat(install); err != nil {
			return usagef("%v", err)
		}
		changed, err := hook.Install(install, options)
		if err != nil {
			return err
		}
		text := "A push to %s starts runs of %s.\n"
		if !changed {
			text = "The hook was there already: a push to %s starts runs of %s.\n"
		}
		_, err = fmt.Fprintf(a.out, text, install, clean(r.GetName()))
		return err
	})
	return command
}

// hookOptions say where the hook finds the server. With a data folder that is all it
// needs, since the folder holds the token; otherwise the token must be in the environment
// of git, for it is never written into a script.
func (a *app) hookOptions(repository string) (hook.Options, error) {
	program, err := os.Executable()
	if err != nil {
		return hook.Options{}, fmt.Errorf("find this program: %w", err)
	}
	place, err := a.locate()
	if err != nil {
		return hook.Options{}, err
	}
	o := hook.Options{Binary: program, Repository: repository}
	if a.data == "" && a.Getenv("FAIRLEAD_SERVER") != "" {
		o.Server = place.Server
		a.note("note: FAIRLEAD_TOKEN must be in the environment that git runs the hook in")
		return o, nil
	}
	if o.Home, err = filepath.Abs(filepath.Dir(place.From)); err != nil {
		return hook.Options{}, fmt.Errorf("find data folder: %w", err)
	}
	return o, nil
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
)

// hookMark is in every hook that this program wrote, so that it may replace it.
const hookMark = "# Written by: fairlead repo hook"

func (a *app) cmdRepoHook() *cobra.Command {
	var install string
	var force bool
	command := &cobra.Command{
		Use:   "hook [REPOSITORY]",
		Short: "Print or install the hook that tells Fairlead of pushes",
		Long: `Print a post-receive hook for a repository on this machine, or install it. A push then starts runs at once,
without polling. The hook never fails a push, whatever happens.`,
		Example: "  fairlead repo hook app --install /srv/git/app.git",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: a.ask(a.completeRepositories),
	}
	command.Flags().StringVar(&install, "install", "", "write it into the git repository in this `folder`")
	command.Flags().BoolVar(&force, "force", false, "replace a post-receive hook that somebody else wrote")
	command.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		r, err := repository(ctx, c, args)
		if err != nil {
			return err
		}
		script, err := a.hookScript(r.GetName())
		if err != nil {
			return err
		}
		if install == "" {
			_, err := fmt.Fprint(a.out, script)
			return err
		}
		path, err := installHook(install, script, force)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.out, "Wrote %s: a push to this repository starts runs of %s.\n", path, clean(r.GetName()))
		return err
	})
	return command
}

// hookScript is the hook. It holds no credential: it says where the data folder is, whose
// token only its owner can read.
func (a *app) hookScript(repository string) (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	place, err := a.locate()
	if err != nil {
		return "", err
	}
	settings := "# FAIRLEAD_SERVER and FAIRLEAD_TOKEN must be in the environment of git.\n"
	if filepath.IsAbs(place.From) || strings.ContainsRune(place.From, filepath.Separator) {
		folder, err := filepath.Abs(filepath.Dir(place.From))
		if err != nil {
			return "", fmt.Errorf("find data folder: %w", err)
		}
		settings = "FAIRLEAD_DATA=" + quote(folder) + "\nexport FAIRLEAD_DATA\n"
	}
	return "#!/bin/sh\n" + hookMark + "\n# It tells Fairlead what was pushed and never fails a push.\n" + settings +
		"exec " + quote(program) + " hook post-receive --repository " + quote(repository) + "\n", nil
}

// quote makes one word of a shell script of any text.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// installHook writes the hook of the git repository in folder.
func installHook(folder, script string, force bool) (string, error) {
	hooks := ""
	for _, candidate := range []string{folder, filepath.Join(folder, ".git")} {
		if _, err := os.Stat(filepath.Join(candidate, "HEAD")); err == nil {
			hooks = filepath.Join(candidate, "hooks")
			break
		}
	}
	if hooks == "" {
		return "", usagef("%s is not a git repository", folder)
	}
	if err := os.MkdirAll(hooks, 0o755); err != nil {
		return "", fmt.Errorf("make hooks folder: %w", err)
	}
	path := filepath.Join(hooks, "post-receive")
	old, err := os.ReadFile(path)
	switch {
	case err == nil && !force && !strings.Contains(string(old), hookMark):
		return "", usagef("%s exists and was written by somebody else; add the line of the hook to it, or give --force",
			path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("read hook: %w", err)
	}
	// A push may be running the old file now, so it is replaced, not changed.
	file, err := os.CreateTemp(hooks, ".post-receive-*")
	if err != nil {
		return "", fmt.Errorf("write hook: %w", err)
	}
	_, err = file.WriteString(script)
	err = errors.Join(err, file.Chmod(0o755), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("write hook: %w", err), os.Remove(file.Name()))
	}
	return path, nil
}

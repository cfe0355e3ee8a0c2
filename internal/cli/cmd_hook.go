package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/trigger/hook"
)

const (
	// hookPatience bounds what a push waits for, all refs together.
	hookPatience = 14 * time.Second
	// hookRefsMax bounds how many refs of one push are told of; a push of more is an
	// import, not work that somebody wants run.
	hookRefsMax = 100
	// hookBytesMax bounds what is read of git: a million refs.
	hookBytesMax = 128 << 20
)

func (a *app) cmdHook() *cobra.Command {
	var name string
	receive := &cobra.Command{
		Use:   "post-receive",
		Short: "Tell the server what was pushed: lines \"old new ref\" on standard input",
		Args:  cobra.ArbitraryArgs,
	}
	receive.Flags().StringVar(&name, "repository", "", "`name` of the repository on the server (default by its path)")
	receive.RunE = a.do(func(ctx context.Context, _ []string) error {
		ctx, cancel := context.WithTimeout(ctx, hookPatience)
		defer cancel()
		// Whatever happens, what was pushed was pushed: this must not look as if it was not.
		if err := a.postReceive(ctx, name); err != nil {
			a.note("the push is done, but no run was started for it: %s", clean(client.Explain(err)))
		}
		return nil
	})
	family := a.family("hook", "Hooks of git", receive)
	family.Hidden = true
	return family
}

func (a *app) postReceive(ctx context.Context, name string) error {
	pushes, err := a.readPushes()
	if err != nil || len(pushes) == 0 {
		return err
	}
	c, err := a.connect()
	if err != nil {
		return err
	}
	if name == "" {
		if name, err = byPath(ctx, c, a.Getenv("GIT_DIR")); err != nil {
			return err
		}
	}
	pusher := a.Getenv("FAIRLEAD_PUSHER")
	for _, variable := range []string{"GL_USERNAME", "REMOTE_USER", "USER", "LOGNAME"} {
		if pusher == "" {
			pusher = a.Getenv(variable)
		}
	}
	for i, p := range pushes {
		if i == hookRefsMax {
			a.note("%d more refs were pushed; no run was started for them", len(pushes)-i)
			break
		}
		response, err := c.Repositories.NotifyPush(ctx, &fairleadv1.NotifyPushRequest{Repository: name, Ref: p.Ref,
			Before: p.Before, After: p.After, Pusher: pusher})
		if err != nil {
			return fmt.Errorf("tell of %s: %w", p.Ref, err)
		}
		for _, run := range response.GetRuns() {
			fmt.Fprintf(a.out, "Fairlead: %s  %s\n", clean(run.GetSummary().GetWorkflow()), clean(run.GetUrl()))
		}
		for _, reason := range response.GetReasons() {
			fmt.Fprintf(a.out, "Fairlead: %s\n", clean(reason))
		}
	}
	return nil
}

// readPushes reads what git writes to the hook. A deleted ref has no commit to run.
func (a *app) readPushes() ([]hook.Update, error) {
	text, err := io.ReadAll(io.LimitReader(a.Stdin, hookBytesMax))
	if err != nil {
		return nil, fmt.Errorf("read pushed refs: %w", err)
	}
	updates, err := hook.ParseUpdates(string(text))
	return slices.DeleteFunc(updates, func(u hook.Update) bool { return strings.Trim(u.After, "0") == "" }), err
}

// byPath finds the repository that was registered with the path of the one that git is
// in: a hook runs there.
func byPath(ctx context.Context, c *client.Client, gitDir string) (string, error) {
	if gitDir == "" {
		gitDir = "."
	}
	path, err := filepath.Abs(gitDir)
	if err != nil {
		return "", fmt.Errorf("find repository: %w", err)
	}
	response, err := c.Repositories.ListRepositories(ctx, &fairleadv1.ListRepositoriesRequest{})
	if err != nil {
		return "", err
	}
	for _, r := range response.GetRepositories() {
		if sameFolder(r.GetUrl(), path) || sameFolder(r.GetUrl(), strings.TrimSuffix(path, "/.git")) {
			return r.GetRepository(), nil
		}
	}
	return "", &refusal{code: "not_found", text: path + " is not registered; do that with: fairlead repo add " + path}
}

func sameFolder(a, b string) bool {
	if !filepath.IsAbs(a) {
		return false
	}
	one, err1 := os.Stat(a)
	other, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(one, other)
}

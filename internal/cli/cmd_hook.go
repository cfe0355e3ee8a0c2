package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

const (
	// hookPatience bounds what a push waits for, all refs together.
	hookPatience = 20 * time.Second
	// hookRefsMax bounds how many refs of one push are told of; a push of more is an
	// import, not work that somebody wants run.
	hookRefsMax = 100
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
	hook := a.family("hook", "Hooks of git", receive)
	hook.Hidden = true
	return hook
}

// push is one ref that moved.
type push struct{ before, after, ref string }

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
		response, err := c.Repositories.NotifyPush(ctx, &fairleadv1.NotifyPushRequest{Repository: name, Ref: p.ref,
			Before: p.before, After: p.after, Pusher: pusher})
		if err != nil {
			return fmt.Errorf("tell of %s: %w", p.ref, err)
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
func (a *app) readPushes() ([]push, error) {
	var out []push
	lines := bufio.NewScanner(a.Stdin)
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), " ", 3)
		if len(fields) != 3 {
			return nil, fmt.Errorf("read pushed refs: unexpected line %.100q", lines.Text())
		}
		if strings.Trim(fields[1], "0") != "" {
			out = append(out, push{fields[0], fields[1], fields[2]})
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read pushed refs: %w", err)
	}
	return out, nil
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

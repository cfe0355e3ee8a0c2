package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/workflow"
)

func (a *app) cmdLock() *cobra.Command {
	var check bool
	var name string
	var age time.Duration
	command := &cobra.Command{
		Use:   "lock [PATH]",
		Short: "Write down which commits the actions of the workflows are",
		Long: `Resolve what the workflows of a working tree use from other repositories, and what that uses in turn, and write
the commits into ` + workflow.LockFile + `. A repository with the policy lock runs exactly these; without
it the file has no effect. PATH is the top folder of the working tree.

The age of a commit is taken from its committer's date, which its author chose: --minimum-age keeps out what is new by
accident, and is no defence against somebody who writes another date.`,
		Example: "  fairlead lock\n  fairlead lock --check\n  fairlead lock --minimum-age 72h",
		Args:    cobra.MaximumNArgs(1),
	}
	flags := command.Flags()
	flags.BoolVar(&check, "check", false, "change nothing, and fail when the file would change")
	flags.DurationVar(&age, "minimum-age", 0, "refuse commits that say they are younger, unless they are locked already")
	flags.StringVar(&name, "repository", "", "`repository` on the server (default the one that you stand in)")
	command.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		root := "."
		if len(args) > 0 {
			root = args[0]
		}
		var names []string
		if name != "" {
			names = []string{name}
		}
		of, err := repository(ctx, c, names)
		if err != nil {
			return err
		}
		l := &locker{client: c, root: root, repository: of.GetRepository(), known: workflow.Components{},
			lock: workflow.Lock{}}
		file := filepath.Join(root, filepath.FromSlash(workflow.LockFile))
		before, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if l.before, err = workflow.ParseLock(before); err != nil {
			return fmt.Errorf("read %s: %w", workflow.LockFile, err)
		}
		if age > 0 {
			l.newest = time.Now().Add(-age)
		}
		if err := l.all(ctx); err != nil {
			return err
		}
		return a.locked(l, file, check)
	})
	return command
}

// locked says what changed, and writes it.
func (a *app) locked(l *locker, file string, check bool) error {
	changed := false
	for _, name := range l.names() {
		was, is := l.before[name], l.lock[name]
		if was == is {
			continue
		}
		changed = true
		switch {
		case was == "":
			fmt.Fprintf(a.out, "+ %s %s\n", clean(name), clean(is))
		case is == "":
			fmt.Fprintf(a.out, "- %s %s\n", clean(name), clean(was))
		default:
			fmt.Fprintf(a.out, "~ %s %s, was %s\n", clean(name), clean(is), clean(was))
		}
	}
	switch {
	case !changed:
		fmt.Fprintf(a.out, "%s is as it should be: %d components.\n", workflow.LockFile, len(l.lock))
		return nil
	case check:
		return fmt.Errorf("%s is not what the workflows use now; write it with fairlead lock", workflow.LockFile)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // part of a working tree
		return err
	}
	return os.WriteFile(file, l.lock.Encode(), 0o644) //nolint:gosec // part of a working tree
}

// locker resolves what the workflows of a folder use.
type locker struct {
	client       *client.Client
	root         string
	repository   string
	known        workflow.Components
	before, lock workflow.Lock
	newest       time.Time // commits after it are too young; zero: none is
}

func (l *locker) names() []string {
	var out []string
	for name := range l.lock {
		out = append(out, name)
	}
	for name := range l.before {
		if l.lock[name] == "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (l *locker) all(ctx context.Context) error {
	for _, folder := range []string{workflow.FolderFairlead, workflow.FolderGitHub} {
		for _, pattern := range []string{"*.yml", "*.yaml"} {
			files, err := filepath.Glob(filepath.Join(l.root, filepath.FromSlash(folder), pattern))
			if err != nil {
				return err
			}
			for _, file := range files {
				if err := l.file(ctx, file); err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
			}
		}
	}
	return nil
}

func (l *locker) file(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for {
		wanted := workflow.Wanted(workflow.Source{Path: file, Text: text}, workflow.Inputs{Components: l.known},
			workflow.DefaultLimits())
		if len(wanted) == 0 {
			return nil
		}
		request := &fairleadv1.ResolveComponentsRequest{Repository: l.repository}
		for _, r := range wanted {
			if r.Repository == "" {
				l.known[r.String()] = l.local(r)
				continue
			}
			request.References = append(request.References, r.String())
		}
		if len(request.GetReferences()) == 0 {
			continue
		}
		response, err := l.client.Repositories.ResolveComponents(ctx, request)
		if err != nil {
			return err
		}
		if err := l.take(response.GetComponents(), len(request.GetReferences())); err != nil {
			return err
		}
	}
}

// take notes what the server resolved.
func (l *locker) take(found []*fairleadv1.Component, asked int) error {
	if len(found) != asked {
		return fmt.Errorf("the server resolved %d of %d references", len(found), asked)
	}
	for _, c := range found {
		r, ok := workflow.ParseReference(c.GetReference())
		if !ok || c.GetProblem() != "" {
			return fmt.Errorf("%s can't be resolved: %s", clean(c.GetReference()), clean(c.GetProblem()))
		}
		if l.before[r.Source()] != c.GetDigest() && !l.newest.IsZero() {
			at, err := time.Parse(time.RFC3339Nano, c.GetCommitted())
			if err != nil || at.After(l.newest) {
				return fmt.Errorf("%s leads to a commit of %s, which is younger than --minimum-age allows",
					clean(r.String()), clean(c.GetCommitted()))
			}
		}
		parts := strings.Split(c.GetDigest(), ":")
		if len(parts) != 3 {
			return fmt.Errorf("the server has no digest of %s", clean(r.String()))
		}
		l.known[r.String()] = workflow.Component{Reference: r, Commit: parts[1], Tree: parts[2], File: c.GetFile(),
			Text: c.GetText()}
		l.lock[r.Source()] = c.GetDigest()
	}
	return nil
}

// local reads an action of the working tree. What is missing is the compiler's to say.
func (l *locker) local(r workflow.Reference) workflow.Component {
	out := workflow.Component{Reference: r, Problem: "its folder has no action.yml"}
	for _, name := range []string{"action.yml", "action.yaml"} {
		if !filepath.IsLocal(filepath.FromSlash(r.Path)) && r.Path != "" {
			break
		}
		file := filepath.Join(l.root, filepath.FromSlash(r.Path), name)
		if text, err := os.ReadFile(file); err == nil && out.Problem != "" {
			out.File, out.Text, out.Problem = file, text, ""
		}
	}
	return out
}

func (a *app) cmdWhereUsed() *cobra.Command {
	var all bool
	command := a.withJSON(&cobra.Command{
		Use:   "where-used COMPONENT",
		Short: "List the runs that use an action",
		Long: `List the runs that use an action: COMPONENT is its digest, its commit, OWNER/NAME@REVISION as the file has
it, or OWNER/NAME. The server looks at the newest runs; --all goes on until it has looked at every one.`,
		Example: "  fairlead where-used octo/greet@v1\n  fairlead where-used --all 8df08f3f86bd7e6c09f8dd545387539184548c17",
		Args:    cobra.ExactArgs(1),
	})
	command.Flags().BoolVar(&all, "all", false, "look at all runs, however old")
	command.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		request := &fairleadv1.ListComponentRunsRequest{Component: args[0]}
		whole := &fairleadv1.ListComponentRunsResponse{}
		for {
			response, err := c.Runs.ListComponentRuns(ctx, request)
			if err != nil {
				return err
			}
			whole.Runs = append(whole.Runs, response.GetRuns()...)
			whole.LookedAt += response.GetLookedAt()
			whole.After = response.GetAfter()
			if request.After = response.GetAfter(); !all || request.GetAfter() == "" {
				break
			}
		}
		if a.json {
			return a.printMessage(whole)
		}
		for _, one := range whole.GetRuns() {
			for _, component := range one.GetComponents() {
				fmt.Fprintf(a.out, "%s  %s  %s\n", clean(one.GetRun().GetRun()), clean(component.GetReference()),
					clean(component.GetDigest()))
			}
		}
		more := ""
		if whole.GetAfter() != "" {
			more = " There are older ones: --all looks at them too."
		}
		fmt.Fprintf(a.out, "%d of %d runs use it.%s\n", len(whole.GetRuns()), whole.GetLookedAt(), more)
		return nil
	})
	return command
}

func (a *app) cmdRepoSet() *cobra.Command {
	var policy string
	command := a.withJSON(&cobra.Command{Use: "set [REPOSITORY]", Short: "Change what holds for a repository",
		Long: `Change what holds for a repository; without a name the one that you stand in.

--components says which references to other repositories its workflows may have: record (any; a branch or tag is a
warning), lock (they must lead to what ` + workflow.LockFile + ` has) or require (full commit ids only).`,
		Example: "  fairlead repo set acme/app --components lock", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: a.ask(a.completeRepositories)})
	command.Flags().StringVar(&policy, "components", "", "`policy` about references: record, lock or require")
	command.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		r, err := repository(ctx, c, args)
		if err != nil {
			return err
		}
		if policy == "" {
			return errors.New("say what to change, with --components")
		}
		response, err := c.Repositories.SetComponentPolicy(ctx,
			&fairleadv1.SetComponentPolicyRequest{Repository: r.GetRepository(), Policy: policy})
		if err != nil {
			return err
		}
		if a.json {
			return a.printMessage(response)
		}
		fmt.Fprintf(a.out, "Components of %s: %s.\n", clean(response.GetRepository().GetName()),
			clean(response.GetRepository().GetComponentPolicy()))
		return nil
	})
	return command
}

package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// patienceDefault is how long a call or a stream waits for a server that went away, or is not
// there yet.
const patienceDefault = time.Minute

// Groups of commands in the help.
const (
	groupRuns   = "runs"
	groupSource = "source"
	groupServe  = "serve"
)

// root builds the tree of commands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "fairlead",
		Short: "Run the workflows of a repository, on this machine or on a fleet",
		Long: "Fairlead runs the workflows of a repository and shows what was asked for, what was seen and\n" +
			"what was committed.\n\n" +
			"Start a server with a runner in one terminal, and a run in another:",
		Example:           "  fairlead up\n  fairlead run",
		Version:           a.Version,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetVersionTemplate("fairlead {{.Version}}\n")
	flags := root.PersistentFlags()
	flags.StringVar(&a.data, "data", "", "`folder` of the server (default $FAIRLEAD_DATA, else the user's data folder)")
	flags.DurationVar(&a.patience, "patience", patienceDefault,
		"how long to wait for a server that does not answer; 0: not at all")
	root.AddGroup(&cobra.Group{ID: groupRuns, Title: "Runs:"},
		&cobra.Group{ID: groupSource, Title: "Repositories and workflows:"},
		&cobra.Group{ID: groupServe, Title: "Server and runners:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, command := range commands {
			command.GroupID = group
			root.AddCommand(command)
		}
	}
	add(groupRuns, a.cmdRun(), a.cmdRuns(), a.cmdShow(), a.cmdLogs(), a.cmdWhy(), a.cmdReplay(), a.cmdDiff(),
		a.cmdCancel(), a.cmdRetry(), a.cmdRerun(), a.cmdSettle())
	add(groupSource, a.cmdLint(), a.cmdPlan(), a.cmdEval(), a.cmdCompat(), a.cmdRepo(), a.cmdWorkflow(),
		a.cmdLock(), a.cmdWhereUsed())
	add(groupServe, a.cmdUp(), a.cmdServer(), a.cmdRunner(), a.cmdPool(), a.cmdSignIn(), a.cmdDoctor(),
		a.cmdAdmin(), a.cmdBench())
	root.AddCommand(a.cmdVersion(), a.cmdHook())
	root.AddCommand(a.Extra...)
	return root
}

// withJSON gives a command the flag --json.
func (a *app) withJSON(command *cobra.Command) *cobra.Command {
	command.Flags().BoolVar(&a.json, "json", false, "print JSON for scripts")
	return command
}

// family is a command that only holds others.
func (a *app) family(use, short string, members ...*cobra.Command) *cobra.Command {
	command := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			var names []string
			for _, member := range cmd.Commands() {
				names = append(names, member.Name())
			}
			if len(args) > 0 {
				return usagef("unknown command %q for %q: there are %s", args[0], cmd.CommandPath(), strings.Join(names, ", "))
			}
			return usagef("%q needs one of %s", cmd.CommandPath(), strings.Join(names, ", "))
		}}
	command.AddCommand(members...)
	return command
}

// oneOf checks a value against the words it may be.
func oneOf(name, value string, words ...string) error {
	for _, word := range words {
		if value == word {
			return nil
		}
	}
	return usagef("--%s is %q; it must be one of %s", name, value, strings.Join(words, ", "))
}

// pairs reads name=value texts.
func pairs(flag string, texts []string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usagef("--%s %q is not of the form name=value", flag, text)
		}
		if _, twice := out[name]; twice {
			return nil, usagef("--%s gives %q twice", flag, name)
		}
		out[name] = value
	}
	return out, nil
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

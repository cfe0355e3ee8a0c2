// Command fairlead-runner is the runner alone: what to install on a machine that
// executes jobs.
//
// It is deliberately small: it links the runner, the isolation drivers and the
// transport, and nothing of the server.
//
// Invariants: every flag has a variable of the environment; one line on standard output
// says when the runner can take work; everything else goes to standard error.
//
// Read next: ../../internal/runner/doc.go
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/fairlead-ci/fairlead/internal/isolate/choose"
	"github.com/fairlead-ci/fairlead/internal/runner"
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	runner.MaybeSupervise(choose.Drivers()...)
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	c, isolation, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fairlead-runner:", err)
		return exitUsage
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	c.Driver, c.Report, err = choose.Pick(ctx, isolation)
	if err == nil {
		c.Drivers = choose.Drivers()
		c.Ready = func(r runner.Ready) {
			fmt.Printf("ready %s (isolation %s: %s)\n", r.Name, r.Isolation, r.Reason)
		}
		err = runner.Run(ctx, c)
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "fairlead-runner:", err)
		return exitFailed
	}
	return 0
}

// parse reads flags; those that are not given come from the environment.
func parse(args []string) (runner.Config, string, error) {
	host, _ := os.Hostname()
	capacity, err := strconv.Atoi(env("CAPACITY", "1"))
	if err != nil {
		return runner.Config{}, "", fmt.Errorf("FAIRLEAD_CAPACITY: %w", err)
	}
	set := flag.NewFlagSet("fairlead-runner", flag.ContinueOnError)
	server := set.String("server", env("SERVER", ""), "address of the server, as http://host:port")
	token := set.String("token", env("TOKEN", ""), "one-time registration token; needed for the first start only")
	name := set.String("name", env("NAME", host), "name of this runner, unique in its pool")
	data := set.String("data", env("DATA", defaultData()), "folder of this runner")
	labels := set.String("labels", env("LABELS", ""), "further labels, separated by commas")
	isolation := set.String("isolation", env("ISOLATION", choose.Auto), "how jobs are isolated: process, oci or auto")
	slots := set.Int("capacity", capacity, "how many jobs run at a time")
	pass := set.String("pass-env", env("PASS_ENV", ""), "further variables that steps get, separated by commas")
	set.Usage = func() {
		fmt.Fprintln(set.Output(), "Usage: fairlead-runner --server URL [flags]")
		fmt.Fprintln(set.Output(), "Every flag can be set by a variable: FAIRLEAD_ and its name.")
		set.PrintDefaults()
	}
	if err := set.Parse(args); err != nil {
		return runner.Config{}, "", err
	}
	if set.NArg() > 0 {
		return runner.Config{}, "", fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if *server == "" {
		return runner.Config{}, "", errors.New("--server is missing: where is the server?")
	}
	// Nothing that this process starts needs the token.
	if err := os.Unsetenv("FAIRLEAD_TOKEN"); err != nil {
		return runner.Config{}, "", err
	}
	return runner.Config{
		Server: *server, Token: *token, Name: *name, Data: *data, Labels: list(*labels), Capacity: *slots,
		PassEnv: list(*pass), Version: version(), Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}, *isolation, nil
}

func env(name, fallback string) string { return cmp.Or(os.Getenv("FAIRLEAD_"+name), fallback) }

func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

func defaultData() string {
	if base, err := os.UserConfigDir(); err == nil {
		return filepath.Join(base, "fairlead-runner")
	}
	return ""
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// memberTTLMax is what a server takes as the lease of a member at most.
const memberTTLMax = 30 * time.Second

// listenDefault is where a server listens when nothing says otherwise.
const listenDefault = "127.0.0.1:8374"

func (a *app) cmdUp() *cobra.Command {
	o := ServeOptions{Up: true}
	command := &cobra.Command{
		Use:   "up",
		Short: "Start a server with a runner in it",
		Long: `Start a server and a runner in one process: all that one machine needs.

When runs can be taken, the one line "ready URL" is printed to standard output; everything else goes to
standard error, a link to sign in with among it. Ctrl-C stops taking work and ends the process; running
jobs go on in processes of their own, and the next start finds them.

Every flag can be set by a variable: FAIRLEAD_ and its name in capitals (FAIRLEAD_LISTEN, FAIRLEAD_LEASE_TTL).`,
		Example: "  fairlead up\n  fairlead up --data ./state --listen 127.0.0.1:0\n  fairlead up --isolation process",
		Args:    cobra.NoArgs,
	}
	flags := command.Flags()
	serveFlags(flags, &o)
	flags.StringVar(&o.Isolation, "isolation", "auto", "how jobs are isolated: auto, process or oci")
	flags.IntVar(&o.Capacity, "capacity", 0, "how many jobs run at a time (default half of the processors, at least 2)")
	flags.StringVar(&o.RunnerName, "runner-name", "", "`name` of the runner (default the machine's name)")
	flags.StringSliceVar(&o.Labels, "labels", nil, "further `labels` of the runner, separated by commas")
	fixed(command, "isolation", "auto", "process", "oci")
	command.RunE = a.serve(flags, &o)
	return command
}

func (a *app) cmdServer() *cobra.Command {
	o := ServeOptions{}
	command := &cobra.Command{
		Use:   "server",
		Short: "Start a server without a runner",
		Long: `Start a server. Runners on this and other machines dial in: see "fairlead runner token".

With --store and --shared it is one of several servers on one database, a fleet: each takes any request,
and the partitions of the history are spread over those that live. SIGTERM drains it: it gives its
partitions to the others, finishes its requests and leaves.

When requests are answered, the one line "ready URL" is printed to standard output; everything else goes
to standard error. Without TLS it listens on this machine only.

Every flag can be set by a variable: FAIRLEAD_ and its name in capitals (FAIRLEAD_LISTEN, FAIRLEAD_STORE).`,
		Example: "  fairlead server --data /var/lib/fairlead\n" +
			"  fairlead server --listen :8374 --tls-cert cert.pem --tls-key key.pem\n" +
			"  fairlead server --store postgres://fairlead@db/fairlead\n" +
			"  fairlead server --store postgres://fairlead@db/fairlead --shared /srv/fairlead --data /var/lib/fairlead",
		Args: cobra.NoArgs,
	}
	serveFlags(command.Flags(), &o)
	fleetFlags(command.Flags(), &o)
	fixed(command, "spread", "tenant", "repository")
	command.RunE = a.serve(command.Flags(), &o)
	return command
}

// Defaults of the bounds on open jobs: about 1.5 KB of memory stand behind each, and one repository
// leaves as much to all others as it may take itself.
const (
	openJobsDefault              = 1_000_000
	openJobsPerRepositoryDefault = 500_000
)

// serveFlags are the flags that up and server share. Durations that are zero leave the
// choice to the server.
func serveFlags(flags *pflag.FlagSet, o *ServeOptions) {
	flags.StringVar(&o.Listen, "listen", listenDefault, "`address` to listen on; port 0 takes a free one")
	flags.StringVar(&o.PublicURL, "public-url", "", "`URL` that people and runners reach it by (default from --listen)")
	flags.StringVar(&o.Store, "store", "", "PostgreSQL `URL` (default SQLite in the data folder)")
	flags.StringVar(&o.TLSCert, "tls-cert", "", "`file` with the certificate chain")
	flags.StringVar(&o.TLSKey, "tls-key", "", "`file` with the certificate's key")
	flags.StringVar(&o.Pprof, "pprof", "", "private `address` that serves profiles (default none)")
	flags.StringVar(&o.LogForm, "log-format", "text", "form of the program's own log: text or json")
	flags.StringVar(&o.LogLevel, "log-level", "info", "least level that is logged: debug, info, warn or error")
	flags.DurationVar(&o.LeaseTTL, "lease-ttl", 0, "how long a runner's lease lasts without a renewal (default 45s)")
	flags.DurationVar(&o.AbandonAfter, "abandon-after", 0,
		"after the last renewal the job must be gone (default twice --lease-ttl)")
	flags.StringVar(&o.ComponentSource, "component-source", "",
		"fetch actions of repositories that nobody registered from below this `address`, like https://github.com/")
	flags.DurationVar(&o.PollEvery, "poll-every", 0, "time between two looks at a polled repository (default 30s)")
	flags.DurationVar(&o.CancelGrace, "cancel-grace", 0,
		"time between asking a job to stop and killing it (default 10s)")
	flags.Var(&keepValue{&o.KeepLogs}, "keep-logs",
		"how long sealed logs are kept before they are removed, as 90d (default forever)")
	flags.Var(&keepOfValue{&o.KeepLogsOf}, "keep-logs-of",
		"the same for one class, as batch=14d; can be repeated, and goes before --keep-logs")
	flags.IntVar(&o.OpenJobs, "open-jobs", openJobsDefault,
		"jobs without an outcome that a partition takes before new work is refused; 0 is no bound")
	flags.IntVar(&o.OpenJobsPerTenant, "open-jobs-per-tenant", 0,
		"the same for each tenant, in each partition; 0 is no bound")
	flags.IntVar(&o.OpenJobsPerRepository, "open-jobs-per-repository", openJobsPerRepositoryDefault,
		"the same for each repository; 0 is no bound")
	flags.DurationVar(&o.ArchiveAfter, "archive-after", 0,
		"`age` at which history moves out of the database into compressed objects, such as 720h (default never)")
	flags.BoolVar(&o.Dev, "dev", false, "pages name the file that made them")
}

// fleetFlags are those of a server that is one of several.
func fleetFlags(flags *pflag.FlagSet, o *ServeOptions) {
	flags.StringVar(&o.Shared, "shared", "", "`folder` that all servers of the fleet use; makes this server one of them")
	flags.StringVar(&o.Name, "name", "", "`name` of this server in the fleet (default made once from the machine's name)")
	flags.StringVar(&o.Advertise, "advertise", "", "`URL` that the other servers reach this one by (default --public-url)")
	flags.IntVar(&o.Partitions, "partitions", 0,
		"partitions of the history, fixed when the store is first used (default 8 for a fleet, else 1)")
	flags.StringVar(&o.Spread, "spread", "",
		"how repositories spread over partitions: tenant or repository (default repository for a fleet)")
	flags.DurationVar(&o.MemberTTL, "member-ttl", 0,
		"how long a server that says nothing is a member: the others take over after that (default 2s)")
}

// serve runs the server that main handed in.
func (a *app) serve(flags *pflag.FlagSet, o *ServeOptions) func(*cobra.Command, []string) error {
	return a.do(func(ctx context.Context, _ []string) error {
		if err := a.environment(flags); err != nil {
			return err
		}
		if err := o.check(); err != nil {
			return err
		}
		folder, err := a.dataFolder()
		if err != nil {
			return err
		}
		o.Data, o.Version, o.Stdout, o.Stderr = folder, a.Version, a.Stdout, a.Stderr
		if o.Up && o.Capacity == 0 {
			o.Capacity = max(2, runtime.NumCPU()/2)
		}
		if o.Up && o.RunnerName == "" {
			if o.RunnerName, err = os.Hostname(); err != nil {
				return fmt.Errorf("find the machine's name: %w", err)
			}
		}
		if a.Serve == nil {
			return a.whole()
		}
		return a.Serve(ctx, *o)
	})
}

// environment sets flags that were not given from their variables.
func (a *app) environment(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(flag *pflag.Flag) {
		name := variable(flag.Name)
		if text := a.Getenv(name); text != "" && !flag.Changed && flag.Name != "help" && err == nil {
			if problem := flags.Set(flag.Name, text); problem != nil {
				err = usagef("%s=%q: %v", name, text, problem)
			}
		}
	})
	return err
}

// variable is the name of the variable that stands for a flag.
func variable(flag string) string {
	return "FAIRLEAD_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func (o *ServeOptions) check() error {
	err := errors.Join(
		oneOf("log-format", o.LogForm, "text", "json"),
		oneOf("log-level", o.LogLevel, "debug", "info", "warn", "error"))
	if o.Up {
		err = errors.Join(err, oneOf("isolation", o.Isolation, "auto", "process", "oci"))
	}
	if o.Spread != "" {
		err = errors.Join(err, oneOf("spread", o.Spread, "tenant", "repository"))
	}
	for name, value := range map[string]time.Duration{"lease-ttl": o.LeaseTTL, "abandon-after": o.AbandonAfter,
		"poll-every": o.PollEvery, "cancel-grace": o.CancelGrace, "member-ttl": o.MemberTTL,
		"archive-after": o.ArchiveAfter} {
		if value < 0 {
			err = errors.Join(err, usagef("--%s is negative", name))
		}
	}
	switch {
	case err != nil:
		return err
	case o.MemberTTL > memberTTLMax:
		return usagef("--member-ttl is %s; it must be at most %s", o.MemberTTL, memberTTLMax)
	case o.OpenJobs < 0 || o.OpenJobsPerTenant < 0 || o.OpenJobsPerRepository < 0:
		return usagef("--open-jobs, --open-jobs-per-tenant and --open-jobs-per-repository can't be negative")
	case o.Partitions < 0:
		return usagef("--partitions is negative")
	case o.Shared != "" && o.Store == "":
		return usagef("--shared belongs to a fleet, whose servers share a database: give --store as well")
	case o.Shared == "" && o.Advertise != "":
		return usagef("--advertise is for the other servers of a fleet: give --shared as well")
	case o.Capacity < 0:
		return usagef("--capacity is negative")
	case (o.TLSCert == "") != (o.TLSKey == ""):
		return usagef("--tls-cert and --tls-key belong together: give both, or neither")
	case o.LeaseTTL > 0 && o.LeaseTTL < leaseMin:
		return usagef("--lease-ttl is shorter than %s, in which no runner can renew", leaseMin)
	case o.AbandonAfter > 0 && cmp.Or(o.LeaseTTL, LeaseDefault) > o.AbandonAfter:
		return usagef("--abandon-after is shorter than --lease-ttl (%s): a job would be given up while its lease lasts",
			cmp.Or(o.LeaseTTL, LeaseDefault))
	}
	return nil
}

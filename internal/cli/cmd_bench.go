package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fairlead-ci/fairlead/internal/bench"
)

func (a *app) cmdBench() *cobra.Command {
	family := a.family("bench", "Measure this program on this machine", a.cmdBenchRun(), a.cmdBenchDispatch(),
		a.cmdBenchFleet(), a.cmdBenchStorm(), a.cmdBenchRunners(), a.cmdBenchLogs(), a.cmdBenchCompile(),
		a.cmdBenchRecover(), a.cmdBenchIdle(), a.cmdBenchFailover(), a.cmdBenchHistory())
	family.Long = `Every measurement starts a server of its own in a temporary folder, as a process of its own, and asks it
through the API and the runner protocol like anybody else. Its table says what machine it was, how busy,
and how long the disk took for a synced write before and after; server and generator are told apart.
--json prints the same as one object, --html writes a page. docs/ops/performance.md explains every figure.`
	return family
}

// benchFlags are those that all measurements share.
func benchFlags(flags *pflag.FlagSet, o *bench.Options) {
	flags.StringVar(&o.Store, "store", "", "PostgreSQL `URL` of an empty database for the server (default SQLite)")
	flags.StringVar(&o.Folder, "dir", "", "where the temporary `folder` is made: its disk is what is measured "+
		"(default the system's)")
	flags.StringVar(&o.HTML, "html", "", "also write the report as a page, to this `file`")
}

// bench wraps the work of a measurement.
func (a *app) bench(
	o *bench.Options,
	work func(ctx context.Context) (*bench.Report, error),
) func(*cobra.Command, []string) error {
	return a.do(func(ctx context.Context, _ []string) error {
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		o.Program, o.Version = program, a.Version
		if !a.json {
			o.Progress = a.Stderr
		}
		for _, path := range []string{o.HTML, o.Profile} { // not only when everything is measured
			if path == "" {
				continue
			}
			file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
			if err != nil {
				return Misuse(err)
			}
			if err := file.Close(); err != nil {
				return Misuse(err)
			}
		}
		report, err := work(ctx)
		if err != nil {
			return err
		}
		if a.json {
			err = a.printJSON(report)
		} else {
			err = report.Write(a.out)
		}
		if o.HTML == "" {
			return err
		}
		var page bytes.Buffer
		return errors.Join(err, report.WriteHTML(&page), os.WriteFile(o.HTML, page.Bytes(), 0o644))
	})
}

// atLeast checks counts of a measurement.
func atLeast(least int, flag string, value int) error {
	if value < least {
		return usagef("--%s is %d; it must be %d or more", flag, value, least)
	}
	return nil
}

func (a *app) cmdBenchRun() *cobra.Command {
	o, of := bench.Options{}, bench.RunOptions{}
	command := a.withJSON(&cobra.Command{
		Use:   "run",
		Short: "Time whole runs: from the start of fairlead run to its exit",
		Long: `Time whole processes of fairlead run against a warm "fairlead up": one job with an empty step, with the
parts of that time beside it, and ten jobs in a chain.`,
		Example: "  fairlead bench run\n  fairlead bench run --runs 100 --isolation process --json",
		Args:    cobra.NoArgs,
	})
	flags := command.Flags()
	benchFlags(flags, &o)
	flags.StringVar(&o.Isolation, "isolation", "auto", "how jobs are isolated: auto, process or oci")
	flags.IntVar(&of.Runs, "runs", 50, "runs of one job")
	flags.IntVar(&of.Chains, "chains", 10, "runs of ten jobs in a chain")
	flags.IntVar(&of.Warm, "warm", 5, "runs before that, not counted")
	fixed(command, "isolation", "auto", "process", "oci")
	command.RunE = a.bench(&o, func(ctx context.Context) (*bench.Report, error) {
		if err := oneOf("isolation", o.Isolation, "auto", "process", "oci"); err != nil {
			return nil, err
		}
		for flag, value := range map[string]int{"runs": of.Runs, "chains": of.Chains} {
			if err := atLeast(1, flag, value); err != nil {
				return nil, err
			}
		}
		if err := atLeast(0, "warm", of.Warm); err != nil {
			return nil, err
		}
		return bench.Run(ctx, o, of)
	})
	return command
}

func (a *app) cmdBenchDispatch() *cobra.Command {
	o, of := bench.Options{}, bench.DispatchOptions{}
	command := a.withJSON(&cobra.Command{
		Use:   "dispatch",
		Short: "Time the way of a job from ready to a runner",
		Long: `Time the way of a job from ready to a runner that has verified its manifest, over the runner protocol; and
count the jobs that go through when all runners are busy. The runners of the generator execute nothing.`,
		Example: "  fairlead bench dispatch --runners 100 --jobs 500",
		Args:    cobra.NoArgs,
	})
	flags := command.Flags()
	benchFlags(flags, &o)
	flags.IntVar(&of.Runners, "runners", 16, "runners that wait for work, one job each")
	flags.IntVar(&of.Jobs, "jobs", 200, "jobs one at a time, and again beside each other")
	command.RunE = a.bench(&o, func(ctx context.Context) (*bench.Report, error) {
		for flag, value := range map[string]int{"runners": of.Runners, "jobs": of.Jobs} {
			if err := atLeast(1, flag, value); err != nil {
				return nil, err
			}
		}
		return bench.Dispatch(ctx, o, of)
	})
	return command
}

func (a *app) cmdBenchLogs() *cobra.Command {
	o, of := bench.Options{}, bench.LogOptions{}
	var megabytes, chunk, rate int
	command := a.withJSON(&cobra.Command{
		Use:   "logs",
		Short: "Measure how much log becomes durable in a second",
		Long: `Measure how much log a server takes over the runner protocol. Runners send as fast as their chunks are
acknowledged, which is after the sync, or print by the clock with --rate. Some logs are followed meanwhile, as
people do in a terminal or a page. At the end every byte must be in the sealed logs, and have been seen.`,
		Example: "  fairlead bench logs --megabytes 10000 --runners 100\n" +
			"  fairlead bench logs --megabytes 3000 --runners 100 --rate 100 --followers 20",
		Args: cobra.NoArgs,
	})
	flags := command.Flags()
	benchFlags(flags, &o)
	flags.IntVar(&megabytes, "megabytes", 1000, "log in all")
	flags.IntVar(&of.Runners, "runners", 8, "runners, one printing job each")
	flags.IntVar(&chunk, "chunk", 256, "size of a chunk in KiB, at most 1024")
	flags.IntVar(&rate, "rate", 0, "megabytes printed in a second, in all (default as fast as they are acknowledged)")
	flags.IntVar(&of.Followers, "followers", 4, "logs that somebody follows while they grow")
	command.RunE = a.bench(&o, func(ctx context.Context) (*bench.Report, error) {
		for flag, value := range map[string]int{"megabytes": megabytes, "runners": of.Runners, "chunk": chunk} {
			if err := atLeast(1, flag, value); err != nil {
				return nil, err
			}
		}
		if chunk > 1024 {
			return nil, usagef("--chunk is %d; a server takes at most 1024 KiB at a time", chunk)
		}
		for flag, value := range map[string]int{"rate": rate, "followers": of.Followers} {
			if err := atLeast(0, flag, value); err != nil {
				return nil, err
			}
		}
		if per := rate * 1_000_000 / of.Runners; rate > 0 && per < 1000 {
			return nil, usagef("--rate is %d MB/s over %d runners; each must print 1 KB in a second at least", rate, of.Runners)
		}
		of.Followers = min(of.Followers, of.Runners)
		of.Bytes, of.ChunkBytes, of.Rate = int64(megabytes)*1_000_000, chunk<<10, int64(rate)*1_000_000
		return bench.Logs(ctx, o, of)
	})
	return command
}

func (a *app) cmdBenchRecover() *cobra.Command {
	o, of := bench.Options{}, bench.RecoverOptions{}
	command := a.withJSON(&cobra.Command{
		Use:   "recover",
		Short: "Time how soon a killed server gives out work again",
		Long: `Let many jobs wait, kill the server as a power cut would, start another in its place, and time how long it
takes until that one is ready, and until a runner that has asked all the time has verified a manifest.`,
		Example: "  fairlead bench recover --jobs 100000",
		Args:    cobra.NoArgs,
	})
	flags := command.Flags()
	benchFlags(flags, &o)
	flags.IntVar(&of.Jobs, "jobs", 10_000, "jobs that wait, in runs of ten")
	flags.IntVar(&of.Kills, "kills", 5, "how often the server is killed")
	command.RunE = a.bench(&o, func(ctx context.Context) (*bench.Report, error) {
		for flag, value := range map[string]int{"jobs": of.Jobs, "kills": of.Kills} {
			if err := atLeast(1, flag, value); err != nil {
				return nil, err
			}
		}
		return bench.Recover(ctx, o, of)
	})
	return command
}

func (a *app) cmdBenchIdle() *cobra.Command {
	o, of := bench.Options{}, bench.IdleOptions{}
	command := a.withJSON(&cobra.Command{
		Use:     "idle",
		Short:   "Measure what an idle server holds in memory and does",
		Long:    `Measure what "fairlead up" holds in memory, and what it does, when nobody asks for anything.`,
		Example: "  fairlead bench idle --seconds 60",
		Args:    cobra.NoArgs,
	})
	flags := command.Flags()
	benchFlags(flags, &o)
	flags.StringVar(&o.Isolation, "isolation", "auto", "how jobs are isolated: auto, process or oci")
	flags.IntVar(&of.Seconds, "seconds", 30, "how long to watch")
	fixed(command, "isolation", "auto", "process", "oci")
	command.RunE = a.bench(&o, func(ctx context.Context) (*bench.Report, error) {
		if err := oneOf("isolation", o.Isolation, "auto", "process", "oci"); err != nil {
			return nil, err
		}
		if err := atLeast(1, "seconds", of.Seconds); err != nil {
			return nil, err
		}
		return bench.Idle(ctx, o, of)
	})
	return command
}

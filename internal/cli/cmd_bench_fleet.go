package cli

import (
	"context"
	"math"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fairlead-ci/fairlead/internal/bench"
)

// Bounds of what a measurement may ask for.
const (
	slotsMax      = 1000
	jobsOfRunMax  = 256
	logBytesMax   = 1 << 20
	percentMost   = 100
	backlogMax    = 10_000_000
	durationLeast = time.Second
	rateLeast     = 0.01
	rateMost      = 1e6
	drainMost     = 10_000_000
)

func (a *app) cmdBenchFleet() *cobra.Command {
	o, of := bench.Options{}, bench.FleetOptions{}
	command := a.withJSON(&cobra.Command{
		Use:   "fleet",
		Short: "Load a server with many runners, and count what it commits",
		Long: `Load a server with many runners over the runner protocol: warm up, watch a steady window, finish what is
under way. Each runner has a registration and connections of its own, verifies every manifest, and for each
job reports that it began, a chunk of log and the result; it executes nothing. Everything is durable before it
is acknowledged.

Jobs are counted from the store's history by a process of its own, which also compares it with a book of every
request that was answered, every manifest that was verified and every result that was acknowledged. If one of
them is missing or a job was executed twice, there is no figure.

Without --rate the loop is closed: as many runs are under way as --ahead says, where one of which a job failed
or that was cancelled counts no longer. With --rate runs are asked for
by the clock, however long answers take, and latencies count from when a request was due.

With --drain that many jobs wait before the first runner comes, in whole runs, and the window is from then until
the last of their results is acknowledged. There is no warm-up, and --duration is that of --profile.

With --backlog so many jobs, in runs of ten, wait for a runner that is not there all the time: compare the
server's processor time for a job with that of a small backlog.`,
		Example: "  fairlead bench fleet --duration 10m --runners 200\n" +
			"  fairlead bench fleet --rate 500 --job-time 2s --runners 400 --slots 4 --html report.html\n" +
			"  fairlead bench fleet --drain 100000 --shape wide --runners 16 --slots 64\n" +
			"  fairlead bench fleet --store postgres://fairlead@db/empty --duration 1m --json",
		Args: cobra.NoArgs,
	})
	flags := command.Flags()
	benchFlags(flags, &o)
	flags.Lookup("store").Usage = "sqlite, or the PostgreSQL `URL` of an empty database for the server"
	flags.Lookup("store").DefValue = "sqlite"
	flags.StringVar(&o.Profile, "profile", "", "write the server's processor profile of the window to this `file`")
	flags.IntVar(&of.Runners, "runners", 100, "runners")
	flags.IntVar(&of.Slots, "slots", 4, "slots of each runner")
	flags.DurationVar(&of.Warm, "warm", 5*time.Second, "time before the window")
	flags.DurationVar(&of.Duration, "duration", 30*time.Second, "the steady window")
	flags.StringVar(&of.Shape, "shape", bench.ShapeFan, "graph of a run: fan, chain or wide")
	flags.IntVar(&of.Jobs, "jobs", 10, "jobs of a run")
	flags.Float64Var(&of.Rate, "rate", 0, "jobs asked for in a second (default a closed loop)")
	flags.IntVar(&of.Ahead, "ahead", 0, "runs under way in a closed loop (default enough for all slots, twice)")
	flags.DurationVar(&of.JobTime, "job-time", 0, "how long a job takes")
	flags.IntVar(&of.LogBytes, "log-bytes", 200, "log of a job, in one chunk")
	flags.IntVar(&of.Fail, "fail", 0, "`percent` of jobs that fail")
	flags.IntVar(&of.Decline, "decline", 0, "`percent` of leases that a runner declines, so that another attempt follows")
	flags.IntVar(&of.Cancel, "cancel", 0, "`percent` of runs that are cancelled at once")
	flags.IntVar(&of.Drain, "drain", 0, "jobs that wait before the first runner comes (default none: a steady window)")
	flags.IntVar(&of.Backlog, "backlog", 0, "jobs that wait all the time for a label which nobody has")
	fixed(command, "shape", bench.ShapeFan, bench.ShapeChain, bench.ShapeWide)
	run := a.bench(&o, func(ctx context.Context) (*bench.Report, error) {
		if err := fleetBounds(&of); err != nil {
			return nil, err
		}
		return bench.Fleet(ctx, o, of)
	})
	command.RunE = func(c *cobra.Command, args []string) error {
		if err := drainAlone(flags, of.Drain); err != nil {
			return err
		}
		if o.Store == "sqlite" {
			o.Store = ""
		}
		return run(c, args)
	}
	return command
}

// drainAlone refuses flags that mean nothing where jobs wait for the first runner.
func drainAlone(flags *pflag.FlagSet, drain int) error {
	if drain == 0 {
		return nil
	}
	for _, other := range []string{"warm", "rate", "ahead", "fail", "cancel"} {
		if flags.Changed(other) {
			return usagef("--%s means nothing with --drain: nothing is asked for once runners are there, and every job "+
				"is to succeed", other)
		}
	}
	if flags.Changed("duration") && !flags.Changed("profile") {
		return usagef("--duration means nothing with --drain, unless --profile is given")
	}
	return nil
}

func fleetBounds(of *bench.FleetOptions) error {
	if err := oneOf("shape", of.Shape, bench.ShapeFan, bench.ShapeChain, bench.ShapeWide); err != nil {
		return err
	}
	for _, n := range []struct {
		flag               string
		value, least, most int
	}{
		{"runners", of.Runners, 1, 1 << 20}, {"slots", of.Slots, 1, slotsMax}, {"jobs", of.Jobs, 1, jobsOfRunMax},
		{"ahead", of.Ahead, 0, 1 << 20},
		{"drain", of.Drain, 0, drainMost}, {"log-bytes", of.LogBytes, 0, logBytesMax}, {"fail", of.Fail, 0, percentMost},
		{"decline", of.Decline, 0, percentMost - 1}, {"cancel", of.Cancel, 0, percentMost},
		{"backlog", of.Backlog, 0, backlogMax},
	} {
		if n.value < n.least || n.value > n.most {
			return usagef("--%s is %d; it must be from %d to %d", n.flag, n.value, n.least, n.most)
		}
	}
	switch {
	case of.Rate != 0 && (of.Rate < rateLeast || of.Rate > rateMost || math.IsNaN(of.Rate)):
		return usagef("--rate is %v; it must be from %v to %v", of.Rate, rateLeast, rateMost)
	case of.Warm < 0 || of.JobTime < 0:
		return usagef("--warm and --job-time can't be negative")
	case of.Duration < durationLeast:
		return usagef("--duration is %s; it must be %s or more", of.Duration, durationLeast)
	}
	return nil
}

package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/internal/bench"
)

func (a *app) cmdBenchHistory() *cobra.Command {
	o := bench.Options{}
	of := bench.HistoryOptions{Load: bench.FleetOptions{LogBytes: 200}}
	command := a.withJSON(&cobra.Command{
		Use:   "history",
		Short: "Measure a server with millions of finished jobs beside one without",
		Long: `Load a server with many runners while its store is empty, write many finished jobs into the store, look at
random runs and at lists over the API, and put the same load on it again: both throughputs are in one report,
with their ratio. Then move all history into the archive and look at runs once more, unless --no-archive: with
ten million jobs that takes an hour. Figures are said as they come; the table at the end has all of them.

The finished jobs have the events of one that happened, written through the store's own port by a process of
its own; every one is folded by the core on the way, and a sample is loaded and compared.`,
		Example: "  fairlead bench history --jobs 2000000\n" +
			"  fairlead bench history --jobs 100000 --duration 10s --json",
		Args: cobra.NoArgs,
	})
	flags := command.Flags()
	benchFlags(flags, &o)
	flags.IntVar(&of.Jobs, "jobs", 2_000_000, "finished jobs")
	flags.BoolVar(&of.Live, "no-archive", false,
		"leave the history in the database, and end without the archive's figures")
	flags.IntVar(&of.Looks, "looks", 2_000, "runs that are shown, of those that were written")
	flags.IntVar(&of.Load.Runners, "runners", 100, "runners")
	flags.IntVar(&of.Load.Slots, "slots", 4, "slots of each runner")
	flags.DurationVar(&of.Load.Warm, "warm", 5*time.Second, "time before each window")
	flags.DurationVar(&of.Load.Duration, "duration", 30*time.Second, "each of the two windows")
	flags.StringVar(&of.Load.Shape, "shape", bench.ShapeFan, "graph of a run: fan, chain or wide")
	flags.IntVar(&of.Load.Jobs, "jobs-of-run", 10, "jobs of a run")
	fixed(command, "shape", bench.ShapeFan, bench.ShapeChain, bench.ShapeWide)
	command.RunE = a.bench(&o, func(ctx context.Context) (*bench.Report, error) {
		for flag, value := range map[string]int{"jobs": of.Jobs, "looks": of.Looks} {
			if err := atLeast(1, flag, value); err != nil {
				return nil, err
			}
		}
		if err := fleetBounds(&of.Load); err != nil {
			return nil, err
		}
		return bench.History(ctx, o, of)
	})
	return command
}

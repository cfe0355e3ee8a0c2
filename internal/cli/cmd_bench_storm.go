package cli

import (
	"context"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/internal/bench"
)

func (a *app) cmdBenchStorm() *cobra.Command {
	o, of := bench.Options{}, bench.StormOptions{}
	command := a.withJSON(&cobra.Command{
		Use:   "storm",
		Short: "Flood a server with requests of one repository, and time what another one feels of it",
		Long: `Flood a server with requests for runs of one repository, as fast as they are answered and whatever time to come
back a refusal names, while another repository asks by the clock for a run and cancels one: first alone, then
beside the flood. Times count from when a request was due, however long the one before it took.

The report says how much longer the other repository waits for an answer, for a runner that has verified the
first manifest, and for a committed cancel; how much of the flood was admitted and refused; and what the server
holds. As with bench fleet, a process of its own compares history with a book of what was answered, verified and
acknowledged: if anything is missing or was executed twice there is no figure.`,
		Example: "  fairlead bench storm\n" +
			"  fairlead bench storm --open-jobs-per-repository 20000 --duration 20s\n" +
			"  fairlead bench storm --duration 10m --html report.html",
		Args: cobra.NoArgs,
	})
	flags := command.Flags()
	benchFlags(flags, &o)
	flags.StringVar(&o.Profile, "profile", "", "write the server's processor profile of the storm to this `file`")
	flags.IntVar(&of.Runners, "runners", 8, "runners")
	flags.IntVar(&of.Slots, "slots", 8, "slots of each runner")
	flags.DurationVar(&of.JobTime, "job-time", 200*time.Millisecond, "how long a job takes")
	flags.DurationVar(&of.Before, "before", 15*time.Second, "time in which the other repository is alone")
	flags.DurationVar(&of.Duration, "duration", 60*time.Second, "time of the storm")
	flags.Float64Var(&of.Rate, "rate", 1, "runs of the other repository asked for, and cancelled, in a second")
	flags.IntVar(&of.FloodJobs, "flood-jobs", 1_000_000, "jobs of the flood: it ends when so many were admitted")
	flags.IntVar(&of.RunJobs, "jobs", 100, "jobs of a run of the flood")
	flags.IntVar(&of.Askers, "askers", 64, "requests of the flood that wait for their answers at once")
	flags.IntVar(&of.OpenJobsPerRepository, "open-jobs-per-repository", 0, "bound of the server (default its own)")
	command.RunE = a.bench(&o, func(ctx context.Context) (*bench.Report, error) {
		for _, n := range []struct {
			flag               string
			value, least, most int
		}{
			{"runners", of.Runners, 1, 1 << 20}, {"slots", of.Slots, 1, slotsMax}, {"jobs", of.RunJobs, 1, jobsOfRunMax},
			{"flood-jobs", of.FloodJobs, 1, backlogMax}, {"askers", of.Askers, 1, 1 << 16},
			{"open-jobs-per-repository", of.OpenJobsPerRepository, 0, backlogMax},
		} {
			if n.value < n.least || n.value > n.most {
				return nil, usagef("--%s is %d; it must be from %d to %d", n.flag, n.value, n.least, n.most)
			}
		}
		switch {
		case of.Rate < rateLeast || of.Rate > rateMost || math.IsNaN(of.Rate):
			return nil, usagef("--rate is %v; it must be from %v to %v", of.Rate, rateLeast, rateMost)
		case of.JobTime < 0:
			return nil, usagef("--job-time can't be negative")
		case of.Before < durationLeast || of.Duration < durationLeast:
			return nil, usagef("--before and --duration must be %s or more", durationLeast)
		}
		return bench.Storm(ctx, o, of)
	})
	return command
}

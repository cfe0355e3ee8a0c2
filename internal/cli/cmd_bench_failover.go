package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/internal/bench"
)

func (a *app) cmdBenchFailover() *cobra.Command {
	o, of := bench.Options{}, bench.FailoverOptions{}
	command := a.withJSON(&cobra.Command{
		Use:   "failover",
		Short: "Kill the servers of a fleet in turn, and time the next owner's first job",
		Long: `Start a fleet of servers on an empty PostgreSQL database, with eight partitions, and runners that know all
servers. In each partition a long job runs, and a chain of short ones. Then kill one server after another,
each time when the fleet is whole again and a job in each of its partitions waits for a slot; slots open
with the kill. What is timed is the way from the kill to the moment when such a job is given to a runner by
the next owner. At the end every job must have run once, by the record and by what jobs noted themselves,
and every log must be whole, both as it was followed meanwhile and as it is kept; otherwise the measurement
fails. It says how many jobs were done in a second, and how busy the processors were before the kills.

The program fairlead-runner must lie beside this one.`,
		Example: "  fairlead bench failover --store postgres://fairlead@db/empty\n" +
			"  fairlead bench failover --store postgres://fairlead@db/empty --member-ttl 500ms --kills 30",
		Args: cobra.NoArgs,
	})
	flags := command.Flags()
	benchFlags(flags, &o)
	flags.Lookup("store").Usage = "PostgreSQL `URL` of an empty database for the servers (required)"
	flags.IntVar(&of.Servers, "servers", 3, "servers of the fleet")
	flags.IntVar(&of.Kills, "kills", 12, "kills, one server after another")
	flags.IntVar(&of.Runners, "runners", 3, "runners, beside one for the jobs that wait")
	flags.DurationVar(&of.MemberTTL, "member-ttl", 0, "how long a server that says nothing is a member (default 2s)")
	command.RunE = a.bench(&o, func(ctx context.Context) (*bench.Report, error) {
		for flag, value := range map[string]int{"kills": of.Kills, "runners": of.Runners} {
			if err := atLeast(1, flag, value); err != nil {
				return nil, err
			}
		}
		if err := atLeast(2, "servers", of.Servers); err != nil {
			return nil, err
		}
		if of.MemberTTL < 0 || of.MemberTTL > memberTTLMax {
			return nil, usagef("--member-ttl is %s; it must be at most %s", of.MemberTTL, memberTTLMax)
		}
		if o.Store == "" {
			return nil, usagef("--store is missing: the servers of a fleet share a PostgreSQL database")
		}
		return bench.Failover(ctx, o, of)
	})
	return command
}

package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/internal/bench"
)

// pollMost is the longest poll that a server grants.
const pollMost = 45 * time.Second

func (a *app) cmdBenchRunners() *cobra.Command {
	o, of := bench.Options{}, bench.CrowdOptions{}
	command := a.withJSON(&cobra.Command{
		Use:   "runners",
		Short: "Measure what many runners cost that wait for work",
		Long: `Register many runners with a server, let each wait in a long poll over the runner protocol, and watch for a
while what the server holds in memory and does. Then runners that were drawn at random before get a job each,
one after the other, for the time from ready to a verified manifest. Each runner has a registration, a session
and a poll of its own; they live in this process and execute nothing.

Polls share connections over HTTP/2, as behind a balancer, since a process may open only so many. With
--connections 0 each runner has a connection of its own over HTTP/1.1; server and this process then need a
descriptor for each runner. With --servers the runners spread over a fleet, and memory and processor time
are those of all its servers: the one that leads the pool hears all of them, the others pass polls on.
Calls of the preparations that are refused for now are made again and counted, and registrations come more
slowly while answers are slow.`,
		Example: "  fairlead bench runners --runners 100000 --connections 4000\n" +
			"  fairlead bench runners --runners 19900 --connections 0 --json",
		Args: cobra.NoArgs,
	})
	flags := command.Flags()
	benchFlags(flags, &o)
	flags.StringVar(&o.Profile, "profile", "", "write the server's processor profile of the window to this `file`")
	flags.IntVar(&of.Runners, "runners", 1000, "runners that wait")
	flags.IntVar(&of.Connections, "connections", 40, "connections that their polls share, at most 200 polls each; "+
		"0: one for each runner")
	flags.IntVar(&of.Servers, "servers", 1, "servers of a fleet that the runners spread over; more than one need --store")
	flags.DurationVar(&of.MemberTTL, "member-ttl", 0,
		"how long a server of the fleet that says nothing is a member (default 2s)")
	flags.DurationVar(&of.Poll, "poll", pollMost, "how long a poll asks to wait")
	flags.DurationVar(&of.Window, "window", time.Minute, "how long to watch")
	flags.IntVar(&of.Jobs, "jobs", 1000, "jobs for runners drawn at random, at most as many as there are runners")
	run := a.bench(&o, func(ctx context.Context) (*bench.Report, error) {
		if err := crowdBounds(&of); err != nil {
			return nil, err
		}
		if of.Servers > 1 && o.Store == "" {
			return nil, usagef("--store is missing: the servers of a fleet share a PostgreSQL database")
		}
		return bench.Crowd(ctx, o, of)
	})
	command.RunE = func(c *cobra.Command, args []string) error {
		if !c.Flags().Changed("jobs") {
			of.Jobs = min(of.Jobs, of.Runners)
		}
		return run(c, args)
	}
	return command
}

// pollsOfConnection leaves room below what servers allow on one connection, for what is said
// beside the polls.
const pollsOfConnection = 200

func crowdBounds(of *bench.CrowdOptions) error {
	for _, n := range []struct {
		flag               string
		value, least, most int
	}{
		{"runners", of.Runners, 1, 200_000}, {"connections", of.Connections, 0, 1 << 16},
		{"jobs", of.Jobs, 0, of.Runners}, {"servers", of.Servers, 1, 64},
	} {
		if n.value < n.least || n.value > n.most {
			return usagef("--%s is %d; it must be from %d to %d", n.flag, n.value, n.least, n.most)
		}
	}
	switch {
	case of.MemberTTL < 0 || of.MemberTTL > memberTTLMax:
		return usagef("--member-ttl is %s; it must be at most %s", of.MemberTTL, memberTTLMax)
	case of.Connections > 0 && of.Runners > of.Connections*pollsOfConnection:
		return usagef("--connections is %d; %d runners need at least %d", of.Connections, of.Runners,
			(of.Runners+pollsOfConnection-1)/pollsOfConnection)
	case of.Connections > 0 && of.Connections < of.Servers:
		return usagef("--connections is %d; %d servers need at least as many", of.Connections, of.Servers)
	case of.Window < durationLeast:
		return usagef("--window is %s; it must be %s or more", of.Window, durationLeast)
	case of.Poll < durationLeast || of.Poll > pollMost:
		return usagef("--poll is %s; it must be from %s to %s", of.Poll, durationLeast, pollMost)
	}
	return nil
}

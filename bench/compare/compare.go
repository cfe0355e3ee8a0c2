package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/bench"
	"github.com/fairlead-ci/fairlead/internal/testkit/pg"
)

// Aims of the two ratios that have one: what Fairlead does in a second by what River does.
const (
	closedAim = 2
	drainAim  = 0.5
)

const (
	// jobsOfRun is how many jobs Fairlead is asked for in one request, as `fairlead bench fleet` has it.
	jobsOfRun = 10
	// few are the jobs under way where the time of one matters, and not how many fit into a commit.
	few = 32
)

// comparison is one under way.
type comparison struct {
	Options
	server  *server
	folder  string
	program string
	report  *Report
}

// Compare measures both sides.
func Compare(ctx context.Context, o Options) (_ *Report, err error) {
	if o.Producers == 0 {
		o.Producers = max(2*o.Runners*o.Slots/jobsOfRun, 2) * jobsOfRun
	}
	folder, err := os.MkdirTemp(o.Folder, "fairlead-compare-")
	if err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	c := &comparison{Options: o, folder: folder, program: o.Program, report: &Report{Go: runtime.Version(),
		River: riverVersion(), Rows: []Row{}, Ratios: []Ratio{}, Notes: []string{}}}
	disk := folder
	c.server = &server{admin: o.Store}
	if o.Store == "" {
		cluster, err := pg.StartCluster(ctx, pg.Options{Durable: true, Settings: []string{"shared_buffers=" + o.Shared}})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, cluster.Stop()) }()
		c.server.admin, disk = cluster.URL("postgres"), cluster.Folder()
	} else {
		c.report.note("the disk's times are of %s; PostgreSQL may have another disk", folder)
	}
	if c.report.PostgreSQL, err = c.server.durable(ctx); err != nil {
		return nil, err
	}
	if c.program == "" {
		c.progress("building fairlead")
		if c.program, err = build(ctx, folder); err != nil {
			return nil, err
		}
	}
	if c.report.Machine, err = bench.Describe(disk); err != nil {
		return nil, err
	}
	if c.report.Disk.Before, err = bench.SyncTimes(disk); err != nil {
		return nil, err
	}
	if err := c.measureAll(ctx); err != nil {
		return nil, err
	}
	if c.report.Disk.After, err = bench.SyncTimes(disk); err != nil {
		return nil, err
	}
	if len(c.report.Rows) == 0 {
		return nil, fmt.Errorf("no measurement is named %s", strings.Join(o.Only, " or "))
	}
	c.report.Machine.LoadAfter, err = bench.Load()
	c.report.compare()
	return c.report, err
}

// measureAll takes every row on a database of its own. Both sides of a ratio are neighbours:
// what else the machine does meanwhile is likely the same.
func (c *comparison) measureAll(ctx context.Context) error {
	steady := []string{"--warm", c.Warm.String(), "--duration", c.Duration.String()}
	single := append(slices.Clone(steady), "--jobs", "1")
	fewer := append(slices.Clone(single), "--ahead", fmt.Sprint(few))
	drain := []string{"--drain", fmt.Sprint(c.Drain), "--shape", "wide"}
	for _, row := range []struct {
		key, name string
		measure   func(ctx context.Context, database string) (Row, error)
	}{
		{riverClosedDefault, "River, its defaults", c.closedLoop(c.defaults(), c.Producers, 1)},
		{riverClosed, "River, tuned", c.closedLoop(c.Tuned, c.Producers, 1)},
		{fairleadClosed, "Fairlead, runs of ten jobs", c.fairlead(steady...)},
		{riverClosedTen, "River, tuned, ten jobs in a transaction", c.closedLoop(c.Tuned, max(c.Producers/jobsOfRun, 1),
			jobsOfRun)},
		{fairleadClosedOne, "Fairlead, runs of one job", c.fairlead(single...)},
		{riverClosedFew, "River, tuned, few under way", c.closedLoop(c.Tuned, few, 1)},
		{fairleadClosedFew, "Fairlead, runs of one job, few under way", c.fairlead(fewer...)},
		{riverDrainDefault, "River, its defaults", c.drainRiver(c.defaults())},
		{riverDrain, "River, tuned", c.drainRiver(c.Tuned)},
		{fairleadDrain, "Fairlead, runs of ten jobs", c.fairlead(drain...)},
	} {
		if len(c.Only) > 0 && !slices.Contains(c.Only, row.key) {
			continue
		}
		c.progress("%s (%s)", row.name, strings.ReplaceAll(row.key, "_", " "))
		taken, err := c.one(ctx, row.measure)
		if err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
		taken.Key, taken.Name = row.key, row.name
		c.report.Rows = append(c.report.Rows, taken)
		c.progress("  %.0f jobs/s", taken.JobsPerSecond)
	}
	return nil
}

// one measures on a fresh database, right after a checkpoint, and drops it.
func (c *comparison) one(ctx context.Context, measure func(context.Context, string) (Row, error)) (_ Row, err error) {
	database, drop, err := c.server.fresh(ctx)
	if err != nil {
		return Row{}, err
	}
	defer func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, drop(late))
	}()
	return measure(ctx, database)
}

// defaults are River's own settings, with as many workers as Fairlead has slots: it has no
// default for that.
func (c *comparison) defaults() Tuning { return Tuning{Workers: c.Runners * c.Slots} }

func (c *comparison) progress(format string, args ...any) {
	if c.Progress != nil {
		fmt.Fprintf(c.Progress, "compare: "+format+"\n", args...)
	}
}

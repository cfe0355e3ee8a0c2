// Command compare measures River, a job queue on PostgreSQL for Go, and Fairlead with the
// same work on the same PostgreSQL in one run: jobs that are asked for while others are done,
// and jobs that wait until somebody comes. It prints both with their ratios.
//
// It deliberately is a module of its own: what it needs, River under the Mozilla Public License
// 2.0 among it, is no part of the product and of nothing that is shipped. It believes neither
// side: River's jobs are counted from its table, Fairlead's from its history by
// `fairlead admin tally`. It does not make the two alike, docs/ops/performance.md says what
// each of them does for a job.
//
// Invariants: every commit of both sides is durable, or there is no figure; every job was
// completed exactly once, or there is no figure; River is measured with the settings that it
// has by itself and with those of its own benchmark, and ratios with an aim are to the faster.
//
// Read next: compare.go, river.go
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// gcPercent is that of Fairlead's server: the process with River in it collects as seldom.
const gcPercent = 200

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// Options say how much is asked of both sides.
type Options struct {
	Store   string // URL of a PostgreSQL server; "" starts a private cluster
	Program string // path of the program fairlead; "" builds it from the sources
	Folder  string // where temporary folders are made; "" is the system's
	Shared  string // shared_buffers of the private cluster

	Runners, Slots int // of Fairlead
	Warm, Duration time.Duration
	Drain          int // jobs that wait

	Producers int // of River's closed loop, one job under way each; 0: as many as Fairlead has under way
	Conns     int // of River's pool
	Tuned     Tuning
	Only      []string // keys of the rows that are taken; none: all
	Progress  io.Writer
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o := Options{Tuned: tuned, Progress: progress}
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.StringVar(&o.Store, "store", "", "URL of a PostgreSQL server on which databases may be made (default: a "+
		"private one)")
	flags.StringVar(&o.Program, "program", "", "path of the program fairlead (default: built from these sources)")
	flags.StringVar(&o.Folder, "dir", "", "where temporary folders are made (default the system's)")
	flags.StringVar(&o.Shared, "shared-buffers", "256MB", "of the private PostgreSQL")
	flags.IntVar(&o.Runners, "runners", 16, "Fairlead's runners")
	flags.IntVar(&o.Slots, "slots", 64, "slots of each runner")
	flags.DurationVar(&o.Warm, "warm", 5*time.Second, "time before each window")
	flags.DurationVar(&o.Duration, "duration", 15*time.Second, "each steady window")
	flags.IntVar(&o.Drain, "drain", 100_000, "jobs that wait until somebody comes")
	flags.IntVar(&o.Producers, "producers", 0, "River's producers (default as many as Fairlead has jobs under way)")
	flags.IntVar(&o.Conns, "conns", 24, "connections of River's pool")
	flags.IntVar(&o.Tuned.Workers, "workers", o.Tuned.Workers, "River's workers, where it is tuned")
	flags.DurationVar(&o.Tuned.Cooldown, "cooldown", o.Tuned.Cooldown, "River's FetchCooldown, where it is tuned")
	flags.DurationVar(&o.Tuned.Poll, "poll", o.Tuned.Poll, "River's FetchPollInterval, where it is tuned")
	only := flags.String("only", "", "keys of measurements, with commas between them (default all)")
	asJSON := flags.Bool("json", false, "print one object instead of a table")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	for name, value := range map[string]int{"runners": o.Runners, "slots": o.Slots, "drain": o.Drain, "conns": o.Conns,
		"workers": o.Tuned.Workers} {
		if value < 1 {
			return fmt.Errorf("-%s is %d; it must be 1 or more", name, value)
		}
	}
	if *only != "" {
		o.Only = strings.Split(*only, ",")
	}
	report, err := Compare(ctx, o)
	if err != nil {
		return err
	}
	if *asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	}
	return report.Write(out)
}

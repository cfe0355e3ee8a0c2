// Command cmd runs simulated worlds: many, one with its trace, or a failing one until it is
// short.
//
// It deliberately is not part of the product's programs.
//
// Invariants: a world that fails is told with one command that runs it again.
//
// Read next: internal/sim/world.go
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/internal/sim"
)

func main() {
	debug.SetGCPercent(gcPercent)
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// gcPercent trades memory for time: a world is garbage as a whole when it ends.
const gcPercent = 800

// options are the flags.
type options struct {
	first    uint64
	worlds   int
	duration time.Duration
	journal  string
	jobs     int
	trim     string
	internal string
	table    string
	trace    uint64
	reduce   uint64
	covers   bool
	archive  bool
}

func run(args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	flags.Uint64Var(&o.first, "first", 0, "seed of the first world; 0: 1, or where the journal ends")
	flags.IntVar(&o.worlds, "worlds", 0, "how many worlds; 0: as many as there is time for")
	flags.DurationVar(&o.duration, "for", 0, "how long; 0: until all worlds are done")
	flags.StringVar(&o.journal, "journal", "", "file that counts clean worlds since the sources changed")
	flags.IntVar(&o.jobs, "jobs", runtime.NumCPU(), "worlds at the same time")
	flags.StringVar(&o.trim, "trim", "", "what to leave out, as a reduction prints it")
	flags.StringVar(&o.internal, "sources", "internal", "folder of the sources, for the journal")
	flags.StringVar(&o.table, "transitions", "docs/reference/transitions.md", "page of all transitions, for the coverage")
	flags.Uint64Var(&o.trace, "trace", 0, "print the trace of one world")
	flags.Uint64Var(&o.reduce, "reduce", 0, "shorten a failing world")
	flags.BoolVar(&o.covers, "coverage", false, "print which transitions were met")
	flags.BoolVar(&o.archive, "archive", false, "servers move history into objects all the time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	trim, err := sim.ParseTrim(o.trim)
	if err != nil {
		return err
	}
	switch {
	case o.trace > 0:
		return trace(o.trace, trim, o.archive, out)
	case o.reduce > 0:
		return reduce(o.reduce, trim, out)
	case o.archive && o.journal != "":
		return errors.New("a journal counts the worlds that seeds draw: -archive makes others")
	case o.worlds == 0 && o.duration == 0:
		return errors.New("say how many -worlds, or -for how long")
	}
	return many(o, trim, out)
}

func trace(seed uint64, trim sim.Trim, archive bool, out io.Writer) error {
	r := sim.Run(seed, sim.Options{Trace: true, Trim: trim, Archive: archive})
	_, _ = fmt.Fprintln(out, sim.TraceKey)
	for _, line := range r.Trace {
		_, _ = fmt.Fprintln(out, line)
	}
	if r.Violation != nil {
		return r.Violation
	}
	return nil
}

func reduce(seed uint64, trim sim.Trim, out io.Writer) error {
	best, v := sim.Reduce(seed, trim, func(t sim.Trim, v *sim.Violation) {
		_, _ = fmt.Fprintf(out, "still fails with %s: %v\n", t, v)
	})
	if v == nil {
		return fmt.Errorf("seed %d does not fail", seed)
	}
	_, _ = fmt.Fprintf(out, "shortest: %v\n", v)
	_, _ = fmt.Fprintf(out, "go run ./internal/sim/cmd -trace %d -trim '%s'\n", seed, best)
	return nil
}

// many runs worlds side by side and stops at the first that fails.
func many(o options, trim sim.Trim, out io.Writer) error {
	var journal *sim.Journal
	if o.journal != "" {
		code, err := sim.CodeDigest(o.internal)
		if err != nil {
			return err
		}
		if journal, err = sim.OpenJournal(o.journal, code); err != nil {
			return err
		}
		if o.first == 0 {
			o.first = journal.Next
		}
	}
	o.first = max(o.first, 1)
	begun := time.Now()
	results := fleet(o, trim)
	var tally, unwritten sim.Tally
	var failed *sim.Result
	next, from := o.first, o.first
	early := map[uint64]*sim.Result{}
	for r := range results {
		early[r.Seed] = r
		for r = early[next]; r != nil && failed == nil; r = early[next] { // in the order of seeds
			delete(early, next)
			if r.Violation != nil {
				failed = r
				break
			}
			next++
			tally.Add(r)
			unwritten.Add(r)
			if journal != nil && unwritten.Worlds == 100 {
				if err := journal.Write(from, &unwritten); err != nil {
					return err
				}
				from, unwritten = next, sim.Tally{}
			}
		}
	}
	if journal != nil && unwritten.Worlds > 0 {
		if err := journal.Write(from, &unwritten); err != nil {
			return err
		}
	}
	tally.Print(out, time.Since(begun))
	if journal != nil { // what is met in the end is met by all worlds of these sources
		now := tally.Worlds
		tally.Join(&journal.Past)
		_, _ = fmt.Fprintf(out, "journal: %d clean worlds since the sources changed, %d of them now; %d events; %s\n",
			tally.Worlds, now, tally.Events, tally.Damage())
	}
	if err := coverage(o, &tally, out); err != nil {
		return err
	}
	if failed != nil {
		_, _ = fmt.Fprintf(out, "seed %d: %v\n", failed.Seed, failed.Violation)
		return fmt.Errorf("run it again: go run ./internal/sim/cmd -trace %d", failed.Seed)
	}
	return nil
}

// fleet gives the results of worlds as they come, out of order.
func fleet(o options, trim sim.Trim) <-chan *sim.Result {
	results := make(chan *sim.Result)
	var mu sync.Mutex
	next, stop := o.first, false
	deadline := time.Now().Add(o.duration)
	take := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case stop, o.worlds > 0 && next >= o.first+uint64(o.worlds), o.duration > 0 && time.Now().After(deadline):
			return 0, false
		}
		next++
		return next - 1, true
	}
	var all sync.WaitGroup
	for range o.jobs {
		all.Go(func() {
			for seed, ok := take(); ok; seed, ok = take() {
				r := sim.Run(seed, sim.Options{Trim: trim, Archive: o.archive})
				if r.Violation != nil {
					mu.Lock()
					stop = true
					mu.Unlock()
				}
				results <- &r
			}
		})
	}
	go func() {
		all.Wait()
		close(results)
	}()
	return results
}

func coverage(o options, t *sim.Tally, out io.Writer) error {
	page, err := os.ReadFile(o.table)
	if err != nil {
		return fmt.Errorf("read transitions: %w", err)
	}
	report := sim.Compare(t.Covers(), string(page))
	_, _ = fmt.Fprintf(out, "coverage: %d of %d transitions met, %d not (%d of them for a stated reason)\n",
		report.Met, report.Legal, len(report.Zero), report.Excused())
	if !o.covers {
		return nil
	}
	report.Print(out)
	return nil
}

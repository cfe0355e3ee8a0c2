// Command cmd runs the mutation suite: it breaks the product line by line and shows that the
// simulation finds it. With -probe it is the program inside a broken build.
//
// It is no part of the product, and no product binary links it.
//
// Read next: internal/sim/mutation/suite.go
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/sim/mutation"
)

func main() {
	probe := flag.Int("probe", 0, "run so many worlds of this build and write those in which a check failed")
	first := flag.Uint64("first", 1, "with -probe: the first seed")
	catches := flag.Int("catches", 3, "worlds in which each mutation is to be found")
	skip := flag.String("skip", "", "with -probe: seeds to leave out, with commas")
	only := flag.String("only", "", "names of mutations to try, with commas; empty: all")
	jobs := flag.Int("jobs", 2, "how many mutations are tried at once")
	most := flag.Int("most", 0, "worlds to try each mutation in at most; 0: as many as the table allows")
	record := flag.String("record", "", "a page whose table of mutations is written anew")
	flag.Parse()
	err := run(*probe > 0, func() error {
		return mutation.Probe(os.Stdout, *first, *probe, *catches, numbers(*skip))
	}, func(ctx context.Context) error {
		return suite(ctx, *only, *record, *most, mutation.Options{Jobs: *jobs, Catches: *catches})
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(probing bool, probe func() error, suite func(context.Context) error) error {
	if probing {
		return probe()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return suite(ctx)
}

func numbers(list string) (out []uint64) {
	for text := range strings.SplitSeq(list, ",") {
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			out = append(out, n)
		}
	}
	return out
}

func suite(ctx context.Context, only, record string, most int, o mutation.Options) error {
	all, err := mutation.Table()
	if err != nil {
		return err
	}
	root, err := mutation.Root(".")
	if err != nil {
		return err
	}
	o.Root, o.Whole, o.Progress = root, only == "" && most == 0, os.Stdout
	for _, m := range all {
		if only != "" && !slices.Contains(strings.Split(only, ","), m.Name) {
			continue
		}
		if most > 0 {
			m.Worlds = min(m.Worlds, most)
		}
		o.Mutations = append(o.Mutations, m)
	}
	r, err := mutation.Run(ctx, o)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s\n", r.Markdown())
	if record != "" {
		if err := mutation.Record(record, &r, time.Now()); err != nil {
			return err
		}
	}
	for _, p := range r.Problems {
		fmt.Println("FAIL", p)
	}
	fmt.Printf("%d of %d mutations caught\n", r.Caught(), len(r.Verdicts))
	if len(r.Problems) > 0 {
		return fmt.Errorf("the mutation suite failed: %d problems", len(r.Problems))
	}
	return nil
}

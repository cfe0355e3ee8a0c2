package mutation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/sim"
)

// Options of a suite.
type Options struct {
	Root      string     // of the module
	Mutations []Mutation // to try
	Whole     bool       // they are all there are: their number and the checkers count
	Jobs      int        // how many are tried at once; less than 1 is 1
	Catches   int        // worlds in which each is to be found; less than 1 is 1
	Patience  time.Duration
	Progress  io.Writer // a line each as they end; nil: none
}

// seeds say which worlds to run.
type seeds struct {
	first   uint64
	count   int
	catches int
	skip    []uint64
}

// Verdict is what became of one mutation.
type Verdict struct {
	Mutation Mutation
	Catches  []Catch // by seed; empty: it escaped
	Err      error   // no verdict: it did not fit, did not build, or its worlds did not end
	Took     time.Duration
}

// Caught reports whether a world found the mutation.
func (v *Verdict) Caught() bool { return v.Err == nil && len(v.Catches) > 0 }

// Report is the outcome of a suite.
type Report struct {
	Verdicts []Verdict // in the order of the table
	Dirty    []Catch   // of the unbroken build: there must be none
	Clean    int       // worlds of the unbroken build
	Unhit    []string  // checkers that no mutation hit
	Problems []string  // why the suite fails; none: it passes
}

// Caught counts the mutations that were found.
func (r *Report) Caught() (n int) {
	for i := range r.Verdicts {
		if r.Verdicts[i].Caught() {
			n++
		}
	}
	return n
}

// Run tries every mutation. An error means that there is no report at all: not even the
// unbroken build could be made or run.
func Run(ctx context.Context, o Options) (Report, error) {
	dir, err := os.MkdirTemp("", "fairlead-mutations-")
	if err != nil {
		return Report{}, fmt.Errorf("run mutations: %w", err)
	}
	defer os.RemoveAll(dir)
	o.Jobs, o.Catches = max(o.Jobs, 1), max(o.Catches, 1)
	if o.Patience == 0 {
		o.Patience = 20 * time.Minute
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	r := Report{}
	for _, m := range o.Mutations {
		r.Clean = max(r.Clean, m.Worlds)
	}
	path, err := build(ctx, o.Root, dir, nil)
	if err != nil {
		return Report{}, err
	}
	if r.Dirty, err = sweep(ctx, path, r.Clean, o.Jobs); err != nil {
		return Report{}, fmt.Errorf("run unbroken build: %w", err)
	}
	fmt.Fprintf(o.Progress, "%-44s %d worlds, %d not clean\n", "unbroken", r.Clean, len(r.Dirty))
	var skip []uint64
	for _, c := range r.Dirty {
		skip = append(skip, c.Seed)
	}
	r.Verdicts = make([]Verdict, len(o.Mutations))
	var mu sync.Mutex // of Progress
	each(o.Jobs, len(o.Mutations), func(i int) {
		r.Verdicts[i] = try(ctx, o, dir, &o.Mutations[i], skip)
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprint(o.Progress, r.Verdicts[i].line())
	})
	r.judge(o.Whole)
	return r, nil
}

// sweep runs all worlds of the unbroken build, divided among jobs.
func sweep(ctx context.Context, path string, count, jobs int) ([]Catch, error) {
	const share = 25
	parts := (count + share - 1) / share
	found, failed := make([][]Catch, parts), make([]error, parts)
	each(jobs, parts, func(i int) {
		found[i], failed[i] = hunt(ctx, path, seeds{first: uint64(i*share) + 1, count: min(share, count-i*share)})
	})
	return slices.Concat(found...), errors.Join(failed...)
}

// each calls f for 0 to n-1, at most jobs at once.
func each(jobs, n int, f func(int)) {
	var all sync.WaitGroup
	seats := make(chan struct{}, jobs)
	for i := range n {
		seats <- struct{}{}
		all.Go(func() {
			defer func() { <-seats }()
			f(i)
		})
	}
	all.Wait()
}

// try builds one mutation and runs worlds until it is found.
func try(ctx context.Context, o Options, dir string, m *Mutation, skip []uint64) Verdict {
	v := Verdict{Mutation: *m}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, o.Patience)
	defer cancel()
	path, err := build(ctx, o.Root, dir, m)
	if err != nil {
		v.Err = err
		return v
	}
	defer os.Remove(path)
	v.Catches, v.Err = hunt(ctx, path, seeds{1, m.Worlds, o.Catches, skip})
	v.Took = time.Since(began)
	return v
}

// judge says why the suite fails.
func (r *Report) judge(whole bool) {
	say := func(form string, args ...any) { r.Problems = append(r.Problems, fmt.Sprintf(form, args...)) }
	for _, c := range r.Dirty {
		say("the unbroken build is not clean: seed %d: %s: %s", c.Seed, c.Check, brief(c.What))
	}
	hit := map[string]bool{}
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		for _, c := range v.Catches {
			hit[c.Check] = true
		}
		switch {
		case v.Err != nil:
			say("no verdict on %s: %v", v.Mutation.Name, v.Err)
		case !v.Caught():
			say("%s escaped: %d worlds, and no check failed", v.Mutation.Name, v.Mutation.Worlds)
		}
	}
	if !whole {
		return
	}
	if len(r.Verdicts) < Fewest {
		say("there are %d mutations, and %d are required", len(r.Verdicts), Fewest)
	}
	for _, sentence := range sim.Sentences() {
		if !hit[sentence] {
			r.Unhit = append(r.Unhit, sentence)
			say("no mutation was caught by the check %q", sentence)
		}
	}
}

func (v *Verdict) line() string {
	switch {
	case v.Err != nil:
		return fmt.Sprintf("%-44s NO VERDICT %v\n", v.Mutation.Name, v.Err)
	case !v.Caught():
		return fmt.Sprintf("%-44s ESCAPED within %d worlds (%s)\n", v.Mutation.Name, v.Mutation.Worlds,
			v.Took.Round(time.Second))
	}
	c := v.Catches[0]
	return fmt.Sprintf("%-44s seed %4d  %s (%s; %s)\n", v.Mutation.Name, c.Seed, c.Check, brief(c.What),
		v.Took.Round(time.Second))
}

// brief is the first line, and not all of a long one.
func brief(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return domain.Clip(line, 200)
}

// Markdown writes the report as a table.
func (r *Report) Markdown() string {
	var b strings.Builder
	b.WriteString("| mutation | breaks | worlds until it was found | checks that found it |\n| --- | --- | --: | --- |\n")
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		worlds, by := "**escaped**", ""
		if v.Caught() {
			worlds = fmt.Sprint(v.Catches[0].Seed)
			var checks []string
			for _, c := range v.Catches {
				if !slices.Contains(checks, c.Check) {
					checks = append(checks, c.Check)
				}
			}
			by = strings.Join(checks, "; ")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", v.Mutation.Name, cell(v.Mutation.Breaks), worlds, cell(by))
	}
	return b.String()
}

func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

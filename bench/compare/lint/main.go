// Command lint compares how fast workflow files are checked here and by actionlint, in one process on
// one core, each over the same texts in memory. Programs that actionlint may start (shellcheck,
// pyflakes) are off, and it is given no project, so that it reads no other file.
//
//	FAIRLEAD_CORPORA=FOLDER go run ./lint [-rounds N]
//
// FOLDER/realworld holds the files. Ours compiles each file as a look at the file alone does, which
// ends with the plan or its diagnostics; actionlint runs all of its rules.
//
// Invariants: a figure is the median of all rounds; the two take turns in one process, so that
// what else the machine does meets both.
//
// Read next: internal/workflow/compile.go
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rhysd/actionlint"

	"github.com/fairlead-ci/fairlead/internal/workflow"
)

func main() {
	rounds := flag.Int("rounds", 5, "rounds of each, alternating; the median counts")
	flag.Parse()
	if err := run(os.Getenv("FAIRLEAD_CORPORA"), *rounds); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type file struct {
	path string
	text []byte
}

func run(corpora string, rounds int) error {
	if corpora == "" || rounds < 1 {
		return errors.New("set FAIRLEAD_CORPORA to the folder of the corpora, and ask for at least one round")
	}
	files, err := read(filepath.Join(corpora, "realworld"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("there is no workflow file below " + corpora)
	}
	runtime.GOMAXPROCS(1)
	theirs, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	if err != nil {
		return fmt.Errorf("make actionlint: %w", err)
	}
	checks := []check{
		{name: "fairlead", one: func(f file) error {
			workflow.Compile(workflow.Source{Path: f.path, Text: f.text}, workflow.Inputs{}, workflow.DefaultLimits())
			return nil
		}},
		{name: "actionlint", one: func(f file) error {
			_, err := theirs.Lint(f.path, f.text, nil)
			return err
		}},
	}
	for range rounds {
		for i := range checks {
			if err := checks[i].round(files); err != nil {
				return err
			}
		}
	}
	for i := range checks {
		checks[i].report(len(files))
	}
	return nil
}

// read collects the workflow files below a folder.
func read(folder string) ([]file, error) {
	var out []file
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".yml") && !strings.HasSuffix(path, ".yaml") {
			return err
		}
		text, err := os.ReadFile(path)
		out = append(out, file{path, text})
		return err
	})
	return out, err
}

// check is one of the two programs with what its rounds took.
type check struct {
	name          string
	one           func(file) error
	took          []time.Duration
	allocs, bytes uint64 // of the last round
}

func (c *check) round(files []file) error {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	for _, f := range files {
		if err := c.one(f); err != nil {
			return fmt.Errorf("%s: %s: %w", c.name, f.path, err)
		}
	}
	c.took = append(c.took, time.Since(start))
	runtime.ReadMemStats(&after)
	c.allocs, c.bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	return nil
}

func (c *check) report(files int) {
	slices.Sort(c.took)
	median := c.took[len(c.took)/2]
	n := uint64(files)
	fmt.Printf("%-10s %d files: %8.0f files/s, %6d allocations and %8d bytes a file\n", c.name, files,
		float64(files)/median.Seconds(), c.allocs/n, c.bytes/n)
}

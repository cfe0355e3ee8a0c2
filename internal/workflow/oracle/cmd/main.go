// Command cmd runs files of cases through the expression language and prints what passes
// and what differs. It fails if a difference has no reason.
//
// Read next: internal/workflow/oracle/corpus.go
package main

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/workflow/oracle"
)

func main() {
	folder := flag.String("corpus", "", "`folder` with eval.jsonl, fuzz.jsonl, interp.jsonl, syntax.jsonl, check.jsonl")
	root := flag.String("root", ".", "`folder` of the repository")
	all := flag.Bool("all", false, "print every difference, not only those without a reason")
	flag.Parse()
	if err := run(*folder, *root, *all); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(folder, root string, all bool) error {
	tallies, err := oracle.Corpus(folder)
	if err != nil {
		return err
	}
	if err := oracle.Explain(root, tallies); err != nil {
		return err
	}
	open := 0
	for _, t := range tallies {
		reasons := make(map[string]int)
		for _, d := range t.Differ {
			reasons[d.Reason]++
			if d.Reason == "" {
				open++
			}
			if d.Reason == "" || all {
				fmt.Printf("%s %.160q\n  %.500s\n  %s\n", d.ID, d.Text, d.Detail, cmp.Or(d.Reason, "NOT EXPLAINED"))
			}
		}
		fmt.Printf("%-7s %-22s %5d passed, %4d differ, %d without a reason\n", t.File, t.Authority,
			t.Passed,
			len(t.Differ), reasons[""])
		for _, reason := range slices.Sorted(maps.Keys(reasons)) {
			if reason != "" {
				fmt.Printf("  %5d %s\n", reasons[reason], reason)
			}
		}
	}
	if open > 0 {
		return fmt.Errorf("%d differences have no reason", open)
	}
	return nil
}

// Command cmd runs files of cases through the expression language and prints what passes
// and what differs.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/fairlead-ci/fairlead/internal/workflow/oracle"
)

func main() {
	folder := flag.String("corpus", "", "`folder` with eval.jsonl, fuzz.jsonl, interp.jsonl, syntax.jsonl, check.jsonl")
	all := flag.Bool("all", false, "print every difference")
	flag.Parse()
	tallies, err := oracle.Corpus(*folder)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, t := range tallies {
		fmt.Printf("%-7s %-22s %5d passed, %4d differ\n", t.File, t.Authority, t.Passed, len(t.Differ))
		for _, line := range t.Differ {
			if *all || t.Authority == "github" {
				fmt.Println("  " + line)
			}
		}
	}
}

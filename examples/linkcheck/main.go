// Command linkcheck finds links in Markdown files that lead nowhere: relative links to
// files that are not there, and anchors that no heading has.
//
// It deliberately never opens a network connection: a link with a scheme is somebody
// else's page, and a check that depends on the weather is soon ignored.
//
// Invariants: the same files give the same report, in the order of paths and lines; the
// exit code is 0 without findings, 1 with findings, 2 when a file can't be read.
//
// Read next: page.go, check.go
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("linkcheck", flag.ContinueOnError)
	flags.SetOutput(stderr)
	quiet := flags.Bool("quiet", false, "print findings only, no summary")
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: linkcheck [-quiet] [FOLDER]")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil || flags.NArg() > 1 {
		if err == nil {
			flags.Usage()
		}
		return 2
	}
	root := "."
	if flags.NArg() == 1 {
		root = flags.Arg(0)
	}
	report, err := Check(os.DirFS(root))
	if err != nil {
		fmt.Fprintln(stderr, "linkcheck:", err)
		return 2
	}
	for _, f := range report.Findings {
		fmt.Fprintln(stdout, f)
	}
	if !*quiet {
		fmt.Fprintf(stdout, "%d pages, %d links, %d dead\n", report.Pages, report.Links, len(report.Findings))
	}
	if len(report.Findings) > 0 {
		return 1
	}
	return 0
}

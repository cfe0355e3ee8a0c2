package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Statuses of findings.
const (
	findOK   = "ok"
	findWarn = "warn"
	findFail = "fail"
)

// Finding is what doctor found out about one thing.
type Finding struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warn or fail
	Text   string `json:"text"`   // what is there
	Fix    string `json:"fix"`    // what to do; "" when nothing is to be done
}

func (a *app) cmdDoctor() *cobra.Command {
	command := a.withJSON(&cobra.Command{
		Use:   "doctor",
		Short: "Check this machine: git, isolation, kernel, disk, clock, server",
		Long: `Check what Fairlead needs of this machine, by trying it, and say what to install.

A warning means that something works less well, or only some things do; a failure means that runs will not work
here. The exit code is 1 when something failed.`,
		Example: "  fairlead doctor\n  fairlead doctor --json | jq '.findings[] | select(.status != \"ok\")'",
		Args:    cobra.NoArgs,
	})
	command.RunE = a.do(func(ctx context.Context, _ []string) error {
		if a.Probe == nil && a.Whole != nil {
			return a.whole()
		}
		var found []Finding
		for _, check := range []func(context.Context) []Finding{
			checkGit, checkShells, a.checkIsolation, checkKernel, a.checkDisk, a.checkServer,
		} {
			found = append(found, check(ctx)...)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return a.diagnosed(found)
	})
	return command
}

func (a *app) diagnosed(found []Finding) error {
	failed := 0
	for _, f := range found {
		if f.Status == findFail {
			failed++
		}
	}
	if a.json {
		err := a.printJSON(struct {
			Findings []Finding `json:"findings"`
			Failed   int       `json:"failed"`
		}{found, failed})
		if err != nil {
			return err
		}
	} else {
		var out strings.Builder
		for _, f := range found {
			fmt.Fprintf(&out, "%s  %-16s %s\n", a.out.paint(toneOf(f.Status), fmt.Sprintf("%-4s", f.Status)), f.Name,
				clean(f.Text))
			if f.Fix != "" {
				fmt.Fprintf(&out, "      %-16s %s\n", "", a.out.paint(strong, clean(f.Fix)))
			}
		}
		if _, err := fmt.Fprint(a.out, out.String()); err != nil {
			return err
		}
	}
	if failed > 0 {
		return &ended{ExitFailed}
	}
	return nil
}

func ok(name, format string, args ...any) Finding {
	return Finding{Name: name, Status: findOK, Text: fmt.Sprintf(format, args...)}
}

// checkIsolation asks the drivers, which main knows. One that works is enough.
func (a *app) checkIsolation(ctx context.Context) []Finding {
	if a.Probe == nil {
		return nil
	}
	found := a.Probe(ctx)
	works := false
	for _, f := range found {
		works = works || f.Status == findOK
	}
	for i := range found {
		if works && found[i].Status == findFail {
			found[i].Status = findWarn
		}
	}
	return found
}

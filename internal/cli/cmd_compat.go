package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/internal/workflow"
)

// Verdicts of a workflow that was written for GitHub.
const (
	runsUnchanged = "runs unchanged"
	runsOtherwise = "runs, and differs"
	compilesOnly  = "compiles, and is not run by this release"
	runsNot       = "does not run"
)

// compatFile is the verdict about one file.
type compatFile struct {
	File    string        `json:"file"`
	Verdict string        `json:"verdict"`
	Points  []compatPoint `json:"points,omitempty"`
}

// compatPoint is one thing that is otherwise here, with the first place where it is.
type compatPoint struct {
	Code     string `json:"code"`
	Severity string `json:"severity"`
	Line     int    `json:"line"`
	Count    int    `json:"count"`
	Message  string `json:"message"`
	Hint     string `json:"hint,omitempty"`
}

func (a *app) cmdCompat() *cobra.Command {
	command := a.withJSON(&cobra.Command{
		Use:   "compat [FILE|FOLDER]...",
		Short: "Report which workflows run here as they are",
		Long: `Report for workflows that were written for GitHub what runs here unchanged, what runs and differs, what
compiles and is not run by this release, and what does not run, each with the reason, the first line and what to
do. Nothing is sent anywhere.

Without arguments the workflows of the repository that you stand in are looked at. Exit code 0: all of them run. 1:
at least one does not. 2: a file can't be read, or the command line makes no sense.`,
		Example: "  fairlead compat\n  fairlead compat ~/src/app --json",
	})
	command.RunE = a.do(func(_ context.Context, args []string) error {
		paths, notes, err := lintPaths(args)
		if err != nil {
			return err
		}
		for _, text := range notes {
			a.note("note: %s", clean(text))
		}
		var files []compatFile
		for _, path := range paths {
			text, err := a.readWorkflow(path)
			if err != nil {
				return err
			}
			src := workflow.Source{Path: filepath.ToSlash(path), Text: text}
			_, found := workflow.Compile(src, workflow.Inputs{}, workflow.DefaultLimits())
			files = append(files, compatOf(src.Path, found))
		}
		return a.printCompat(files)
	})
	return command
}

// differs are the codes that say that a workflow does something else here. Other warnings are
// about mistakes, which do the same wherever the workflow runs.
var differs = []string{"event_never_fires", "short_schedule"}

// compatOf judges a file by its diagnostics.
func compatOf(path string, found []workflow.Diagnostic) compatFile {
	out := compatFile{File: path, Verdict: runsUnchanged}
	at := make(map[string]int)
	for _, d := range found {
		switch {
		case d.Severity == workflow.Error:
			out.Verdict = runsNot
		case workflow.Required(d) && out.Verdict != runsNot:
			out.Verdict = compilesOnly
		case slices.Contains(differs, string(d.Code)) && out.Verdict == runsUnchanged:
			out.Verdict = runsOtherwise
		}
		if i, ok := at[string(d.Code)]; ok {
			out.Points[i].Count++
			continue
		}
		at[string(d.Code)] = len(out.Points)
		out.Points = append(out.Points, compatPoint{string(d.Code), string(d.Severity), d.Pos.Line, 1, d.Message, d.Hint})
	}
	weight := map[string]int{string(workflow.Error): 0, string(workflow.Warning): 1, string(workflow.Info): 2}
	slices.SortStableFunc(out.Points, func(a, b compatPoint) int {
		return cmp.Compare(weight[a.Severity], weight[b.Severity])
	})
	return out
}

func (a *app) printCompat(files []compatFile) error {
	count, reasons := make(map[string]int), make(map[string]int)
	for _, f := range files {
		count[f.Verdict]++
		for _, p := range f.Points {
			if p.Severity == string(workflow.Error) || workflow.Required(workflow.Diagnostic{Code: workflow.Code(p.Code)}) {
				reasons[p.Code]++
			}
		}
	}
	if a.json {
		report := map[string]any{"files": files, "verdicts": count, "refused_by_code": reasons}
		text, err := json.MarshalIndent(report, "", "  ")
		if err != nil {
			return fmt.Errorf("print report: %w", err)
		}
		fmt.Fprintf(a.out, "%s\n", text)
	} else {
		a.showCompat(files, count, reasons)
	}
	if count[runsNot]+count[compilesOnly] > 0 {
		return &ended{ExitFailed}
	}
	return nil
}

func (a *app) showCompat(files []compatFile, count, reasons map[string]int) {
	for _, f := range files {
		fmt.Fprintf(a.out, "%s: %s\n", a.out.paint(strong, clean(f.File)), f.Verdict)
		for _, p := range f.Points {
			times := ""
			if p.Count > 1 {
				times = fmt.Sprintf(" (and %d more)", p.Count-1)
			}
			fmt.Fprintf(a.out, "  line %d%s: %s [%s]\n", p.Line, times, clean(p.Message), p.Code)
			if p.Hint != "" {
				fmt.Fprintf(a.out, "    %s\n", clean(p.Hint))
			}
		}
	}
	fmt.Fprintf(a.out, "\n%s: %d run unchanged, %d run and differ, %d compile and are not run by this release, %d do "+
		"not run\n", plural(len(files), "file"), count[runsUnchanged], count[runsOtherwise], count[compilesOnly],
		count[runsNot])
	if len(reasons) == 0 {
		return
	}
	var codes []string
	for code := range reasons {
		codes = append(codes, code)
	}
	slices.SortFunc(codes, func(x, y string) int {
		return cmp.Or(cmp.Compare(reasons[y], reasons[x]), strings.Compare(x, y))
	})
	for _, code := range codes {
		fmt.Fprintf(a.out, "  %s in %s\n", code, plural(reasons[code], "file"))
	}
}

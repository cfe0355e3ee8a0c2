package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/internal/workflow"
)

// lintFile is what was found in one file.
type lintFile struct {
	found []workflow.Diagnostic
	text  []byte
}

// lintForm is how lint prints what it found; at most one is chosen.
type lintForm struct{ sarif, annotations, schema bool }

func (a *app) cmdLint() *cobra.Command {
	var event string
	var form lintForm
	command := &cobra.Command{
		Use:   "lint [FILE|FOLDER]...",
		Short: "Check workflow files, without a server",
		Long: `Check workflow files with the same compiler that a run uses. Nothing is sent anywhere.

Without arguments the workflows of the repository that you stand in are checked: ` + workflow.FolderFairlead + ` and
` + workflow.FolderGitHub + `. A single - reads standard input.

Every problem has a place, a code, a message and mostly a hint; the codes are explained in the reference of
diagnostics. Exit code 0: no errors (warnings and information do not fail). 1: at least one error. 2: a file
can't be read, or the command line makes no sense.

--json prints one object a line for each problem, --annotations workflow commands (::error file=…) that a CI
system shows beside the lines, --sarif a SARIF 2.1.0 log. --schema prints the JSON Schema of workflow files
for editors and checks nothing.`,
		Example: "  fairlead lint\n  fairlead lint .github/workflows/ci.yml\n  fairlead lint --json - <ci.yml\n" +
			"  fairlead lint --sarif >lint.sarif\n  fairlead lint --schema >workflow.schema.json",
	}
	flags := command.Flags()
	flags.StringVarP(&event, "event", "e", "", "check for this event too: push, schedule or workflow_dispatch")
	flags.BoolVar(&a.json, "json", false, "print one JSON object a line for each problem")
	flags.BoolVar(&form.sarif, "sarif", false, "print a SARIF log")
	flags.BoolVar(&form.annotations, "annotations", false, "print workflow commands that mark the lines")
	flags.BoolVar(&form.schema, "schema", false, "print the JSON Schema of workflow files instead")
	command.MarkFlagsMutuallyExclusive("json", "sarif", "annotations", "schema")
	events := []string{workflow.EventPush, workflow.EventSchedule, workflow.EventDispatch}
	fixed(command, "event", events...)
	command.RunE = a.do(func(_ context.Context, args []string) error {
		if form.schema {
			_, err := a.out.Write(workflow.Schema())
			return err
		}
		if event != "" {
			if err := oneOf("event", event, events...); err != nil {
				return err
			}
		}
		paths, notes, err := lintPaths(args)
		if err != nil {
			return err
		}
		var files []lintFile
		for _, path := range paths {
			text, err := a.readWorkflow(path)
			if err != nil {
				return err
			}
			name := filepath.ToSlash(path)
			_, found := workflow.Compile(workflow.Source{Path: name, Text: text}, workflow.Inputs{Event: event},
				workflow.DefaultLimits())
			files = append(files, lintFile{found, text})
		}
		return a.linted(files, notes, form)
	})
	return command
}

// linted prints what was found.
func (a *app) linted(files []lintFile, notes []string, form lintForm) error {
	count := make(map[workflow.Severity]int)
	for _, file := range files {
		for _, d := range file.found {
			count[d.Severity]++
		}
	}
	for _, text := range notes {
		a.note("note: %s", clean(text))
	}
	var err error
	switch {
	case a.json:
		err = printLintLines(a.out, files)
	case form.sarif:
		err = printSARIF(a.out, files, a.Version)
	case form.annotations:
		err = printAnnotations(a.out, files)
	default:
		for _, file := range files {
			fmt.Fprint(a.out, workflow.Render(file.found, file.text))
		}
		fmt.Fprintf(a.out, "%s: %s, %s\n", plural(len(files), "file"), plural(count[workflow.Error], "error"),
			plural(count[workflow.Warning], "warning"))
	}
	if err == nil && count[workflow.Error] > 0 {
		return &ended{ExitFailed}
	}
	return err
}

// lintPaths finds the files that the arguments name.
func lintPaths(args []string) (paths, notes []string, err error) {
	if len(args) == 0 {
		root, err := workflowRoot()
		if err != nil {
			return nil, nil, err
		}
		paths, notes, err = workflowsBelow(root)
		if err == nil && len(paths) == 0 {
			err = noWorkflow(workflow.FolderFairlead+" or "+workflow.FolderGitHub, notes)
		}
		return paths, notes, err
	}
	for _, arg := range args {
		at, err := os.Stat(arg)
		switch {
		case arg == "-":
			paths = append(paths, arg)
		case err != nil:
			return nil, nil, usagef("%v", err)
		case !at.IsDir():
			paths = append(paths, arg)
		default:
			below, shadowed, err := workflowsIn(arg)
			if err != nil {
				return nil, nil, err
			}
			if len(below) == 0 {
				return nil, nil, noWorkflow(arg, shadowed)
			}
			paths, notes = append(paths, below...), append(notes, shadowed...)
		}
	}
	return paths, notes, nil
}

// noWorkflow says that there is nothing to examine, and what else there is.
func noWorkflow(place string, notes []string) error {
	return usagef("%s", strings.Join(append([]string{"no workflow file in " + place}, notes...), "; "))
}

// isWorkflow reports whether a path is one where runs look for workflows.
func isWorkflow(path string) bool {
	chosen, _ := workflow.Select([]string{path})
	return len(chosen) == 1
}

// workflowsIn lists the workflows of a folder: those of the repository when it is one,
// else the YAML files in it.
func workflowsIn(folder string) (paths, notes []string, err error) {
	if paths, notes, err = workflowsBelow(folder); err != nil || len(paths)+len(notes) > 0 {
		return paths, notes, err
	}
	for _, pattern := range []string{"*.yml", "*.yaml"} {
		found, err := fs.Glob(os.DirFS(folder), pattern)
		if err != nil {
			return nil, nil, fmt.Errorf("list %s: %w", folder, err)
		}
		for _, name := range found {
			paths = append(paths, filepath.Join(folder, name))
		}
	}
	slices.Sort(paths)
	return paths, nil, nil
}

// workflowsBelow lists the workflows of the repository at root, as a run would find them.
func workflowsBelow(root string) (paths, notes []string, err error) {
	var all []string
	for _, folder := range []string{workflow.FolderFairlead, workflow.FolderGitHub} {
		entries, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(folder)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("list workflows: %w", err)
		}
		for _, entry := range entries {
			path := folder + "/" + entry.Name()
			switch {
			case entry.Type()&fs.ModeSymlink != 0 && isWorkflow(path):
				notes = append(notes, path+" is a symbolic link, and a run does not follow links: commit the file itself")
			case !entry.IsDir():
				all = append(all, path)
			}
		}
	}
	chosen, shadowed := workflow.Select(all)
	for _, path := range chosen {
		paths = append(paths, filepath.Join(root, filepath.FromSlash(path)))
	}
	for _, path := range shadowed {
		notes = append(notes, fmt.Sprintf("%s is not read: %s has a file of that name", path, workflow.FolderFairlead))
	}
	return paths, notes, nil
}

// workflowRoot is the nearest folder above that holds a repository or workflows, relative
// to the working folder where that is shorter.
func workflowRoot() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find working folder: %w", err)
	}
	for at, up := folder, ""; ; {
		for _, mark := range []string{".git", ".fairlead", workflow.FolderGitHub} {
			if _, err := os.Stat(filepath.Join(at, mark)); err == nil {
				return up, nil
			}
		}
		parent := filepath.Dir(at)
		if parent == at {
			return "", nil
		}
		at, up = parent, filepath.Join(up, "..")
	}
}

// readWorkflow reads a file, but not more of it than the compiler would look at.
func (a *app) readWorkflow(path string) ([]byte, error) {
	var from io.Reader = a.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, usagef("%v", err)
		}
		defer file.Close()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, int64(workflow.DefaultLimits().SourceBytes)+1))
	if err != nil {
		return nil, usagef("read %s: %s", path, strings.TrimPrefix(err.Error(), "read "+path+": "))
	}
	return text, nil
}

package workflow

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

const docs = "../../docs"

// The reference page of diagnostics is made from the table of codes.
func TestReferenceOfDiagnostics(t *testing.T) {
	var page strings.Builder
	page.WriteString(`# Diagnostics of workflow files

<!-- Generated from internal/workflow/syntax/codes.go. To change it, change the table and run
     go test ./internal/workflow -run TestReferenceOfDiagnostics -rewrite -->

` + "`fairlead lint`" + ` and every run report the problems of a workflow file with a code, a place and a hint.
All problems are reported at once, at most 100 of them. An error stops the run before it starts; a warning does not.
Codes never change their meaning. Those that begin with "unsupported" are about what the language has and this release
has not: nothing of a file is ignored. Those that begin with "not_run" compile, and a run is refused. Each code
has a page with an example and what it looks like when it is mended.

`)
	for _, severity := range []Severity{Error, Warning, Info} {
		title := map[Severity]string{Error: "Errors", Warning: "Warnings", Info: "Information"}[severity]
		fmt.Fprintf(&page, "## %s\n\n| code | means |\n| --- | --- |\n", title)
		for _, entry := range syntax.Codes() {
			if entry.Severity == severity {
				fmt.Fprintf(&page, "| [`%s`](diagnostics/%s.md) | %s |\n", entry.Code, entry.Code, entry.Means)
			}
		}
		page.WriteString("\n")
	}
	golden(t, docs+"/reference/diagnostics.md", []byte(strings.TrimRight(page.String(), "\n")+"\n"))
}

// Every code is produced by some test of this package, so that none is a promise only.
func TestEveryCodeIsProduced(t *testing.T) {
	var text strings.Builder
	for _, pattern := range []string{"*_test.go", "testdata/err/*.yml", "expr/*_test.go", "syntax/*_test.go",
		"expr/error.go",
		docs + "/reference/diagnostics/*.md"} {
		list, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range list {
			if pattern != "expr/error.go" {
				text.Write(read(t, path))
			}
		}
	}
	seen := make(map[syntax.Code]bool)
	for _, entry := range syntax.Codes() {
		if seen[entry.Code] {
			t.Errorf("%s is in the table twice", entry.Code)
		}
		seen[entry.Code] = true
		if !strings.Contains(text.String(), " "+string(entry.Code)) &&
			!strings.Contains(text.String(), "# `"+string(entry.Code)+"`") &&
			!strings.Contains(text.String(), `"`+string(entry.Code)+`"`) {
			t.Errorf("no test produces %s", entry.Code)
		}
		if !strings.HasSuffix(entry.Means, ".") {
			t.Errorf("%s has no sentence", entry.Code)
		}
	}
}

// Every example of a workflow in the manual compiles. A fence that says "yaml invalid"
// must not compile; one that has no jobs is a fragment and is left alone if it says
// "yaml fragment".
func TestExamplesOfTheManualCompile(t *testing.T) {
	count := 0
	for _, folder := range []string{"guide", "reference"} {
		list, err := filepath.Glob(filepath.Join(docs, folder, "*.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range list {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range examples(string(text)) {
				count++
				p, diagnostics := Compile(Source{Path: fmt.Sprintf("%s:%d", path, e.line), Text: []byte(e.text)}, Inputs{},
					Limits{})
				if (p == nil) != e.invalid {
					t.Errorf("%s:%d: compiles: %v\n%s", path, e.line, p != nil, Render(diagnostics, []byte(e.text)))
				}
			}
		}
	}
	if count < 5 {
		t.Errorf("only %d examples were found", count)
	}
}

type example struct {
	line    int
	text    string
	invalid bool
}

// examples cuts the fenced yaml blocks out of a page.
func examples(page string) []example {
	var out []example
	var open *example
	for number, line := range strings.Split(page, "\n") {
		fence, fenced := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fenced && open != nil:
			out, open = append(out, *open), nil
		case fenced && (fence == "yaml" || fence == "yaml invalid"):
			open = &example{line: number + 1, invalid: fence == "yaml invalid"}
		case open != nil:
			open.text += line + "\n"
		}
	}
	return out
}

// Command conform compares the compiler of workflows with what others say of the same files:
// cases of GitHub's own parser, cases of a linter, and the workflow files of known projects.
//
//	FAIRLEAD_CORPORA=FOLDER go run ./internal/workflow/conform [-v]
//
// FOLDER holds workflow/github-reader.jsonl, workflow/lint.jsonl, and realworld with
// oracle.jsonl beside the files. Nothing of it belongs to this repository, so this is not a
// test; what it finds becomes tests with files of our own.
//
// Read next: internal/workflow/oracle_test.go
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow"
)

func main() {
	verbose := flag.Bool("v", false, "print every difference with all diagnostics")
	flag.Parse()
	folder := os.Getenv("FAIRLEAD_CORPORA")
	if folder == "" {
		fmt.Fprintln(os.Stderr, "set FAIRLEAD_CORPORA to the folder of the corpora")
		os.Exit(2)
	}
	c := &comparison{out: os.Stdout, folder: folder, verbose: *verbose}
	for _, part := range []func() error{c.reader, c.lint, c.realworld} {
		if err := part(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

type comparison struct {
	out     io.Writer
	folder  string
	verbose bool
}

// verdict is what the compiler says of a file: the errors that mean it is wrong, whether there
// is a warning, and the codes of what it asks for that this release has not.
type verdict struct {
	wrong       []workflow.Diagnostic
	warned      bool
	unsupported map[string]bool
}

func judge(path string, text []byte, called workflow.Components) verdict {
	_, list := workflow.Compile(workflow.Source{Path: path, Text: text}, workflow.Inputs{Components: called},
		workflow.Limits{})
	v := verdict{unsupported: make(map[string]bool)}
	for _, d := range list {
		v.warned = v.warned || d.Severity == workflow.Warning
		switch {
		case d.Code == "unresolved_reference":
			// The cases have no files of actions.
		case d.Severity != workflow.Error, d.Code == "too_many_problems" && len(v.unsupported)+len(v.wrong) > 0:
		case strings.HasPrefix(string(d.Code), "unsupported_"):
			v.unsupported[string(d.Code)] = true
		default:
			v.wrong = append(v.wrong, d)
		}
	}
	return v
}

// components are the files of a case that are called, of the same repository or of others.
func components(files map[string]string) workflow.Components {
	out := make(workflow.Components, len(files))
	for name, text := range files {
		path, revision, remote := strings.Cut(name, "@")
		r := workflow.Reference{Path: path}
		if parts := strings.SplitN(path, "/", 3); remote && len(parts) == 3 {
			r = workflow.Reference{Repository: parts[0] + "/" + parts[1], Path: parts[2], Revision: revision}
		}
		out[r.String()] = workflow.Component{Reference: r, File: r.Path, Text: []byte(text)}
	}
	return out
}

// reader compares with the cases of GitHub's parser.
func (c *comparison) reader() error {
	type row struct {
		ID     string            `json:"id"`
		Source string            `json:"src"`
		Main   string            `json:"main"`
		Files  map[string]string `json:"files"`
		Errors []string          `json:"errors"`
	}
	counts := make(map[string]int)
	err := lines(filepath.Join(c.folder, "workflow/github-reader.jsonl"), func(r row) {
		v := judge(r.Main, []byte(r.Files[r.Main]), components(r.Files))
		c.compare(counts, r.ID+" "+r.Source, len(r.Errors) == 0, r.Errors, v)
	})
	c.total("cases of GitHub's parser", counts)
	return err
}

// lint compares with a linter's cases; it refuses more than GitHub does.
func (c *comparison) lint() error {
	type row struct {
		ID       string `json:"id"`
		Source   string `json:"src"`
		Suite    string `json:"suite"`
		Path     string `json:"path"`
		Text     string `json:"text"`
		Expect   string `json:"expect"`
		Compiler bool   `json:"compile_level"`
		Findings []struct {
			Line    int    `json:"line"`
			Column  int    `json:"col"`
			Message string `json:"msg"`
		} `json:"findings"`
	}
	counts, warned := make(map[string]int), 0
	err := lines(filepath.Join(c.folder, "workflow/lint.jsonl"), func(r row) {
		if strings.Contains(r.Suite, "github-action") {
			return
		}
		v := judge(r.Path, []byte(r.Text), nil)
		if r.Expect == "reject" && len(v.wrong) == 0 && v.warned {
			warned++
		}
		var said []string
		for _, f := range r.Findings {
			said = append(said, fmt.Sprintf("%d:%d %s", f.Line, f.Column, f.Message))
		}
		c.compare(counts, r.ID+" "+r.Source, r.Expect == "accept", said, v)
	})
	counts["of the rejected that we accept: with a warning"] = warned
	c.total("cases of a linter", counts)
	return err
}

// realworld judges the files of known projects and counts what they are refused for.
func (c *comparison) realworld() error {
	type row struct {
		Path   string   `json:"path"`
		Errors []string `json:"oracle_errors"`
	}
	counts, codes, only := make(map[string]int), make(map[string]int), make(map[string]int)
	var failed error
	err := lines(filepath.Join(c.folder, "realworld/oracle.jsonl"), func(r row) {
		text, err := os.ReadFile(filepath.Join(c.folder, "realworld", r.Path))
		if err != nil {
			failed = err
			return
		}
		v := judge(r.Path, text, nil)
		c.compare(counts, r.Path, len(r.Errors) == 0, r.Errors, v)
		if len(v.wrong) > 0 {
			return
		}
		if len(v.unsupported) == 0 {
			counts["compiles"]++
		}
		for code := range v.unsupported {
			codes[code]++
			if len(v.unsupported) == 1 {
				only[code]++
			}
		}
	})
	c.total("files of known projects", counts)
	fmt.Fprintln(c.out, "  refused by code: files, of which for nothing else")
	for _, code := range slices.SortedFunc(maps.Keys(codes), func(a, b string) int { return codes[b] - codes[a] }) {
		fmt.Fprintf(c.out, "    %-34s %4d %4d\n", code, codes[code], only[code])
	}
	if err == nil {
		err = failed
	}
	return err
}

// compare counts a verdict and prints it if it differs.
func (c *comparison) compare(counts map[string]int, name string, accepted bool, said []string, v verdict) {
	word := map[bool]string{true: "accept", false: "reject"}
	ours := len(v.wrong) == 0
	counts[fmt.Sprintf("they %s, we %s", word[accepted], word[ours])]++
	if ours == accepted {
		return
	}
	beside := ""
	switch {
	case ours && len(v.unsupported) > 0:
		beside = " later: " + strings.Join(slices.Sorted(maps.Keys(v.unsupported)), ", ")
	case ours && v.warned:
		beside = " with a warning"
	}
	fmt.Fprintf(c.out, "  %s: they %s, we %s%s\n", name, word[accepted], word[ours], beside)
	for i, text := range said {
		if i == 3 && !c.verbose {
			break
		}
		fmt.Fprintf(c.out, "      they: %s\n", text)
	}
	for i, d := range v.wrong {
		if i == 3 && !c.verbose {
			break
		}
		fmt.Fprintf(c.out, "      we: %s\n", d)
	}
}

func (c *comparison) total(what string, counts map[string]int) {
	fmt.Fprintf(c.out, "%s:\n", what)
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(c.out, "  %4d %s\n", counts[name], name)
	}
}

// lines decodes a file of one JSON value a line.
func lines[T any](path string, use func(T)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 64<<20)
	for scanner.Scan() {
		var row T
		if err := json.Unmarshal(scanner.Bytes(), &row); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		use(row)
	}
	return scanner.Err()
}

package tidy

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow"
)

const (
	recordsDir   = "docs/adr"
	recordsIndex = "docs/adr/README.md"
	mapPath      = "docs/ARCHITECTURE.md"
	codesPath    = "internal/domain/codes.go"

	recordLinesMax = 60 // one page
	mapLinesMax    = 400

	tableBegin = "<!-- packages: written by go test ./internal/tidy -rewrite -->"
	tableEnd   = "<!-- end of packages -->"
)

var (
	recordName   = regexp.MustCompile(`^\d{4}(-[a-z0-9]+)+\.md$`)
	recordStatus = regexp.MustCompile(`^Status: (Proposed|Accepted|Superseded by \d{4}` +
		`|Accepted; superseded in part by \d{4}( \(.+\))?)$`)
	recordDate  = regexp.MustCompile(`^Date: \d{4}-\d{2}-\d{2}$`)
	recordParts = []string{"Context", "Decision", "Consequences", "Revisit when"}
	// mapPaths are the names in code marks of the map that can be paths of the tree.
	mapPaths = regexp.MustCompile(
		"`((?:api|bench|cmd|docs|examples|internal|scripts|test|tools|\\.ci|\\.fairlead)(?:/[^`*{}<> ]*)?)`")
	links = regexp.MustCompile(`\]\(([^)#?\s]+)[^)]*\)`)
)

// records wants the header, the parts and the index of decision records.
func records(t *Tree) ([]Finding, error) {
	var out []Finding
	numbers := map[string]string{}
	for _, f := range t.records() {
		base := path.Base(f.Path)
		if !recordName.MatchString(base) {
			out = append(out, Finding{f.Path, 0, "name it 0001-the-decision-in-words.md"})
			continue
		}
		if other := numbers[base[:4]]; other != "" {
			out = append(out, Finding{f.Path, 0, "has the number of " + other})
		}
		numbers[base[:4]] = base
		out = append(out, record(f)...)
	}
	want := t.index()
	if f := t.file(recordsIndex); len(numbers) > 0 && (f == nil || string(f.Text) != want) {
		out = append(out, Finding{recordsIndex, 0,
			"is not the index of the records; run go test ./internal/tidy -rewrite"})
	}
	return out, nil
}

// records are the files of docs/adr without the index.
func (t *Tree) records() []*File {
	var out []*File
	for _, f := range t.Files {
		if f.Dir() == recordsDir && f.Path != recordsIndex && f.Ext() == ".md" {
			out = append(out, f)
		}
	}
	return out
}

func record(f *File) []Finding {
	lines := strings.Split(strings.TrimRight(string(f.Text), "\n"), "\n")
	var out []Finding
	if len(lines) > recordLinesMax {
		out = append(out, Finding{f.Path, 0,
			fmt.Sprintf("%d lines; a record is at most a page of %d", len(lines), recordLinesMax)})
	}
	if !strings.HasPrefix(lines[0], "# ") {
		out = append(out, Finding{f.Path, 1, "begin with the decision as a sentence: # The …"})
	}
	for _, want := range []*regexp.Regexp{recordStatus, recordDate} {
		if !slices.ContainsFunc(lines[:min(len(lines), 6)], want.MatchString) {
			out = append(out, Finding{f.Path, 2, "the header lacks a line like " + want.String()})
		}
	}
	var parts []string
	for _, line := range lines {
		if part, ok := strings.CutPrefix(line, "## "); ok {
			parts = append(parts, part)
		}
	}
	if !slices.Equal(parts, recordParts) {
		out = append(out, Finding{f.Path, 0, "the parts are " + strings.Join(parts, ", ") + "; they should be " +
			strings.Join(recordParts, ", ")})
	}
	return out
}

// index is the table of all records.
func (t *Tree) index() string {
	var b strings.Builder
	b.WriteString("# Decisions\n\n" +
		"Written by `go test ./internal/tidy -rewrite` from the records themselves. A record is not\n" +
		"edited once it was released, except for its status; a new one supersedes it.\n\n" +
		"| number | decision | status | date |\n| --- | --- | --- | --- |\n")
	for _, f := range t.records() {
		lines := strings.Split(string(f.Text), "\n")
		field := func(name string) string {
			for _, line := range lines {
				if v, ok := strings.CutPrefix(line, name); ok {
					return v
				}
			}
			return ""
		}
		base := path.Base(f.Path)
		fmt.Fprintf(&b, "| [%s](%s) | %s | %s | %s |\n", base[:min(4, len(base))], base, field("# "), field("Status: "),
			field("Date: "))
	}
	return b.String()
}

// mapHolds checks that the map and all other pages point at things that exist.
func mapHolds(t *Tree) ([]Finding, error) {
	var out []Finding
	f := t.file(mapPath)
	if f == nil {
		return []Finding{{mapPath, 0, "the tree has no map"}}, nil
	}
	lines := strings.Split(string(f.Text), "\n")
	if len(lines) > mapLinesMax {
		out = append(out, Finding{f.Path, 0, fmt.Sprintf("%d lines; at most %d", len(lines), mapLinesMax)})
	}
	for i, line := range lines {
		for _, m := range mapPaths.FindAllStringSubmatch(line, -1) {
			if !t.exists(m[1]) {
				out = append(out, Finding{f.Path, i + 1, "there is no " + m[1]})
			}
		}
	}
	table, err := t.table()
	if err != nil {
		return nil, err
	}
	if _, now, _, err := tableOf(string(f.Text)); err != nil || now != table {
		out = append(out, Finding{f.Path, 0,
			"the table of packages is not that of deps.txt; run go test ./internal/tidy -rewrite"})
	}
	for _, f := range t.Files {
		if f.Ext() == ".md" && !f.Fixture {
			out = append(out, deadLinks(t, f)...)
		}
	}
	return out, nil
}

func deadLinks(t *Tree, f *File) []Finding {
	var out []Finding
	for i, line := range strings.Split(string(f.Text), "\n") {
		for _, m := range links.FindAllStringSubmatch(line, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			if to := path.Join(f.Dir(), m[1]); !t.exists(to) {
				out = append(out, Finding{f.Path, i + 1, "links to " + to + ", which is not there"})
			}
		}
	}
	return out
}

func (t *Tree) exists(name string) bool {
	_, err := os.Stat(filepath.Join(t.Root, filepath.FromSlash(name)))
	return err == nil
}

// table is the package table of the map, from deps.txt.
func (t *Tree) table() (string, error) {
	d, err := t.known()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("\n| package | ring | what it is |\n| --- | --- | --- |\n")
	for _, e := range d.Packages {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.Path, e.Ring, e.Is)
	}
	b.WriteString("\n")
	return b.String(), nil
}

// tableOf cuts a text around its package table.
func tableOf(text string) (before, table, after string, err error) {
	before, rest, ok := strings.Cut(text, tableBegin+"\n")
	table, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		return "", "", "", errors.New("the text has no marks of the package table")
	}
	return before, table, after, nil
}

// rewriteDocs brings the generated parts of documents up to date.
func rewriteDocs(t *Tree) error {
	write := func(name, text string) error {
		if err := os.WriteFile(filepath.Join(t.Root, filepath.FromSlash(name)), []byte(text), 0o644); err != nil {
			return fmt.Errorf("rewrite %s: %w", name, err)
		}
		return nil
	}
	if err := write(recordsIndex, t.index()); err != nil {
		return err
	}
	if err := rewriteSpec(t, write); err != nil {
		return err
	}
	f := t.file(mapPath)
	if f == nil {
		return nil
	}
	table, err := t.table()
	if err != nil {
		return err
	}
	before, _, after, err := tableOf(string(f.Text))
	if err != nil {
		return fmt.Errorf("rewrite %s: %w", mapPath, err)
	}
	return write(mapPath, before+tableBegin+"\n"+table+tableEnd+after)
}

// codesProved wants every refusal code of domain in at least one test: in a test file, in a
// conformance suite or in a test's material.
func codesProved(t *Tree) ([]Finding, error) {
	f := t.file(codesPath)
	if f == nil {
		return nil, nil
	}
	d, err := t.known()
	if err != nil {
		return nil, err
	}
	var proofs strings.Builder
	for _, g := range t.Files {
		e := d.entry(g.Dir())
		if g.Test && g.Dir() != path.Dir(codesPath) || g.Fixture || below(g.Path, "test") || e != nil && e.Ring == Test {
			proofs.Write(g.Text)
		}
	}
	var out []Finding
	for _, decl := range f.AST.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			vs := spec.(*ast.ValueSpec)
			if len(vs.Values) != 1 {
				continue
			}
			lit, ok := vs.Values[0].(*ast.BasicLit)
			if !ok {
				continue
			}
			code, _ := strconv.Unquote(lit.Value)
			word := regexp.MustCompile(`\b(` + vs.Names[0].Name + `|` + code + `)\b`)
			if !word.MatchString(proofs.String()) {
				out = append(out, Finding{f.Path, t.line(vs.Pos()), "no test produces " + code})
			}
		}
	}
	return out, nil
}

// workflowsCompile compiles every workflow that we show: our own, and those of examples.
func workflowsCompile(t *Tree) ([]Finding, error) {
	var out []Finding
	for _, f := range t.Files {
		if !strings.HasSuffix(f.Dir(), ".fairlead/workflows") || f.Fixture || f.Ext() != ".yml" && f.Ext() != ".yaml" {
			continue
		}
		for _, d := range lint(f) {
			out = append(out, Finding{f.Path, d.Pos.Line, string(d.Code) + ": " + d.Message})
		}
	}
	return out, nil
}

// lint compiles a workflow for each event that starts it.
func lint(f *File) []workflow.Diagnostic {
	src := workflow.Source{Path: path.Base(f.Path), Text: f.Text}
	triggers, all := workflow.Inspect(src, workflow.DefaultLimits())
	if len(all) > 0 {
		return all
	}
	for _, event := range triggers.Events {
		_, found := workflow.Compile(src, workflow.Inputs{Event: event}, workflow.DefaultLimits())
		all = append(all, found...)
	}
	return all
}

package tidy

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	specDir = "docs/spec"

	proofsBegin = "<!-- tests: written by go test ./internal/tidy -rewrite -->"
	proofsEnd   = "<!-- end of tests -->"
)

var (
	specIDs  = regexp.MustCompile(`\[([A-Z]{2,}-\d+)\]`)
	specMust = regexp.MustCompile(`\bMUST\b`)
)

// proof is a place in a test that names a promise.
type proof struct {
	path string // of the file's folder for Go, of the file for everything else
	name string // of what is declared there, in Go
}

// proofs lists the places that name each id in brackets, in the order of the tree.
func (t *Tree) proofs() (map[string][]proof, error) {
	d, err := t.known()
	if err != nil {
		return nil, err
	}
	out := map[string][]proof{}
	add := func(text string, p proof) {
		for _, id := range specIDs.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(out[id[1]], p) {
				out[id[1]] = append(out[id[1]], p)
			}
		}
	}
	for _, f := range t.Files {
		e := d.entry(f.Dir())
		suite := e != nil && e.Ring == Test && f.AST != nil
		if below(f.Dir(), "internal/tidy") || !f.Test && !f.Fixture && !below(f.Path, "test") && !suite {
			continue
		}
		if f.AST == nil {
			add(string(f.Text), proof{path: f.Path})
			continue
		}
		for _, decl := range f.AST.Decls {
			name, doc := nameOf(decl)
			from := decl.Pos()
			if doc != nil {
				from = doc.Pos()
			}
			begin, end := t.fset.Position(from).Offset, t.fset.Position(decl.End()).Offset
			add(string(f.Text[begin:end]), proof{f.Dir(), name})
		}
	}
	return out, nil
}

// nameOf is what a declaration declares first, and what is said of it.
func nameOf(decl ast.Decl) (string, *ast.CommentGroup) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		return d.Name.Name, d.Doc
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				return s.Name.Name, d.Doc
			case *ast.ValueSpec:
				return s.Names[0].Name, d.Doc
			}
		}
		return "", d.Doc
	}
	return "", nil
}

// specPages are the pages of the specification.
func (t *Tree) specPages() []*File {
	var out []*File
	for _, f := range t.Files {
		if below(f.Dir(), specDir) && f.Ext() == ".md" {
			out = append(out, f)
		}
	}
	return out
}

// specProved wants an id on every MUST, each id once, a test that names each id, no test that
// names another, and on each page the list of those tests.
func specProved(t *Tree) ([]Finding, error) {
	proofs, err := t.proofs()
	if err != nil {
		return nil, err
	}
	var out []Finding
	stated := map[string]string{}
	for _, f := range t.specPages() {
		page, _, _ := strings.Cut(string(f.Text), proofsBegin)
		all := paragraphs(page)
		for _, i := range slices.Sorted(maps.Keys(all)) {
			paragraph := all[i]
			ids := specIDs.FindAllStringSubmatch(paragraph, -1)
			if len(ids) == 0 && specMust.MatchString(paragraph) {
				out = append(out, Finding{f.Path, i, "a MUST without an id like [RUN-12]"})
			}
			for _, id := range ids {
				if other := stated[id[1]]; other != "" {
					out = append(out, Finding{f.Path, i, fmt.Sprintf("%s is stated on %s already", id[1], other)})
				}
				stated[id[1]] = f.Path
				if len(proofs[id[1]]) == 0 {
					out = append(out, Finding{f.Path, i, "no test names " + id[0]})
				}
			}
		}
		if want, ok := withProofs(string(f.Text), proofs); ok && want != string(f.Text) {
			out = append(out, Finding{f.Path, 0,
				"the list of tests is not what tests say; run go test ./internal/tidy -rewrite"})
		} else if !ok && specMust.MatchString(page) {
			out = append(out, Finding{f.Path, 0, "the page has no marks around its list of tests"})
		}
	}
	for id, places := range proofs {
		if stated[id] == "" {
			out = append(out, Finding{places[0].path, 0, fmt.Sprintf("a test names [%s], which %s does not state", id, specDir)})
		}
	}
	return out, nil
}

// withProofs writes the list of tests of a page. ok is false for a page without marks.
func withProofs(text string, proofs map[string][]proof) (string, bool) {
	page, rest, ok := strings.Cut(text, proofsBegin)
	_, after, ok2 := strings.Cut(rest, proofsEnd)
	if !ok || !ok2 {
		return text, false
	}
	var b strings.Builder
	b.WriteString(page + proofsBegin + "\n\n| id | defended by |\n| --- | --- |\n")
	for _, id := range specIDs.FindAllStringSubmatch(page, -1) {
		fmt.Fprintf(&b, "| %s | %s |\n", id[1], placesOf(proofs[id[1]]))
	}
	b.WriteString("\n" + proofsEnd + after)
	return b.String(), true
}

// placesOf names tests by folder: `internal/a` TestX, TestY; `test/e2e/testdata/z.txtar`.
func placesOf(places []proof) string {
	var out []string
	last := ""
	for _, p := range places {
		switch {
		case p.name == "":
			out = append(out, "`"+p.path+"`")
		case p.path == last:
			out[len(out)-1] += ", " + p.name
		default:
			out = append(out, "`"+p.path+"` "+p.name)
		}
		last = p.path
	}
	return strings.Join(out, "; ")
}

// rewriteSpec brings the lists of tests up to date.
func rewriteSpec(t *Tree, write func(name, text string) error) error {
	proofs, err := t.proofs()
	if err != nil {
		return err
	}
	for _, f := range t.specPages() {
		if text, ok := withProofs(string(f.Text), proofs); ok {
			if err := write(path.Clean(f.Path), text); err != nil {
				return err
			}
		}
	}
	return nil
}

// paragraphs are the paragraphs and list items of a page by their first line.
func paragraphs(text string) map[int]string {
	out := map[int]string{}
	start := 1
	for i, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "|") {
			start = i + 1
		}
		out[start] += line + "\n"
	}
	return out
}

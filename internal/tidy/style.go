package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of size. Each is where the next reader stops reading, not where a machine stops.
const (
	functionLinesMax     = 100
	functionLinesMaxCore = 70 // in core and workflow: one screen
	fileLinesMax         = 800
	lineCharactersMax    = 120
	parametersMax        = 5
	interfaceMethodsMax  = 10
	foldersMax           = 4 // below internal
)

// long marks a function or interface that may be over a limit.
const long = "tidy:long "

// documented wants a doc on every package and every exported name.
func documented(t *Tree) ([]Finding, error) {
	docs := map[string]string{}
	first := map[string]*File{}
	var out []Finding
	for _, f := range t.goFiles(false) {
		if first[f.Dir()] == nil {
			first[f.Dir()] = f
		}
		docs[f.Dir()] += f.AST.Doc.Text()
		out = append(out, exportedDocs(t, f)...)
	}
	for dir, f := range first {
		switch doc := docs[dir]; {
		case doc == "":
			out = append(out, Finding{f.Path, 0, "the package has no doc: what it is, what it deliberately is not, " +
				"its invariants, and where to read next"})
		case !strings.Contains(doc, "Read next:"):
			out = append(out, Finding{f.Path, 0, `the package doc does not end with "Read next: …"`})
		}
	}
	return out, nil
}

func exportedDocs(t *Tree, f *File) []Finding {
	var out []Finding
	want := func(name *ast.Ident, docs ...*ast.CommentGroup) {
		if name.IsExported() && !slices.ContainsFunc(docs, func(d *ast.CommentGroup) bool { return d.Text() != "" }) {
			out = append(out, Finding{f.Path, t.line(name.Pos()), name.Name + " is exported and has no doc comment"})
		}
	}
	if f.AST.Name.Name == "main" {
		return nil
	}
	for _, decl := range f.AST.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if exportedReceiver(decl) {
				want(decl.Name, decl.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					want(spec.Name, spec.Doc, spec.Comment, decl.Doc)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						want(name, spec.Doc, spec.Comment, decl.Doc)
					}
				}
			}
		}
	}
	return out
}

func exportedReceiver(fn *ast.FuncDecl) bool {
	name := receiverType(fn)
	return name == "" || ast.IsExported(name)
}

// receiverType is the name of a method's type, empty for a function.
func receiverType(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	if id := root(indexed(fn.Recv.List[0].Type)); id != nil {
		return id.Name
	}
	return ""
}

func indexed(e ast.Expr) ast.Expr {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if list, ok := e.(*ast.IndexListExpr); ok {
		return list.X
	}
	return e
}

func sizes(t *Tree) ([]Finding, error) {
	var out []Finding
	for _, f := range t.goFiles(true) {
		at := func(pos token.Pos, format string, args ...any) {
			out = append(out, Finding{f.Path, t.line(pos), fmt.Sprintf(format, args...)})
		}
		if n := bytes.Count(f.Text, []byte("\n")); n > fileLinesMax {
			out = append(out, Finding{f.Path, 0, fmt.Sprintf("%d lines; more than %d hide two files", n, fileLinesMax)})
		}
		n := strings.Count(strings.TrimPrefix(f.Dir(), "internal/"), "/") + 1
		if below(f.Dir(), "internal") && n > foldersMax {
			out = append(out, Finding{f.Path, 0, fmt.Sprintf("%d folders below internal; at most %d", n, foldersMax)})
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				functionSize(t, f, n, at)
			case *ast.InterfaceType:
				if n.Methods.NumFields() > interfaceMethodsMax && !marked(t, f, n.Pos(), long) {
					at(n.Pos(), "an interface of %d methods; at most %d", n.Methods.NumFields(), interfaceMethodsMax)
				}
			}
			return true
		})
	}
	return out, nil
}

func functionSize(t *Tree, f *File, fn *ast.FuncDecl, at func(token.Pos, string, ...any)) {
	limit := functionLinesMax
	if !f.Test && (below(f.Dir(), "internal/core") || below(f.Dir(), "internal/workflow")) {
		limit = functionLinesMaxCore
	}
	lines := t.line(fn.End()) - t.line(fn.Pos()) + 1
	if strings.Contains(commentText(fn.Doc), "// "+long) {
		return
	}
	if lines > limit {
		at(fn.Pos(), "%s has %d lines; at most %d, or a comment // %s<why>", fn.Name.Name, lines, limit, long)
	}
	if n := parameters(fn); n > parametersMax && !f.Test {
		at(fn.Pos(), "%s has %d parameters; more than %d want a struct, or a comment // %s<why>", fn.Name.Name, n,
			parametersMax, long)
	}
}

// parameters counts what a caller has to think of: a context, a test, and a request with
// its response are always there.
func parameters(fn *ast.FuncDecl) int {
	n := fn.Type.Params.NumFields()
	for _, p := range fn.Type.Params.List {
		e := p.Type
		if star, ok := e.(*ast.StarExpr); ok {
			e = star.X
		}
		if sel, ok := e.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && slices.Contains([]string{"context", "testing", "http"}, x.Name) {
				n--
			}
		}
	}
	return n
}

// marked says whether a mark with a reason stands on the line of pos or the one above.
func marked(t *Tree, f *File, pos token.Pos, mark string) bool {
	line := t.line(pos)
	for _, group := range f.AST.Comments {
		if end := t.line(group.End()); end == line || end == line-1 {
			return strings.Contains(commentText(group), "// "+mark)
		}
	}
	return false
}

// commentText is a comment as written: Text() would drop directives.
func commentText(group *ast.CommentGroup) string {
	var b strings.Builder
	if group != nil {
		for _, c := range group.List {
			b.WriteString(c.Text + "\n")
		}
	}
	return b.String()
}

// empties are words that fit everything and so say nothing, alone or as the last part of
// a package's or file's name.
var empties = strings.Fields("util utils common helper helpers manager managers service services data info misc")

func names(t *Tree) ([]Finding, error) {
	var out []Finding
	receivers := map[string]string{}
	dirs := map[string]bool{}
	for _, f := range t.goFiles(true) {
		if !dirs[f.Dir()] {
			dirs[f.Dir()] = true
			if base := path.Base(f.Dir()); slices.Contains(empties, base) {
				out = append(out, Finding{f.Dir(), 0, "a package named " + base + " collects everything; name what it is"})
			}
		}
		for _, word := range strings.Split(strings.TrimSuffix(path.Base(f.Path), ".go"), "_") {
			if slices.Contains(empties, word) {
				out = append(out, Finding{f.Path, 0, "a file named " + word + " collects everything; name what is in it"})
			}
		}
		for _, decl := range f.AST.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if getter(fn) {
				out = append(out, Finding{f.Path, t.line(fn.Pos()), fn.Name.Name + ": no Get prefix; name what comes back"})
			}
			if other, now := receiverNamed(f, fn, receivers); other != now {
				out = append(out, Finding{f.Path, t.line(fn.Pos()),
					fmt.Sprintf("receiver %s of %s is called %s elsewhere", now, receiverType(fn), other)})
			}
		}
	}
	return out, nil
}

// getter says whether a function is named Get…, and not only because the contract has a
// procedure of that name.
func getter(fn *ast.FuncDecl) bool {
	name := fn.Name.Name
	if len(name) < 4 || !strings.EqualFold(name[:3], "get") || !ast.IsExported(name[3:]) {
		return false
	}
	for _, p := range fn.Type.Params.List {
		if star, ok := p.Type.(*ast.StarExpr); ok {
			if sel, ok := star.X.(*ast.SelectorExpr); ok && sel.Sel.Name == name+"Request" {
				return false
			}
		}
	}
	return true
}

// receiverNamed remembers the first receiver name of each type and returns it with the one
// at hand. Test files may have their own.
func receiverNamed(f *File, fn *ast.FuncDecl, seen map[string]string) (other, now string) {
	name := receiverType(fn)
	if name == "" || f.Test || len(fn.Recv.List[0].Names) == 0 {
		return "", ""
	}
	now = fn.Recv.List[0].Names[0].Name
	if now == "_" {
		return now, now
	}
	key := f.Dir() + "." + name
	if seen[key] == "" {
		seen[key] = now
	}
	return seen[key], now
}

// form wants gofmt's form and lines that fit beside another window.
func form(t *Tree) ([]Finding, error) {
	var out []Finding
	for _, f := range t.goFiles(true) {
		tidied, err := format.Source(f.Text)
		if err != nil {
			return nil, fmt.Errorf("format %s: %w", f.Path, err)
		}
		if !bytes.Equal(tidied, f.Text) {
			out = append(out, Finding{f.Path, 0, "not in gofmt's form; run gofmt -w " + f.Path})
		}
	}
	for _, f := range t.Files {
		if f.Generated || f.Fixture || !slices.Contains([]string{".go", ".sh", ".proto"}, f.Ext()) {
			continue
		}
		for i, line := range strings.Split(string(f.Text), "\n") {
			if n := utf8.RuneCountInString(line); n > lineCharactersMax {
				out = append(out, Finding{f.Path, i + 1, fmt.Sprintf("%d characters; at most %d", n, lineCharactersMax)})
			}
		}
	}
	return out, nil
}

// machines finds paths and hosts that exist only where somebody wrote the text. The words
// are put together here so that this file does not find itself.
var machines = regexp.MustCompile(`(^|[\s"'` + "`" + `(=:])(/wo` + `rk/|/ro` + `ot/go|/Us` + `ers/)` +
	`|proxy\.gol` + `ang\.org|registry\.npm` + `js\.org|pypi\.o` + `rg`)

// unfinished finds marks of work that was put off.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

func leftovers(t *Tree) ([]Finding, error) {
	var out []Finding
	for _, f := range t.Files {
		if f.Generated || path.Base(f.Path) == "package-lock.json" || f.Ext() == ".sum" {
			continue
		}
		for i, line := range strings.Split(string(f.Text), "\n") {
			if machines.MatchString(line) {
				out = append(out, Finding{f.Path, i + 1, "a path or host of one machine; say it relative to the repository"})
			}
			if !f.Fixture && unfinished.MatchString(line) {
				out = append(out, Finding{f.Path, i + 1, "work put off; do it, or say in the docs that it is not there"})
			}
		}
	}
	for _, name := range t.Programs {
		out = append(out, Finding{name, 0, "a compiled program; remove it, and from git if it got there"})
	}
	for _, f := range t.goFiles(true) {
		out = append(out, skips(t, f)...)
		for _, group := range f.AST.Comments {
			if code(group) {
				out = append(out, Finding{f.Path, t.line(group.Pos()), "commented-out code; git remembers it"})
			}
		}
	}
	return out, nil
}

// skips finds tests that pass by not running.
func skips(t *Tree, f *File) []Finding {
	var out []Finding
	ast.Inspect(f.AST, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
			if x, ok := sel.X.(*ast.Ident); ok && slices.Contains([]string{"t", "b", "f", "tb"}, x.Name) {
				out = append(out, Finding{f.Path, t.line(n.Pos()),
					"a skipped test is green for no reason; let it fail with what to install"})
			}
		}
		return true
	})
	return out
}

// code says whether a whole comment reads as statements of Go. Prose hardly ever does.
func code(group *ast.CommentGroup) bool {
	text := group.Text()
	if !strings.ContainsAny(text, "(={") {
		return false
	}
	src := "package p\nfunc _() {\n" + text + "\n}"
	f, err := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
	if err != nil {
		return false
	}
	body := f.Decls[0].(*ast.FuncDecl).Body
	return len(body.List) > 1 || slices.ContainsFunc(body.List, func(s ast.Stmt) bool {
		switch s.(type) {
		case *ast.ExprStmt, *ast.LabeledStmt, *ast.BlockStmt, *ast.EmptyStmt:
			return false // a call or a key as an example of itself
		}
		return true
	})
}

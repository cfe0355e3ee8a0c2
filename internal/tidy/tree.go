package tidy

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Tree is a checkout: its texts, and lazily the package graph of its module.
type Tree struct {
	Root   string
	Module string
	Files  []*File // in the order of a walk
	// Programs are compiled programs below a folder other than bin: one that was committed
	// stays in everybody's clone for ever.
	Programs []string
	byPath   map[string]*File
	fset     *token.FileSet
	graph    map[string]listed // by import path; see packages
	deps     *Deps
}

// File is one text of the tree.
type File struct {
	Path      string // slash-separated, relative to the root
	Text      []byte
	AST       *ast.File // Go only
	Generated bool
	Test      bool // a _test.go file
	Fixture   bool // under testdata: material of a test, not code of ours
}

// Dir is the folder of the file, "." for the root.
func (f *File) Dir() string { return path.Dir(f.Path) }

// Ext is the ending of the file's name with its dot.
func (f *File) Ext() string { return path.Ext(f.Path) }

// skipped are folders that hold nothing of ours. Every other folder whose name starts with
// a dot is looked at: our own workflow and gate live in such folders.
var skipped = []string{".git", "bin", "node_modules", ".cache", ".idea", ".vscode"}

// textMax is the largest file that is looked at; larger ones are no text somebody wrote.
const textMax = 2 << 20

// Load reads the checkout under root, which must hold a go.mod.
func Load(root string) (*Tree, error) {
	t := &Tree{Root: root, byPath: map[string]*File{}, fset: token.NewFileSet()}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, fmt.Errorf("load tree: %w", err)
	}
	first, _, _ := strings.Cut(string(mod), "\n")
	t.Module = strings.TrimSpace(strings.TrimPrefix(first, "module "))
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains(skipped, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		return t.add(name, d)
	})
	if err != nil {
		return nil, fmt.Errorf("load tree %s: %w", root, err)
	}
	return t, nil
}

func (t *Tree) add(name string, d fs.DirEntry) error {
	if !d.Type().IsRegular() {
		return nil
	}
	rel, err := filepath.Rel(t.Root, name)
	if err != nil {
		return err
	}
	text, err := head(name, textMax)
	if err != nil {
		return err
	}
	if bytes.HasPrefix(text, []byte("\x7fELF")) && strings.Contains(filepath.ToSlash(rel), "/") {
		t.Programs = append(t.Programs, filepath.ToSlash(rel))
	}
	if len(text) == textMax || bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
		return nil
	}
	f := &File{Path: filepath.ToSlash(rel), Text: text}
	f.Fixture = slices.Contains(strings.Split(f.Dir(), "/"), "testdata")
	if f.Ext() == ".go" && !f.Fixture {
		f.Test = strings.HasSuffix(f.Path, "_test.go")
		f.AST, err = parser.ParseFile(t.fset, f.Path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse: %w", err)
		}
		f.Generated = ast.IsGenerated(f.AST)
	}
	t.Files = append(t.Files, f)
	t.byPath[f.Path] = f
	return nil
}

// head reads the beginning of a file.
func head(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, limit))
	return text, errors.Join(err, f.Close())
}

// file is the text at a path, nil when there is none.
func (t *Tree) file(name string) *File { return t.byPath[name] }

// goFiles are the Go files that people write, without tests unless asked for.
func (t *Tree) goFiles(tests bool) []*File {
	var out []*File
	for _, f := range t.Files {
		if f.AST != nil && !f.Generated && (tests || !f.Test) {
			out = append(out, f)
		}
	}
	return out
}

func (t *Tree) line(pos token.Pos) int { return t.fset.Position(pos).Line }

// packages is the graph of the module's packages and everything they link, by import path.
func (t *Tree) packages() (map[string]listed, error) {
	if t.graph != nil {
		return t.graph, nil
	}
	all, err := golist(t.Root, "-json=ImportPath,Dir,Name,Standard,Imports,GoFiles,Error", "./...")
	if err != nil {
		return nil, err
	}
	graph := make(map[string]listed, len(all))
	for _, p := range all {
		graph[p.ImportPath] = p
		if p.Error != nil && t.ours(p.ImportPath) {
			return nil, fmt.Errorf("list package %s: %s", p.ImportPath, p.Error.Err)
		}
	}
	t.graph = graph
	return graph, nil
}

// ours says whether an import path is of this module.
func (t *Tree) ours(importPath string) bool {
	return importPath == t.Module || strings.HasPrefix(importPath, t.Module+"/")
}

// short is an import path of this module relative to it; others stay whole.
func (t *Tree) short(importPath string) string {
	return strings.TrimPrefix(importPath, t.Module+"/")
}

// own lists the module's packages that have code, by path relative to the module, sorted.
func (t *Tree) own() ([]string, error) {
	graph, err := t.packages()
	if err != nil {
		return nil, err
	}
	var out []string
	for name, p := range graph {
		if t.ours(name) && len(p.GoFiles) > 0 {
			out = append(out, t.short(name))
		}
	}
	slices.Sort(out)
	return out, nil
}

// imports are the direct imports of a package of ours, tests left out.
func (t *Tree) imports(pkg string) (own, third, std []string) {
	for _, name := range t.graph[t.Module+"/"+pkg].Imports {
		switch {
		case name == "C" || name == "unsafe" || t.graph[name].Standard:
			std = append(std, name)
		case t.ours(name):
			own = append(own, t.short(name))
		default:
			third = append(third, name)
		}
	}
	slices.Sort(own)
	slices.Sort(third)
	slices.Sort(std)
	return own, third, std
}

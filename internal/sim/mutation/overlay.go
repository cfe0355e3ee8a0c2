package mutation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// ErrStale: the line that a mutation wants to replace is not there, or there more than once.
// The product has moved on; the table must follow.
var ErrStale = errors.New("the mutation does not fit the product any more")

// Apply gives the text of the mutated file. The error wraps ErrStale if the old line does not
// occur exactly once, within the function if one is named.
func (m *Mutation) Apply(root string) ([]byte, error) {
	if strings.HasPrefix(m.File, "internal/sim/") || strings.HasSuffix(m.File, "_test.go") {
		return nil, fmt.Errorf("apply %s: %s is not of the product", m.Name, m.File)
	}
	path := filepath.Join(root, filepath.FromSlash(m.File))
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("apply %s: %w: %w", m.Name, ErrStale, err)
	}
	lines := bytes.Split(text, []byte("\n"))
	first, last := 0, len(lines)-1
	if m.Func != "" {
		if first, last, err = m.within(path, text); err != nil {
			return nil, err
		}
	}
	at := -1
	for i := first; i <= last; i++ {
		if strings.TrimSpace(string(lines[i])) != m.Old {
			continue
		}
		if at >= 0 {
			return nil, fmt.Errorf("apply %s: lines %d and %d of %s are both %q: %w", m.Name, at+1, i+1, m.File, m.Old, ErrStale)
		}
		at = i
	}
	if at < 0 {
		return nil, fmt.Errorf("apply %s: no line of %s is %q: %w", m.Name, m.File, m.Old, ErrStale)
	}
	indent := lines[at][:bytes.Index(lines[at], []byte(m.Old))]
	lines[at] = append(bytes.Clone(indent), m.New...)
	return bytes.Join(lines, []byte("\n")), nil
}

// within finds the first and the last line of the function that the mutation names, from 0.
func (m *Mutation) within(path string, text []byte) (first, last int, err error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, path, text, 0)
	if err != nil {
		return 0, 0, fmt.Errorf("apply %s: %w", m.Name, err)
	}
	found := 0
	for _, d := range tree.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && (fn.Name.Name == m.Func || methodName(fn) == m.Func) {
			found++
			first, last = files.Position(fn.Pos()).Line-1, files.Position(fn.End()).Line-1
		}
	}
	if found != 1 {
		return 0, 0, fmt.Errorf("apply %s: %s has %d functions %s: %w", m.Name, m.File, found, m.Func, ErrStale)
	}
	return first, last, nil
}

// methodName is Type.Name of a method.
func methodName(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) != 1 {
		return ""
	}
	t := fn.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "." + fn.Name.Name
	}
	return ""
}

// overlay writes what `go build -overlay` reads: the mutated file, and which one it stands
// for. It gives the path of the overlay.
func (m *Mutation) overlay(root, dir string) (string, error) {
	text, err := m.Apply(root)
	if err != nil {
		return "", err
	}
	mutated := filepath.Join(dir, m.Name+".go")
	if err := os.WriteFile(mutated, text, 0o600); err != nil {
		return "", fmt.Errorf("write overlay of %s: %w", m.Name, err)
	}
	list, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(root, filepath.FromSlash(m.File)): mutated},
	})
	if err != nil {
		return "", fmt.Errorf("encode overlay of %s: %w", m.Name, err)
	}
	path := filepath.Join(dir, m.Name+".json")
	if err := os.WriteFile(path, list, 0o600); err != nil {
		return "", fmt.Errorf("write overlay of %s: %w", m.Name, err)
	}
	return path, nil
}

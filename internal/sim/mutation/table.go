package mutation

import (
	_ "embed" // the table is a file
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Fewest is how many mutations the suite has at least.
const Fewest = 20

// Mutation is one rule of the product, broken by one line.
type Mutation struct {
	Name   string // what is broken, in words joined by hyphens
	Breaks string // the sentence that it makes untrue
	File   string // of the product, from the root of the module, with slashes
	Func   string // where the line is, if it is in several functions: a name, or Type.Name
	Old    string // the line as it is, without its indentation
	New    string // the line that takes its place
	Worlds int    // within so many it must be found
	Quick  bool   // part of the share that runs with the tests
	line   int    // of the table
}

//go:embed mutations.txt
var table string

// Table gives the mutations of this package's table, or what is wrong with its text.
func Table() ([]Mutation, error) { return parse(table) }

var validName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)+$`)

// parse reads a table: paragraphs of "key value" lines, the first of which is "mutation".
// Lines that begin with # are for readers.
func parse(text string) ([]Mutation, error) {
	var all []Mutation
	var m *Mutation
	known := map[string]bool{}
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, _ := strings.Cut(line, " ")
		value = strings.TrimSpace(value)
		if key == "mutation" {
			if !validName.MatchString(value) || known[value] {
				return nil, fmt.Errorf("read mutations line %d: %q is no name, or one that is taken", n+1, value)
			}
			known[value] = true
			all = append(all, Mutation{Name: value, line: n + 1})
			m = &all[len(all)-1]
			continue
		}
		if m == nil {
			return nil, fmt.Errorf("read mutations line %d: %q before the first mutation", n+1, key)
		}
		if err := m.set(key, value); err != nil {
			return nil, fmt.Errorf("read mutations line %d: %w", n+1, err)
		}
	}
	for i := range all {
		m := &all[i]
		if m.Breaks == "" || m.File == "" || m.Old == "" || m.New == "" || m.Worlds == 0 {
			return nil, fmt.Errorf("read mutations line %d: %s lacks one of breaks, file, old, new, worlds", m.line, m.Name)
		}
	}
	return all, nil
}

func (m *Mutation) set(key, value string) (err error) {
	text := map[string]*string{"breaks": &m.Breaks, "file": &m.File, "func": &m.Func, "old": &m.Old, "new": &m.New}[key]
	switch {
	case text != nil && (*text != "" || value == ""):
		return fmt.Errorf("%s of %s is empty, or there twice", key, m.Name)
	case text != nil:
		*text = value
	case key == "worlds":
		if m.Worlds, err = strconv.Atoi(value); err != nil || m.Worlds < 1 {
			return fmt.Errorf("worlds of %s: %q is no count", m.Name, value)
		}
	case key == "quick":
		m.Quick = true
	default:
		return fmt.Errorf("%s has no %q", m.Name, key)
	}
	return nil
}

// Root finds the module's folder from a folder inside it.
func Root(from string) (string, error) {
	dir, err := filepath.Abs(from)
	if err != nil {
		return "", fmt.Errorf("find module above %s: %w", from, err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("find module above %s: there is no go.mod", from)
		}
		dir = up
	}
}

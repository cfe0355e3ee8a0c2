package mutation

import (
	"errors"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every mutation of the table fits the product as it is now, and leaves a file of Go.
func TestTableFitsTheProduct(t *testing.T) {
	root, err := Root(".")
	if err != nil {
		t.Fatal(err)
	}
	all, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < Fewest {
		t.Errorf("%d mutations, at least %d are required", len(all), Fewest)
	}
	if !slices.ContainsFunc(all, func(m Mutation) bool { return m.Quick }) {
		t.Error("none is part of the share that runs with the tests")
	}
	for _, m := range all {
		text, err := m.Apply(root)
		if err != nil {
			t.Error(err)
			continue
		}
		before, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.File)))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(text), "\n") != strings.Count(string(before), "\n") || string(text) == string(before) {
			t.Errorf("%s changes nothing, or more than one line", m.Name)
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.File, text, 0); err != nil {
			t.Errorf("%s leaves no Go: %v", m.Name, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const whole = "mutation a-b\nbreaks x\nfile f.go\nold 1\nnew 2\nworlds 3\n"
	if all, err := parse(whole); err != nil || len(all) != 1 || all[0].Worlds != 3 || all[0].Old != "1" {
		t.Fatalf("parse %q: %v %v", whole, all, err)
	}
	for name, text := range map[string]string{
		"taken name":        whole + whole,
		"bad name":          "mutation A\n",
		"orphan":            "breaks x\n",
		"missing file":      strings.Replace(whole, "file f.go\n", "", 1),
		"missing old":       strings.Replace(whole, "old 1\n", "", 1),
		"old twice":         whole + "old 4\n",
		"empty new":         strings.Replace(whole, "new 2", "new", 1),
		"unknown key":       whole + "maybe yes\n",
		"no count":          strings.Replace(whole, "worlds 3", "worlds many", 1),
		"nothing to run":    strings.Replace(whole, "worlds 3", "worlds 0", 1),
		"missing worlds":    strings.Replace(whole, "worlds 3\n", "", 1),
		"missing statement": strings.Replace(whole, "breaks x\n", "", 1),
	} {
		if _, err := parse(text); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestApply(t *testing.T) {
	root := t.TempDir()
	const source = `package p

func one() int {
	if ok() {
		return 1
	}
	return 2
}

type t struct{}

func (*t) two() int {
	if ok() {
		return 2
	}
	return 3
}
`
	if err := os.WriteFile(filepath.Join(root, "p.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	fits := func(m Mutation) string {
		t.Helper()
		m.Name, m.File = "a-b", "p.go"
		text, err := m.Apply(root)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := fits(Mutation{Old: "return 1", New: "return 9"}); got != strings.Replace(source, "return 1", "return 9", 1) {
		t.Errorf("one line:\n%s", got)
	}
	got := fits(Mutation{Func: "t.two", Old: "if ok() {", New: "if true {"})
	if i := strings.LastIndex(source, "if ok()"); got != source[:i]+"if true {"+source[i+len("if ok() {"):] {
		t.Errorf("in a method:\n%s", got)
	}
	for name, m := range map[string]Mutation{
		"twice":              {File: "p.go", Old: "if ok() {"},
		"part of a line":     {File: "p.go", Old: "if ok()"},
		"not there":          {File: "p.go", Old: "return 4"},
		"in another func":    {File: "p.go", Func: "one", Old: "return 3"},
		"no such func":       {File: "p.go", Func: "three", Old: "return 3"},
		"no such file":       {File: "q.go", Old: "return 3"},
		"closed brace twice": {File: "p.go", Func: "one", Old: "}"},
	} {
		if _, err := m.Apply(root); !errors.Is(err, ErrStale) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, file := range []string{"internal/sim/world.go", "internal/engine/owner_test.go"} {
		m := Mutation{File: file, Old: "x"}
		if _, err := m.Apply(root); err == nil || errors.Is(err, ErrStale) {
			t.Errorf("a mutation of %s: %v", file, err)
		}
	}
}

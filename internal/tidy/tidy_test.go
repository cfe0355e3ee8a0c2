package tidy

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var rewrite = flag.Bool("rewrite", false, "bring deps.txt, the package table and the index of records up to date")

// TestLaws holds this repository to its laws, one subtest each.
func TestLaws(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	tree := load(t, root)
	if *rewrite {
		if err := rewriteDeps(tree); err != nil {
			t.Fatal(err)
		}
		if err := rewriteDocs(load(t, root)); err != nil {
			t.Fatal(err)
		}
		tree = load(t, root)
	}
	for _, law := range Laws() {
		t.Run(law.Name, func(t *testing.T) {
			found, err := law.Check(tree)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range sortFindings(found) {
				t.Error(f)
			}
			if len(found) > 0 {
				t.Logf("why this is a law: %s", law.Why)
			}
		})
	}
}

// TestLawsCatch shows for every law that it finds what it forbids, and nothing else, in a
// small tree: testdata/LAW.txtar, whose file "want" lists the findings by place and by the
// beginning of their text.
func TestLawsCatch(t *testing.T) {
	for _, law := range Laws() {
		t.Run(law.Name, func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(filepath.Join("testdata", law.Name+".txtar"))
			if err != nil {
				t.Fatalf("every law has a tree that breaks it: %v", err)
			}
			root, want := unpack(t, archive)
			found, err := law.Check(load(t, root))
			if err != nil {
				t.Fatal(err)
			}
			var have []string
			for _, f := range sortFindings(found) {
				have = append(have, f.String())
			}
			if !slices.EqualFunc(have, want, strings.HasPrefix) {
				t.Errorf("found\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

func load(t *testing.T, root string) *Tree {
	t.Helper()
	tree, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// unpack writes the files of an archive into a folder. A "~" in a file stands for one that
// would otherwise be found in the archive itself, or run over its lines.
func unpack(t *testing.T, archive *txtar.Archive) (root string, want []string) {
	t.Helper()
	root = t.TempDir()
	for _, f := range archive.Files {
		if f.Name == "want" {
			want = strings.Split(strings.TrimSpace(string(f.Data)), "\n")
			continue
		}
		text := string(f.Data)
		for _, fill := range []struct{ mark, with string }{
			{"~LONG~", strings.Repeat("x", lineCharactersMax)},
			{"~LINES~", strings.Repeat("\n\t_ = 0", functionLinesMaxCore)},
			{"~", ""},
		} {
			text = strings.ReplaceAll(text, fill.mark, fill.with)
		}
		name := filepath.Join(root, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mod := "module fairlead.example/small\n\ngo 1.26\n"
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte(mod), 0o644); err != nil {
		t.Fatal(err)
	}
	return root, want
}

func TestDepsKeepWhatPeopleWrote(t *testing.T) {
	text := depsHead + "\na/b pure\n\tis One sentence.\n\tuses c\n\textern example.com/x\n\tallow float: sums of shares\n"
	d, err := ParseDeps(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Format(); got != text {
		t.Errorf("have\n%s\nwant\n%s", got, text)
	}
	for _, bad := range []string{"a\n", "\tis lost\n", "a pure\n\tallow x\n", "a pure\n\tbecause y\n"} {
		if _, err := ParseDeps(bad); err == nil {
			t.Errorf("accepted %q", bad)
		}
	}
}

func TestLongListsOfImportsWrap(t *testing.T) {
	e := &Entry{Path: "a", Ring: Main, Is: "It."}
	for i := range 40 {
		e.Uses = append(e.Uses, fmt.Sprintf("internal/package%02d", i))
	}
	text := (&Deps{Packages: []*Entry{e}}).Format()
	for line := range strings.Lines(text) {
		if len(line) > lineCharactersMax {
			t.Errorf("%d characters: %s", len(line), line)
		}
	}
	d, err := ParseDeps(text)
	if err != nil || !slices.Equal(d.Packages[0].Uses, e.Uses) {
		t.Errorf("came back as %v, %v", d, err)
	}
}

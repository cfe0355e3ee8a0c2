package tidy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// DepsPath is where the packages of the module are listed.
const DepsPath = "internal/tidy/deps.txt"

// depsHead is the head of deps.txt as it is written.
const depsHead = `# Every package of the module: its ring, what it is, and its direct imports (tests left out).
#
#   PATH RING
#       is     one sentence
#       uses   packages of this module
#       extern packages of others
#       allow  IMPORT: the reason for an exception from a law
#
# Rings: main, edge, shell, runner, port, pure, leaf, test; ring.go says what each may import.
# "uses" and "extern" are written by: go test ./internal/tidy -rewrite
# The rest is written by people. A new package starts with ring "?", which is a finding.
`

// depsWidth is where a list of imports goes on in another line.
const depsWidth = 112

// Deps is the content of deps.txt.
type Deps struct {
	Packages []*Entry // sorted by path
}

// Entry is what deps.txt says of one package.
type Entry struct {
	Path   string
	Line   int
	Ring   Ring
	Is     string
	Uses   []string
	Extern []string
	Allow  []Exception
}

// Exception allows a package one thing that its ring or a law forbids.
type Exception struct {
	What, Reason string
	Line         int
}

// entry finds a package, nil when deps.txt does not know it.
func (d *Deps) entry(pkg string) *Entry {
	for _, e := range d.Packages {
		if e.Path == pkg {
			return e
		}
	}
	return nil
}

// allows says whether the package may import or do what, by an exception with a reason.
func (e *Entry) allows(what string) bool {
	return e != nil && slices.ContainsFunc(e.Allow, func(x Exception) bool { return x.What == what })
}

// ParseDeps reads deps.txt.
func ParseDeps(text string) (*Deps, error) {
	d := &Deps{}
	var now *Entry
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		fields := strings.Fields(line)
		if !strings.HasPrefix(line, "\t") {
			if len(fields) != 2 {
				return nil, fmt.Errorf("%s:%d: want PATH RING, have %q", DepsPath, i+1, line)
			}
			now = &Entry{Path: fields[0], Ring: Ring(fields[1]), Line: i + 1}
			d.Packages = append(d.Packages, now)
			continue
		}
		if now == nil || len(fields) < 2 {
			return nil, fmt.Errorf("%s:%d: a line that belongs to no package or says nothing", DepsPath, i+1)
		}
		rest := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), fields[0]))
		switch fields[0] {
		case "is":
			now.Is = rest
		case "uses":
			now.Uses = append(now.Uses, fields[1:]...)
		case "extern":
			now.Extern = append(now.Extern, fields[1:]...)
		case "allow":
			what, reason, ok := strings.Cut(rest, ": ")
			if !ok || reason == "" {
				return nil, fmt.Errorf("%s:%d: want allow IMPORT: REASON", DepsPath, i+1)
			}
			now.Allow = append(now.Allow, Exception{what, reason, i + 1})
		default:
			return nil, fmt.Errorf("%s:%d: unknown word %q", DepsPath, i+1, fields[0])
		}
	}
	return d, nil
}

// Format writes deps.txt.
func (d *Deps) Format() string {
	var b strings.Builder
	b.WriteString(depsHead)
	for _, e := range d.Packages {
		fmt.Fprintf(&b, "\n%s %s\n\tis %s\n", e.Path, e.Ring, e.Is)
		wrap(&b, "uses", e.Uses)
		wrap(&b, "extern", e.Extern)
		for _, x := range e.Allow {
			fmt.Fprintf(&b, "\tallow %s: %s\n", x.What, x.Reason)
		}
	}
	return b.String()
}

func wrap(b *strings.Builder, word string, names []string) {
	width := 0
	for _, name := range names {
		if width == 0 || width+1+len(name) > depsWidth {
			if width > 0 {
				b.WriteByte('\n')
			}
			b.WriteString("\t" + word)
			width = len(word) + 4
		}
		b.WriteString(" " + name)
		width += 1 + len(name)
	}
	if width > 0 {
		b.WriteByte('\n')
	}
}

// known is the parsed deps.txt of the tree.
func (t *Tree) known() (*Deps, error) {
	if t.deps != nil {
		return t.deps, nil
	}
	f := t.file(DepsPath)
	if f == nil {
		return nil, errors.New("the tree has no " + DepsPath)
	}
	d, err := ParseDeps(string(f.Text))
	if err != nil {
		return nil, err
	}
	t.deps = d
	return d, nil
}

// depsAgree compares deps.txt with the code, both ways.
func depsAgree(t *Tree) ([]Finding, error) {
	d, err := t.known()
	if err != nil {
		return nil, err
	}
	own, err := t.own()
	if err != nil {
		return nil, err
	}
	var out []Finding
	for _, e := range d.Packages {
		at := func(format string, args ...any) {
			out = append(out, Finding{DepsPath, e.Line, e.Path + ": " + fmt.Sprintf(format, args...)})
		}
		if !slices.Contains(own, e.Path) {
			at("no such package; run go test ./internal/tidy -rewrite")
			continue
		}
		if mayImport[e.Ring] == nil {
			at("ring %q is none of %s", e.Ring, strings.Join(ringNames(), ", "))
		}
		if e.Is == "" || e.Is == "?" {
			at("say in one sentence what it is")
		}
		uses, extern, _ := t.imports(e.Path)
		for _, diff := range difference("uses", e.Uses, uses) {
			at("%s", diff)
		}
		for _, diff := range difference("extern", e.Extern, extern) {
			at("%s", diff)
		}
	}
	for _, pkg := range own {
		if d.entry(pkg) == nil {
			out = append(out, Finding{DepsPath, 0,
				pkg + " is missing; run go test ./internal/tidy -rewrite, then give it a ring"})
		}
	}
	return out, nil
}

func difference(word string, listed, actual []string) []string {
	var out []string
	for _, name := range actual {
		if !slices.Contains(listed, name) {
			out = append(out, fmt.Sprintf("imports %s, which %q does not list", name, word))
		}
	}
	for _, name := range listed {
		if !slices.Contains(actual, name) {
			out = append(out, fmt.Sprintf("%q lists %s, which it does not import", word, name))
		}
	}
	return out
}

// rewriteDeps brings the columns of imports up to date and keeps what people wrote.
func rewriteDeps(t *Tree) error {
	d, err := t.known()
	if err != nil {
		return err
	}
	own, err := t.own()
	if err != nil {
		return err
	}
	next := &Deps{}
	for _, pkg := range own {
		e := d.entry(pkg)
		if e == nil {
			e = &Entry{Path: pkg, Ring: "?", Is: "?"}
		}
		e.Uses, e.Extern, _ = t.imports(pkg)
		next.Packages = append(next.Packages, e)
	}
	name := filepath.Join(t.Root, filepath.FromSlash(DepsPath))
	if err := os.WriteFile(name, []byte(next.Format()), 0o644); err != nil {
		return fmt.Errorf("rewrite %s: %w", DepsPath, err)
	}
	return nil
}

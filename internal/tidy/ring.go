package tidy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Ring says how far from the outside a package stands.
type Ring string

// Rings.
const (
	Main   Ring = "main"   // wires things together; nothing else does
	Edge   Ring = "edge"   // speaks with the outside: databases, git, HTTP, terminals
	Shell  Ring = "shell"  // carries out on the server what the core decided
	Runner Ring = "runner" // the shell of the other side: what executes jobs
	Port   Ring = "port"   // an interface that an edge fulfils, and its words
	Pure   Ring = "pure"   // functions of their arguments
	Leaf   Ring = "leaf"   // the public contract and what is made from it
	Test   Ring = "test"   // conformance suites and test equipment; only tests import it
)

// mayImport says which rings a ring may import. Whatever else a package needs is an
// exception in deps.txt, with its reason.
var mayImport = map[Ring][]Ring{
	Main:   {Edge, Shell, Runner, Port, Pure, Leaf},
	Edge:   {Port, Pure, Leaf},
	Shell:  {Shell, Port, Pure},
	Runner: {Runner, Port, Pure, Leaf},
	Port:   {Port, Pure},
	Pure:   {Pure},
	Leaf:   {Leaf, Pure},
	Test:   {Test, Edge, Shell, Runner, Port, Pure, Leaf},
}

func ringNames() []string {
	var out []string
	for ring := range maps.Keys(mayImport) {
		out = append(out, string(ring))
	}
	slices.Sort(out)
	return out
}

// pureImports are the packages of the standard library that a pure package may import.
// They can do no I/O, read no clock and start nothing, or purity bans those parts.
var pureImports = strings.Fields(`bytes cmp crypto/sha256 encoding/base64 encoding/binary encoding/hex encoding/json
	errors fmt iter maps math math/bits regexp slices sort strconv strings time unicode unicode/utf8`)

// ringsHold checks direct imports only: fmt alone links os, so a transitive rule would ban
// everything.
func ringsHold(t *Tree) ([]Finding, error) {
	d, err := t.known()
	if err != nil {
		return nil, err
	}
	if _, err := t.packages(); err != nil {
		return nil, err
	}
	var out []Finding
	for _, e := range d.Packages {
		own, third, std := t.imports(e.Path)
		needed := map[string]bool{}
		at := func(what, text string) {
			needed[what] = true
			if !e.allows(what) {
				out = append(out, Finding{DepsPath, e.Line, e.Path + " " + text})
			}
		}
		for _, name := range own {
			other := d.entry(name)
			if other != nil && !slices.Contains(mayImport[e.Ring], other.Ring) {
				at(name, fmt.Sprintf("(%s) imports %s (%s); a %s package may import %s, or needs a line: allow %s: why",
					e.Ring, name, other.Ring, e.Ring, ringList(mayImport[e.Ring]), name))
			}
		}
		if e.Ring == Pure {
			for _, name := range slices.Concat(third, std) {
				if !slices.Contains(pureImports, name) {
					at(name, fmt.Sprintf("(pure) imports %s, which is not on the list of pure imports; pass in what it "+
						"needs, or give a line: allow %s: why", name, name))
				}
			}
		}
		out = append(out, idle(e, needed, own, third, std)...)
	}
	return out, nil
}

func ringList(rings []Ring) string {
	var out []string
	for _, r := range rings {
		out = append(out, string(r))
	}
	return strings.Join(out, ", ")
}

// idle finds exceptions that nothing needs. Those of imports that other laws judge, and of
// things that are no imports, are left to sensitive and purity.
func idle(e *Entry, needed map[string]bool, imports ...[]string) []Finding {
	all := slices.Concat(imports...)
	var out []Finding
	for _, x := range e.Allow {
		switch {
		case needed[x.What], x.What == allowFloat:
		case !slices.Contains(all, x.What):
			out = append(out, Finding{DepsPath, x.Line, e.Path + " does not import " + x.What + "; remove the exception"})
		case sensitiveFor(x.What) == nil:
			out = append(out, Finding{DepsPath, x.Line, e.Path + " may import " + x.What + " anyway; remove the exception"})
		}
	}
	return out
}

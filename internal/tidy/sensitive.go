package tidy

import (
	"fmt"
	"go/ast"
	"strconv"
	"strings"
)

// guarded is a kind of import that may appear in few places, so that a reviewer of those
// places has reviewed all of it.
type guarded struct {
	imports []string // these and all below
	rooms   []string // packages of ours that may, with all below
	what    string
	instead string
}

var guards = []guarded{
	{
		imports: strings.Fields(`crypto/aes crypto/cipher crypto/des crypto/dsa crypto/ecdh crypto/ecdsa crypto/ed25519
			crypto/elliptic crypto/hkdf crypto/hmac crypto/hpke crypto/mlkem crypto/pbkdf2 crypto/rand crypto/rc4 crypto/rsa
			crypto/tls crypto/x509 golang.org/x/crypto`),
		rooms:   []string{"internal/credential", "internal/provenance"},
		what:    "keys and secrets are made and used",
		instead: "ask internal/credential for what you need",
	},
	{
		imports: sqlDrivers,
		rooms:   []string{"internal/store", "cmd/bench"},
		what:    "SQL is spoken",
		instead: "go through the port internal/store",
	},
}

// sensitiveFor is the guard of an import, nil when it has none.
func sensitiveFor(name string) *guarded {
	for i := range guards {
		for _, g := range guards[i].imports {
			if below(name, g) {
				return &guards[i]
			}
		}
	}
	return nil
}

// starters are functions that start a process or become one.
var starters = map[string]string{
	"os.StartProcess": "", "syscall.StartProcess": "", "syscall.ForkExec": "", "syscall.Exec": "", "unix.Exec": "",
}

func sensitive(t *Tree) ([]Finding, error) {
	d, err := t.known()
	if err != nil {
		return nil, err
	}
	var out []Finding
	for _, f := range t.goFiles(true) {
		if !t.inModule(f) {
			continue
		}
		for _, spec := range f.AST.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			at := Finding{Path: f.Path, Line: t.line(spec.Pos())}
			if name == "os/exec" && !startsProcesses(f) {
				at.Text = "os/exec outside of a *_exec.go file; move what starts the process into one"
				out = append(out, at)
			}
			g := sensitiveFor(name)
			if g == nil || f.Test || d.entry(f.Dir()).allows(name) || inRooms(f.Dir(), g.rooms) {
				continue
			}
			at.Text = fmt.Sprintf("%s outside of %s, where %s; %s, or give %s a line: allow %s: why", name,
				strings.Join(g.rooms, " and "), g.what, g.instead, DepsPath, name)
			out = append(out, at)
		}
		out = append(out, started(t, f)...)
	}
	return out, nil
}

// inModule leaves out the nested modules: tools of the developers, and examples.
func (t *Tree) inModule(f *File) bool {
	for dir := f.Dir(); dir != "."; dir = parent(dir) {
		if t.file(dir+"/go.mod") != nil {
			return false
		}
	}
	return true
}

func parent(dir string) string {
	if i := strings.LastIndexByte(dir, '/'); i > 0 {
		return dir[:i]
	}
	return "."
}

func startsProcesses(f *File) bool {
	return strings.HasSuffix(f.Path, "_exec.go") || strings.HasSuffix(f.Path, "_exec_test.go")
}

func inRooms(pkg string, rooms []string) bool {
	for _, room := range rooms {
		if below(pkg, room) {
			return true
		}
	}
	return false
}

func started(t *Tree, f *File) []Finding {
	if startsProcesses(f) {
		return nil
	}
	var out []Finding
	ast.Inspect(f.AST, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok {
			name := x.Name + "." + sel.Sel.Name
			if _, bad := starters[name]; bad {
				out = append(out, Finding{f.Path, t.line(n.Pos()), name + " outside of a *_exec.go file"})
			}
		}
		return true
	})
	return out
}

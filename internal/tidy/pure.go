package tidy

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// allowFloat is the exception for packages that must compute with floats. They are banned
// elsewhere because sums of them depend on the order, and their text on the formatter.
const allowFloat = "float"

// unordered marks a loop over a map whose result does not depend on the order.
const unordered = "tidy:unordered "

// bannedInPure are functions and variables of allowed packages that read a clock, start
// something or depend on the machine, with what to use instead.
var bannedInPure = map[string]string{
	"time.Now":          "take the time as an argument",
	"time.Since":        "subtract from a time that came as an argument",
	"time.Until":        "subtract a time that came as an argument",
	"time.After":        "let the shell wait",
	"time.AfterFunc":    "let the shell wait",
	"time.Tick":         "let the shell wait",
	"time.Sleep":        "let the shell wait",
	"time.NewTimer":     "let the shell wait",
	"time.NewTicker":    "let the shell wait",
	"time.LoadLocation": "take the zone's data as an argument",
	"time.Local":        "use UTC",
	"time.Time.Local":   "use UTC",
	"maps.Keys":         "iterate slices.Sorted(maps.Keys(m))",
	"maps.Values":       "iterate the sorted keys",
	"maps.All":          "iterate the sorted keys",
	"fmt.Print":         "return the text",
	"fmt.Printf":        "return the text",
	"fmt.Println":       "return the text",
	"fmt.Scan":          "take the text as an argument",
}

// zoned are functions that make a time in the machine's zone, unless .UTC() follows.
var zoned = []string{"time.Unix", "time.UnixMilli", "time.UnixMicro"}

// purity judges the pure ring by resolved identifiers: by spelling alone the method
// Time.After would be taken for the function time.After.
//
// It can't see unstable sorts with ties, state behind an aliased map or slice, or a method
// that changes a package-level variable. Scenarios that run twice, once from their own
// events, are for those.
func purity(t *Tree) ([]Finding, error) {
	d, err := t.known()
	if err != nil {
		return nil, err
	}
	var pkgs []string
	for _, e := range d.Packages {
		if e.Ring == Pure {
			pkgs = append(pkgs, e.Path)
		}
	}
	if len(pkgs) == 0 {
		return nil, nil
	}
	check, err := t.checker(pkgs)
	if err != nil {
		return nil, err
	}
	var out []Finding
	for _, pkg := range pkgs {
		files, found, err := check(pkg)
		if err != nil {
			return nil, err
		}
		j := &judge{t: t, info: found, float: d.entry(pkg).allows(allowFloat), changed: changedVars(files, found)}
		for _, f := range files {
			j.file(f)
		}
		out = append(out, j.out...)
	}
	return out, nil
}

// checker types packages of ours against the compiled form of what they import.
func (t *Tree) checker(pkgs []string) (func(pkg string) ([]*ast.File, *types.Info, error), error) {
	args := []string{"-export", "-json=ImportPath,Export"}
	for _, pkg := range pkgs {
		args = append(args, "./"+pkg)
	}
	all, err := golist(t.Root, args...)
	if err != nil {
		return nil, err
	}
	export := make(map[string]string, len(all))
	for _, p := range all {
		export[p.ImportPath] = p.Export
	}
	if _, err := t.packages(); err != nil {
		return nil, err
	}
	compiled := importer.ForCompiler(t.fset, "gc", func(name string) (io.ReadCloser, error) {
		return os.Open(export[name])
	})
	return func(pkg string) ([]*ast.File, *types.Info, error) {
		var files []*ast.File
		for _, name := range t.graph[t.Module+"/"+pkg].GoFiles {
			f := t.file(path.Join(pkg, name))
			if f == nil {
				return nil, nil, fmt.Errorf("type package %s: %s was not loaded", pkg, name)
			}
			files = append(files, f.AST)
		}
		found := &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
			Defs: map[*ast.Ident]types.Object{},
		}
		conf := types.Config{Importer: compiled}
		if _, err := conf.Check(t.Module+"/"+pkg, t.fset, files, found); err != nil {
			return nil, nil, fmt.Errorf("type package %s: %w", pkg, err)
		}
		return files, found, nil
	}, nil
}

// judge collects what breaks purity in one package.
type judge struct {
	t       *Tree
	info    *types.Info
	float   bool
	changed map[types.Object]bool
	marks   map[int]bool // lines that a tidy:unordered mark speaks for
	path    string
	out     []Finding
}

func (j *judge) at(pos token.Pos, format string, args ...any) {
	j.out = append(j.out, Finding{j.path, j.t.line(pos), fmt.Sprintf(format, args...)})
}

func (j *judge) file(f *ast.File) {
	j.path = j.t.fset.Position(f.Pos()).Filename
	j.marks = map[int]bool{}
	for _, group := range f.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "// "+unordered) {
				j.marks[j.t.line(c.Pos())] = true
				j.marks[j.t.line(group.End())+1] = true
			}
		}
	}
	for _, decl := range f.Decls {
		j.decl(decl)
	}
	var stack []ast.Node
	ast.Inspect(f, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		j.node(n, stack)
		stack = append(stack, n)
		return true
	})
}

// decl judges package-level variables: errors, and tables that nothing changes.
func (j *judge) decl(decl ast.Decl) {
	if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
		j.at(fn.Pos(), "an init function; make a table or take an argument")
	}
	gen, ok := decl.(*ast.GenDecl)
	if !ok || gen.Tok != token.VAR {
		return
	}
	for _, spec := range gen.Specs {
		vs := spec.(*ast.ValueSpec)
		for _, name := range vs.Names {
			obj := j.info.Defs[name]
			switch {
			case name.Name == "_":
			case len(vs.Values) == 0:
				j.at(name.Pos(), "package-level variable %s without a value is state; keep it in a struct", name.Name)
			case j.changed[obj]:
				j.at(name.Pos(), "package-level variable %s is changed; keep it in a struct", name.Name)
			case name.IsExported() && !types.Implements(obj.Type(), errorType()):
				j.at(name.Pos(), "exported variable %s can be changed by anyone; make it a function", name.Name)
			}
		}
	}
}

func errorType() *types.Interface {
	return types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
}

// node judges one node below its parents in stack.
func (j *judge) node(n ast.Node, stack []ast.Node) {
	switch n := n.(type) {
	case *ast.GoStmt:
		j.at(n.Pos(), "a goroutine; the order of two is nobody's decision")
	case *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
		j.at(n.Pos(), "a channel; return a value")
	case *ast.RangeStmt:
		if _, ok := j.typeOf(n.X).(*types.Map); ok && !j.marks[j.t.line(n.Pos())] {
			j.at(n.Pos(), "range over a map; iterate slices.Sorted(maps.Keys(m)), or mark it: // %s<why>", unordered)
		}
	case *ast.BasicLit:
		if n.Kind == token.STRING && strings.Contains(n.Value, "%p") {
			j.at(n.Pos(), "%%p prints an address; print an id")
		}
	case *ast.Ident:
		j.use(n, stack)
	}
	if e, ok := n.(ast.Expr); ok && !j.float {
		if b, ok := j.typeOf(e).(*types.Basic); ok && b.Info()&(types.IsFloat|types.IsComplex) != 0 {
			j.at(n.Pos(), "a float; count in whole units, or give the package a line: allow %s: why", allowFloat)
		}
	}
}

func (j *judge) typeOf(e ast.Expr) types.Type {
	tv, ok := j.info.Types[e]
	if !ok || tv.Type == nil {
		return nil
	}
	return tv.Type.Underlying()
}

// use judges one use of a name.
func (j *judge) use(id *ast.Ident, stack []ast.Node) {
	obj := j.info.Uses[id]
	if obj == nil || obj.Pkg() == nil {
		return
	}
	name := obj.Pkg().Path() + "." + obj.Name()
	if fn, ok := obj.(*types.Func); ok {
		if recv := fn.Signature().Recv(); recv != nil {
			named, ok := recv.Type().(*types.Named)
			if !ok {
				return
			}
			name = obj.Pkg().Path() + "." + named.Obj().Name() + "." + obj.Name()
		}
	} else if v, ok := obj.(*types.Var); !ok || v.IsField() {
		return
	}
	if slices.Contains(zoned, name) && !followedByUTC(stack) {
		j.at(id.Pos(), "%s without .UTC() is in the machine's zone", name)
	}
	if instead, banned := bannedInPure[name]; banned && !(obj.Pkg().Path() == "maps" && j.sorted(stack)) {
		j.at(id.Pos(), "%s in the pure ring; %s", name, instead)
	}
}

// followedByUTC says whether the call that the name begins is the receiver of UTC.
func followedByUTC(stack []ast.Node) bool {
	if len(stack) < 3 {
		return false
	}
	sel, ok := stack[len(stack)-3].(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "UTC"
}

// sorted says whether the call that the name begins is the argument of a sort.
func (j *judge) sorted(stack []ast.Node) bool {
	if len(stack) < 3 {
		return false
	}
	call, ok := stack[len(stack)-3].(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	obj := j.info.Uses[sel.Sel]
	return obj != nil && obj.Pkg() != nil && obj.Pkg().Path() == "slices" && strings.HasPrefix(obj.Name(), "Sorted")
}

// changedVars are the package-level variables that any statement of the package may change.
func changedVars(files []*ast.File, found *types.Info) map[types.Object]bool {
	out := map[types.Object]bool{}
	mark := func(e ast.Expr) {
		if id := root(e); id != nil {
			out[cmp.Or(found.Uses[id], found.Defs[id])] = true
		}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, e := range n.Lhs {
					mark(e)
				}
			case *ast.IncDecStmt:
				mark(n.X)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					mark(n.X)
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "delete" || id.Name == "clear" || id.Name == "copy") {
					mark(n.Args[0])
				}
			}
			return true
		})
	}
	return out
}

// root is the variable that an expression reaches into.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// Package matrix expands a strategy's matrix into its legs, by the rules of the workflow
// language: vectors multiply, exclude takes away, include adds.
//
// It is deliberately without places and files: whoever has the values, from a file or from
// an expression that was evaluated at run time, gets the same legs.
//
// Invariants: the same definition gives the same legs in the same order; nothing is built
// before it is known to be within the bound.
//
// Read next: expand.go
package matrix

import (
	"fmt"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
)

// LegsMax is the most legs that one matrix may have.
const LegsMax = 256

// Bounds of the work that a matrix can ask for beside legs, each far beyond what LegsMax needs.
const (
	combinationsMax = 1 << 16 // before exclude
	lookupsMax      = 1 << 22 // a combination against an entry of exclude
	comparisonsMax  = 1 << 21 // a value of a vector against a value in include or exclude
)

// Definition is a matrix before it is expanded.
type Definition struct {
	Vectors []Vector
	Include []expr.Value // objects
	Exclude []expr.Value // objects
}

// Vector is one dimension.
type Vector struct {
	Name   string
	Values []expr.Value
}

// Names of the keys that are no vectors.
const (
	keyInclude = "include"
	keyExclude = "exclude"
)

// Error is what is wrong with a matrix. Key is the key of the matrix that it is about, empty
// for the whole; Entry is the place in include or exclude, -1 for none.
type Error struct {
	Key     string
	Entry   int
	Bound   bool // a bound was hit
	Message string
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

func fail(key string, entry int, format string, args ...any) *Error {
	return &Error{Key: key, Entry: entry, Message: fmt.Sprintf(format, args...)}
}

// Read takes a definition from the value of the key matrix. The error is an *Error.
//
// Trust: v may come from anybody.
func Read(v expr.Value) (Definition, error) {
	d, err := read(v)
	if err != nil {
		return Definition{}, err
	}
	return d, nil
}

func read(v expr.Value) (d Definition, err *Error) {
	if v.Kind() != expr.KindObject {
		return d, fail("", -1, "the matrix must be an object with a list for each key, not %s", v.Kind())
	}
	for _, f := range v.Fields() {
		switch {
		case strings.EqualFold(f.Name, keyInclude):
			d.Include, err = entries(keyInclude, f.Value)
		case strings.EqualFold(f.Name, keyExclude):
			d.Exclude, err = entries(keyExclude, f.Value)
		case f.Value.Kind() != expr.KindArray:
			err = fail(f.Name, -1, "the matrix vector %q must be a list, not %s", short(f.Name), f.Value.Kind())
		case f.Value.Len() == 0:
			err = fail(f.Name, -1, "the matrix vector %q has no values", short(f.Name))
		default:
			vector := Vector{Name: f.Name}
			for i := range f.Value.Len() {
				vector.Values = append(vector.Values, f.Value.At(i))
			}
			d.Vectors = append(d.Vectors, vector)
		}
		if err != nil {
			return d, err
		}
	}
	return d, d.check()
}

// entries reads the list of include or exclude. Null is no entry: that is what a list with
// all of its entries commented out is.
func entries(key string, v expr.Value) ([]expr.Value, *Error) {
	if v.IsNull() {
		return nil, nil
	}
	if v.Kind() != expr.KindArray {
		return nil, fail(key, -1, "%q of the matrix must be a list, not %s", key, v.Kind())
	}
	var out []expr.Value
	for i := range v.Len() {
		entry := v.At(i)
		if entry.Kind() != expr.KindObject || entry.Len() == 0 {
			return nil, fail(key, i, "entry %d of the matrix's %s must be an object with at least one key", i+1, key)
		}
		out = append(out, entry)
	}
	return out, nil
}

func (d *Definition) check() *Error {
	for i, entry := range d.Exclude {
		for _, f := range entry.Fields() {
			if d.vector(f.Name) < 0 {
				return fail(keyExclude, i, "the exclude key %q is no vector of the matrix", short(f.Name))
			}
		}
	}
	if len(d.Vectors) == 0 && len(d.Include) == 0 {
		return fail("", -1, "the matrix has no vector and no include")
	}
	return nil
}

// vector is the place of a vector by its name, which is compared without case; -1 for none.
func (d *Definition) vector(name string) int {
	for i := range d.Vectors {
		if strings.EqualFold(d.Vectors[i].Name, name) {
			return i
		}
	}
	return -1
}

// Keys lists the properties that a leg can have.
func (d *Definition) Keys() []string {
	var out []string
	for _, v := range d.Vectors {
		out = append(out, v.Name)
	}
	for _, entry := range d.Include {
		for _, f := range entry.Fields() {
			out = append(out, f.Name)
		}
	}
	return out
}

// short cuts text for a message.
func short(text string) string {
	const charactersMax = 60
	count := 0
	for i := range text {
		if count++; count > charactersMax {
			return text[:i] + "…"
		}
	}
	return text
}

package matrix

import (
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
)

// Leg is one combination.
type Leg struct {
	// Values is the context matrix: vectors first, then what include added.
	Values expr.Value
	// Names are the texts in parentheses of the default name: the leaves of the vectors'
	// values, without what include added.
	Names []string
}

// entry is an entry of include, split.
type entry struct {
	filter, extra []expr.Field
	filters       []filter
	used          bool // extends a combination
}

// Expand gives the legs, at most limit of them (0: LegsMax). The error is an *Error.
func (d *Definition) Expand(limit int) ([]Leg, error) {
	if limit <= 0 || limit > LegsMax {
		limit = LegsMax
	}
	if err := d.comparable(); err != nil {
		return nil, err
	}
	include := d.split()
	picks, err := d.survivors(limit)
	if err != nil {
		return nil, err
	}
	d.match(picks, include)
	legs := len(picks)
	for i := range include {
		if !include[i].used {
			legs++
		}
	}
	switch {
	case legs == 0:
		return nil, fail("", -1, "exclude takes away every combination of the matrix")
	case legs > limit:
		return nil, bound("the matrix has %d legs; at most %d are allowed", legs, limit)
	}
	return d.build(picks, include), nil
}

func bound(format string, args ...any) *Error {
	return &Error{Entry: -1, Bound: true, Message: fmt.Sprintf(format, args...)}
}

// comparable refuses a matrix whose filters and values are too many to compare with each other.
func (d *Definition) comparable() error {
	values, leaves := 0, 0
	for _, v := range d.Vectors {
		values += len(v.Values)
	}
	for _, list := range [][]expr.Value{d.Include, d.Exclude} {
		for _, v := range list {
			leaves += count(v)
		}
	}
	if leaves > 0 && values > comparisonsMax/leaves {
		return bound("the matrix has %d values in its vectors and %d in include and exclude, too many to compare", values,
			leaves)
	}
	return nil
}

// count is the number of scalars in v.
func count(v expr.Value) (n int) {
	switch v.Kind() {
	case expr.KindObject:
		for _, f := range v.Fields() {
			n += count(f.Value)
		}
	case expr.KindArray:
		for i := range v.Len() {
			n += count(v.At(i))
		}
	default:
		n = 1
	}
	return n
}

func (d *Definition) split() []entry {
	out := make([]entry, len(d.Include))
	for i, v := range d.Include {
		for _, f := range v.Fields() {
			if d.vector(f.Name) >= 0 {
				out[i].filter = append(out[i].filter, f)
			} else {
				out[i].extra = append(out[i].extra, f)
			}
		}
	}
	return out
}

// survivors are the combinations that exclude leaves, each as the place of its value in
// every vector. No more than the limit are ever kept: the rest is counted.
func (d *Definition) survivors(limit int) ([][]int, error) {
	if len(d.Vectors) == 0 {
		return nil, nil
	}
	product := 1
	for _, v := range d.Vectors {
		if product *= len(v.Values); product > combinationsMax {
			return nil, bound("the matrix has more than %d combinations, before exclude; at most %d legs are allowed",
				combinationsMax, limit)
		}
	}
	if len(d.Exclude) == 0 && product > limit {
		return nil, bound("the matrix has %d legs; at most %d are allowed", product, limit)
	}
	if len(d.Exclude) > lookupsMax/product {
		return nil, bound("the matrix has %d combinations and %d entries of exclude, too many to look at; "+
			"at most %d legs are allowed", product, len(d.Exclude), limit)
	}
	exclude := make([][]filter, len(d.Exclude))
	for i, v := range d.Exclude {
		exclude[i] = d.filters(v.Fields())
	}
	var out [][]int
	left := 0
	at := make([]int, len(d.Vectors))
	for range product {
		if !excluded(at, exclude) {
			if left++; left <= limit {
				out = append(out, append([]int(nil), at...))
			}
		}
		for i := len(at) - 1; i >= 0; i-- { // the last vector turns fastest
			if at[i]++; at[i] < len(d.Vectors[i].Values) {
				break
			}
			at[i] = 0
		}
	}
	if left > limit {
		return nil, bound("the matrix has %d legs; at most %d are allowed", left, limit)
	}
	return out, nil
}

// filter is what an entry wants of one vector: which of its values fit. Each value is compared
// once, however many combinations it is in.
type filter struct {
	vector int
	fits   []bool
}

func (d *Definition) filters(fields []expr.Field) []filter {
	out := make([]filter, 0, len(fields))
	for _, field := range fields {
		i := d.vector(field.Name)
		if i < 0 {
			continue
		}
		f := filter{i, make([]bool, len(d.Vectors[i].Values))}
		for n, v := range d.Vectors[i].Values {
			f.fits[n] = matches(field.Value, v)
		}
		out = append(out, f)
	}
	return out
}

func holds(at []int, filters []filter) bool {
	for _, f := range filters {
		if !f.fits[at[f.vector]] {
			return false
		}
	}
	return true
}

func excluded(at []int, exclude [][]filter) bool {
	for _, filters := range exclude {
		if holds(at, filters) {
			return true
		}
	}
	return false
}

// match marks the entries of include that extend a combination.
func (d *Definition) match(picks [][]int, include []entry) {
	for i := range include {
		include[i].filters = d.filters(include[i].filter)
		for _, at := range picks {
			if include[i].used = holds(at, include[i].filters); include[i].used {
				break
			}
		}
	}
}

func (d *Definition) build(picks [][]int, include []entry) []Leg {
	var out []Leg
	for _, at := range picks {
		fields := make([]expr.Field, 0, len(at)+2)
		var leg Leg
		for i, v := range d.Vectors {
			fields = append(fields, expr.Field{Name: v.Name, Value: v.Values[at[i]]})
			leg.Names = leaves(leg.Names, v.Values[at[i]])
		}
		for i := range include {
			if holds(at, include[i].filters) {
				fields = append(fields, include[i].extra...) // of equal names the last one counts
			}
		}
		leg.Values = expr.Object(fields...)
		out = append(out, leg)
	}
	for i := range include {
		if include[i].used {
			continue
		}
		var leg Leg
		fields := append(append([]expr.Field(nil), include[i].filter...), include[i].extra...)
		for _, f := range fields {
			leg.Names = leaves(leg.Names, f.Value)
		}
		leg.Values = expr.Object(fields...)
		out = append(out, leg)
	}
	return out
}

// matches compares leaf by leaf: what a filter does not name may be anything.
func matches(want, value expr.Value) bool {
	switch want.Kind() {
	case expr.KindObject:
		for _, f := range want.Fields() {
			part, _ := value.Field(f.Name)
			if !matches(f.Value, part) {
				return false
			}
		}
		return true
	case expr.KindArray:
		for i := range want.Len() {
			part := expr.Null()
			if value.Kind() == expr.KindArray && i < value.Len() {
				part = value.At(i)
			}
			if !matches(want.At(i), part) {
				return false
			}
		}
		return true
	}
	return expr.Equal(value, want)
}

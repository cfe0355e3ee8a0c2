// Package compare says in what two texts, two JSON values and two plans differ.
//
// It is deliberately for showing: nothing is decided by it, values are shortened, and what is
// over a bound is counted instead of listed.
//
// Invariants: equal things give nothing; unequal ones always give something; the cost is bounded
// by the size of what is compared and the bounds of this package.
//
// Read next: internal/workflow/replay/replay.go
package compare

import "github.com/fairlead-ci/fairlead/internal/domain"

// Bounds, and what happens at each.
const (
	// ValueBytes of a value are shown.
	ValueBytes = 200
	// editsMax is how many lines two texts may differ in before all lines between their common
	// beginning and end count as replaced.
	editsMax = 1_000
	// contextLines around a change are shown.
	contextLines = 3
	// linesMax lines are given; the rest is one line that says how many are left out.
	linesMax = 2_000
	// lineBytes of a line are shown.
	lineBytes = 500
)

// Kinds of a difference.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Difference is one thing that differs.
type Difference struct {
	Name          string // what of it
	Kind          string
	Before, After string // shortened; empty where there is none
}

// Between is the difference of two texts of that name; ok is false when they are equal.
func Between(name, before, after string) (d Difference, ok bool) {
	kind := Changed
	switch {
	case before == after:
		return Difference{}, false
	case before == "":
		kind = Added
	case after == "":
		kind = Removed
	}
	return Difference{name, kind, Shorten(before), Shorten(after)}, true
}

// Shorten cuts a value for showing.
func Shorten(text string) string {
	if len(text) <= ValueBytes {
		return text
	}
	return domain.Clip(text, ValueBytes) + "…"
}

package tidy

import (
	"cmp"
	"fmt"
	"slices"
)

// Finding is one place where the tree breaks a law, and what to do about it.
type Finding struct {
	Path string // slash-separated, relative to the root
	Line int    // 0: the file as a whole
	Text string
}

// String is the finding as compilers print theirs, so that editors can jump to it.
func (f Finding) String() string {
	if f.Line == 0 {
		return f.Path + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Text)
}

// Law is one rule over the whole tree.
type Law struct {
	Name string // the name of its test and of its file in testdata
	Why  string // what would go wrong without it
	// Check returns what breaks the law. An error means that the tree could not be judged.
	Check func(*Tree) ([]Finding, error)
}

// Laws lists every law. The order is the order of their importance to somebody who broke
// several at once.
func Laws() []Law {
	return []Law{
		{"deps", "a changed dependency must be seen in review", depsAgree},
		{"rings", "each ring is testable because of what it can't reach", ringsHold},
		{"walls", "what a runner or a client can't link, it can't leak", wallsHold},
		{"purity", "a decision that reads a clock or a map's order can't be replayed", purity},
		{"sensitive", "processes, keys and SQL are reviewed where they live", sensitive},
		{"docs", "a package without its invariants written down loses them", documented},
		{"sizes", "what doesn't fit on a screen is not read", sizes},
		{"names", "a name that says nothing collects everything", names},
		{"form", "a diff should show what changed, not how it was typed", form},
		{"leftovers", "an unfinished thought in the code is a defect with no owner", leftovers},
		{"codes", "a refusal that no test produces is a promise nobody kept", codesProved},
		{"records", "a decision without context and consequences can't be revisited", records},
		{"map", "a map that names what is gone misleads", mapHolds},
		{"spec", "a normative sentence without a test is a wish", specProved},
		{"workflows", "an example that does not compile teaches the wrong thing", workflowsCompile},
	}
}

func sortFindings(all []Finding) []Finding {
	slices.SortFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text))
	})
	return slices.Compact(all)
}

// Package mutation asks whether the simulation bites: it breaks one rule of the product at a
// time and requires that some world finds it.
//
// It deliberately is no switch in the product and no copy of it. A mutation is one line of
// one file of the product, written down in mutations.txt with the sentence that it breaks; the
// go command's build overlay puts it in place of the true line, and nothing on disk changes.
//
// Invariants: a mutation whose line is not there exactly once is an error, never a skip; the
// unbroken build is clean on the very seeds that find the broken ones; the suite fails when a
// mutation escapes, when a checker of the simulation was hit by none, and when there are fewer
// than Fewest mutations.
//
// Read next: internal/sim/mutation/mutations.txt, then internal/sim/mutation/suite.go
package mutation

// Package syntax turns the text of a workflow file into a tree in which every key and
// every value knows its place, and into the typed form of the keys that are understood.
// It also owns the vocabulary of diagnostics: codes, severities, places.
//
// It deliberately does not know what a workflow means: needs, conditions, limits of jobs
// and default values are package workflow's work, and expressions are package expr's.
// It is the only package of the compiler that knows YAML.
//
// Invariants: nothing in a file is passed over in silence (an unknown key, a key of a
// later release and a value of the wrong type are each a diagnostic); all problems are
// reported at once; the cost of a file is bounded by its size and by its nodes after
// alias expansion; no input makes it panic.
//
// Read next: load.go, workflow.go
package syntax

// Package workflow compiles a workflow file into a plan: the whole way from text to
// jobs that can be scheduled, with every problem of the file reported at its place.
//
// It deliberately does nothing else: it reads no file, resolves no reference, knows no
// time and starts nothing. What can't be known before a run (a condition over the
// results of needed jobs, a variable from an earlier step) stays in the plan as text of
// the expression language.
//
// Invariants: Compile is a pure function, the same source and inputs give the same bytes
// of plan; a plan comes out if and only if no diagnostic is an error; nothing of the
// file is passed over in silence; a plan holds no secret.
//
// Read next: compile.go, triggers.go
package workflow

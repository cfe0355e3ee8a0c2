// Package expr is the expression language of workflows: what stands between ${{ and }}
// and in `if:`. It parses, shows what an expression refers to, and evaluates it.
//
// It is deliberately not a programming language and not a template engine for other
// rooms: no assignment, no loops, no clock, no files. It knows no workflow keys; which
// contexts a key may use is decided by package workflow, and what a context holds by
// whoever evaluates (the compiler, the reactor for job conditions, the runner for steps).
//
// Invariants: coercions are those of GitHub's evaluator (numbers are written as .NET
// writes "G15", strings compare without case, && and || return an operand); evaluation
// is bounded by a budget of steps and bytes; the same expression over the same values
// gives the same result, on every machine; no input makes it panic.
//
// Read next: condition.go, eval.go
package expr

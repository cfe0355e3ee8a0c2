// Package run decides what happens to a run, its jobs and their attempts: when a job may
// start, who holds the right to execute it, what a report means, when a failure is tried
// again, what a cancel request reaches, and what is held because nobody can know.
//
// It is deliberately not a scheduler of machines (core/placement chooses the slot), not an
// evaluator of expressions over values (a reactor does that and reports back), and not a
// lease keeper: renewals are not events and live in the owner's memory. It opens nothing,
// starts nothing and reads no clock; now and every identifier come in with the command.
//
// Invariants: Decide changes nothing, it returns events; Evolve decides nothing and cannot
// fail; the state rebuilt from the events is the state that was held; a committed result
// never changes; at most one attempt of a job is without an outcome; a job starts only on
// committed results; no attempt starts while an earlier one of the same job might still
// act; whatever waits has a stored reason and something that ends it (Waits lists both).
// Check states these over one state, the scenarios in testdata over whole histories.
//
// Read next: internal/core/run/command.go, event.go, state.go, then decide.go
package run

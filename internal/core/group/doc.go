// Package group decides who of a concurrency group may go on: one member at a time, and who
// waits behind it or is replaced.
//
// It is deliberately without runs: a member is a name that a run joined by, and what becomes
// of it is carried to the run by a reactor, which also says when the member has concluded.
//
// Invariants: at most one member is admitted, and one is as long as any waits; a member keeps
// its place until it leaves, whatever it waits for itself; the generation only grows, and
// members go in the order of theirs; a command again changes nothing.
//
// Read next: internal/core/group/decide.go, internal/core/run/concurrency.go
package group

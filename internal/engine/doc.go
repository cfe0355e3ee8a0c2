// Package engine runs the pure core against the store: one owner per partition takes
// waiting commands, decides them one after another, commits the whole batch in one
// durable transaction and only then replies. What other servers own it follows, and
// commands for that it forwards.
//
// It deliberately knows nothing of what a run or a pool is: stream kinds are registered
// with it (see Kind). It holds live streams only; history is read from the store.
//
// Invariants: a reply leaves only after its batch is durable; what was not committed
// never happened; one batch is in flight per partition; the step function (owner.go)
// does no I/O and starts no goroutine, so a simulation can drive it; a follower
// (follower.go) shows exactly the rows that an owner committed, in order, once; an owner
// that was replaced changes nothing and never takes its partition back by itself.
//
// Read next: internal/engine/owner.go, internal/engine/fleet.go
package engine

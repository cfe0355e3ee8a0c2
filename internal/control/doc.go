// Package control answers the API: it turns each call of the contract into commands,
// reads and streams of the rooms behind it, and their answers back into messages.
//
// It deliberately holds no rule of its own. Who may call is decided before (httpapi), what
// happens is decided behind (core, by way of engine and trigger); this is the counter.
//
// Invariants: every write carries the client's idempotency key to the engine; every read
// waits for nothing but the store; a stream never holds up a commit.
//
// Read next: internal/control/run.go
package control

// Package pool decides who belongs to a pool of runners: what the pool takes and offers,
// which registration tokens are good, and which runner holds which session.
//
// It is deliberately not where work is placed (core/placement) and knows no slot and no
// lease: those change too often to be events and live in the memory of the pool's owner.
// It sees no secret, only digests of secrets.
//
// Invariants: a registration token registers one runner, once, before it expires; names of
// the runners in a pool are unique; one runner has one session; a repeat of a registration
// by whoever holds the same token and the same resume secret answers as the first time.
//
// Read next: internal/core/pool/pool.go, then decide.go
package pool

// Package dispatch brings ready jobs and open slots together, keeps leases alive, and
// speaks with runners.
//
// It deliberately decides no outcome: it asks the run's stream for a lease, reports what
// runners say, and submits a lapse when one falls silent. What it holds is memory that
// can be rebuilt from live streams at any time; renewals are not events.
//
// Invariants: a lease is told to a runner only after its grant is committed; a slot is
// lent to one job at a time; "your lease is gone" is said only on the store's word, never
// because memory lacks it; board.go is a step function without I/O or clock.
//
// Read next: internal/dispatch/board.go
package dispatch

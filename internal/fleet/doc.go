// Package fleet decides which server of several owns which partition: each server renews
// one lease, reads the same picture of the fleet from the store, and takes or gives back
// partitions by the same rule.
//
// It is deliberately no consensus and no leader: every server computes the whole assignment
// by itself. Two that see different pictures may both take a partition; the database lets
// one of them write, and the next picture tells the other. It owns nothing and forwards
// nothing: the engine does.
//
// Invariants: another server is dead when whoever waits for that saw no renewal for as long as a
// lease lasts, by its own monotonic clock; what the store's clock says of it proves nothing. A
// server whose own lease ran out by its own monotonic clock, counted from before it asked for it,
// answers for nothing; a partition of a live server is taken only after that server gave it
// back; the step function (step.go) does no I/O and reads no clock.
//
// Read next: internal/fleet/assign.go, internal/fleet/step.go
package fleet

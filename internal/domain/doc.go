// Package domain holds the words every other room speaks: typed identifiers, digests,
// trust tiers, classes, outcomes, failure classes, actors, acknowledgement tokens and
// the vocabulary of refusals.
//
// It is deliberately without behaviour that could decide anything: no state machine,
// no clock, no randomness, no I/O. A package that needs to decide lives in core.
//
// Invariants: identifiers are opaque, typed and sortable by time; children are derived
// from their parent (job = run + index, attempt = job + number), so the core needs no
// randomness; every rejection code is listed in codes.go with one sentence.
//
// Read next: internal/core/run/command.go
package domain

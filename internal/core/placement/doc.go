// Package placement chooses which waiting job gets which open slot of a pool's runners, and
// says why a job got none.
//
// It is deliberately a function of what it is given: it keeps no queue, grants no lease and
// knows no history. Quotas act before it, in what a partition announces as Head and Count;
// shares between tenants belong into order (order.go), the one place that ranks heads.
//
// Invariants: the same heads and offers give the same assignments, in whatever order they
// came; a slot is assigned at most once and a head at most Count times; no head is placed
// on a pool that does not accept its tier, nor on a runner that lacks one of its labels; a
// head that can be placed is never passed over for one that ranks lower.
//
// Read next: internal/core/placement/place.go
package placement

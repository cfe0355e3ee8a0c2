// Package crash drives the real programs under load and takes away from under them what
// can be taken away: processes are killed and stopped, connections held, swallowed and
// cut, disks filled, syncs failed, clocks moved. An observer outside keeps its own book
// of everything that was acknowledged, and compares in the end.
//
// It is deliberately without access to anything inside while it runs: no switch in the
// product, no test double, no look into memory. Only when all is over it opens the store
// through its port, to see that the log is gapless and chained.
//
// Invariants: what one seed decides is the schedule, not its outcome, for processes run
// on a real machine; a kill counts only when the siege it belongs to was judged and found
// clean; whatever can't be tried here is printed as "not run: reason" and counted; every
// process and folder that a siege made is gone afterwards, unless it failed, when the folder
// stays and is named.
//
// Read next: plan.go, siege.go, book.go, verdict.go
package crash

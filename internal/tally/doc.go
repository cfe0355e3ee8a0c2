// Package tally counts what a store holds of jobs: how many were committed between two
// moments, how long they waited, and whether everything that somebody else remembers of
// them is there, once. It is what `fairlead admin tally` runs, and how a measurement finds
// out what really happened.
//
// It is deliberately a stranger to whoever made the load: it reads history, event by event,
// in a process of its own, and believes no counter. It holds no list that a server keeps
// beside history.
//
// Invariants: a job counts at the time that its own event carries; what a book remembers and
// history does not hold is lost; an execution after one that allows no other is a duplicate.
//
// Read next: tally.go, book.go
package tally

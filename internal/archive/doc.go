// Package archive keeps old history as compressed objects beside the database, and reads
// across the border as if there were none.
//
// It is deliberately no second store: which ranges of a log lie in objects is recorded by the
// store, in the transaction that checks the owner's epoch. It deletes no history either: rows
// go from the database only when an object that was read back holds them.
//
// Invariants: a range ends at borders of batches and its objects prove its digest; an object
// is durable before its range is recorded, and its range before a row is removed; a missing or
// damaged object is an error that says so, never a shorter history.
//
// Read next: internal/archive/format.go, internal/archive/reader.go, docs/adr
package archive

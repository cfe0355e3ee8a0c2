// Package verify examines everything that a server keeps: that history is whole and
// chained, that replaying it gives what is stored beside it, and that whatever it refers to
// is there with the right bytes. It also makes derived records anew.
//
// It is deliberately without opinion on how damage came about, and repairs nothing that is
// not derived from events: what is gone is told with its place and what to do, and a backup
// brings it back. It looks at one image of the store, so it may run beside a server.
//
// Invariants: one damaged row, object or stream never hides another: every finding names
// its own place and everything else is still examined; whatever could not be examined is
// listed as such, never passed over; rebuilding changes derived tables only.
//
// Read next: internal/verify/verify.go, internal/verify/replay.go
package verify

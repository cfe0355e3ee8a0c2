// Package logs takes in what jobs print, keeps it, and gives it back: live while an attempt
// runs, compressed in an object afterwards, through the same calls. A short log shares that
// object with others.
//
// It is deliberately without opinion on who may write or read: whether a chunk comes from the
// attempt's current lease epoch is decided by the caller before Append, and every read by the
// one point that authorises. It knows no engine and no event; only references (Ref) travel
// there. One gateway serves one tree of segments; a second needs a prefix of its own.
//
// Invariants: Append acknowledges only what is durable; an acknowledged chunk is in the log,
// once, at its place, whatever crashes; nothing of a log goes before history knows where the
// sealed one is (Recorded); of two chunks with one sequence the first wins and the
// other is kept as evidence; what is missing or cut is marked where it is missing; a sealed
// log never changes; memory is bounded by live attempts, never by the length of the past, and
// a slow reader holds one block.
//
// The parts: chunk.go and limits.go (the promise), segment.go and object.go (the two formats,
// see docs/reference/logs.md), tally.go, live.go and lane.go (the step functions: pure, no
// goroutine), gateway.go, commit.go, recover.go, seal.go and bundle.go (the drivers), log.go and
// lines.go (reading), reopen.go (for copies of an older history), ansi (one line as HTML).
//
// Read next: internal/logs/lane.go
package logs

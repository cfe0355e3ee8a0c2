// Package projection turns a stream's state and history into what people read: list
// rows, the run with its jobs and attempts, the timeline as sentences, and the answer to
// "why".
//
// It deliberately decides nothing and stores nothing of its own: list rows commit with
// the events they come from, everything else is computed when somebody looks. Its result
// types are those of the API (api is a leaf), so pages, CLI and scripts read the same.
//
// Invariants: every event has a sentence; every state that waits names its cause and
// what ends it; requested, observed and committed are never merged.
//
// Read next: internal/projection/timeline.go
package projection

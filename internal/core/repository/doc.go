// Package repository decides what the server knows of a source of commits: its name and
// address, its protected refs, and where its refs were when they were last seen. A moved
// ref is the event from which triggers follow.
//
// It is deliberately without git: what refs there are comes in with a command, and fetching
// objects, reading workflows and starting runs are reactors' work.
//
// Invariants: the first complete observation of a repository moves nothing, so registering
// runs no history; each move of a ref is one event with the tip before and after; a repeat
// of an observation changes nothing; the default branch is always protected.
//
// Read next: internal/core/repository/repository.go, then decide.go
package repository

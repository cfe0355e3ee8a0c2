// Package tidy holds the laws of this codebase as tests: which package may import which,
// what the pure ring must not touch, where processes, keys and SQL may appear, and how
// code and documents are written. `go test ./...` runs them, so no other gate is needed
// to know that the architecture still holds.
//
// It deliberately is not a linter for style that a formatter or staticcheck can see, and
// it has no list of files that may break a law: an exception is written where it applies,
// with its reason, and an exception that nothing needs any more is itself a finding.
//
// Invariants: deps.txt names every package once, with its ring and its direct imports, and
// equals what the code does; a law says in its finding what to write instead; every law is
// shown to catch what it forbids by a file in testdata.
//
// Read next: tidy.go, then deps.txt, ring.go and pure.go.
package tidy

// Package e2e drives the real binaries by scripts: a server, runners, git and a browser's
// worth of requests, on SQLite and on PostgreSQL, with processes killed in the middle.
//
// It is deliberately without access to anything inside: a script sees what a person or a
// program outside sees.
//
// Invariants: every script runs once per store; every process started is ended; a script
// waits for facts, never for time.
//
// Read next: test/e2e/script_exec_test.go
package e2e

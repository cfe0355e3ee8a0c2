// Package cli is Fairlead for a terminal: every command of the program fairlead, what it
// prints for people and for scripts, and the code it exits with.
//
// It is deliberately a client like any other. It links the API client, the vocabulary, the
// capture of working trees and the compiler (for lint), and nothing of the server: what
// up and server start, and what doctor asks of isolation drivers, is handed in by main.
// It decides nothing about runs; it shows what the server committed.
//
// Invariants: with --json standard output holds JSON and nothing else; the exit code is
// one of those in exit.go and means the same for every command; closing the program never
// changes a run; text that came from a run or a repository can't steer a terminal; every
// write can be repeated, since it carries one key however often it is sent.
//
// Read next: program.go, cmd_run.go, follow.go
package cli

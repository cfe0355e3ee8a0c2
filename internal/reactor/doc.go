// Package reactor carries out what follows from committed events of runs: it computes
// conditions that the core asked for, and seals logs of attempts that ended.
//
// It deliberately decides nothing about a run: each effect comes back to the run as a
// command, and the run's own state absorbs a repeat. What starts runs is in trigger, what
// brings jobs to runners is in dispatch.
//
// Invariants: every reactor may see a row again; none keeps state that the store lacks.
//
// Read next: internal/reactor/seal.go
package reactor

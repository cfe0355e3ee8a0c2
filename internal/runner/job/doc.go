// Package job executes the steps of one manifest inside one sandbox: conditions,
// environments, shells, command files, timeouts, cancellation, and the log of it all.
//
// It is deliberately ignorant of leases, servers and disks: what it reports goes into a
// Sink, and whether it may go on is decided by whoever holds its context. The checkout
// step alone talks to the server, outside the sandbox and with the attempt's token,
// which no step ever sees.
//
// Invariants: steps run one after another; after a stop only steps marked as cleanup
// run, within its grace; Run returns when no process of the job is left; the raw log is
// what the steps printed, in the order it arrived, and nothing else on the steps'
// streams; no secret that was registered before a byte arrived is in the log.
//
// Read next: run.go, step.go, log.go, checkout_exec.go
package job

// Package runner is the agent on a machine that executes jobs: it registers, offers its
// slots, takes leases, has a supervisor run each, and brings what they report to the
// server until the server has it for good.
//
// It is deliberately only a messenger. It decides nothing about runs and retries, holds
// no credential for source control, and never touches what a job touches: executing is
// the supervisor's, isolating is a driver's.
//
// Invariants: each slot token is offered by one process and used once; a lease is taken
// only with a manifest that verifies, names this runner, and comes for a slot that is
// open; a job is extended only by what the server promised, counted from the moment the
// question was sent; nothing that was spooled is forgotten before it is acknowledged or
// refused; capacity is offered only when nothing is left of what used it before.
//
// machine.go is the step function (inputs and a time in, effects out); agent.go is its
// driver, the only one here that owns goroutines, sockets and processes.
//
// Read next: machine.go, agent.go, warm.go, supervisor/doc.go, job/doc.go
package runner

// Package sim runs whole worlds: several servers, runners, a store, an object store, a source
// system and clients, in one goroutine at a time, in virtual time, with everything going wrong
// that can go wrong. One seed is one world, and the same seed is the same world to the byte.
//
// It deliberately holds no copy of product logic. The engine with its drivers, dispatch, the
// log gateway, the reactors, the trigger, the compiler and the runner's step function are the
// real ones; replaced are the host that they run on (internal/host), the network, the disks
// below the store's and the object store's memory adapters, git, and the processes of jobs.
//
// Invariants: nothing here or below reads a machine's clock or randomness; no two tasks run
// at the same time; every decision about faults comes from the seed; the checkers know the
// product's promises and not its code, one sentence and one file each (check_*.go).
//
// A world has two phases. In the first anything may fail and only safety is required. Then
// the world heals, and everything that was admitted must come to its end.
//
// The parts: sched.go (time, tasks), swarm.go (what may fail, and how likely, by seed),
// disk.go, objects.go, net.go, source.go (the surroundings), server.go, runner.go, job.go,
// client.go, liar.go (who acts), book.go (what was seen and promised), oracle.go, check_*.go,
// coverage.go, trace.go, reduce.go and journal.go.
//
// Read next: internal/sim/world.go
package sim

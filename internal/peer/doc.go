// Package peer is how the servers of one fleet speak with each other: commands go to the
// partition's owner, news of commits go to everybody who follows, and requests of runners
// and people go to the server that leads the pool and holds the logs.
//
// It deliberately decides nothing: who owns what is the store's word (store.Picture), what a
// command does is the engine's, what a caller may do was decided where the caller came in.
// It is no way around that: nothing here answers a credential of a user, a runner or a job.
//
// Invariants: every request carries the fleet's secret and is refused without it, before its
// body is read; a command is carried one hop, never two; "nothing happened" is said only
// when the command did not leave; a stream of news may be late, repeat or miss, because it
// only says when to look.
//
// Read next: internal/peer/peers.go
package peer

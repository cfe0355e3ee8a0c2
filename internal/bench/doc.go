// Package bench measures a Fairlead server from outside: the time of whole processes, what
// a fresh server holds in memory, how fast a job reaches a runner, how fast logs become
// durable. It is what `fairlead bench` runs.
//
// It is deliberately a stranger to the server: a server is a process of its own with the
// flags that anybody has, and everything goes through the public API and the runner
// protocol over HTTP. It holds no shortcut that a real client or runner has not, and its
// runners verify every manifest. It judges nothing: an aim stands beside a figure so that
// a person can.
//
// Invariants: a figure comes with the machine, its load, and the disk's own time for a
// synced write in the same folder, taken before and after; server and generator are told
// apart; what was measured is checked (exit codes, acknowledgements, bytes of sealed logs),
// and a measurement that is not what it says is an error, not a figure.
//
// Read next: bench.go, server_exec.go, agent.go
package bench

// Package inside is the small init of every sandbox: this same program, executed again,
// which starts a job's commands where they belong and buries what they leave behind.
// The supervisor talks to it over one socket and hands it the files that commands write
// to, so a step costs a fork and not a container.
//
// It is deliberately ignorant: no manifest, no token, no network, no log. What it is
// not told it can't leak, although it runs among the job's own processes.
//
// Invariants: it is the first process of a pid namespace or a subreaper, so every
// orphan of the job becomes its child; when its socket closes, because its owner let go
// or died, it kills every descendant and ends; the socket is never inherited by a
// command.
//
// Read next: init.go, children.go, client.go
package inside

// Package capture is the client's side of source: it names the commit of a working tree,
// makes an immutable commit of one that has changes, and sends it to a server.
//
// It is deliberately a reader of the user's repository. It writes no index, ref, reflog,
// stash, file or object there: a captured tree lives in a temporary folder that borrows
// the repository's objects, and is pushed from there. (Git may renew the time of an
// object that it finds there already; that is all.)
//
// Invariants: the same files on the same HEAD give the same commit id, whoever asks and
// whenever; files that git ignores are never read; a repository that can't be captured
// faithfully is refused with a reason, never captured in part without a note.
//
// Read next: internal/capture/tree.go, internal/capture/git_exec.go
package capture

// Package spool keeps what one attempt has to tell the server until the server has
// acknowledged it: log chunks, progress and the final result, in order, on disk.
//
// It is deliberately ignorant of what its frames mean and of the network. It survives
// the death of the processes that write and read it, not the death of the machine: no
// frame is synced, because a machine that dies takes the job with it.
//
// Invariants: a frame is read whole and with its checksum or not at all; frames come
// back in the order they were written; not acknowledged chunks never exceed the limit;
// the final result fits even on a full disk, because its room was set aside.
//
// Read next: frame.go, writer.go, reader.go
package spool

// Package backup copies everything that a server keeps into a folder, beside the running
// server and from one moment of its history, and makes a server of such a folder again.
//
// It is deliberately not a dump of a database: a backup holds history and nothing that can
// be made from it, in a form of our own that either database takes. It keeps no catalogue
// of backups and deletes none: a backup is a folder, and earlier ones share files with it
// as hard links.
//
// Invariants: a folder without backup.json is no backup, and it is written last; every
// byte of a backup has a digest in it, and restoring trusts nothing else; what a run, a log
// or a mirror refers to is copied after the moment of the history that refers to it, so
// nothing is missing; restoring raises the epoch of every partition, so whoever holds
// something of the lost future is found out.
//
// Read next: internal/backup/backup.go, internal/backup/restore.go, docs/ops/backup.md
package backup

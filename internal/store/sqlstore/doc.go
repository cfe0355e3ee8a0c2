// Package sqlstore is the SQL text and the row mapping that the SQLite and PostgreSQL
// adapters share: one statement, one meaning, two databases.
//
// It is deliberately without connections, transactions and error codes: those differ,
// and live in the adapters. It has no query builder either; a statement is text that can
// be found with grep and pasted into a database shell.
//
// Invariants: statements keep to the common subset ($N placeholders in order of first
// use, BIGINT microseconds, no NULLs, no database functions), and every table is
// written through exactly one Write, so no column can be bound in two different ways.
// Times are stored as microseconds since 1970 in UTC; the zero time is kept as the
// number that it is, so every time of a row comes back as it was digested.
//
// Read next: internal/store/sqlstore/writes.go, internal/store/storetest
package sqlstore

// Package upgrade shows that a fleet changes its programs and its database under load
// without a failed job: servers and runners of two neighbouring versions replace each other
// in both directions, PostgreSQL is restarted, and a standby is promoted.
//
// It is deliberately without a version from a museum: the previous and the next program are
// made from this tree by a build overlay, so that their events and messages differ from
// today's in exactly the lines that programs_exec_test.go lists, and each of them must fit.
//
// Invariants: whatever was acknowledged is looked for in the end, and a run that is missing
// or failed is a failure of the test; the history in the database is read row by row; every
// process and folder that a test made is gone afterwards.
//
// Read next: test/upgrade/rolling_exec_test.go, test/upgrade/promote_exec_test.go
package upgrade

package postgres

import "time"

// Limits of this room: each with its reason and what happens at the limit.
const (
	// connectTimeout bounds one attempt to connect, unless the URL says otherwise.
	connectTimeout = 10 * time.Second

	// statementTimeout ends a statement that hangs; the caller may retry. The server
	// stops the clock before it commits, so waiting for a standby is not bounded by it.
	statementTimeout = 30 * time.Second

	// idleTransactionTimeout frees the partition's row when a server vanished in the
	// middle of an append, and lockTimeout is longer than it, so that whoever takes over
	// waits long enough.
	idleTransactionTimeout = 10 * time.Second
	lockTimeout            = 25 * time.Second

	// idleTransactionMin bounds the time of a member of a fleet, which is its lease, from
	// below: a busy machine may well pause for some hundred milliseconds.
	idleTransactionMin = time.Second

	// connsOfFleet is for a server that appends to several partitions and follows others
	// at once. At the limit they wait for each other.
	connsOfFleet = 16

	// leaseConns are for renewing the lease and for looking at the fleet.
	leaseConns = 2

	// commitTimeout is how long an append waits for the answer to COMMIT, whatever its
	// caller does; afterwards the outcome is unknown.
	commitTimeout = 30 * time.Second

	// rollbackTimeout bounds the tidying up after a refused batch; afterwards the
	// connection is dropped, which rolls back as well.
	rollbackTimeout = 5 * time.Second

	// migrationTimeout bounds one statement of a migration, and waiting for another
	// replica's.
	migrationTimeout = 10 * time.Minute
)

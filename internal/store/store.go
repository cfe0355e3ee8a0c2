// Package store is the port to durable history: one event log per partition, with the
// stream heads, checkpoints, keys, counters, cursors and list rows that commit with it.
//
// It is deliberately not a general database layer. It knows nothing of what an event
// means; it guarantees order, fencing, idempotency records and durability, and nothing
// else. Log bytes and plans live in blob.
//
// Invariants: positions of a partition are gapless and each batch carries the digest of
// the one before; Append with an old owner epoch changes nothing (the database decides,
// in the same transaction); what Append acknowledged survives a crash; every record has
// a tenant. storetest is the meaning of this port: every adapter passes all of it.
//
// Read next: internal/store/storetest, internal/engine/owner.go
package store

import (
	"context"
	"errors"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Faults, told apart with errors.Is.
var (
	// ErrFenced: the epoch is not the partition's current one. Nothing was written.
	ErrFenced = errors.New("owner epoch is stale")
	// ErrConflict: position, digest or a stream's version is not what the batch expects,
	// or a key exists already. Nothing was written.
	ErrConflict = errors.New("store conflict")
	// ErrUnknown: the connection died around commit; the batch may or may not be there.
	// Settle it by Acquire, which waits for the old transaction, then read the position.
	ErrUnknown = errors.New("append outcome unknown")
	// ErrFull: no space left. Nothing was written; the same batch may succeed later.
	ErrFull = errors.New("storage full")
	// ErrBroken: the store can't be trusted any more (a failed sync); the process must end.
	ErrBroken = errors.New("storage broken")
	// ErrNotFound: there is no such record.
	ErrNotFound = errors.New("not found")
)

// Position counts the rows of a partition from 1; 0 is "before the first".
type Position uint64

// Ownership is the result of Acquire: the caller owns the partition at Epoch until
// somebody acquires it again.
type Ownership struct {
	Partition domain.PartitionID
	Epoch     uint64
	Position  Position      // of the last row
	Digest    domain.Digest // of the last batch; "" when the log is empty
}

// Row is all events of one stream in one batch.
type Row struct {
	Position Position
	Tenant   domain.TenantID
	Stream   domain.StreamID
	Version  uint64 // of the row's last event; the first is Version-Count+1
	Count    uint32 // events in the row, at least 1
	Events   []byte // encoded by the stream's codec
	At       time.Time
}

// Head is a stream's current place. Live streams are those an owner must load.
type Head struct {
	Tenant   domain.TenantID
	Stream   domain.StreamID
	Version  uint64
	Live     bool
	NextWake time.Time // zero: none
}

// Checkpoint is the saved state of a stream at a version: derived, may be dropped.
type Checkpoint struct {
	Tenant   domain.TenantID
	Stream   domain.StreamID
	Version  uint64
	Encoding uint32 // of State; readers drop what they don't know
	State    []byte
}

// Key is an idempotency or dedupe record: (Tenant, Scope, Key) acts at most once.
type Key struct {
	Tenant  domain.TenantID
	Scope   string // "client/<principal>/<method>" or "trigger/<repository>"
	Key     string
	Body    domain.Digest // of the request: the same key with another body is refused
	Reply   []byte        // what the first acceptance answered; nil in a tombstone
	Stream  domain.StreamID
	At      time.Time
	Expired bool // the reply was dropped by ExpireKeys
}

// Counter is a number that only grows, such as the run number of a workflow.
type Counter struct {
	Tenant domain.TenantID
	Name   string
	Value  uint64
}

// Cursor is how far a reactor has come in the partition's log.
type Cursor struct {
	Reactor  string
	Position Position
}

// Batch is one durable transaction of a partition's owner. Rows may be empty (cursors
// only); then Position and Digest stay as they were.
type Batch struct {
	Partition  domain.PartitionID
	Epoch      uint64
	Prev       Position      // the partition's position before the batch
	PrevDigest domain.Digest // and its digest
	Digest     domain.Digest // BatchDigest(PrevDigest, Rows); PrevDigest when Rows is empty
	At         time.Time

	Rows        []Row // positions Prev+1, Prev+2, …
	Heads       []Head
	Checkpoints []Checkpoint
	Keys        []Key
	Counters    []Counter
	Cursors     []Cursor

	Runs         []RunRow
	Repositories []RepositoryRow
	Runners      []RunnerRow
}

// History is what Load returns: a checkpoint, if one is usable, and the rows after it.
type History struct {
	Head       Head
	Checkpoint *Checkpoint
	Rows       []Row
}

// Log is the write side and the recovery side: what a partition's owner needs.
type Log interface {
	// Acquire makes the caller (owner is a name for operators) the partition's owner by
	// raising its epoch, creating the partition if need be. It waits for any append in
	// flight of the owner before.
	Acquire(ctx context.Context, partition domain.PartitionID, owner string) (Ownership, error)
	// Append commits the batch or changes nothing; nil means it is durable.
	Append(ctx context.Context, batch Batch) error
	// Load reads one stream: its checkpoint if encoding matches, and all rows after it
	// in order. An unknown stream has a zero Head and no rows, and is no error.
	// withCheckpoint false reads the whole history from version 1. Rows that Prune removed
	// are missing.
	Load(
		ctx context.Context, tenant domain.TenantID, stream domain.StreamID, withCheckpoint bool, encoding uint32,
	) (History, error)
	// Live lists heads of live streams of the partition in (tenant, stream) order.
	Live(ctx context.Context, partition domain.PartitionID) ([]Head, error)
	// Read lists up to limit rows after a position, in order; those that Prune removed are
	// missing.
	Read(ctx context.Context, partition domain.PartitionID, after Position, limit int) ([]Row, error)
	// BatchAt gives the digest and epoch of the batch whose last row is at that
	// position; ErrNotFound when no batch ends there, or Prune removed it.
	BatchAt(ctx context.Context, partition domain.PartitionID, at Position) (domain.Digest, uint64, error)
	// Key looks a key up; ErrNotFound when it never acted.
	Key(ctx context.Context, tenant domain.TenantID, scope, key string) (Key, error)
	// Counter reads a counter; 0 when it was never written.
	Counter(ctx context.Context, tenant domain.TenantID, name string) (uint64, error)
	// Cursors reads all reactor cursors of a partition.
	Cursors(ctx context.Context, partition domain.PartitionID) ([]Cursor, error)
	// ExpireKeys turns up to limit keys of client scopes older than before into
	// tombstones and says how many it did.
	ExpireKeys(ctx context.Context, before time.Time, limit int) (int, error)
}

// Views is the read side: list rows. They commit with the events they come from, so a
// reader that waits for a token reads its own writes.
type Views interface {
	// Runs lists runs, newest first.
	Runs(ctx context.Context, q RunQuery) ([]RunRow, error)
	// Run finds one run; ErrNotFound.
	Run(ctx context.Context, tenant domain.TenantID, run domain.RunID) (RunRow, error)
	// Repositories lists a tenant's repositories by name.
	Repositories(ctx context.Context, tenant domain.TenantID) ([]RepositoryRow, error)
	// Repository finds one by id or by name; ErrNotFound.
	Repository(ctx context.Context, tenant domain.TenantID, idOrName string) (RepositoryRow, error)
	// Runners lists a tenant's runners by pool and name.
	Runners(ctx context.Context, tenant domain.TenantID) ([]RunnerRow, error)
	// Partitions lists the partitions that exist, with position and epoch.
	Partitions(ctx context.Context) ([]Ownership, error)
}

// Store is the whole port.
type Store interface {
	Log
	Views
	Fleet
	Losses
	Ranges
	// Ping says whether the store answers and can write.
	Ping(ctx context.Context) error
	// Close releases everything. No other call may be under way.
	Close() error
}

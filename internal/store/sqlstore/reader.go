package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Reader is the reading half of the port over any Querier. Adapters embed it.
type Reader struct {
	Querier Querier
	// Clock is the database's time in microseconds, as an expression of its SQL. It alone
	// judges whether a member's lease has run out.
	Clock string
}

const logColumns = `position, tenant, stream, version, count, at, events`

func scanLog(r Row) (store.Row, error) {
	var row store.Row
	var position, version, count, at int64
	err := r.Scan(&position, &row.Tenant, &row.Stream, &version, &count, &at, &row.Events)
	row.Position, row.Version, row.Count = store.Position(position), uint64(version), uint32(count)
	row.At, row.Events = Time(at), bytesOrNil(row.Events)
	return row, err
}

// load reads head, checkpoint and rows of a stream in one statement, and so from one
// snapshot: a reader beside the owner never sees a head without its rows.
// kind 0 is the head, 1 the checkpoint, 2 a row.
const load = `SELECT 0 AS kind, s.version, CASE WHEN s.live THEN 1 ELSE 0 END AS number, s.next_wake AS at,
  0 AS position, s.partition AS partition, NULL AS body
FROM streams s WHERE s.tenant = $1 AND s.stream = $2
UNION ALL
SELECT 1, c.version, c.encoding, 0, 0, '', c.state
FROM checkpoints c WHERE c.tenant = $1 AND c.stream = $2 AND c.encoding = $3
UNION ALL
SELECT 2, l.version, l.count, l.at, l.position, l.partition, l.events
FROM log l WHERE l.tenant = $1 AND l.stream = $2 AND l.version > COALESCE(
  (SELECT c.version FROM checkpoints c WHERE c.tenant = $1 AND c.stream = $2 AND c.encoding = $3), 0)`

// noEncoding matches no checkpoint: encodings are unsigned.
const noEncoding = -1

// Load implements store.Log.
func (r Reader) Load(
	ctx context.Context, tenant domain.TenantID, stream domain.StreamID, withCheckpoint bool, encoding uint32,
) (store.History, error) {
	wanted := int64(noEncoding)
	if withCheckpoint {
		wanted = int64(encoding)
	}
	var h store.History
	err := r.query(ctx, load, func(row Row) error {
		var kind, version, n, at, position int64
		var partition string
		var body []byte
		if err := row.Scan(&kind, &version, &n, &at, &position, &partition, &body); err != nil {
			return err
		}
		switch kind {
		case 0:
			h.Head = store.Head{
				Tenant: tenant, Stream: stream, Version: uint64(version), Live: n == 1, NextWake: Time(at),
			}
		case 1:
			h.Checkpoint = &store.Checkpoint{
				Tenant: tenant, Stream: stream, Version: uint64(version), Encoding: uint32(n), State: bytesOrNil(body),
			}
		default:
			h.Rows = append(h.Rows, store.Row{
				Position: store.Position(position), Tenant: tenant, Stream: stream, Version: uint64(version),
				Count: uint32(n), Events: bytesOrNil(body), At: Time(at),
			})
		}
		return nil
	}, string(tenant), string(stream), wanted)
	if err != nil {
		return store.History{}, fmt.Errorf("load stream %s: %w", stream, err)
	}
	slices.SortFunc(h.Rows, func(a, b store.Row) int { return compare(a.Version, b.Version) })
	return h, nil
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Live implements store.Log.
func (r Reader) Live(ctx context.Context, partition domain.PartitionID) ([]store.Head, error) {
	var heads []store.Head
	err := r.query(ctx, `SELECT tenant, stream, version, next_wake FROM streams
WHERE partition = $1 AND live = TRUE ORDER BY tenant, stream`, func(row Row) error {
		h := store.Head{Live: true}
		var version, wake int64
		err := row.Scan(&h.Tenant, &h.Stream, &version, &wake)
		h.Version, h.NextWake = uint64(version), Time(wake)
		heads = append(heads, h)
		return err
	}, string(partition))
	if err != nil {
		return nil, fmt.Errorf("list live streams of partition %s: %w", partition, err)
	}
	return heads, nil
}

// Read implements store.Log.
func (r Reader) Read(
	ctx context.Context, partition domain.PartitionID, after store.Position, limit int,
) ([]store.Row, error) {
	if limit < 1 {
		return nil, fmt.Errorf("read partition %s: limit %d is not positive", partition, limit)
	}
	var rows []store.Row
	err := r.query(ctx, `SELECT `+logColumns+` FROM log
WHERE partition = $1 AND position > $2 ORDER BY position LIMIT $3`, func(row Row) error {
		entry, err := scanLog(row)
		rows = append(rows, entry)
		return err
	}, string(partition), int64(after), int64(limit))
	if err != nil {
		return nil, fmt.Errorf("read partition %s after %d: %w", partition, after, err)
	}
	return rows, nil
}

// BatchAt implements store.Log.
func (r Reader) BatchAt(
	ctx context.Context, partition domain.PartitionID, at store.Position,
) (domain.Digest, uint64, error) {
	var digest domain.Digest
	var epoch int64
	err := r.one(ctx, `SELECT digest, epoch FROM batches WHERE partition = $1 AND position = $2`,
		func(row Row) error { return row.Scan(&digest, &epoch) }, string(partition), int64(at))
	if err != nil {
		return "", 0, fmt.Errorf("find batch %s/%d: %w", partition, at, err)
	}
	return digest, uint64(epoch), nil
}

// Key implements store.Log.
func (r Reader) Key(ctx context.Context, tenant domain.TenantID, scope, key string) (store.Key, error) {
	k := store.Key{Tenant: tenant, Scope: scope, Key: key}
	var at int64
	err := r.one(ctx, `SELECT body, reply, stream, at, expired FROM keys
WHERE tenant = $1 AND scope = $2 AND key = $3`, func(row Row) error {
		return row.Scan(&k.Body, &k.Reply, &k.Stream, &at, &k.Expired)
	}, string(tenant), scope, key)
	if err != nil {
		return store.Key{}, fmt.Errorf("find key %s of %s: %w", key, scope, err)
	}
	k.At, k.Reply = Time(at), bytesOrNil(k.Reply)
	return k, nil
}

// Counter implements store.Log.
func (r Reader) Counter(ctx context.Context, tenant domain.TenantID, name string) (uint64, error) {
	var value int64
	err := r.query(ctx, `SELECT value FROM counters WHERE tenant = $1 AND name = $2`,
		func(row Row) error { return row.Scan(&value) }, string(tenant), name)
	if err != nil {
		return 0, fmt.Errorf("read counter %s: %w", name, err)
	}
	return uint64(value), nil
}

// Cursors implements store.Log.
func (r Reader) Cursors(ctx context.Context, partition domain.PartitionID) ([]store.Cursor, error) {
	var cursors []store.Cursor
	err := r.query(ctx, `SELECT reactor, position FROM cursors WHERE partition = $1 ORDER BY reactor`,
		func(row Row) error {
			var c store.Cursor
			var position int64
			err := row.Scan(&c.Reactor, &position)
			c.Position = store.Position(position)
			cursors = append(cursors, c)
			return err
		}, string(partition))
	if err != nil {
		return nil, fmt.Errorf("read cursors of partition %s: %w", partition, err)
	}
	return cursors, nil
}

// query runs a statement. Text that no database can hold matches nothing that is stored,
// so a look-up of it finds nothing, and is no fault on one database only.
//
// Trust: args may hold text from anybody.
func (r Reader) query(ctx context.Context, query string, each func(Row) error, args ...any) error {
	for _, arg := range args {
		if text, ok := arg.(string); ok && !store.ValidText(text) {
			return nil
		}
	}
	return r.Querier.Query(ctx, query, each, args...)
}

// one runs a query of at most one row; none is store.ErrNotFound.
func (r Reader) one(ctx context.Context, query string, scan func(Row) error, args ...any) error {
	found := false
	err := r.query(ctx, query, func(row Row) error {
		found = true
		return scan(row)
	}, args...)
	if err == nil && !found {
		return store.ErrNotFound
	}
	return err
}

// VerifyTail checks that the log of every partition ends where its ownership row says,
// and recomputes the last batch's digest. A database that lost its tail, or came back
// with another one, wraps store.ErrBroken.
func (r Reader) VerifyTail(ctx context.Context) error {
	partitions, err := r.Partitions(ctx)
	if err != nil {
		return err
	}
	for _, p := range partitions {
		if err := r.verifyTail(ctx, p); err != nil {
			return fmt.Errorf("verify partition %s at %d: %w", p.Partition, p.Position, err)
		}
	}
	return nil
}

func (r Reader) verifyTail(ctx context.Context, p store.Ownership) error {
	beyond, err := r.Read(ctx, p.Partition, p.Position, 1)
	if err != nil {
		return err
	}
	if len(beyond) > 0 {
		return fmt.Errorf("the log goes on to %d: %w", beyond[0].Position, store.ErrBroken)
	}
	if p.Position == 0 {
		return nil
	}
	digest, _, err := r.BatchAt(ctx, p.Partition, p.Position)
	if err != nil || digest != p.Digest {
		return fmt.Errorf("the last batch is %q, not %q (%v): %w", digest, p.Digest, err, store.ErrBroken)
	}
	var before int64
	var beforeDigest domain.Digest
	err = r.query(ctx, `SELECT position, digest FROM batches
WHERE partition = $1 AND position < $2 ORDER BY position DESC LIMIT 1`,
		func(row Row) error { return row.Scan(&before, &beforeDigest) }, string(p.Partition), int64(p.Position))
	if err != nil {
		return err
	}
	rows, err := r.Read(ctx, p.Partition, store.Position(before), int(int64(p.Position)-before))
	if err != nil {
		return err
	}
	if computed := store.BatchDigest(beforeDigest, rows); computed != p.Digest {
		return fmt.Errorf("its rows digest to %s, not %s: %w", computed, p.Digest, store.ErrBroken)
	}
	return nil
}

// ExpireArgs are the arguments of ExpireKeys.
func ExpireArgs(before time.Time, limit int) []any {
	return []any{[]byte{}, Micros(before), int64(limit)}
}

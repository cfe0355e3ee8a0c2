package sqlstore

// Statements that are the same text on both databases. How many rows they changed is a
// part of their meaning; the comment says what the number must be.
const (
	// Fence is the first statement of every append: it holds the partition's row until
	// the commit. Arguments: partition, epoch, position and digest before, position and
	// digest after. One row, or the batch must not be written.
	Fence = `UPDATE partitions SET position = $5, digest = $6
WHERE partition = $1 AND epoch = $2 AND position = $3 AND digest = $4`

	// Acquire raises the epoch on the row that Fence locks, and so waits for any append
	// in flight. Arguments: partition, owner, time. Returns epoch, position, digest.
	Acquire = `INSERT INTO partitions (partition, epoch, position, digest, owner, acquired)
VALUES ($1, 1, 0, '', $2, $3)
ON CONFLICT (partition) DO UPDATE
SET epoch = partitions.epoch + 1, owner = excluded.owner, acquired = excluded.acquired
RETURNING epoch, position, digest`

	// Take is Acquire on condition of the epoch. Arguments: partition, owner, time, epoch.
	// No row: the epoch is another one, or there is no such partition.
	Take = `UPDATE partitions SET epoch = epoch + 1, owner = $2, acquired = $3
WHERE partition = $1 AND epoch = $4
RETURNING epoch, position, digest`

	// TakeFirst is Take of a partition that nobody ever had. Arguments: partition, owner,
	// time. No row: somebody has it.
	TakeFirst = `INSERT INTO partitions (partition, epoch, position, digest, owner, acquired)
VALUES ($1, 1, 0, '', $2, $3)
ON CONFLICT (partition) DO UPDATE
SET epoch = partitions.epoch + 1, owner = excluded.owner, acquired = excluded.acquired
WHERE partitions.epoch = 0
RETURNING epoch, position, digest`

	// Release says that nobody owns a partition. Arguments: partition, epoch. One row, or
	// the epoch is another one.
	Release = `UPDATE partitions SET owner = '' WHERE partition = $1 AND epoch = $2`

	// Leave ends a membership. Arguments: name, session.
	Leave = `DELETE FROM members WHERE name = $1 AND session = $2`

	// RecordShape records the shape of a fleet unless there is one. Arguments: partitions,
	// spread.
	RecordShape = `INSERT INTO fleet (one, partitions, spread, format) VALUES (1, $1, $2, 0)
ON CONFLICT (one) DO UPDATE SET partitions = excluded.partitions, spread = excluded.spread
WHERE fleet.partitions = 0`

	// Epoch tells a refused append why: arguments: partition. No row: it never existed.
	Epoch = `SELECT epoch FROM partitions WHERE partition = $1`

	// ExpireKeys turns old client keys into tombstones. Arguments: time, limit. The range
	// is "starts with client/": '0' is the byte after '/', and text compares by bytes.
	ExpireKeys = `UPDATE keys SET reply = $1, expired = TRUE
WHERE (tenant, scope, key) IN (
  SELECT tenant, scope, key FROM keys
  WHERE expired = FALSE AND scope >= 'client/' AND scope < 'client0' AND at < $2
  ORDER BY at, tenant, scope, key LIMIT $3)`

	// Beat proves that the store can write. Arguments: time.
	Beat = `INSERT INTO beat (one, at) VALUES (1, $1) ON CONFLICT (one) DO UPDATE SET at = excluded.at`
)

// Tables lists every table of the schema, for tests and for copying.
func Tables() []string {
	return []string{
		"partitions", "batches", "log", "streams", "checkpoints", "keys", "counters", "cursors",
		"runs", "repositories", "runners", "beat", "members", "fleet", "losses",
		"archives", "archive_objects", "archived_streams",
	}
}

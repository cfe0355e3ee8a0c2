package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// RecordRange records a range inside a transaction. The long list of its streams comes first;
// only then is the partition's row locked, which an owner's appends wait for.
func RecordRange(
	ctx context.Context, w store.Rewriter, lock func() error, epoch uint64, r *store.ArchivedRange,
	streams []store.ArchivedStream,
) error {
	rows := make([][]any, len(streams))
	for i, s := range streams {
		rows[i] = []any{string(s.Tenant), string(s.Stream), int64(r.To), string(r.Partition)}
	}
	if err := w.Put(ctx, store.TableArchivedStreams, rows); err != nil {
		return err
	}
	if err := lock(); err != nil {
		return err
	}
	if err := admitRange(ctx, w, epoch, r); err != nil {
		return err
	}
	return errors.Join(w.Put(ctx, store.TableArchives, [][]any{store.RangeRow(r)}),
		w.Put(ctx, store.TableArchiveObjects, store.ArchivedObjectRows(r)))
}

// admitRange decides whether a range fits.
func admitRange(ctx context.Context, w store.Rewriter, epoch uint64, r *store.ArchivedRange) error {
	row, err := w.Get(ctx, store.TablePartitions, []any{string(r.Partition)})
	if errors.Is(err, store.ErrNotFound) {
		return store.ErrFenced
	}
	if err != nil {
		return err
	}
	own := store.PartitionOf(row)
	if own.Epoch != epoch {
		return store.ErrFenced
	}
	if r.To >= own.Position {
		return fmt.Errorf("the log ends at %d: %w", own.Position, store.ErrConflict)
	}
	last, err := w.Scan(ctx, store.TableArchives, store.Page{From: []any{string(r.Partition), int64(math.MaxInt64)},
		Back: true, Limit: 1})
	if err != nil {
		return err
	}
	var before store.ArchivedRange // the range before this one
	if len(last) == 1 && store.RangeOf(last[0]).Partition == r.Partition {
		before = store.RangeOf(last[0])
	}
	if before.To != r.From || before.Digest != r.Before {
		return fmt.Errorf("ranges end at %d, this one begins at %d: %w", before.To, r.From, store.ErrConflict)
	}
	mark, err := w.Get(ctx, store.TableBatches, []any{string(r.Partition), int64(r.To)})
	if errors.Is(err, store.ErrNotFound) || err == nil && store.BatchOf(mark).Digest != r.Digest {
		return fmt.Errorf("no batch with its digest ends at %d: %w", r.To, store.ErrConflict)
	}
	return err
}

// PruneEnd is the last row that Prune looks at. Arguments: partition, position, limit.
const PruneEnd = `SELECT COALESCE(MAX(position), 0) FROM (SELECT position FROM log
WHERE partition = $1 AND position > $2
  AND position <= COALESCE((SELECT MAX(position) FROM archives WHERE partition = $1), 0)
ORDER BY position LIMIT $3) AS looked`

// PruneCheckpoints removes saved states of streams that are over; whoever opens one again
// reads its history. Arguments: as PruneRows.
const PruneCheckpoints = `DELETE FROM checkpoints WHERE (tenant, stream) IN (
  SELECT l.tenant, l.stream FROM log l JOIN streams s ON s.tenant = l.tenant AND s.stream = l.stream
  WHERE l.partition = $1 AND l.position > $2 AND l.position <= $3 AND s.live = FALSE)`

// PruneRows removes what PruneEnd found and nobody needs. Arguments: partition, position
// before, last position.
const PruneRows = `DELETE FROM log WHERE partition = $1 AND position > $2 AND position <= $3
AND NOT EXISTS (SELECT 1 FROM streams s WHERE s.tenant = log.tenant AND s.stream = log.stream AND s.live = TRUE
  AND log.version > COALESCE((SELECT c.version FROM checkpoints c
    WHERE c.tenant = log.tenant AND c.stream = log.stream), 0))`

// PruneBatches removes the marks of batches there, except the one where the last range ends.
// Arguments: partition, position before, last position.
const PruneBatches = `DELETE FROM batches WHERE partition = $1 AND position >= $2 AND position <= $3
AND position < COALESCE((SELECT MAX(position) FROM archives WHERE partition = $1), 0)`

// Changer runs a statement of a transaction.
type Changer func(ctx context.Context, text string, args ...any) error

// Prune is store.Ranges.Prune inside a transaction.
func Prune(
	ctx context.Context, r Reader, change Changer, partition domain.PartitionID, after store.Position, limit int,
) (store.Position, error) {
	var end int64
	if err := r.query(ctx, PruneEnd, func(row Row) error { return row.Scan(&end) }, string(partition), int64(after),
		int64(limit)); err != nil || end == 0 {
		return 0, err
	}
	for _, text := range []string{PruneCheckpoints, PruneRows, PruneBatches} {
		if err := change(ctx, text, string(partition), int64(after), end); err != nil {
			return 0, err
		}
	}
	return store.Position(end), nil
}

// ArchivedRanges implements store.Ranges.
func (r Reader) ArchivedRanges(
	ctx context.Context, partition domain.PartitionID, after store.Position, limit int,
) ([]store.ArchivedRange, error) {
	if limit < 1 {
		return nil, fmt.Errorf("list archived ranges of %s: limit %d is not positive", partition, limit)
	}
	ranges, err := r.ranges(ctx, `JOIN archive_objects o ON o.partition = a.partition AND o.position = a.position
WHERE a.partition = $1 AND a.position > $2 AND a.position <= COALESCE((SELECT MAX(position) FROM
  (SELECT position FROM archives WHERE partition = $1 AND position > $2 ORDER BY position LIMIT $3) AS listed), 0)
ORDER BY a.position, o.tenant`, string(partition), int64(after), int64(limit))
	if err != nil {
		return nil, fmt.Errorf("list archived ranges of %s after %d: %w", partition, after, err)
	}
	return ranges, nil
}

// ArchivedOf implements store.Ranges.
func (r Reader) ArchivedOf(
	ctx context.Context, tenant domain.TenantID, stream domain.StreamID,
) ([]store.ArchivedRange, error) {
	ranges, err := r.ranges(ctx, `JOIN archived_streams s ON s.partition = a.partition AND s.position = a.position
JOIN archive_objects o ON o.partition = a.partition AND o.position = a.position AND o.tenant IN ('', s.tenant)
WHERE s.tenant = $1 AND s.stream = $2 ORDER BY a.position, o.tenant`, string(tenant), string(stream))
	if err != nil {
		return nil, fmt.Errorf("list archived ranges of stream %s: %w", stream, err)
	}
	return ranges, nil
}

func (r Reader) ranges(ctx context.Context, rest string, args ...any) ([]store.ArchivedRange, error) {
	archives, _ := store.TableNamed(store.TableArchives)
	objects, _ := store.TableNamed(store.TableArchiveObjects)
	var out []store.ArchivedRange
	err := r.query(ctx, `SELECT a.partition, a.position, a.first, a.before, a.digest, a.epoch, a.oldest, a.newest, a.at,
  o.partition, o.position, o.tenant, o.object, o.digest, o.bytes, o.rows, o.raw FROM archives a `+rest,
		func(row Row) error {
			both := store.Table{Columns: append(append([]store.Column{}, archives.Columns...), objects.Columns...)}
			values, err := scanValues(&both, row)
			if err != nil {
				return err
			}
			a, o := store.RangeOf(values), store.ArchivedObjectOf(values[len(archives.Columns):])
			if len(out) == 0 || out[len(out)-1].To != a.To || out[len(out)-1].Partition != a.Partition {
				out = append(out, a)
			}
			if at := &out[len(out)-1]; o.Tenant == "" {
				at.Marks = o
			} else {
				at.Objects = append(at.Objects, o)
			}
			return nil
		}, args...)
	return out, err
}

// Batches implements store.Ranges.
func (r Reader) Batches(
	ctx context.Context, partition domain.PartitionID, after store.Position, limit int,
) ([]store.BatchMark, error) {
	if limit < 1 {
		return nil, fmt.Errorf("list batches of %s: limit %d is not positive", partition, limit)
	}
	t, _ := store.TableNamed(store.TableBatches)
	var marks []store.BatchMark
	err := r.query(ctx, "SELECT "+columnNames(&t, len(t.Columns))+` FROM batches
WHERE partition = $1 AND position > $2 ORDER BY position LIMIT $3`, func(row Row) error {
		values, err := scanValues(&t, row)
		if err == nil {
			marks = append(marks, store.BatchOf(values))
		}
		return err
	}, string(partition), int64(after), int64(limit))
	if err != nil {
		return nil, fmt.Errorf("list batches of %s after %d: %w", partition, after, err)
	}
	return marks, nil
}

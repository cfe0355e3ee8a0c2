package sqlstore

import (
	"context"
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/store"
)

// RecordLoss is store.Losses.RecordLoss inside a transaction that no append overlaps.
func RecordLoss(ctx context.Context, w store.Rewriter, loss store.Loss) (store.Loss, error) {
	if err := loss.Check(); err != nil {
		return loss, err
	}
	rows, err := w.Scan(ctx, store.TablePartitions, store.Page{Limit: partitionsMax})
	if err != nil {
		return loss, err
	}
	for _, row := range rows {
		own := store.PartitionOf(row)
		if own.Partition != loss.Partition {
			continue
		}
		loss.Epoch, loss.Held, loss.Digest = store.EpochAfterLoss(own.Epoch), own.Position, own.Digest
		loss.At = store.StoredTime(loss.At)
		row[1] = int64(loss.Epoch)
		if err := w.Put(ctx, store.TablePartitions, [][]any{row}); err != nil {
			return loss, err
		}
		return loss, w.Put(ctx, store.TableLosses, [][]any{store.LossRow(loss)})
	}
	return loss, fmt.Errorf("record loss of partition %s: %w", loss.Partition, store.ErrNotFound)
}

// partitionsMax is more partitions than a store has.
const partitionsMax = 100_000

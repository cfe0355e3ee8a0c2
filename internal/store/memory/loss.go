package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// RecordLoss implements store.Losses.
func (s *Store) RecordLoss(ctx context.Context, loss store.Loss) (store.Loss, error) {
	if err := loss.Check(); err != nil {
		return loss, err
	}
	err := s.write(ctx, Call{Op: "record_loss"}, func() error {
		p := s.tables.partitions[loss.Partition]
		if p == nil {
			return store.ErrNotFound
		}
		p.ownership.Epoch = store.EpochAfterLoss(p.ownership.Epoch)
		loss.Epoch, loss.Held, loss.Digest = p.ownership.Epoch, p.ownership.Position, p.ownership.Digest
		loss.Actor, loss.Note, loss.At = store.CleanText(loss.Actor), store.CleanText(loss.Note), store.StoredTime(loss.At)
		p.losses = append(p.losses, loss)
		return nil
	})
	if err != nil {
		return loss, fmt.Errorf("record loss of partition %s: %w", loss.Partition, err)
	}
	return loss, nil
}

// Losses implements store.Losses.
func (s *Store) Losses(ctx context.Context, partition domain.PartitionID) ([]store.Loss, error) {
	var losses []store.Loss
	err := s.read(ctx, "losses", func() error {
		if p := s.tables.partitions[partition]; p != nil {
			losses = slices.Clone(p.losses)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list losses of partition %s: %w", partition, err)
	}
	return losses, nil
}

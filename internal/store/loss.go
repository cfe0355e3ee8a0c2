package store

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Kinds of Loss.
const (
	// LossRestored: a backup was restored. What was acknowledged after it is gone; who
	// holds a token of that stops the partition until the loss is accepted.
	LossRestored = "restored"
	// LossAccepted: somebody decided to go on without what is missing.
	LossAccepted = "accepted"
)

// Loss records that acknowledged history of a partition is gone, and who said what about
// it. Records are never changed or removed: they are what an audit finds.
type Loss struct {
	Partition domain.PartitionID
	// Epoch is the first one after the loss. Every token of the lost history has a lower one.
	Epoch uint64
	Kind  string
	// Through is the last lost position that an accepted loss covers.
	Through Position
	// Held and Digest are what the partition held when the record was made.
	Held   Position
	Digest domain.Digest
	Actor  string // who decided
	Note   string
	At     time.Time
}

// Losses is the record of history that is gone.
type Losses interface {
	// RecordLoss raises the partition's epoch to EpochAfterLoss and keeps the record, in
	// one transaction. Held, Digest and Epoch are filled in. ErrNotFound: no such partition.
	RecordLoss(ctx context.Context, loss Loss) (Loss, error)
	// Losses lists the records of a partition, oldest first.
	Losses(ctx context.Context, partition domain.PartitionID) ([]Loss, error)
}

// epochStep is how far a loss raises the epoch. The lost history may have had owners that
// nobody here knows of; no partition changes its owner that often between two backups.
const epochStep = 1 << 20

// EpochAfterLoss is the first epoch after a loss: higher than any that an owner in the lost
// history can have had.
func EpochAfterLoss(epoch uint64) uint64 { return (epoch/epochStep + 1) * epochStep }

// Covers reports whether a token of lost history has been dealt with by this record.
func (l *Loss) Covers(token domain.Token) bool {
	return l.Kind == LossAccepted && token.Partition == l.Partition && token.Epoch < l.Epoch &&
		token.Position <= uint64(l.Through)
}

// Check refuses a record that says nothing.
func (l *Loss) Check() error {
	switch {
	case l.Partition == "" || !ValidText(string(l.Partition)):
		return fmt.Errorf("record loss of partition %q: %w", l.Partition, ErrInvalid)
	case l.Kind != LossRestored && l.Kind != LossAccepted:
		return fmt.Errorf("record loss of partition %s: kind %q: %w", l.Partition, l.Kind, ErrInvalid)
	case l.Through > math.MaxInt64 || l.Kind == LossAccepted && (l.Through == 0 || l.Actor == ""):
		return fmt.Errorf("record loss of partition %s through %d by %q: %w", l.Partition, l.Through, l.Actor, ErrInvalid)
	}
	return nil
}

package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/sqlstore"
)

// clock is the machine's clock in the statement: milliseconds are enough for a lease.
const clock = `CAST(unixepoch('subsec') * 1000000 AS INTEGER)`

var renewal = sqlstore.NewRenewal(clock)

// errNotJoined undoes a renewal that was refused.
var errNotJoined = errors.New("not joined")

// Renew implements store.Fleet. One server has this database, so it meets no other; a
// fleet of one is a fleet all the same.
func (s *Store) Renew(ctx context.Context, m store.Member, ttl time.Duration) (store.Picture, error) {
	if err := m.Check(); err != nil {
		return store.Picture{}, fmt.Errorf("renew membership: %w", err)
	}
	refused := s.writer.transaction(ctx, func() error {
		n, err := s.writer.exec(renewal.Join, sqlstore.JoinArgs(&m, ttl)...)
		if err == nil && n != 1 {
			err = errNotJoined
		}
		if err != nil {
			return err
		}
		if _, err := s.writer.exec(renewal.Raise); err != nil {
			return err
		}
		_, err = s.writer.exec(renewal.Prune)
		return err
	})
	s.writer.wrote(commitBytes)
	if refused != nil && !errors.Is(refused, errNotJoined) {
		return store.Picture{}, fmt.Errorf("renew membership of %s: %w", m.Name, refused)
	}
	picture, err := s.Picture(ctx)
	if err == nil && refused != nil {
		err = sqlstore.NotJoined(&picture, &m)
	}
	if err != nil {
		return store.Picture{}, fmt.Errorf("renew membership of %s: %w", m.Name, err)
	}
	return picture, nil
}

// Leave implements store.Fleet.
func (s *Store) Leave(ctx context.Context, m store.Member) error {
	if _, err := s.writer.change(ctx, sqlstore.Leave, m.Name, m.Session); err != nil {
		return fmt.Errorf("end membership of %s: %w", m.Name, err)
	}
	return nil
}

// Take implements store.Fleet.
func (s *Store) Take(
	ctx context.Context, id domain.PartitionID, owner string, epoch uint64,
) (store.Ownership, error) {
	if id == "" || !store.ValidText(string(id)) {
		return store.Ownership{}, fmt.Errorf("take partition %q: not a name", id)
	}
	text, args := sqlstore.Take, []any{string(id), store.CleanText(owner), sqlstore.Micros(time.Now()), int64(epoch)}
	if epoch == 0 {
		text, args = sqlstore.TakeFirst, args[:3]
	}
	own, err := s.seize(ctx, id, text, args...)
	if err != nil {
		return store.Ownership{}, fmt.Errorf("take partition %s at epoch %d: %w", id, epoch, err)
	}
	return own, nil
}

// seize runs a statement that makes somebody the owner; no row means that it did not.
func (s *Store) seize(
	ctx context.Context, id domain.PartitionID, text string, args ...any,
) (store.Ownership, error) {
	got := store.Ownership{Partition: id}
	err := s.writer.transaction(ctx, func() error {
		dest := make([]driver.Value, 3)
		err := s.writer.row(text, dest, args...)
		if errors.Is(err, io.EOF) {
			return store.ErrFenced
		}
		if err != nil {
			return err
		}
		epoch, ok1 := dest[0].(int64)
		position, ok2 := dest[1].(int64)
		digest, ok3 := dest[2].(string)
		if !ok1 || !ok2 || !ok3 {
			return fmt.Errorf("unexpected types %T %T %T", dest[0], dest[1], dest[2])
		}
		got.Epoch, got.Position, got.Digest = uint64(epoch), store.Position(position), domain.Digest(digest)
		return nil
	})
	if err != nil {
		return store.Ownership{}, err
	}
	s.writer.wrote(commitBytes)
	return got, nil
}

// Release implements store.Fleet.
func (s *Store) Release(ctx context.Context, id domain.PartitionID, epoch uint64) error {
	n, err := s.writer.change(ctx, sqlstore.Release, string(id), int64(epoch))
	if err == nil && n != 1 {
		err = store.ErrFenced
	}
	if err != nil {
		return fmt.Errorf("release partition %s at epoch %d: %w", id, epoch, err)
	}
	return nil
}

// Shape implements store.Fleet.
func (s *Store) Shape(ctx context.Context, want store.Shape) (store.Shape, error) {
	if want != (store.Shape{}) {
		if err := want.Check(); err != nil {
			return store.Shape{}, fmt.Errorf("record shape: %w", err)
		}
		if _, err := s.writer.change(ctx, sqlstore.RecordShape, int64(want.Partitions), want.Spread); err != nil {
			return store.Shape{}, fmt.Errorf("record shape: %w", err)
		}
	}
	return s.RecordedShape(ctx)
}

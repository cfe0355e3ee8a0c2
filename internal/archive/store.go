package archive

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Store is a store whose history has no border: what was archived is read from objects. All
// other calls go to the store below.
type Store struct {
	store.Store
	reader *Reader
}

var _ store.Store = (*Store)(nil)

// Over puts the archive's reader over a store.
func Over(s store.Store, reader *Reader) *Store { return &Store{s, reader} }

// Load implements store.Log. Rows that are archived while it reads are in both places or in
// the objects: the ranges are listed after the rows were read.
func (s *Store) Load(
	ctx context.Context, tenant domain.TenantID, stream domain.StreamID, withCheckpoint bool, encoding uint32,
) (store.History, error) {
	h, err := s.Store.Load(ctx, tenant, stream, withCheckpoint, encoding)
	if err != nil {
		return h, err
	}
	return s.reader.complete(ctx, tenant, stream, h, func() ([]store.ArchivedRange, error) {
		return s.ArchivedOf(ctx, tenant, stream)
	})
}

// Read implements store.Log.
func (s *Store) Read(
	ctx context.Context, partition domain.PartitionID, after store.Position, limit int,
) ([]store.Row, error) {
	rows, err := s.Store.Read(ctx, partition, after, limit)
	if err != nil || gap(rows, after) == len(rows) {
		return rows, err
	}
	var out []store.Row
	for len(out) < limit {
		if len(rows) > 0 && rows[0].Position == after+1 {
			out, after, rows = append(out, rows[0]), rows[0].Position, rows[1:]
			continue
		}
		if len(rows) == 0 {
			// Below, rows come in pages that end behind what the objects have.
			if rows, err = s.Store.Read(ctx, partition, after, limit-len(out)); err != nil {
				return nil, err
			}
			if len(rows) == 0 {
				break
			}
			continue
		}
		found, err := s.ArchivedRanges(ctx, partition, after, 1)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 || found[0].From > after { // positions that are gone
			out, after, rows = append(out, rows[0]), rows[0].Position, rows[1:]
			continue
		}
		archived, err := s.reader.Rows(ctx, &found[0])
		if err != nil {
			return nil, fmt.Errorf("read partition %s after %d: %w", partition, after, err)
		}
		archived = archived[after-found[0].From:]
		archived = archived[:min(len(archived), limit-len(out))]
		out, after = append(out, archived...), archived[len(archived)-1].Position
		for len(rows) > 0 && rows[0].Position <= after {
			rows = rows[1:]
		}
	}
	return out, nil
}

// BatchAt implements store.Log.
func (s *Store) BatchAt(
	ctx context.Context, partition domain.PartitionID, at store.Position,
) (domain.Digest, uint64, error) {
	digest, epoch, err := s.Store.BatchAt(ctx, partition, at)
	if at == 0 || !errors.Is(err, store.ErrNotFound) {
		return digest, epoch, err
	}
	found, listed := s.ArchivedRanges(ctx, partition, at-1, 1)
	if listed != nil {
		return "", 0, listed
	}
	if len(found) == 0 || found[0].From >= at {
		return "", 0, err
	}
	marks, unread := s.reader.Marks(ctx, &found[0])
	if unread != nil {
		return "", 0, fmt.Errorf("find batch %s/%d: %w", partition, at, unread)
	}
	i := sort.Search(len(marks), func(i int) bool { return marks[i].Position >= at })
	if i == len(marks) || marks[i].Position != at {
		return "", 0, err
	}
	return marks[i].Digest, marks[i].Epoch, nil
}

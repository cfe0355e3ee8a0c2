package memory

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// afterPosition is the index of the first record after a position.
func afterPosition[T any](list []T, after store.Position, at func(*T) store.Position) int {
	return sort.Search(len(list), func(i int) bool { return at(&list[i]) > after })
}

func (p *partition) through() store.Position {
	if n := len(p.archives); n > 0 {
		return p.archives[n-1].To
	}
	return 0
}

// ArchiveRange implements store.Ranges.
func (s *Store) ArchiveRange(
	ctx context.Context, epoch uint64, r store.ArchivedRange, streams []store.ArchivedStream,
) error {
	if err := r.Check(streams); err != nil {
		return err
	}
	err := s.write(ctx, Call{Op: "archive"}, func() error {
		p := s.tables.partitions[r.Partition]
		if p == nil || p.ownership.Epoch != epoch {
			return store.ErrFenced
		}
		var before domain.Digest
		if n := len(p.archives); n > 0 {
			before = p.archives[n-1].Digest
		}
		i := afterPosition(p.batches, r.To-1, func(m *store.BatchMark) store.Position { return m.Position })
		if p.through() != r.From || before != r.Before || r.To >= p.ownership.Position ||
			p.batches[i].Position != r.To || p.batches[i].Digest != r.Digest {
			return store.ErrConflict
		}
		a := archived{r, map[streamKey]bool{}}
		a.Objects = slices.Clone(r.Objects)
		a.Oldest, a.Newest, a.At = store.StoredTime(r.Oldest), store.StoredTime(r.Newest), store.StoredTime(r.At)
		for _, st := range streams {
			a.streams[streamKey{st.Tenant, st.Stream}] = true
		}
		p.archives = append(p.archives, a)
		return nil
	})
	if err != nil {
		return fmt.Errorf("archive range %d-%d of partition %s: %w", r.From, r.To, r.Partition, err)
	}
	return nil
}

// Prune implements store.Ranges.
func (s *Store) Prune(
	ctx context.Context, partition domain.PartitionID, after store.Position, limit int,
) (end store.Position, err error) {
	err = s.write(ctx, Call{Op: "prune"}, func() error {
		p := s.tables.partitions[partition]
		if p == nil {
			return nil
		}
		first := afterPosition(p.log, after, func(r *store.Row) store.Position { return r.Position })
		last := min(first+limit, afterPosition(p.log, p.through(), func(r *store.Row) store.Position { return r.Position }))
		if last <= first {
			return nil
		}
		end = p.log[last-1].Position
		kept := slices.Clone(p.log[:first])
		for _, r := range p.log[first:last] {
			if s.needed(&r) {
				kept = append(kept, r)
				continue
			}
			key := streamKey{r.Tenant, r.Stream}
			st := s.tables.streams[key]
			if !st.head.Live {
				delete(s.tables.checkpoints, key)
			}
			st.rows = slices.DeleteFunc(slices.Clone(st.rows), func(o store.Row) bool { return o.Position == r.Position })
		}
		p.log = append(kept, p.log[last:]...)
		p.batches = slices.DeleteFunc(slices.Clone(p.batches), func(m store.BatchMark) bool {
			return m.Position >= after && m.Position <= end && m.Position < p.through()
		})
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("prune archived rows of partition %s after %d: %w", partition, after, err)
	}
	return end, nil
}

// needed reports whether an owner needs the row: its stream is live, and no checkpoint covers it.
func (s *Store) needed(r *store.Row) bool {
	key := streamKey{r.Tenant, r.Stream}
	return s.tables.streams[key].head.Live && r.Version > s.tables.checkpoints[key].Version
}

// ArchivedRanges implements store.Ranges.
func (s *Store) ArchivedRanges(
	ctx context.Context, partition domain.PartitionID, after store.Position, limit int,
) ([]store.ArchivedRange, error) {
	if limit < 1 {
		return nil, fmt.Errorf("list archived ranges of %s: limit %d is not positive", partition, limit)
	}
	var out []store.ArchivedRange
	err := s.read(ctx, "ranges", func() error {
		if p := s.tables.partitions[partition]; p != nil {
			for _, a := range p.archives[afterPosition(p.archives, after, func(a *archived) store.Position { return a.To }):] {
				if len(out) < limit {
					out = append(out, a.ArchivedRange)
				}
			}
		}
		return nil
	})
	return out, err
}

// ArchivedOf implements store.Ranges.
func (s *Store) ArchivedOf(
	ctx context.Context, tenant domain.TenantID, stream domain.StreamID,
) ([]store.ArchivedRange, error) {
	var out []store.ArchivedRange
	err := s.read(ctx, "ranges_of", func() error {
		key := streamKey{tenant, stream}
		st := s.tables.streams[key]
		if st == nil {
			return nil
		}
		for _, a := range s.tables.partitions[st.partition].archives {
			if a.streams[key] {
				o, _ := a.Of(tenant)
				a.Objects = []store.ArchivedObject{o}
				out = append(out, a.ArchivedRange)
			}
		}
		return nil
	})
	return out, err
}

// Batches implements store.Ranges.
func (s *Store) Batches(
	ctx context.Context, partition domain.PartitionID, after store.Position, limit int,
) ([]store.BatchMark, error) {
	if limit < 1 {
		return nil, fmt.Errorf("list batches of %s: limit %d is not positive", partition, limit)
	}
	var out []store.BatchMark
	err := s.read(ctx, "batches", func() error {
		if p := s.tables.partitions[partition]; p != nil {
			rest := p.batches[afterPosition(p.batches, after, func(m *store.BatchMark) store.Position { return m.Position }):]
			out = slices.Clone(rest[:min(limit, len(rest))])
		}
		return nil
	})
	return out, err
}

package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// SetClock replaces the clock that judges members' leases, for simulation.
func (s *Store) SetClock(now func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = now
}

func (s *Store) now() time.Time { return store.StoredTime(s.clock()) }

// Renew implements store.Fleet.
func (s *Store) Renew(ctx context.Context, m store.Member, ttl time.Duration) (store.Picture, error) {
	if err := m.Check(); err != nil {
		return store.Picture{}, fmt.Errorf("renew membership: %w", err)
	}
	var picture store.Picture
	err := s.write(ctx, Call{Op: "renew"}, func() error {
		now := s.now()
		if m.Format < s.tables.format {
			return store.ErrTooOld
		}
		if old, known := s.tables.members[m.Name]; known && old.Session != m.Session && old.Until.After(now) &&
			(old.Session != m.Instead || !old.Until.Equal(m.InsteadUntil)) {
			return store.ErrNameTaken
		}
		m.Address, m.Version = store.CleanText(m.Address), store.CleanText(m.Version)
		m.Instead, m.InsteadUntil = "", time.Time{}
		m.Until, m.Live = store.StoredTime(now.Add(ttl)), false
		s.tables.members[m.Name] = m
		lowest := m.Format
		for name, other := range s.tables.members {
			if other.Until.Before(now.Add(-store.MemberKept)) {
				delete(s.tables.members, name)
				continue
			}
			lowest = min(lowest, other.Format)
		}
		s.tables.format = max(s.tables.format, lowest)
		picture = s.picture()
		return nil
	})
	if err != nil {
		return store.Picture{}, fmt.Errorf("renew membership of %s: %w", m.Name, err)
	}
	return picture, nil
}

// Leave implements store.Fleet.
func (s *Store) Leave(ctx context.Context, m store.Member) error {
	err := s.write(ctx, Call{Op: "leave"}, func() error {
		if s.tables.members[m.Name].Session == m.Session {
			delete(s.tables.members, m.Name)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("end membership of %s: %w", m.Name, err)
	}
	return nil
}

// Picture implements store.Fleet.
func (s *Store) Picture(ctx context.Context) (store.Picture, error) {
	var picture store.Picture
	err := s.read(ctx, "picture", func() error {
		picture = s.picture()
		return nil
	})
	return picture, err
}

// picture is called under the lock.
func (s *Store) picture() store.Picture {
	p := store.Picture{Now: s.now(), Format: s.tables.format}
	for _, m := range s.tables.members {
		m.Live = m.Until.After(p.Now)
		p.Members = append(p.Members, m)
	}
	slices.SortFunc(p.Members, func(a, b store.Member) int { return strings.Compare(a.Name, b.Name) })
	for _, part := range s.tables.partitions {
		p.Partitions = append(p.Partitions, store.Holding{Ownership: part.ownership, Owner: part.owner})
	}
	slices.SortFunc(p.Partitions, func(a, b store.Holding) int {
		return strings.Compare(string(a.Partition), string(b.Partition))
	})
	return p
}

// Take implements store.Fleet.
func (s *Store) Take(
	ctx context.Context, id domain.PartitionID, owner string, epoch uint64,
) (store.Ownership, error) {
	var got store.Ownership
	err := s.write(ctx, Call{Op: "take"}, func() error {
		p := s.tables.partitions[id]
		if p == nil && epoch == 0 {
			p = &partition{ownership: store.Ownership{Partition: id}, cursors: map[string]store.Position{}}
			s.tables.partitions[id] = p
		}
		if p == nil || p.ownership.Epoch != epoch {
			return store.ErrFenced
		}
		p.ownership.Epoch++
		p.owner = owner
		got = p.ownership
		return nil
	})
	if err != nil {
		return store.Ownership{}, fmt.Errorf("take partition %s at epoch %d: %w", id, epoch, err)
	}
	return got, nil
}

// Release implements store.Fleet.
func (s *Store) Release(ctx context.Context, id domain.PartitionID, epoch uint64) error {
	err := s.write(ctx, Call{Op: "release"}, func() error {
		p := s.tables.partitions[id]
		if p == nil || p.ownership.Epoch != epoch {
			return store.ErrFenced
		}
		p.owner = ""
		return nil
	})
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
	}
	var got store.Shape
	err := s.write(ctx, Call{Op: "shape"}, func() error {
		if s.tables.shape == (store.Shape{}) {
			s.tables.shape = want
		}
		got = s.tables.shape
		return nil
	})
	if err != nil {
		return store.Shape{}, fmt.Errorf("read shape: %w", err)
	}
	return got, nil
}

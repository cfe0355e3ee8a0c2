package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Load implements store.Log.
func (s *Store) Load(
	ctx context.Context, tenant domain.TenantID, id domain.StreamID, withCheckpoint bool, encoding uint32,
) (store.History, error) {
	var h store.History
	err := s.read(ctx, "load", func() error {
		key := streamKey{tenant, id}
		var after uint64
		if c, ok := s.tables.checkpoints[key]; ok && withCheckpoint && c.Encoding == encoding {
			h.Checkpoint, after = &c, c.Version
		}
		st := s.tables.streams[key]
		if st == nil {
			return nil
		}
		h.Head = st.head
		for _, r := range st.rows {
			if r.Version > after {
				h.Rows = append(h.Rows, r)
			}
		}
		return nil
	})
	return h, err
}

// Live implements store.Log.
func (s *Store) Live(ctx context.Context, partition domain.PartitionID) ([]store.Head, error) {
	var heads []store.Head
	err := s.read(ctx, "live", func() error {
		for _, st := range s.tables.streams {
			if st.partition == partition && st.head.Live {
				heads = append(heads, st.head)
			}
		}
		return nil
	})
	slices.SortFunc(heads, func(a, b store.Head) int {
		return cmpOr(strings.Compare(string(a.Tenant), string(b.Tenant)), strings.Compare(string(a.Stream), string(b.Stream)))
	})
	return heads, err
}

// Read implements store.Log.
func (s *Store) Read(
	ctx context.Context, partition domain.PartitionID, after store.Position, limit int,
) ([]store.Row, error) {
	if limit < 1 {
		return nil, fmt.Errorf("read partition %s: limit %d is not positive", partition, limit)
	}
	var rows []store.Row
	err := s.read(ctx, "read", func() error {
		p := s.tables.partitions[partition]
		if p == nil {
			return nil
		}
		rest := p.log[afterPosition(p.log, after, func(r *store.Row) store.Position { return r.Position }):]
		rows = slices.Clone(rest[:min(limit, len(rest))])
		return nil
	})
	return rows, err
}

// BatchAt implements store.Log.
func (s *Store) BatchAt(
	ctx context.Context, partition domain.PartitionID, at store.Position,
) (domain.Digest, uint64, error) {
	var found store.BatchMark
	err := s.read(ctx, "batch_at", func() error {
		p := s.tables.partitions[partition]
		if p == nil {
			return fmt.Errorf("find batch %s/%d: %w", partition, at, store.ErrNotFound)
		}
		i := afterPosition(p.batches, at-1, func(m *store.BatchMark) store.Position { return m.Position })
		if at == 0 || i == len(p.batches) || p.batches[i].Position != at {
			return fmt.Errorf("find batch %s/%d: %w", partition, at, store.ErrNotFound)
		}
		found = p.batches[i]
		return nil
	})
	return found.Digest, found.Epoch, err
}

// Key implements store.Log.
func (s *Store) Key(ctx context.Context, tenant domain.TenantID, scope, key string) (store.Key, error) {
	return lookUp(s, ctx, "key", func() map[keyKey]store.Key { return s.tables.keys }, keyKey{tenant, scope, key})
}

// Counter implements store.Log.
func (s *Store) Counter(ctx context.Context, tenant domain.TenantID, name string) (uint64, error) {
	var value uint64
	err := s.read(ctx, "counter", func() error {
		value = s.tables.counters[nameKey{tenant, name}]
		return nil
	})
	return value, err
}

// Cursors implements store.Log.
func (s *Store) Cursors(ctx context.Context, partition domain.PartitionID) ([]store.Cursor, error) {
	var cursors []store.Cursor
	err := s.read(ctx, "cursors", func() error {
		if p := s.tables.partitions[partition]; p != nil {
			for reactor, position := range p.cursors {
				cursors = append(cursors, store.Cursor{Reactor: reactor, Position: position})
			}
		}
		return nil
	})
	slices.SortFunc(cursors, func(a, b store.Cursor) int { return strings.Compare(a.Reactor, b.Reactor) })
	return cursors, err
}

// Runs implements store.Views.
func (s *Store) Runs(ctx context.Context, q store.RunQuery) ([]store.RunRow, error) {
	q, err := q.Clean()
	if err != nil {
		return nil, err
	}
	var runs []store.RunRow
	err = s.read(ctx, "runs", func() error {
		for _, r := range s.tables.runs {
			if matches(&r, &q) {
				runs = append(runs, r)
			}
		}
		return nil
	})
	slices.SortFunc(runs, func(a, b store.RunRow) int { return strings.Compare(string(b.Run), string(a.Run)) })
	return runs[:min(q.Limit, len(runs))], err
}

func matches(r *store.RunRow, q *store.RunQuery) bool {
	return r.Tenant == q.Tenant &&
		(q.Repository == "" || r.Repository == q.Repository) &&
		(q.Workflow == "" || r.Workflow == q.Workflow) &&
		(q.Ref == "" || r.Ref == q.Ref) &&
		(q.Outcome == "" || r.Outcome == q.Outcome) &&
		(q.State == "" || r.State == q.State) &&
		(q.Before == "" || r.Run < q.Before)
}

// Run implements store.Views.
func (s *Store) Run(ctx context.Context, tenant domain.TenantID, run domain.RunID) (store.RunRow, error) {
	return lookUp(s, ctx, "run", func() map[nameKey]store.RunRow { return s.tables.runs }, nameKey{tenant, string(run)})
}

// Repositories implements store.Views.
func (s *Store) Repositories(ctx context.Context, tenant domain.TenantID) ([]store.RepositoryRow, error) {
	var repos []store.RepositoryRow
	err := s.read(ctx, "repositories", func() error {
		for _, r := range s.tables.repositories {
			if r.Tenant == tenant {
				repos = append(repos, r)
			}
		}
		return nil
	})
	slices.SortFunc(repos, func(a, b store.RepositoryRow) int { return strings.Compare(a.Name, b.Name) })
	return repos, err
}

// Repository implements store.Views.
func (s *Store) Repository(
	ctx context.Context, tenant domain.TenantID, idOrName string,
) (store.RepositoryRow, error) {
	var found store.RepositoryRow
	err := s.read(ctx, "repository", func() error {
		if r, ok := s.tables.repositories[nameKey{tenant, idOrName}]; ok {
			found = r
			return nil
		}
		for _, r := range s.tables.repositories {
			if r.Tenant == tenant && r.Name == idOrName {
				found = r
				return nil
			}
		}
		return fmt.Errorf("find repository %q: %w", idOrName, store.ErrNotFound)
	})
	return found, err
}

// Runners implements store.Views.
func (s *Store) Runners(ctx context.Context, tenant domain.TenantID) ([]store.RunnerRow, error) {
	var runners []store.RunnerRow
	err := s.read(ctx, "runners", func() error {
		for _, r := range s.tables.runners {
			if r.Tenant == tenant {
				r.Labels = slices.Clone(r.Labels)
				runners = append(runners, r)
			}
		}
		return nil
	})
	slices.SortFunc(runners, func(a, b store.RunnerRow) int {
		return cmpOr(strings.Compare(string(a.Pool), string(b.Pool)), strings.Compare(a.Name, b.Name),
			strings.Compare(string(a.Runner), string(b.Runner)))
	})
	return runners, err
}

// Partitions implements store.Views.
func (s *Store) Partitions(ctx context.Context) ([]store.Ownership, error) {
	var partitions []store.Ownership
	err := s.read(ctx, "partitions", func() error {
		for _, p := range s.tables.partitions {
			partitions = append(partitions, p.ownership)
		}
		return nil
	})
	slices.SortFunc(partitions, func(a, b store.Ownership) int {
		return strings.Compare(string(a.Partition), string(b.Partition))
	})
	return partitions, err
}

// lookUp finds one record. The table is reached through a function because it is read
// under the lock only.
func lookUp[K comparable, V any](s *Store, ctx context.Context, op string, table func() map[K]V, key K) (V, error) {
	var found V
	err := s.read(ctx, op, func() error {
		v, ok := table()[key]
		if !ok {
			return fmt.Errorf("find %s %v: %w", op, key, store.ErrNotFound)
		}
		found = v
		return nil
	})
	return found, err
}

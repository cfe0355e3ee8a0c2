package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Append implements store.Log: everything is examined first, then everything is written,
// so a refused batch leaves nothing behind.
func (s *Store) Append(ctx context.Context, batch store.Batch) error {
	if err := batch.Check(); err != nil {
		return err
	}
	err := s.write(ctx, Call{Op: "append", Batch: &batch}, func() error {
		p, err := s.admit(&batch)
		if err != nil {
			return err
		}
		s.apply(p, &batch)
		return nil
	})
	if err != nil {
		return fmt.Errorf("append partition %s after %d: %w", batch.Partition, batch.Prev, err)
	}
	return nil
}

// admit decides whether the batch fits, and changes nothing.
func (s *Store) admit(b *store.Batch) (*partition, error) {
	p := s.tables.partitions[b.Partition]
	if p == nil || p.ownership.Epoch != b.Epoch {
		return nil, store.ErrFenced
	}
	if p.ownership.Position != b.Prev || p.ownership.Digest != b.PrevDigest {
		return nil, fmt.Errorf("position is %d: %w", p.ownership.Position, store.ErrConflict)
	}
	counts := map[streamKey]uint64{}
	for i := range b.Rows {
		counts[streamKey{b.Rows[i].Tenant, b.Rows[i].Stream}] = uint64(b.Rows[i].Count)
	}
	for _, h := range b.Heads {
		key := streamKey{h.Tenant, h.Stream}
		before := h.Version - counts[key]
		at := s.tables.streams[key]
		switch {
		case at == nil && before != 0, at != nil && at.head.Version != before, at != nil && at.partition != b.Partition:
			return nil, fmt.Errorf("stream %s is not at version %d: %w", h.Stream, before, store.ErrConflict)
		}
	}
	if err := s.admitKeys(b); err != nil {
		return nil, err
	}
	return p, s.admitNames(b)
}

func (s *Store) admitKeys(b *store.Batch) error {
	seen := map[keyKey]bool{}
	for _, k := range b.Keys {
		id := keyKey{k.Tenant, k.Scope, k.Key}
		if _, known := s.tables.keys[id]; known || seen[id] {
			return fmt.Errorf("key %s of %s exists: %w", k.Key, k.Scope, store.ErrConflict)
		}
		seen[id] = true
	}
	final := map[nameKey]uint64{}
	for _, c := range b.Counters {
		final[nameKey{c.Tenant, c.Name}] = c.Value
	}
	for id, value := range final {
		if value < s.tables.counters[id] {
			return fmt.Errorf("counter %s would shrink: %w", id.name, store.ErrConflict)
		}
	}
	return nil
}

// admitNames keeps repository names unique: it replays the batch's repositories, each
// replaced one giving its old name free, as the databases do.
func (s *Store) admitNames(b *store.Batch) error {
	if len(b.Repositories) == 0 {
		return nil
	}
	names := map[nameKey]domain.RepositoryID{}
	held := map[nameKey]string{}
	for id, r := range s.tables.repositories {
		names[nameKey{r.Tenant, r.Name}] = r.Repository
		held[id] = r.Name
	}
	for i, r := range b.Repositories {
		if slices.ContainsFunc(b.Repositories[i+1:], func(later store.RepositoryRow) bool {
			return later.Tenant == r.Tenant && later.Repository == r.Repository
		}) {
			continue
		}
		id, name := nameKey{r.Tenant, string(r.Repository)}, nameKey{r.Tenant, r.Name}
		if other, taken := names[name]; taken && other != r.Repository {
			return fmt.Errorf("repository name %q is taken: %w", r.Name, store.ErrConflict)
		}
		if old, known := held[id]; known {
			delete(names, nameKey{r.Tenant, old})
		}
		names[name], held[id] = r.Repository, r.Name
	}
	return nil
}

func (s *Store) apply(p *partition, b *store.Batch) {
	for _, h := range b.Heads {
		key := streamKey{h.Tenant, h.Stream}
		if s.tables.streams[key] == nil {
			s.tables.streams[key] = &stream{partition: b.Partition}
		}
		h.NextWake = store.StoredTime(h.NextWake)
		s.tables.streams[key].head = h
	}
	for _, r := range b.Rows {
		r.Events, r.At = kept(r.Events), store.StoredTime(r.At)
		p.log = append(p.log, r)
		st := s.tables.streams[streamKey{r.Tenant, r.Stream}]
		st.rows = append(st.rows, r)
	}
	if n := len(b.Rows); n > 0 {
		p.ownership.Position += store.Position(n)
		p.ownership.Digest = b.Digest
		p.batches = append(p.batches, store.BatchMark{Partition: b.Partition, Position: p.ownership.Position,
			Epoch: b.Epoch, Digest: b.Digest, At: store.StoredTime(b.At)})
	}
	for _, c := range b.Checkpoints {
		c.State = kept(c.State)
		s.tables.checkpoints[streamKey{c.Tenant, c.Stream}] = c
	}
	for _, k := range b.Keys {
		k.Reply, k.At = kept(k.Reply), store.StoredTime(k.At)
		s.tables.keys[keyKey{k.Tenant, k.Scope, k.Key}] = k
	}
	for _, c := range b.Counters {
		s.tables.counters[nameKey{c.Tenant, c.Name}] = c.Value
	}
	for _, c := range b.Cursors {
		p.cursors[c.Reactor] = c.Position
	}
	s.applyViews(b)
}

func (s *Store) applyViews(b *store.Batch) {
	clean := store.CleanText
	for _, r := range b.Runs {
		r.RepositoryName, r.Workflow, r.WorkflowName = clean(r.RepositoryName), clean(r.Workflow), clean(r.WorkflowName)
		r.Event, r.Ref, r.Commit, r.Title = clean(r.Event), clean(r.Ref), clean(r.Commit), clean(r.Title)
		r.Actor, r.State = clean(r.Actor), clean(r.State)
		r.Desired, r.Outcome = domain.Desired(clean(string(r.Desired))), domain.Outcome(clean(string(r.Outcome)))
		r.Created, r.Concluded = store.StoredTime(r.Created), store.StoredTime(r.Concluded)
		s.tables.runs[nameKey{r.Tenant, string(r.Run)}] = r
	}
	for _, r := range b.Repositories {
		r.URL, r.DefaultBranch = clean(r.URL), clean(r.DefaultBranch)
		r.Registered = store.StoredTime(r.Registered)
		s.tables.repositories[nameKey{r.Tenant, string(r.Repository)}] = r
	}
	for _, r := range b.Runners {
		r.Name, r.Isolation, r.Version = clean(r.Name), clean(r.Isolation), clean(r.Version)
		var labels []string
		for _, label := range r.Labels {
			labels = append(labels, clean(label))
		}
		r.Labels = labels
		r.Registered, r.Removed = store.StoredTime(r.Registered), store.StoredTime(r.Removed)
		s.tables.runners[nameKey{r.Tenant, string(r.Runner)}] = r
	}
}

// kept is the store's own copy of bytes that the caller may write to again.
func kept(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return bytes.Clone(b)
}

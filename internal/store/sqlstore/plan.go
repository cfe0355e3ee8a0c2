package sqlstore

import (
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Plan is a checked batch, sorted into what the tables need: streams that begin here
// apart from those that go on, and of records that replace each other only the last.
type Plan struct {
	Batch *store.Batch

	rows        []store.Row
	begun       []place
	continued   []place
	checkpoints []store.Checkpoint
	keys        []store.Key
	counters    []store.Counter
	cursors     []store.Cursor
	runs        []store.RunRow
	repos       []store.RepositoryRow
	runners     []store.RunnerRow
}

// place is a stream's new head and the version that it must have had before.
type place struct {
	store.Head
	before uint64
}

type tenantKey struct {
	tenant domain.TenantID
	key    string
}

// NewPlan checks the batch and sorts it. An error wraps store.ErrInvalid.
func NewPlan(b *store.Batch) (*Plan, error) {
	if err := b.Check(); err != nil {
		return nil, err
	}
	p := &Plan{
		Batch: b, rows: b.Rows, keys: b.Keys,
		checkpoints: last(b.Checkpoints, func(c *store.Checkpoint) tenantKey {
			return tenantKey{c.Tenant, string(c.Stream)}
		}),
		counters: last(b.Counters, func(c *store.Counter) tenantKey { return tenantKey{c.Tenant, c.Name} }),
		cursors:  last(b.Cursors, func(c *store.Cursor) string { return c.Reactor }),
		runs:     last(b.Runs, func(r *store.RunRow) tenantKey { return tenantKey{r.Tenant, string(r.Run)} }),
		repos: last(b.Repositories, func(r *store.RepositoryRow) tenantKey {
			return tenantKey{r.Tenant, string(r.Repository)}
		}),
		runners: last(b.Runners, func(r *store.RunnerRow) tenantKey { return tenantKey{r.Tenant, string(r.Runner)} }),
	}
	counts := make(map[tenantKey]uint64, len(b.Rows))
	for i := range b.Rows {
		counts[tenantKey{b.Rows[i].Tenant, string(b.Rows[i].Stream)}] = uint64(b.Rows[i].Count)
	}
	for _, h := range b.Heads {
		before := h.Version - counts[tenantKey{h.Tenant, string(h.Stream)}]
		if before == 0 {
			p.begun = append(p.begun, place{h, before})
		} else {
			p.continued = append(p.continued, place{h, before})
		}
	}
	return p, nil
}

// last keeps the last record of every key, in order of the last appearance. A batch may
// name a run twice; one INSERT of many records may not.
func last[T any, K comparable](records []T, key func(*T) K) []T {
	if len(records) < 2 {
		return records
	}
	at := make(map[K]int, len(records))
	for i := range records {
		at[key(&records[i])] = i
	}
	if len(at) == len(records) {
		return records
	}
	kept := make([]T, 0, len(at))
	for i := range records {
		if at[key(&records[i])] == i {
			kept = append(kept, records[i])
		}
	}
	return kept
}

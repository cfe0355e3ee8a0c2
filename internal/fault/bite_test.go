package fault_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/fault"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// defect is something wrong below or above the server that the sweep must find.
type defect struct {
	name string
	port fault.Port
	mode fault.Mode
	// within is how many k it may take.
	within int
	make   func() setting
	// finding is part of what the sweep says of it.
	finding string
}

// TestTheSweepBites plants defects and wants each to be found by what it breaks. The same
// passes without them are clean: that is the sweep itself.
// Promises: [CMD-1], [LOG-1].
func TestTheSweepBites(t *testing.T) {
	once := func(how fault.How) fault.Mode { return fault.Mode{How: how} }
	for _, d := range []defect{
		{"an append is acknowledged and lost", fault.PortStore, once(fault.Before), 1, func() setting {
			return below(func(s store.Store) store.Store { return &losesAppend{Store: s, at: 20} }, nil)
		}, "is missing"},
		{"acknowledged log segments are lost", fault.PortStore, once(fault.Before), 1, func() setting {
			return below(nil, func(b blob.Store) blob.Store { return &losesSegments{b} })
		}, "log of"},
		{"keys are not kept", fault.PortStore, once(fault.Before), 1, func() setting {
			return below(func(s store.Store) store.Store { return &forgetsKeys{s} }, nil)
		}, "runs"},
		{"a list row is not written with its events", fault.PortStore, once(fault.Before), 1, func() setting {
			return below(func(s store.Store) store.Store { return &staleRows{s} }, nil)
		}, "list row"},
		{"a start finds no live streams", fault.PortStore, once(fault.Before), 1, func() setting {
			return below(func(s store.Store) store.Store { return &forgetsHeads{s} }, nil)
		}, "live heads"},
		{"an append that failed counts as done", fault.PortStore, once(fault.Before), 60, func() setting {
			return setting{disk: newInMemory, over: func(s store.Store) store.Store { return &hopes{s} }}
		}, "is missing"},
	} {
		t.Run(strings.ReplaceAll(d.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			for k := 1; k <= d.within; k++ {
				p := bubble(t, d.make(), fault.NewPlan(d.port, d.mode, k))
				text := strings.Join(p.findings, "\n")
				if strings.Contains(text, d.finding) {
					t.Logf("found at k=%d: %s", k, p.findings[0])
					return
				}
				if len(p.findings) > 0 {
					t.Fatalf("found at k=%d, by something else than %q:\n%s", k, d.finding, text)
				}
			}
			t.Errorf("not found within k=%d", d.within)
		})
	}
}

// below plants adapters under the faults. What they count goes on over starts of the server.
func below(s func(store.Store) store.Store, b func(blob.Store) blob.Store) setting {
	return setting{disk: newInMemory, plant: func(st store.Store, blobs blob.Store) (store.Store, blob.Store) {
		if s != nil {
			st = s(st)
		}
		if b != nil {
			blobs = b(blobs)
		}
		return st, blobs
	}}
}

// losesAppend says of one append that it is durable, and drops it.
type losesAppend struct {
	store.Store
	mu sync.Mutex
	at int
}

func (s *losesAppend) Append(ctx context.Context, b store.Batch) error {
	s.mu.Lock()
	s.at--
	lost := s.at == 0 && len(b.Rows) > 0
	s.mu.Unlock()
	if lost {
		return nil
	}
	return s.Store.Append(ctx, b)
}

// losesSegments says of every log segment that it is durable, and drops it.
type losesSegments struct{ blob.Store }

func (s *losesSegments) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	if strings.HasPrefix(key, "segments/") {
		_, err := io.Copy(io.Discard, r)
		return err
	}
	return s.Store.Put(ctx, key, r, size)
}

// forgetsKeys keeps no idempotency keys.
type forgetsKeys struct{ store.Store }

func (s *forgetsKeys) Append(ctx context.Context, b store.Batch) error {
	b.Keys = nil
	return s.Store.Append(ctx, b)
}

func (s *forgetsKeys) Key(context.Context, domain.TenantID, string, string) (store.Key, error) {
	return store.Key{}, store.ErrNotFound
}

// staleRows writes no list row of a run that has concluded.
type staleRows struct{ store.Store }

func (s *staleRows) Append(ctx context.Context, b store.Batch) error {
	var kept []store.RunRow
	for _, r := range b.Runs {
		if r.Outcome == domain.OutcomeNone {
			kept = append(kept, r)
		}
	}
	b.Runs = kept
	return s.Store.Append(ctx, b)
}

// forgetsHeads finds nothing alive when a server starts.
type forgetsHeads struct{ store.Store }

func (s *forgetsHeads) Live(context.Context, domain.PartitionID) ([]store.Head, error) {
	return nil, nil
}

// hopes takes every append for done.
type hopes struct{ store.Store }

func (s *hopes) Append(ctx context.Context, b store.Batch) error {
	_ = s.Store.Append(ctx, b)
	return nil
}

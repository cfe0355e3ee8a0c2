// Package memory is the store port in memory: complete, deterministic, and with the two
// things that simulations and fault sweeps need: a crash image and a fault hook.
//
// It is deliberately not a cache and not a fast path of the server: nothing here outlives
// the process. It is also the model that the databases are compared with, so it is
// written for plainness.
//
// Invariants: every call is atomic under one mutex; records are kept as a database would
// return them (whole microseconds, UTC, no empty slices), so passing on memory means
// passing on a database; what is returned is never written to again.
//
// Read next: internal/store/memory/append.go, internal/store/storetest
package memory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Call describes one call of the port to a hook.
type Call struct {
	// Op is the method: "acquire", "append", "load", "live", "read", "batch_at", "key",
	// "counter", "cursors", "expire_keys", "runs", "run", "repositories", "repository",
	// "runners", "partitions", "ping", "renew", "leave", "picture", "take", "release", "shape",
	// "archive", "prune", "ranges", "ranges_of", "batches".
	Op string
	// Batch is what an append brought; nil otherwise. It must not be changed.
	Batch *store.Batch
}

// Hooks inject faults. An error from a hook is what the caller of the port gets.
type Hooks struct {
	// Before runs before a call does anything. After an error nothing has happened.
	// For writes (acquire, append, expire_keys, renew, leave, take, release, shape) it runs
	// while the store is locked, so a hook that waits holds an append in flight; it must
	// not call the store.
	Before func(Call) error
	// After runs when a write has taken effect and the caller does not know yet: an error
	// is a lost reply, as store.ErrUnknown.
	After func(Call) error
}

// Store is the port in memory.
type Store struct {
	mu     sync.RWMutex // guards everything below
	hooks  Hooks
	clock  func() time.Time // judges leases of members
	closed bool
	tables tables
}

var _ store.Store = (*Store)(nil)

type streamKey struct {
	tenant domain.TenantID
	stream domain.StreamID
}

type keyKey struct {
	tenant     domain.TenantID
	scope, key string
}

type nameKey struct {
	tenant domain.TenantID
	name   string
}

type archived struct {
	store.ArchivedRange
	streams map[streamKey]bool
}

type partition struct {
	ownership store.Ownership
	owner     string
	log       []store.Row       // by position
	batches   []store.BatchMark // by position
	archives  []archived        // by position
	cursors   map[string]store.Position
	losses    []store.Loss // by epoch
}

type stream struct {
	head      store.Head
	partition domain.PartitionID
	rows      []store.Row
}

type tables struct {
	partitions   map[domain.PartitionID]*partition
	streams      map[streamKey]*stream
	checkpoints  map[streamKey]store.Checkpoint
	keys         map[keyKey]store.Key
	counters     map[nameKey]uint64
	runs         map[nameKey]store.RunRow
	repositories map[nameKey]store.RepositoryRow
	runners      map[nameKey]store.RunnerRow
	members      map[string]store.Member
	shape        store.Shape
	format       uint32 // that may be written
}

// New makes an empty store.
func New() *Store {
	return &Store{tables: tables{
		partitions:   map[domain.PartitionID]*partition{},
		streams:      map[streamKey]*stream{},
		checkpoints:  map[streamKey]store.Checkpoint{},
		keys:         map[keyKey]store.Key{},
		counters:     map[nameKey]uint64{},
		runs:         map[nameKey]store.RunRow{},
		repositories: map[nameKey]store.RepositoryRow{},
		runners:      map[nameKey]store.RunnerRow{},
		members:      map[string]store.Member{},
	}, clock: time.Now}
}

// Clone is what a machine would find after a crash at this moment: everything that was
// committed, and nothing of an append in flight. Hooks are not copied.
func (s *Store) Clone() *Store {
	s.mu.RLock()
	defer s.mu.RUnlock()
	// Rows and their bytes are never written to again, so only the containers are copied.
	c := New()
	for id, p := range s.tables.partitions {
		c.tables.partitions[id] = &partition{
			ownership: p.ownership, owner: p.owner,
			log: slices.Clone(p.log), batches: slices.Clone(p.batches), cursors: maps.Clone(p.cursors),
			losses: slices.Clone(p.losses), archives: slices.Clone(p.archives),
		}
	}
	for key, st := range s.tables.streams {
		c.tables.streams[key] = &stream{head: st.head, partition: st.partition, rows: slices.Clone(st.rows)}
	}
	c.tables.checkpoints = maps.Clone(s.tables.checkpoints)
	c.tables.keys = maps.Clone(s.tables.keys)
	c.tables.counters = maps.Clone(s.tables.counters)
	c.tables.runs = maps.Clone(s.tables.runs)
	c.tables.repositories = maps.Clone(s.tables.repositories)
	c.tables.runners = maps.Clone(s.tables.runners)
	c.tables.members = maps.Clone(s.tables.members)
	c.tables.shape, c.tables.format, c.clock = s.tables.shape, s.tables.format, s.clock
	return c
}

// Become gives the store the content of an image: what was written since it was made is
// gone, as after the promotion of a standby that lagged behind.
func (s *Store) Become(image *Store) {
	fresh := image.Clone()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tables = fresh.tables
}

// SetHooks replaces the hooks; the zero Hooks removes them.
func (s *Store) SetHooks(h Hooks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = h
}

// ErrClosed: the store was closed.
var ErrClosed = errors.New("store is closed")

// write runs a change under the lock, with its hooks around it.
func (s *Store) write(ctx context.Context, call Call, change func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", call.Op, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("%s: %w", call.Op, ErrClosed)
	}
	if s.hooks.Before != nil {
		if err := s.hooks.Before(call); err != nil {
			return err
		}
	}
	if err := change(); err != nil {
		return err
	}
	if s.hooks.After != nil {
		return s.hooks.After(call)
	}
	return nil
}

// read runs the Before hook, then look under the shared lock.
func (s *Store) read(ctx context.Context, op string, look func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	s.mu.RLock()
	before := s.hooks.Before
	s.mu.RUnlock()
	if before != nil {
		if err := before(Call{Op: op}); err != nil {
			return err
		}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return fmt.Errorf("%s: %w", op, ErrClosed)
	}
	return look()
}

// Ping implements store.Store.
func (s *Store) Ping(ctx context.Context) error {
	return s.read(ctx, "ping", func() error { return nil })
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// Acquire implements store.Log.
func (s *Store) Acquire(ctx context.Context, id domain.PartitionID, owner string) (store.Ownership, error) {
	var got store.Ownership
	err := s.write(ctx, Call{Op: "acquire"}, func() error {
		p := s.tables.partitions[id]
		if p == nil {
			p = &partition{ownership: store.Ownership{Partition: id}, cursors: map[string]store.Position{}}
			s.tables.partitions[id] = p
		}
		p.ownership.Epoch++
		p.owner = owner
		got = p.ownership
		return nil
	})
	if err != nil {
		return store.Ownership{}, fmt.Errorf("acquire partition %s: %w", id, err)
	}
	return got, nil
}

// ExpireKeys implements store.Log.
func (s *Store) ExpireKeys(ctx context.Context, before time.Time, limit int) (int, error) {
	expired := 0
	err := s.write(ctx, Call{Op: "expire_keys"}, func() error {
		var old []keyKey
		for id, k := range s.tables.keys {
			if !k.Expired && strings.HasPrefix(k.Scope, "client/") && k.At.UnixMicro() < before.UnixMicro() {
				old = append(old, id)
			}
		}
		slices.SortFunc(old, func(a, b keyKey) int {
			return cmpOr(s.tables.keys[a].At.Compare(s.tables.keys[b].At),
				strings.Compare(string(a.tenant), string(b.tenant)), strings.Compare(a.scope, b.scope),
				strings.Compare(a.key, b.key))
		})
		for _, id := range old[:min(max(limit, 0), len(old))] {
			k := s.tables.keys[id]
			k.Reply, k.Expired = nil, true
			s.tables.keys[id] = k
			expired++
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("expire keys: %w", err)
	}
	return expired, nil
}

// cmpOr is the first comparison that decides.
func cmpOr(results ...int) int {
	for _, r := range results {
		if r != 0 {
			return r
		}
	}
	return 0
}

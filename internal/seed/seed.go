// Package seed fills a store with finished runs, many after the pattern of one, so that
// measurements can look at a store as it is after years.
//
// It is deliberately for measurements alone: what it writes did not happen. It writes by the
// store's own port what the engine would have written: the same events, heads, list rows, keys
// and counters, in batches of many streams.
//
// Invariants: nothing of the pattern is changed; a run of the seed differs from the pattern in
// identity, number and times only, and every one of them is folded by the core on the way.
//
// Read next: seed_test.go
package seed

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/store"
)

const (
	// lanes are the runs that go forward together: so many rows has a batch.
	lanes = 256
	// checkEvery is how often a run is loaded again and compared with what was folded.
	checkEvery = 5_000
	// namesMax bounds the names that the report lists.
	namesMax = 2_000
)

// Config says what is written.
type Config struct {
	Store    store.Store
	Kind     *engine.Kind // of runs
	Tenant   domain.TenantID
	Like     domain.RunID // the pattern: a run that is over
	Jobs     int64        // at least so many
	Now      func() time.Time
	Progress func(stage string, done, total int64)
}

// Report is what was written.
type Report struct {
	Runs   int64          `json:"runs"`
	Jobs   int64          `json:"jobs"`
	Rows   int64          `json:"rows"`
	Events int64          `json:"events"`
	Bytes  int64          `json:"event_bytes"`
	Names  []domain.RunID `json:"names"` // of some, all over the seed
}

// seeding is one seed under way.
type seeding struct {
	Config
	own     store.Ownership
	pattern []store.Row
	row     store.RunRow
	jobs    int64
	counter string
	number  uint64
	cursors []store.Cursor // of the partition's reactors: they have nothing to do with what is over
	out     *Report
}

// lane is one run on its way.
type lane struct {
	id      domain.RunID
	number  uint64
	shift   time.Duration
	state   any
	version uint64
}

// Run writes. The partition of the pattern is taken: no server may run.
func Run(ctx context.Context, c Config) (*Report, error) {
	s := &seeding{Config: c, out: &Report{}}
	if err := s.learn(ctx); err != nil {
		return nil, fmt.Errorf("seed runs like %s: %w", c.Like, err)
	}
	runs := (c.Jobs + s.jobs - 1) / s.jobs
	every := max(runs/namesMax, 1)
	for done := int64(0); done < runs; {
		group := make([]*lane, min(lanes, runs-done))
		for i := range group {
			group[i] = s.lane(done + int64(i))
			if n := done + int64(i); n%every == 0 {
				s.out.Names = append(s.out.Names, group[i].id)
			}
		}
		if err := s.write(ctx, group); err != nil {
			return nil, fmt.Errorf("seed runs like %s: %w", c.Like, err)
		}
		if before := done; (before+int64(len(group)))/checkEvery != before/checkEvery {
			if err := s.check(ctx, group[0]); err != nil {
				return nil, err
			}
		}
		done += int64(len(group))
		if c.Progress != nil {
			c.Progress("runs", done, runs)
		}
	}
	return s.out, nil
}

// learn reads the pattern.
func (s *seeding) learn(ctx context.Context) (err error) {
	if s.row, err = s.Store.Run(ctx, s.Tenant, s.Like); err != nil {
		return err
	}
	h, err := s.Store.Load(ctx, s.Tenant, s.Like.Stream(), false, 0)
	if err != nil {
		return err
	}
	if h.Head.Live || len(h.Rows) == 0 {
		return errors.New("the run is not over")
	}
	s.pattern = h.Rows
	state := s.Kind.New()
	for i := range h.Rows {
		events, err := s.Kind.DecodeEvents(h.Rows[i].Events)
		if err != nil {
			return err
		}
		for _, e := range events {
			s.Kind.Evolve(state, e)
		}
	}
	of := state.(*run.State)
	s.jobs = int64(len(of.Jobs))
	s.counter = "runs/" + string(of.Request.Repository) + "/" + of.Request.WorkflowPath
	if s.number, err = s.Store.Counter(ctx, s.Tenant, s.counter); err != nil {
		return err
	}
	if s.cursors, err = s.Store.Cursors(ctx, s.row.Partition); err != nil {
		return err
	}
	s.own, err = s.Store.Acquire(ctx, s.row.Partition, "seed")
	return err
}

// lane begins the n-th run. Its name sorts by its time, as names that servers make.
func (s *seeding) lane(n int64) *lane {
	s.number++
	now := s.Now()
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16|0x7000)
	binary.BigEndian.PutUint64(id[8:], 0x8000_0000_0000_0000|uint64(n))
	return &lane{id: domain.RunID(domain.EncodeID(domain.PrefixRun, id)), number: s.number,
		shift: now.Sub(s.pattern[0].At), state: s.Kind.New()}
}

// write appends a batch for every row of the pattern.
func (s *seeding) write(ctx context.Context, group []*lane) error {
	for i := range s.pattern {
		b := store.Batch{Partition: s.own.Partition, Epoch: s.own.Epoch, Prev: s.own.Position, PrevDigest: s.own.Digest,
			At: s.pattern[i].At.Add(group[0].shift)}
		for _, l := range group {
			if err := s.step(&b, l, i); err != nil {
				return err
			}
		}
		if i == 0 {
			b.Counters = []store.Counter{{Tenant: s.Tenant, Name: s.counter, Value: s.number}}
		}
		for _, c := range s.cursors {
			b.Cursors = append(b.Cursors, store.Cursor{Reactor: c.Reactor,
				Position: b.Prev + store.Position(len(b.Rows))})
		}
		b.Digest = store.BatchDigest(b.PrevDigest, b.Rows)
		if err := s.Store.Append(ctx, b); err != nil {
			return err
		}
		s.own.Position, s.own.Digest = s.own.Position+store.Position(len(b.Rows)), b.Digest
	}
	s.out.Runs += int64(len(group))
	s.out.Jobs += int64(len(group)) * s.jobs
	return nil
}

// step adds one row of a run to the batch.
func (s *seeding) step(b *store.Batch, l *lane, i int) error {
	events, err := s.Kind.DecodeEvents(s.pattern[i].Events)
	if err != nil {
		return err
	}
	for _, e := range events {
		shift(reflect.ValueOf(e), l.shift)
		if asked, ok := e.(*run.RunRequested); ok {
			asked.Request.Run, asked.Request.Number, asked.Request.Trigger.Key = l.id, l.number, string(l.id)
		}
		s.Kind.Evolve(l.state, e)
	}
	data, err := s.Kind.EncodeEvents(events, codec.Format)
	if err != nil {
		return err
	}
	l.version += uint64(len(events))
	at := s.pattern[i].At.Add(l.shift)
	b.Rows = append(b.Rows, store.Row{Position: b.Prev + store.Position(len(b.Rows)) + 1, Tenant: s.Tenant,
		Stream: l.id.Stream(), Version: l.version, Count: uint32(len(events)), Events: data, At: at})
	wake, _ := s.Kind.NextWake(l.state)
	b.Heads = append(b.Heads, store.Head{Tenant: s.Tenant, Stream: l.id.Stream(), Version: l.version,
		Live: s.Kind.Live(l.state), NextWake: wake})
	b.Runs = append(b.Runs, s.Kind.Rows(l.state, engine.Place{Partition: b.Partition, Tenant: s.Tenant,
		Stream: l.id.Stream(), Version: l.version, At: at}).Runs...)
	if i == 0 {
		b.Keys = append(b.Keys, store.Key{Tenant: s.Tenant, Scope: engine.ClientScope("seed", "CreateRun"),
			Key: string(l.id), Body: domain.DigestOf([]byte(l.id)), Reply: []byte(l.id), Stream: l.id.Stream(), At: at})
	}
	s.out.Rows++
	s.out.Events += int64(len(events))
	s.out.Bytes += int64(len(data))
	return nil
}

// shift moves every time in an event.
func shift(v reflect.Value, by time.Duration) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			shift(v.Elem(), by)
		}
	case reflect.Slice:
		for i := range v.Len() {
			shift(v.Index(i), by)
		}
	case reflect.Struct:
		if at, ok := v.Interface().(time.Time); ok {
			if v.CanSet() && !at.IsZero() {
				v.Set(reflect.ValueOf(at.Add(by)))
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				shift(v.Field(i), by)
			}
		}
	}
}

// check loads a run and compares it with what was folded.
func (s *seeding) check(ctx context.Context, l *lane) error {
	h, err := s.Store.Load(ctx, s.Tenant, l.id.Stream(), false, s.Kind.Encoding)
	if err != nil {
		return err
	}
	state := s.Kind.New()
	for i := range h.Rows {
		events, err := s.Kind.DecodeEvents(h.Rows[i].Events)
		if err != nil {
			return err
		}
		for _, e := range events {
			s.Kind.Evolve(state, e)
		}
	}
	got, err1 := s.Kind.EncodeState(state)
	want, err2 := s.Kind.EncodeState(l.state)
	if err := errors.Join(err1, err2, s.Kind.Check(state)); err != nil || !slices.Equal(got, want) || h.Head.Live {
		return fmt.Errorf("seeded run %s is not what was written (%w)", l.id, err)
	}
	return nil
}

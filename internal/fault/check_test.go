package fault_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
)

// audit compares what is stored with what was promised, past all wrappers. It knows the
// store's and the core's words and none of the server's code.
type audit struct {
	w     *world
	store store.Store
	blobs blob.Store
	runs  map[domain.RunID]*run.State
	live  map[domain.PartitionID]map[domain.StreamID]store.Head // as replay gives them
}

func (w *world) audit(ctx context.Context, st store.Store, blobs blob.Store) {
	a := &audit{w, st, blobs, map[domain.RunID]*run.State{}, map[domain.PartitionID]map[domain.StreamID]store.Head{}}
	partitions, err := st.Partitions(ctx)
	if err != nil {
		w.book.find("audit: %v", err)
		return
	}
	for _, p := range partitions {
		if err := a.partition(ctx, p); err != nil {
			w.book.find("audit of %s: %v", p.Partition, err)
		}
	}
	for _, check := range []func(context.Context) error{a.tokens, a.keys, a.promises, a.objects} {
		if err := check(ctx); err != nil {
			w.book.find("audit: %v", err)
		}
	}
}

// partition wants positions without a gap, every batch chained to the one before, and every
// stream's replay to be what is stored beside it.
func (a *audit) partition(ctx context.Context, own store.Ownership) error {
	rows, err := a.store.Read(ctx, own.Partition, 0, 100_000)
	if err != nil {
		return err
	}
	var digest domain.Digest
	var batch []store.Row
	streams := map[domain.StreamID]*replayed{}
	var order []domain.StreamID
	for i, row := range rows {
		if row.Position != store.Position(i+1) {
			return fmt.Errorf("row %d is at position %d", i+1, row.Position)
		}
		batch = append(batch, row)
		stored, _, err := a.store.BatchAt(ctx, own.Partition, row.Position)
		if err == nil {
			if digest = store.BatchDigest(digest, batch); digest != stored {
				return fmt.Errorf("the batch that ends at %d is not chained to the one before", row.Position)
			}
			batch = nil
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		s := streams[row.Stream]
		if s == nil {
			s = &replayed{kind: a.w.kinds[row.Stream.Kind()], tenant: row.Tenant}
			s.state = s.kind.New()
			streams[row.Stream] = s
			order = append(order, row.Stream)
		}
		if err := s.take(row); err != nil {
			return err
		}
	}
	if own.Position != store.Position(len(rows)) || own.Digest != digest || len(batch) > 0 {
		return fmt.Errorf("it ends at %d with %s, and its rows at %d with %s", own.Position, own.Digest, len(rows), digest)
	}
	a.live[own.Partition] = map[domain.StreamID]store.Head{}
	for _, id := range order {
		if err := a.stream(ctx, own.Partition, id, streams[id]); err != nil {
			a.w.book.find("%s: %v", id.Kind(), err)
		}
	}
	return a.heads(ctx, own.Partition)
}

// replayed is a stream made from its rows alone.
type replayed struct {
	kind    *engine.Kind
	tenant  domain.TenantID
	state   any
	version uint64
	last    store.Row
}

func (r *replayed) take(row store.Row) error {
	events, err := r.kind.DecodeEvents(row.Events)
	if err != nil {
		return fmt.Errorf("row %d: %w", row.Position, err)
	}
	for _, e := range events {
		r.kind.Evolve(r.state, e)
	}
	r.version += uint64(len(events))
	r.last = row
	if r.version != row.Version || len(events) != int(row.Count) {
		return fmt.Errorf("row %d of %s claims version %d, replay is at %d", row.Position, row.Stream, row.Version, r.version)
	}
	return nil
}

// stream wants replay, the stored history, the state in memory and the list rows to agree.
func (a *audit) stream(ctx context.Context, p domain.PartitionID, id domain.StreamID, r *replayed) error {
	if err := r.kind.Check(r.state); err != nil {
		return fmt.Errorf("replay breaks an invariant: %w", err)
	}
	want, err := r.kind.EncodeState(r.state)
	if err != nil {
		return err
	}
	if err := a.memory(id, r, string(want)); err != nil {
		return err
	}
	h, err := a.store.Load(ctx, r.tenant, id, false, r.kind.Encoding)
	if err != nil {
		return err
	}
	again := &replayed{kind: r.kind, state: r.kind.New()}
	for _, row := range h.Rows {
		if err := again.take(row); err != nil {
			return err
		}
	}
	if got, err := r.kind.EncodeState(again.state); err != nil || !bytes.Equal(got, want) || h.Head.Version != r.version {
		return fmt.Errorf("its own history leads to version %d of another state (%v)", h.Head.Version, err)
	}
	wake, _ := r.kind.NextWake(r.state)
	if r.kind.Live(r.state) {
		a.live[p][id] = store.Head{Tenant: r.tenant, Stream: id, Version: r.version, Live: true, NextWake: wake}
	}
	if s, ok := r.state.(*run.State); ok {
		a.runs[s.Request.Run] = s
	}
	return a.rows(ctx, r, engine.Place{Partition: p, Tenant: r.tenant, Stream: id, Version: r.version, At: r.last.At})
}

// memory compares with what observers were shown last.
func (a *audit) memory(id domain.StreamID, r *replayed, want string) error {
	a.w.book.mu.Lock()
	defer a.w.book.mu.Unlock()
	seen, ok := a.w.book.seen[id]
	switch {
	case !ok:
		return fmt.Errorf("observers never saw it")
	case seen.version > r.version:
		return fmt.Errorf("observers saw version %d, and history ends at %d", seen.version, r.version)
	case seen.version < r.version && r.kind.Live(r.state):
		return fmt.Errorf("it is live at version %d, and observers saw it at %d last", r.version, seen.version)
	case seen.version == r.version && seen.state != want:
		return fmt.Errorf("memory held another state at version %d than replay", r.version)
	}
	return nil
}

// rows wants list rows to be those that the state gives.
func (a *audit) rows(ctx context.Context, r *replayed, at engine.Place) error {
	derived := r.kind.Rows(r.state, at)
	for _, want := range derived.Runs {
		if got, err := a.store.Run(ctx, r.tenant, want.Run); err != nil || !same(got, want) {
			return fmt.Errorf("its list row is %+v (%v), replay gives %+v", got, err, want)
		}
	}
	for _, want := range derived.Repositories {
		if got, err := a.store.Repository(ctx, r.tenant, string(want.Repository)); err != nil || !same(got, want) {
			return fmt.Errorf("its list row is %+v (%v), replay gives %+v", got, err, want)
		}
	}
	got, err := a.store.Runners(ctx, r.tenant)
	if err != nil {
		return err
	}
	for _, want := range derived.Runners {
		if !slices.ContainsFunc(got, func(row store.RunnerRow) bool { return same(row, want) }) {
			return fmt.Errorf("the runners listed are %+v, replay gives %+v", got, want)
		}
	}
	return nil
}

// same compares in a written form: what adapters give back differs in time zones of no name.
func same(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// heads wants exactly the live streams of replay, with their timers.
func (a *audit) heads(ctx context.Context, p domain.PartitionID) error {
	heads, err := a.store.Live(ctx, p)
	if err != nil {
		return err
	}
	for _, h := range heads {
		if want, ok := a.live[p][h.Stream]; !ok || !same(want, h) {
			return fmt.Errorf("the store has a head %+v, replay gives %+v", h, want)
		}
	}
	if len(heads) != len(a.live[p]) {
		return fmt.Errorf("the store has %d live heads, replay gives %d", len(heads), len(a.live[p]))
	}
	return nil
}

// tokens wants every position that somebody was told of.
func (a *audit) tokens(ctx context.Context) error {
	for _, token := range a.w.book.tokens {
		digest, _, err := a.store.BatchAt(ctx, token.Partition, store.Position(token.Position))
		if err != nil || digest != token.Digest {
			return fmt.Errorf("acknowledged position %d of %s is missing (%v)", token.Position, token.Partition, err)
		}
	}
	return nil
}

// keys wants one run for each key, and no run without one.
func (a *audit) keys(context.Context) error {
	byKey := map[string][]domain.RunID{}
	numbers := map[string]domain.RunID{}
	for id, s := range a.runs {
		byKey[s.Request.Trigger.Key] = append(byKey[s.Request.Trigger.Key], id)
		number := fmt.Sprintf("%s %s %d", s.Request.Repository, s.Request.WorkflowPath, s.Request.Number)
		if other, twice := numbers[number]; twice {
			return fmt.Errorf("runs %s and %s have one number", id, other)
		}
		numbers[number] = id
	}
	for key, runs := range byKey {
		if len(runs) > 1 {
			return fmt.Errorf("key %s made %d runs", key, len(runs))
		}
	}
	for key, id := range a.w.book.runs {
		if a.runs[id] == nil {
			return fmt.Errorf("run %s, accepted for key %s, is missing", id, key)
		}
	}
	if len(a.runs) > 2 {
		return fmt.Errorf("two causes led to %d runs", len(a.runs))
	}
	return nil
}

// promises wants acknowledged results to be committed, no attempt without an end, epochs that
// grow, and nothing done twice.
func (a *audit) promises(context.Context) error {
	b := a.w.book
	for id, digest := range b.results {
		s := a.runs[id.Run()]
		if s == nil {
			return fmt.Errorf("the run of acknowledged attempt %s is missing", id)
		}
		if _, at, ok := s.AttemptByID(id); !ok || at.Report != digest {
			return fmt.Errorf("the acknowledged result of %s is not the committed one", id)
		}
	}
	for id, s := range a.runs {
		for i := range s.Jobs {
			if err := a.job(s, i); err != nil {
				return fmt.Errorf("job %d of %s: %w", i, id, err)
			}
		}
	}
	for what, n := range b.began {
		if n > 1 {
			return fmt.Errorf("%s was executed %d times", what, n)
		}
	}
	return nil
}

func (a *audit) job(s *run.State, i int) error {
	epoch := uint64(0)
	won := map[int]int{}
	for n := range s.Jobs[i].Attempts {
		at := &s.Jobs[i].Attempts[n]
		switch {
		case at.Epoch <= epoch:
			return fmt.Errorf("epoch %d follows %d", at.Epoch, epoch)
		case at.Outcome == domain.OutcomeNone:
			return fmt.Errorf("attempt %d has no outcome", at.Number)
		case at.Outcome == domain.OutcomeLost || at.Declined:
			return fmt.Errorf("attempt %d came to nothing: %s %s", at.Number, at.Outcome, at.Message)
		case at.Log == nil:
			return fmt.Errorf("the log of attempt %d is not sealed", at.Number)
		case at.Log.Gaps > 0 || at.Log.Truncated:
			return fmt.Errorf("the log of attempt %d has holes", at.Number)
		case at.Refused > 0 || len(at.Conflicts) > 0:
			return fmt.Errorf("attempt %d: %d refusals, %d conflicts; nobody lied", at.Number, at.Refused, len(at.Conflicts))
		}
		epoch = at.Epoch
		if at.Outcome == domain.OutcomeSuccess {
			won[at.Round]++
		}
	}
	for round, n := range won {
		if n > 1 {
			return fmt.Errorf("%d attempts of round %d succeeded", n, round)
		}
	}
	return nil
}

// objects wants everything that history names by digest, and every commit to be pinned.
func (a *audit) objects(ctx context.Context) error {
	for id, s := range a.runs {
		q := &s.Request
		frozen, err := a.object(ctx, q.Snapshot)
		if err != nil {
			return fmt.Errorf("snapshot of %s: %w", id, err)
		}
		snap, err := snapshot.Decode(frozen)
		if err != nil {
			return fmt.Errorf("snapshot of %s: %w", id, err)
		}
		for _, digest := range append(snap.Objects(), q.Plan, q.Inputs) {
			if _, err := a.object(ctx, digest); err != nil {
				return fmt.Errorf("what %s rests on: %w", id, err)
			}
		}
		src, ok := a.w.source.(*branches)
		repo := scm.Repo{Tenant: q.Tenant, Repository: q.Repository}
		if ok && !src.pinned(repo, q.Source.Commit) {
			return fmt.Errorf("the commit of %s is not pinned", id)
		}
	}
	return nil
}

func (a *audit) object(ctx context.Context, digest domain.Digest) ([]byte, error) {
	r, err := a.blobs.Open(ctx, blob.ObjectKey(tenant, digest), 0, -1)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	if domain.DigestOf(data) != digest {
		return nil, fmt.Errorf("object %s has other bytes", digest)
	}
	return data, nil
}

// leftovers are log segments of logs that are all sealed.
func (a *audit) leftovers(ctx context.Context) ([]string, error) {
	entries, err := a.blobs.List(ctx, "", "", 10_000)
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Key, "segments/") {
			out = append(out, e.Key)
		}
	}
	return out, err
}

package storetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

// checksMax is how many random histories are tried, unless the command line asks for
// another number with -rapid.checks.
const checksMax = 12

// model drives the adapter and the memory adapter with the same random operations and
// demands the same answers, the same refusals and, at the end, the same contents.
func (s *suite) model(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f != nil && f.Value.String() == f.DefValue {
		if err := f.Value.Set(fmt.Sprint(checksMax)); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Value.Set(f.DefValue) }()
	}
	real := s.open(t)
	defer func() {
		if err := real.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	var worlds atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		// Every history gets names of its own, so one database serves them all.
		n := worlds.Add(1)
		m := &machine{
			ctx: context.WithoutCancel(t.Context()), real: real, model: memory.New(),
			owners: map[domain.PartitionID][]store.Ownership{},
		}
		for _, suffix := range []string{"a", "b"} {
			m.parts = append(m.parts, domain.PartitionID(fmt.Sprint("m", n, suffix)))
			m.tenants = append(m.tenants, domain.TenantID(fmt.Sprint("t", n, suffix)))
		}
		rt.Repeat(map[string]func(*rapid.T){
			"acquire": m.acquire, "append": m.append, "append again": m.append, "read": m.read, "expire": m.expire,
			"archive": m.archive, "prune": m.prune,
		})
		want, got := imageOf(t, m.model, m.parts, m.tenants), imageOf(t, m.real, m.parts, m.tenants)
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("contents differ (-memory +adapter):\n%s", diff)
		}
	})
}

type machine struct {
	ctx     context.Context
	real    store.Store
	model   store.Store
	parts   []domain.PartitionID
	tenants []domain.TenantID
	owners  map[domain.PartitionID][]store.Ownership // every ownership ever held, kept up to date
}

func (m *machine) acquire(t *rapid.T) {
	p := rapid.SampledFrom(m.parts).Draw(t, "partition")
	want, err1 := m.model.Acquire(m.ctx, p, "model")
	got, err2 := m.real.Acquire(m.ctx, p, "model")
	if err1 != nil || err2 != nil || want != got {
		t.Fatalf("acquire: model %+v (%v), adapter %+v (%v)", want, err1, got, err2)
	}
	m.owners[p] = append(m.owners[p], got)
}

func (m *machine) append(t *rapid.T) {
	p := rapid.SampledFrom(m.parts).Draw(t, "partition")
	own := store.Ownership{Partition: p, Epoch: 1}
	if held := m.owners[p]; len(held) > 0 {
		// Mostly the present owner; sometimes an old one, or one that lost its place.
		own = held[len(held)-1-min(len(held)-1, rapid.SampledFrom([]int{0, 0, 0, 0, 1}).Draw(t, "owner"))]
	}
	if rapid.IntRange(0, 19).Draw(t, "lost place") == 0 && own.Position > 0 {
		own.Position--
	}
	b := batch(own, func(b *store.Batch) { m.fill(t, b) })
	err1, err2 := m.model.Append(m.ctx, b), m.real.Append(m.ctx, b)
	if kind(err1) != kind(err2) {
		t.Fatalf("append: model says %v, adapter says %v", err1, err2)
	}
	if err1 == nil {
		held := m.owners[p]
		for i := range held {
			if held[i].Epoch == own.Epoch {
				held[i] = after(held[i], b)
			} else {
				held[i] = store.Ownership{Partition: p, Epoch: held[i].Epoch, Position: own.Position, Digest: own.Digest}
			}
		}
	}
}

// fill draws a batch over few names, so that it often goes on with something, and
// sometimes conflicts.
func (m *machine) fill(t *rapid.T, b *store.Batch) {
	someTenant, small := rapid.SampledFrom(m.tenants), rapid.IntRange(1, 4)
	used := map[string]bool{}
	for range rapid.IntRange(0, 3).Draw(t, "streams") {
		id, stream := someTenant.Draw(t, "tenant"), domain.StreamID(fmt.Sprint("run/", small.Draw(t, "stream")))
		if used[string(id)+string(stream)] {
			continue
		}
		used[string(id)+string(stream)] = true
		h, err := m.model.Load(m.ctx, id, stream, false, 0)
		if err != nil {
			t.Fatal(err)
		}
		count := uint32(small.Draw(t, "events"))
		version := h.Head.Version + uint64(count) + uint64(rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1}).Draw(t, "gap"))
		add(b, id, stream, version, count, rapid.StringN(0, 40, -1).Draw(t, "payload"))
		b.Heads[len(b.Heads)-1].Live = rapid.Bool().Draw(t, "live")
		if rapid.Bool().Draw(t, "wakes") {
			b.Heads[len(b.Heads)-1].NextWake = at.Add(time.Duration(small.Draw(t, "wake")) * time.Minute)
		}
		if rapid.Bool().Draw(t, "checkpoint") {
			b.Checkpoints = append(b.Checkpoints, store.Checkpoint{
				Tenant: id, Stream: stream, Version: version, State: []byte("state"),
				Encoding: encoding + uint32(rapid.IntRange(0, 1).Draw(t, "encoding")),
			})
		}
	}
	m.fillRecords(t, b)
}

func (m *machine) fillRecords(t *rapid.T, b *store.Batch) {
	someTenant, small, sometimes := rapid.SampledFrom(m.tenants), rapid.IntRange(1, 4), rapid.IntRange(0, 2)
	if sometimes.Draw(t, "key") == 0 {
		scope := rapid.SampledFrom([]string{"client/a/b", "trigger/r"}).Draw(t, "scope")
		id := fmt.Sprint(rapid.IntRange(1, 40).Draw(t, "key id"))
		k := key(scope, id, at.Add(time.Duration(small.Draw(t, "age"))*time.Minute))
		k.Tenant = someTenant.Draw(t, "key tenant")
		b.Keys = append(b.Keys, k)
	}
	if sometimes.Draw(t, "counter") == 0 {
		b.Counters = append(b.Counters, store.Counter{
			Tenant: someTenant.Draw(t, "counter tenant"), Name: "runs", Value: uint64(small.Draw(t, "value")),
		})
	}
	if sometimes.Draw(t, "cursor") == 0 {
		b.Cursors = append(b.Cursors, store.Cursor{Reactor: "r", Position: store.Position(small.Draw(t, "cursor position"))})
	}
	for range rapid.IntRange(0, 2).Draw(t, "runs") {
		r := runRow(someTenant.Draw(t, "run tenant"), small.Draw(t, "run"))
		r.Partition = b.Partition
		r.Title = rapid.String().Draw(t, "title")
		r.State = rapid.SampledFrom([]string{"queued", "running", "concluded"}).Draw(t, "state")
		b.Runs = append(b.Runs, r)
	}
	for range rapid.IntRange(0, 2).Draw(t, "repositories") {
		r := repoRow(someTenant.Draw(t, "repository tenant"), small.Draw(t, "repository"))
		r.Name = fmt.Sprint("name-", rapid.IntRange(1, 12).Draw(t, "name"))
		b.Repositories = append(b.Repositories, r)
	}
}

func (m *machine) read(t *rapid.T) {
	id := rapid.SampledFrom(m.tenants).Draw(t, "tenant")
	stream := domain.StreamID(fmt.Sprint("run/", rapid.IntRange(1, 4).Draw(t, "stream")))
	q := store.RunQuery{Tenant: id, Limit: rapid.IntRange(1, 3).Draw(t, "limit")}
	q.State = rapid.SampledFrom([]string{"", "queued", "running", "concluded"}).Draw(t, "state")
	want, got := m.look(m.model, id, stream, q), m.look(m.real, id, stream, q)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("answers differ (-memory +adapter):\n%s", diff)
	}
}

func (m *machine) look(s store.Store, id domain.TenantID, stream domain.StreamID, q store.RunQuery) []any {
	h, err1 := s.Load(m.ctx, id, stream, true, encoding)
	c, err2 := s.Counter(m.ctx, id, "runs")
	runs, err3 := s.Runs(m.ctx, q)
	repo, err4 := s.Repository(m.ctx, id, "name-1")
	answers := []any{h, c, runs, repo, kind(err1), kind(err2), kind(err3), kind(err4)}
	for n := 1; n <= 40; n++ {
		k, err := s.Key(m.ctx, id, "client/a/b", fmt.Sprint(n))
		answers = append(answers, k, kind(err))
	}
	return answers
}

func (m *machine) expire(t *rapid.T) {
	before := at.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "before")) * time.Minute)
	// Without a limit: other histories in the same database have keys of their own.
	_, err1 := m.model.ExpireKeys(m.ctx, before, 1_000_000)
	_, err2 := m.real.ExpireKeys(m.ctx, before, 1_000_000)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
}

// kind names what errors.Is can tell.
func kind(err error) string {
	var kinds []string
	for _, known := range []error{
		store.ErrFenced, store.ErrConflict, store.ErrUnknown, store.ErrFull, store.ErrBroken, store.ErrNotFound,
		store.ErrInvalid,
	} {
		if errors.Is(err, known) {
			kinds = append(kinds, known.Error())
		}
	}
	if err != nil && len(kinds) == 0 {
		return "another error: " + err.Error()
	}
	return strings.Join(kinds, ", ")
}

func (m *machine) archive(t *rapid.T) {
	p := rapid.SampledFrom(m.parts).Draw(t, "partition")
	held := m.owners[p]
	if len(held) == 0 {
		return
	}
	own := held[rapid.IntRange(0, len(held)-1).Draw(t, "owner")]
	ranges, err := m.model.ArchivedRanges(m.ctx, p, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var from store.Position
	if n := len(ranges); n > 0 {
		from = ranges[n-1].To
	}
	marks, err := m.model.Batches(m.ctx, p, from, 1000)
	if err != nil || len(marks) == 0 {
		return
	}
	to := rapid.SampledFrom(marks).Draw(t, "to")
	r := store.ArchivedRange{Partition: p, From: from, To: to.Position, Digest: to.Digest, Epoch: to.Epoch,
		Marks:   store.ArchivedObject{Object: "marks"},
		Objects: []store.ArchivedObject{{Tenant: m.tenants[0], Object: "o", Digest: "d", Rows: int64(to.Position - from)}}}
	if n := len(ranges); n > 0 {
		r.Before = ranges[n-1].Digest
	}
	streams := []store.ArchivedStream{{Tenant: m.tenants[0], Stream: "run/1"}}
	err1, err2 := m.model.ArchiveRange(m.ctx, own.Epoch, r, streams), m.real.ArchiveRange(m.ctx, own.Epoch, r, streams)
	if kind(err1) != kind(err2) {
		t.Fatalf("archive: model says %v, adapter says %v", err1, err2)
	}
}

func (m *machine) prune(t *rapid.T) {
	p := rapid.SampledFrom(m.parts).Draw(t, "partition")
	after, limit := store.Position(rapid.IntRange(0, 9).Draw(t, "after")), rapid.IntRange(1, 9).Draw(t, "limit")
	at1, err1 := m.model.Prune(m.ctx, p, after, limit)
	at2, err2 := m.real.Prune(m.ctx, p, after, limit)
	if kind(err1) != kind(err2) || at1 != at2 {
		t.Fatalf("prune: model says %d, %v, adapter says %d, %v", at1, err1, at2, err2)
	}
}

package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

func (s *suite) tenantPromises() []promise {
	return []promise{
		{"TwoTenantsWithEqualNamesNeverMeet", twoTenants},
		{"AStrangerSeesNothing", stranger},
		{"HostileTextFindsNothing", hostileText},
	}
}

// twoTenants gives two tenants records with the same ids, names and keys, in one batch.
// Promises: [HIST-15].
func twoTenants(t *testing.T, w *world) {
	both := []domain.TenantID{tenant, other}
	w.append(t, func(b *store.Batch) {
		for i, id := range both {
			add(b, id, "run/a", uint64(i+1), uint32(i+1), "of "+string(id))
			k := key("client/me/runs", "k1", at)
			k.Tenant, k.Reply = id, []byte(id)
			b.Keys = append(b.Keys, k)
			b.Counters = append(b.Counters, store.Counter{Tenant: id, Name: "runs", Value: uint64(i + 10)})
			b.Checkpoints = append(b.Checkpoints, store.Checkpoint{
				Tenant: id, Stream: "run/a", Version: uint64(i + 1), Encoding: encoding, State: []byte(id),
			})
			run, repo, runner := runRow(id, 1), repoRow(id, 1), runnerRow(id, 1)
			run.Title, repo.URL, runner.Version = string(id), string(id), string(id)
			b.Runs, b.Repositories, b.Runners = append(b.Runs, run), append(b.Repositories, repo), append(b.Runners, runner)
		}
	})
	for i, id := range both {
		h := must[store.History](t)(w.store.Load(t.Context(), id, "run/a", false, 0))
		if h.Head.Version != uint64(i+1) || len(h.Rows) != 1 || string(h.Rows[0].Events) != "of "+string(id) {
			t.Errorf("stream of %s: %+v", id, h)
		}
		h = must[store.History](t)(w.store.Load(t.Context(), id, "run/a", true, encoding))
		k := must[store.Key](t)(w.store.Key(t.Context(), id, "client/me/runs", "k1"))
		runs := must[[]store.RunRow](t)(w.store.Runs(t.Context(), store.RunQuery{Tenant: id, Limit: 10}))
		run := must[store.RunRow](t)(w.store.Run(t.Context(), id, "run_0001"))
		repos := must[[]store.RepositoryRow](t)(w.store.Repositories(t.Context(), id))
		repo := must[store.RepositoryRow](t)(w.store.Repository(t.Context(), id, "name-1"))
		runners := must[[]store.RunnerRow](t)(w.store.Runners(t.Context(), id))
		if len(runs) != 1 || len(repos) != 1 || len(runners) != 1 {
			t.Fatalf("tenant %s sees %d runs, %d repositories, %d runners", id, len(runs), len(repos), len(runners))
		}
		for _, got := range []string{
			string(h.Checkpoint.State), string(k.Reply), runs[0].Title, run.Title, repos[0].URL, repo.URL, runners[0].Version,
		} {
			same(t, "a record of "+string(id), got, string(id))
		}
		same(t, "counter", must[uint64](t)(w.store.Counter(t.Context(), id, "runs")), uint64(i+10))
	}
}

// Promises: [HIST-15].
func stranger(t *testing.T, w *world) {
	if err := w.store.Append(t.Context(), full(w.own, 1)); err != nil {
		t.Fatal(err)
	}
	h := must[store.History](t)(w.store.Load(t.Context(), other, "run/full-1", true, encoding))
	same(t, "history", h, store.History{})
	_, errKey := w.store.Key(t.Context(), other, "client/a/b", "1")
	_, errRun := w.store.Run(t.Context(), other, "run_0001")
	_, errRepo := w.store.Repository(t.Context(), other, "name-1")
	for _, err := range []error{errKey, errRun, errRepo} {
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a stranger's look-up: %v", err)
		}
	}
	img := w.everything(t)
	if n := len(img.Runs[other]) + len(img.Repos[other]) + len(img.Runners[other]); n != 0 {
		t.Errorf("a stranger sees %d list rows", n)
	}
}

// hostileText looks for what no record can be named: an answer, not a fault.
// Promises: [HIST-15].
func hostileText(t *testing.T, w *world) {
	if err := w.store.Append(t.Context(), full(w.own, 1)); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"\x00", "name-1\x00", "\xff\xfe", "' OR 1=1 --", "%", "_"} {
		_, errKey := w.store.Key(t.Context(), tenant, "client/a/b", text)
		_, errRun := w.store.Run(t.Context(), tenant, domain.RunID(text))
		_, errRepo := w.store.Repository(t.Context(), tenant, text)
		_, _, errBatch := w.store.BatchAt(t.Context(), domain.PartitionID(text), 1)
		for _, err := range []error{errKey, errRun, errRepo, errBatch} {
			if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("look-up of %q: %v", text, err)
			}
		}
		h := must[store.History](t)(w.store.Load(t.Context(), domain.TenantID(text), "run/full-1", true, encoding))
		same(t, "history", h, store.History{})
		for _, q := range []store.RunQuery{
			{State: text}, {Outcome: domain.Outcome(text)}, {Ref: text}, {Repository: domain.RepositoryID(text)},
		} {
			q.Tenant, q.Limit = tenant, 10
			if runs := must[[]store.RunRow](t)(w.store.Runs(t.Context(), q)); len(runs) != 0 {
				t.Errorf("runs of %+v: %v", q, runs)
			}
		}
	}
}

func (s *suite) loadPromises() []promise {
	return []promise{{"ReadersSeeWholeBatchesDuringAppends", concurrentReaders}}
}

// concurrentReaders reads while an owner appends. Every batch moves two streams, a run
// row and a cursor together; no reader may ever see one without the other, and no head
// without its rows.
func concurrentReaders(t *testing.T, w *world) {
	const rounds = 40
	done := make(chan struct{})
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for last := uint64(0); ; {
				h, err := w.store.Load(t.Context(), tenant, "run/a", true, encoding)
				if err != nil {
					t.Errorf("load: %v", err)
					return
				}
				covered := uint64(len(h.Rows))
				if h.Checkpoint != nil {
					covered += h.Checkpoint.Version
				}
				if h.Head.Version < last || covered != h.Head.Version {
					t.Errorf("head at %d after %d, checkpoint and rows reach %d", h.Head.Version, last, covered)
					return
				}
				last = h.Head.Version
				rows, err := w.store.Read(t.Context(), part, 0, 10*rounds)
				if err != nil || len(rows)%2 != 0 {
					t.Errorf("read %d rows: %v", len(rows), err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range rounds {
		w.append(t, func(b *store.Batch) {
			add(b, tenant, "run/a", uint64(i+1), 1, "x")
			add(b, tenant, domain.StreamID(fmt.Sprint("run/b", i)), 1, 1, "x")
			b.Runs = []store.RunRow{runRow(tenant, i)}
			if i%7 == 0 {
				b.Checkpoints = []store.Checkpoint{{Tenant: tenant, Stream: "run/a", Version: uint64(i + 1), Encoding: encoding}}
			}
		})
		// Read your writes, from any connection.
		if _, err := w.store.Run(t.Context(), tenant, runRow(tenant, i).Run); err != nil {
			t.Errorf("the run of round %d right after its append: %v", i, err)
		}
	}
	close(done)
	group.Wait()
}

func (s *suite) durabilityPromises() []promise {
	if s.reopen == nil {
		return nil
	}
	return []promise{{"WhatWasAcknowledgedIsThereAfterReopening", reopened}}
}

func reopened(t *testing.T, w *world) {
	for n := 1; n <= 5; n++ {
		b := full(w.own, n)
		if err := w.store.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		w.own = after(w.own, b)
	}
	before := w.everything(t)
	w.store = w.suite.reopen(t, w.store)
	same(t, "after reopening", w.everything(t), before)
	own := acquire(t, w.store, part)
	if own.Epoch != w.own.Epoch+1 || own.Position != w.own.Position || own.Digest != w.own.Digest {
		t.Errorf("after reopening the partition is %+v, was %+v", own, w.own)
	}
	if err := w.store.Append(t.Context(), full(own, 6)); err != nil {
		t.Errorf("the next append: %v", err)
	}
}

package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/sqlstore"
	"github.com/fairlead-ci/fairlead/internal/testkit/pg"
)

func openMember(t *testing.T, url string, conns int32) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, Options{Schema: "fleet", ConnsMax: conns, Lease: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return s.(*Store)
}

// A server that is stopped between the fence and the commit of an append holds its
// partition's row. Whoever takes over gets it as soon as the hung one's lease is over, and
// nothing of the append is there, also not when the hung one goes on.
func TestAServerThatHangsInAnAppendIsReplaced(t *testing.T) {
	url := pg.Start(t)
	hung, next := openMember(t, url, 2), openMember(t, url, 2)
	defer closed(t, hung)
	defer closed(t, next)
	own := acquire(t, hung)
	batch := rows(own, 3, "x")
	plan, err := sqlstore.NewPlan(&batch)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := hung.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if err := hung.fence(t.Context(), conn, plan); err != nil {
		t.Fatal(err)
	}
	taken, err := next.Take(t.Context(), own.Partition, "next", own.Epoch)
	if err != nil || taken.Epoch != own.Epoch+1 || taken.Position != 0 {
		t.Fatalf("taken %+v, %v", taken, err)
	}
	err = hung.write(t.Context(), conn, plan)
	if err == nil {
		err = commit(t.Context(), conn)
	}
	if err == nil {
		t.Error("the hung server committed")
	}
	if got, err := next.Read(t.Context(), own.Partition, 0, 10); err != nil || len(got) != 0 {
		t.Errorf("%d rows (%v)", len(got), err)
	}
	if err := hung.Append(t.Context(), batch); !errors.Is(err, store.ErrFenced) {
		t.Errorf("its next append: %v", err)
	}
}

// Appends and take-overs that wait for a row may use up all connections for a long time.
func TestALeaseIsRenewedWhileEverythingElseWaits(t *testing.T) {
	url := pg.Start(t)
	s := openMember(t, url, 2)
	defer closed(t, s)
	for range 2 {
		conn, err := s.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	m := store.Member{Name: "a", Session: "s", Format: 1}
	if p, err := s.Renew(ctx, m, time.Second); err != nil || len(p.Members) != 1 {
		t.Errorf("renewed %+v, %v", p, err)
	}
}

func TestAMemberOfAFleetHasMoreConnectionsUnlessItIsToldOtherwise(t *testing.T) {
	url := pg.Start(t)
	for _, c := range []struct {
		url  string
		opts Options
		want int32
	}{
		{url, Options{Lease: time.Second}, connsOfFleet}, {url, Options{Lease: time.Second, ConnsMax: 3}, 3},
		{url + "&pool_max_conns=5", Options{Lease: time.Second}, 5}, {url + "&pool_max_conns=5", Options{}, 5},
	} {
		s, err := Open(t.Context(), c.url, c.opts)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.(*Store).pool.Config().MaxConns; got != c.want {
			t.Errorf("%+v: %d connections, want %d", c.opts, got, c.want)
		}
		closed(t, s)
	}
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/sqlstore"
	"github.com/fairlead-ci/fairlead/internal/store/storetest"
	"github.com/fairlead-ci/fairlead/internal/testkit/pg"
)

var schemas atomic.Int64

// fresh opens an empty store in a schema of its own, which is cheaper than a database.
func fresh(t testing.TB, url string) *Store {
	t.Helper()
	return mustOpen(t, url, fmt.Sprint("s", schemas.Add(1)))
}

func mustOpen(t testing.TB, url, schema string) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, Options{Schema: schema, ConnsMax: 6})
	if err != nil {
		t.Fatal(err)
	}
	return s.(*Store)
}

// keptOpen is a store whose Close leaves the pool to the next test: connecting costs
// more than most tests.
type keptOpen struct{ *Store }

func (keptOpen) Close() error { return nil }

func TestConformance(t *testing.T) {
	url := pg.Start(t)
	shared := mustOpen(t, url, "conformance")
	defer closed(t, shared)
	storetest.Run(t,
		func(t *testing.T) store.Store {
			for _, table := range sqlstore.Tables() {
				if _, err := shared.pool.Exec(t.Context(), "DELETE FROM "+table); err != nil {
					t.Fatal(err)
				}
			}
			return keptOpen{shared}
		},
		storetest.WithReopen(func(t *testing.T, _ store.Store) store.Store {
			return mustOpen(t, url, "conformance")
		}),
		storetest.WithDump(func(t *testing.T, s store.Store) string {
			if kept, ok := s.(keptOpen); ok {
				return dump(t, kept.Store)
			}
			return dump(t, s.(*Store))
		}))
}

// dump writes out every row of every table.
func dump(t testing.TB, s *Store) string {
	t.Helper()
	var out strings.Builder
	for _, table := range sqlstore.Tables() {
		rows, err := s.pool.Query(t.Context(), "SELECT * FROM "+table+" ORDER BY 1, 2")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&out, table, values)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// rows is a batch of n new streams.
func rows(own store.Ownership, n int, payload string) store.Batch {
	b := store.Batch{Partition: own.Partition, Epoch: own.Epoch, Prev: own.Position, PrevDigest: own.Digest}
	for i := range n {
		position := own.Position + store.Position(i) + 1
		row := store.Row{
			Position: position, Tenant: "tnt_one", Version: 1, Count: 1, Events: []byte(payload),
			Stream: domain.StreamID(fmt.Sprintf("run/run_01jd%022d", position)),
		}
		b.Rows = append(b.Rows, row)
		b.Heads = append(b.Heads, store.Head{Tenant: row.Tenant, Stream: row.Stream, Version: 1, Live: true})
	}
	b.Digest = store.BatchDigest(b.PrevDigest, b.Rows)
	return b
}

func acquire(t testing.TB, s store.Store) store.Ownership {
	t.Helper()
	own, err := s.Acquire(t.Context(), "p", "me")
	if err != nil {
		t.Fatal(err)
	}
	return own
}

func appendTo(t testing.TB, s store.Store, own store.Ownership, b store.Batch) store.Ownership {
	t.Helper()
	if err := s.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	own.Position, own.Digest = own.Position+store.Position(len(b.Rows)), b.Digest
	return own
}

func closed(t testing.TB, s store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestReplicasThatStartTogetherMigrateOnce(t *testing.T) {
	url := pg.Start(t)
	answers := make(chan error, 4)
	for range cap(answers) {
		go func() {
			s, err := Open(context.WithoutCancel(t.Context()), url, Options{Schema: "together"})
			if err == nil {
				err = s.Close()
			}
			answers <- err
		}()
	}
	for range cap(answers) {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}

func TestSessionsHaveTheirLimits(t *testing.T) {
	url := pg.Start(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "ALTER ROLE postgres SET synchronous_commit = off"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_, err := conn.Exec(context.WithoutCancel(t.Context()), "ALTER ROLE postgres RESET synchronous_commit")
		if err := errors.Join(err, conn.Close(context.WithoutCancel(t.Context()))); err != nil {
			t.Error(err)
		}
	}()
	s := fresh(t, url)
	defer closed(t, s)
	for setting, want := range map[string]string{
		"statement_timeout": "30s", "lock_timeout": "25s", "idle_in_transaction_session_timeout": "10s",
		"application_name": "fairlead", "synchronous_commit": "on",
	} {
		var got string
		if err := s.pool.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q (%v), want %q", setting, got, err, want)
		}
	}
}

func TestASessionThatCanOnlyReadIsRefused(t *testing.T) {
	url := pg.Start(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var database string
	if err := conn.QueryRow(t.Context(), "SELECT current_database()").Scan(&database); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "ALTER DATABASE "+database+" SET default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), url, Options{}); err == nil {
		closed(t, s)
		t.Error("a standby was accepted")
	}
}

// Acquire must not return before the append that it fences off has ended: here one that
// holds the partition's row and has not committed.
func TestAcquireWaitsForAnAppendInFlight(t *testing.T) {
	s := fresh(t, pg.Start(t))
	defer closed(t, s)
	own := acquire(t, s)
	b := rows(own, 3, "x")
	plan, err := sqlstore.NewPlan(&b)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if err := errors.Join(s.fence(t.Context(), conn, plan), s.write(t.Context(), conn, plan)); err != nil {
		t.Fatal(err)
	}
	next := make(chan store.Ownership, 1)
	go func() {
		got, err := s.Acquire(t.Context(), "p", "you")
		if err != nil {
			t.Error(err)
		}
		next <- got
	}()
	awaitLockWait(t, s)
	select {
	case got := <-next:
		t.Fatalf("the next owner did not wait: %+v", got)
	default:
	}
	if err := commit(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	if got := <-next; got.Position != 3 || got.Epoch != own.Epoch+1 || got.Digest != b.Digest {
		t.Errorf("the next owner starts from %+v", got)
	}
}

// awaitLockWait polls until some session waits for a lock.
func awaitLockWait(t *testing.T, s *Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		var waiting int
		err := s.pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
		if err != nil {
			t.Fatalf("nobody waits for a lock: %v", err)
		}
		if waiting > 0 {
			return
		}
	}
}

func TestAKilledSessionBeforeCommitWroteNothing(t *testing.T) {
	s := fresh(t, pg.Start(t))
	defer closed(t, s)
	own := acquire(t, s)
	before := dump(t, s)
	b := rows(own, 3, "x")
	plan, err := sqlstore.NewPlan(&b)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.fence(t.Context(), conn, plan); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(t.Context(), "SELECT pg_terminate_backend($1)", conn.Conn().PgConn().PID()); err != nil {
		t.Fatal(err)
	}
	err = s.write(t.Context(), conn, plan)
	if !errors.Is(err, domain.ErrRetry) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("write: %v", err)
	}
	conn.Release()
	if dump(t, s) != before {
		t.Error("something was written")
	}
	appendTo(t, s, own, b)
}

func TestErrorsOfTheServerHaveTheirMeaning(t *testing.T) {
	lost := errors.New("read: connection reset by peer")
	for _, c := range []struct {
		err          error
		before, then error
	}{
		{&pgconn.PgError{Code: "53100", Severity: "ERROR"}, store.ErrFull, store.ErrFull},
		{&pgconn.PgError{Code: "23505", Severity: "ERROR"}, store.ErrConflict, store.ErrConflict},
		{&pgconn.PgError{Code: "40001", Severity: "ERROR"}, domain.ErrRetry, domain.ErrRetry},
		{&pgconn.PgError{Code: "40P01", Severity: "ERROR"}, domain.ErrRetry, domain.ErrRetry},
		{&pgconn.PgError{Code: "55P03", Severity: "ERROR"}, domain.ErrRetry, domain.ErrRetry},
		{&pgconn.PgError{Code: "42501", Severity: "ERROR"}, domain.ErrRetry, domain.ErrRetry},
		{&pgconn.PgError{Code: "28000", Severity: "FATAL"}, domain.ErrRetry, store.ErrUnknown},
		{&pgconn.PgError{Code: "57P01", Severity: "FATAL"}, domain.ErrRetry, store.ErrUnknown},
		{context.DeadlineExceeded, context.DeadlineExceeded, store.ErrUnknown},
		{lost, lost, store.ErrUnknown},
	} {
		if got := asStoreError(c.err); !errors.Is(got, c.before) {
			t.Errorf("before COMMIT %v means %v, want %v", c.err, got, c.before)
		}
		got := asCommitError(c.err)
		if !errors.Is(got, c.then) || (c.then != store.ErrUnknown && errors.Is(got, store.ErrUnknown)) {
			t.Errorf("at COMMIT %v means %v, want %v", c.err, got, c.then)
		}
	}
}

func TestNoErrorRepeatsThePassword(t *testing.T) {
	for _, url := range []string{
		"postgres://me:hunter2@127.0.0.1:1/none?connect_timeout=1", "postgres://me:hunter2@127.0.0.1:port/none",
	} {
		_, err := Open(t.Context(), url, Options{})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("open: %v", err)
		}
	}
}

// A database that does not answer a dial can be asked again; a caller who went away is told just that.
func TestADialThatTakesTooLongIsForAnotherTime(t *testing.T) {
	config, err := pgconn.ParseConfig("postgres://me@127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err   error
		retry bool
	}{{os.ErrDeadlineExceeded, true}, {context.DeadlineExceeded, true}, {context.Canceled, false}} {
		config.DialFunc = func(context.Context, string, string) (net.Conn, error) { return nil, c.err }
		_, err = pgconn.ConnectConfig(t.Context(), config)
		if got := errors.Is(asStoreError(err), domain.ErrRetry); got != c.retry {
			t.Errorf("%v: worth another try: %t", err, got)
		}
	}
}

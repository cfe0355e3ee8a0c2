// Package postgres is the store port on PostgreSQL: for several replicas of the server,
// a database with a standby, and more partitions than one machine carries.
//
// It is deliberately without advisory locks, leases or LISTEN in the write path: who may
// write is decided by one row of the partitions table, and by nothing that a paused
// process could believe to hold. It reads from the primary only.
//
// Invariants: the first statement of an append locks the partition's row where epoch,
// position and digest are what the batch says, and nothing else is sent unless it did;
// an append is three round trips however large it is; the answer to COMMIT is waited for
// even when the caller has gone, and without a definite answer the outcome is ErrUnknown;
// synchronous_commit is never lower than on.
//
// Read next: internal/store/postgres/append.go, internal/store/sqlstore/writes.go
package postgres

import (
	"context"
	"embed"
	"fmt"
	"hash/fnv"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/sqlstore"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Options tune an opened store. The zero Options are right for a server.
type Options struct {
	// Schema holds the tables; it is created if need be. Empty means the URL's own
	// search path, usually "public".
	Schema string
	// ConnsMax bounds the connections of this process; 0 means what the URL says, or
	// pgxpool's default, or connsOfFleet for a member of a fleet.
	ConnsMax int32
	// Lease is how long the membership of this server in a fleet lasts; 0 means that it is
	// alone. A server that hangs in the middle of an append holds its partition's row no
	// longer than that, so that whoever takes over need not wait longer.
	Lease time.Duration
	// Beside opens a database that others use, for backups and examinations: its schema is
	// left as it is.
	Beside bool
}

// Store is the port on a PostgreSQL database.
type Store struct {
	sqlstore.Reader
	pool *pgxpool.Pool
	// leases has connections for memberships alone: appends that wait for a lock, however
	// many, must not keep a server from renewing its lease.
	leases *pgxpool.Pool
	writes []preparedWrite
}

var _ store.Store = (*Store)(nil)

// Open connects, brings the schema up to date and returns the store. url is anything
// that PostgreSQL's own tools accept; it may hold a password, so no error repeats it.
func Open(ctx context.Context, url string, opts Options) (store.Store, error) {
	s, err := open(ctx, url, opts)
	if err != nil {
		return nil, fmt.Errorf("open PostgreSQL store: %w", err)
	}
	return s, nil
}

func open(ctx context.Context, url string, opts Options) (*Store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	configure(config, opts)
	if opts.Lease > 0 && opts.ConnsMax == 0 && !strings.Contains(url, "pool_max_conns") {
		config.MaxConns = max(config.MaxConns, connsOfFleet)
	}
	if !opts.Beside {
		if err := migrate(ctx, config.ConnConfig, opts.Schema); err != nil {
			return nil, err
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	few := config.Copy()
	few.MaxConns, few.MinConns = leaseConns, 0
	leases, err := pgxpool.NewWithConfig(ctx, few)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s := &Store{Reader: sqlstore.Reader{Querier: querier{pool}, Clock: clock}, pool: pool, leases: leases}
	for _, write := range sqlstore.Writes() {
		s.writes = append(s.writes, preparedWrite{write, write.Many()})
	}
	return s, nil
}

// configure sets what every session of ours must have, whatever the server's defaults.
func configure(config *pgxpool.Config, opts Options) {
	if opts.ConnsMax > 0 {
		config.MaxConns = opts.ConnsMax
	}
	session := config.ConnConfig
	params := session.RuntimeParams
	params["application_name"] = "fairlead"
	params["statement_timeout"] = millis(statementTimeout)
	params["lock_timeout"] = millis(lockTimeout)
	idle := idleTransactionTimeout
	if opts.Lease > 0 {
		idle = min(idle, max(opts.Lease, idleTransactionMin))
	}
	params["idle_in_transaction_session_timeout"] = millis(idle)
	if opts.Schema != "" {
		params["search_path"] = pgx.Identifier{opts.Schema}.Sanitize()
	}
	if session.ConnectTimeout == 0 {
		session.ConnectTimeout = connectTimeout
	}
	if session.ValidateConnect == nil {
		// A standby would answer reads with the past and refuse writes late.
		session.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	session.AfterConnect = insistOnDurability
}

// insistOnDurability raises synchronous_commit where a role or database has lowered it,
// and leaves stronger settings as they are.
func insistOnDurability(ctx context.Context, conn *pgconn.PgConn) error {
	return conn.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') IN ('off', 'local')`).Close()
}

func millis(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

// migrate runs under a lock of the database, so that replicas that start together do
// not create the same tables.
func migrate(ctx context.Context, config *pgx.ConnConfig, schema string) error {
	config = config.Copy()
	config.RuntimeParams["statement_timeout"] = millis(migrationTimeout)
	config.RuntimeParams["lock_timeout"] = millis(migrationTimeout)
	db := stdlib.OpenDB(*config)
	defer func() { _ = db.Close() }()

	lock, err := db.Conn(ctx)
	if err != nil {
		return asStoreError(err)
	}
	// Closing the connection gives the lock back, whatever happens in between.
	defer func() { _ = lock.Close() }()
	name := fnv.New64a()
	_, _ = name.Write([]byte("fairlead schema " + schema))
	if _, err := lock.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, int64(name.Sum64())); err != nil {
		return asStoreError(err)
	}
	if schema != "" {
		if _, err := db.ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS `+pgx.Identifier{schema}.Sanitize()); err != nil {
			return asStoreError(err)
		}
	}
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return asStoreError(sqlstore.Migrate(ctx, goose.DialectPostgres, db, sub))
}

// querier reads over the pool.
type querier struct{ pool *pgxpool.Pool }

// Query implements sqlstore.Querier.
func (q querier) Query(ctx context.Context, query string, each func(sqlstore.Row) error, args ...any) error {
	rows, err := q.pool.Query(ctx, query, args...)
	return eachRow(rows, err, each)
}

// eachRow hands every row of a result on.
func eachRow(rows pgx.Rows, err error, each func(sqlstore.Row) error) error {
	if err != nil {
		return asReadError(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return asReadError(err)
		}
	}
	return asReadError(rows.Err())
}

// Acquire implements store.Log. The row lock that it needs is the one an append holds.
func (s *Store) Acquire(ctx context.Context, id domain.PartitionID, owner string) (store.Ownership, error) {
	if id == "" || !store.ValidText(string(id)) {
		return store.Ownership{}, fmt.Errorf("acquire partition %q: not a name", id)
	}
	got := store.Ownership{Partition: id}
	var epoch, position int64
	err := s.pool.QueryRow(ctx, sqlstore.Acquire, string(id), store.CleanText(owner), sqlstore.Micros(time.Now())).
		Scan(&epoch, &position, &got.Digest)
	if err != nil {
		return store.Ownership{}, fmt.Errorf("acquire partition %s: %w", id, asStoreError(err))
	}
	got.Epoch, got.Position = uint64(epoch), store.Position(position)
	return got, nil
}

// ExpireKeys implements store.Log.
func (s *Store) ExpireKeys(ctx context.Context, before time.Time, limit int) (int, error) {
	if limit < 1 {
		return 0, nil
	}
	tag, err := s.pool.Exec(ctx, sqlstore.ExpireKeys, sqlstore.ExpireArgs(before, limit)...)
	if err != nil {
		return 0, fmt.Errorf("expire keys: %w", asStoreError(err))
	}
	return int(tag.RowsAffected()), nil
}

// Ping implements store.Store: it commits a row, so a full disk or a missing standby
// shows.
func (s *Store) Ping(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, sqlstore.Beat, sqlstore.Micros(time.Now())); err != nil {
		return fmt.Errorf("ping store: %w", asStoreError(err))
	}
	return nil
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.pool.Close()
	s.leases.Close()
	return nil
}

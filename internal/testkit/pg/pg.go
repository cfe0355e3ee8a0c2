// Package pg starts a private PostgreSQL cluster for tests: own folder, own user, a Unix
// socket and no network port.
//
// It is deliberately without a fallback: where PostgreSQL is not installed, tests fail
// with a sentence that says what to install. A test that skips proves nothing.
//
// Invariants: one cluster per test binary and durability, started when it is first asked
// for; every caller gets a database of its own; a supervising shell ends the cluster and
// removes its folder when the test binary ends, however it ends, since that closes the
// pipe which the shell reads.
//
// Read next: internal/testkit/pg/cluster_exec.go
package pg

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Options choose what kind of cluster is started.
type Options struct {
	// Durable clusters sync as a real one does. The others are faster, and lose data when
	// the machine (not the process) crashes, which no test does.
	Durable bool
	// Settings are further ones, such as "shared_buffers=256MB". They win.
	Settings []string
}

// Cluster is a running server.
type Cluster struct {
	dir  string // holds the data and the Unix socket
	proc *supervisor
	next atomic.Int64
}

var shared [2]struct {
	once    sync.Once
	cluster *Cluster
	err     error
}

// Start returns the URL of a fresh database on the test binary's shared cluster.
func Start(t testing.TB) string { return start(t, Options{}) }

// StartDurable is Start on a cluster that syncs every commit.
func StartDurable(t testing.TB) string { return start(t, Options{Durable: true}) }

func start(t testing.TB, opts Options) string {
	t.Helper()
	slot := &shared[0]
	if opts.Durable {
		slot = &shared[1]
	}
	slot.once.Do(func() { slot.cluster, slot.err = StartCluster(context.Background(), opts) })
	if slot.err != nil {
		t.Fatal(slot.err)
	}
	database, err := slot.cluster.NewDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return database
}

// NewDatabase creates an empty database and returns its URL.
func (c *Cluster) NewDatabase(ctx context.Context) (string, error) {
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return "", fmt.Errorf("connect to test cluster: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	name := fmt.Sprintf("test_%d", c.next.Add(1))
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return "", fmt.Errorf("create test database %s: %w", name, err)
	}
	return c.URL(name), nil
}

// URL is the address of a database of the cluster.
func (c *Cluster) URL(database string) string {
	query := url.Values{"host": {c.dir}, "user": {"postgres"}, "sslmode": {"disable"}}
	return "postgres:///" + database + "?" + query.Encode()
}

// Folder is where the cluster keeps its data: measurements ask its disk.
func (c *Cluster) Folder() string { return c.dir }

// Stop ends the server and removes its folder. Stopping twice is harmless.
func (c *Cluster) Stop() error {
	if c == nil || c.proc == nil {
		return nil
	}
	return c.proc.stop()
}

// errMissing is what a machine without PostgreSQL is told.
var errMissing = errors.New("these tests need PostgreSQL 13 or newer and found no initdb in PATH, " +
	"in `pg_config --bindir` or in /usr/lib/postgresql/*/bin: install it (Debian: apt-get install postgresql)")

// Programs is the folder that holds initdb and postgres, for tests that start a server
// themselves because they mean to kill it.
func Programs(ctx context.Context) (string, error) { return binaries(ctx) }

// Own gives a folder to the user that runs the server: PostgreSQL refuses to run as root.
// Start its programs with the credential; nil means as this user.
func Own(folder string) (*syscall.Credential, error) { return owner(folder) }

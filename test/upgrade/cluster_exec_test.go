package upgrade

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairlead-ci/fairlead/internal/testkit/pg"
)

// cluster is a PostgreSQL server with every setting of durability as PostgreSQL has it.
type cluster struct {
	*process
	t      *testing.T
	bin    string
	folder string // holds data and the socket
	port   int
	as     *syscall.Credential
}

// place makes an empty folder for a cluster, owned by who will run it.
func place(t *testing.T) *cluster {
	t.Helper()
	bin, err := pg.Programs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Links to some of the programs may lie elsewhere; all of them are where they point.
	if program, err := filepath.EvalSymlinks(filepath.Join(bin, "initdb")); err == nil {
		bin = filepath.Dir(program)
	}
	folder, err := os.MkdirTemp("/tmp", "fairlead-pg-") // short, for the path of the socket
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, bin: bin, folder: folder, port: freePort(t)}
	if c.as, err = pg.Own(folder); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.process != nil {
			c.stop(syscall.SIGQUIT)
			if t.Failed() {
				t.Logf("--- PostgreSQL at port %d\n%s", c.port, c.words())
			}
		}
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	return c
}

// tool runs one of PostgreSQL's programs as its user.
func (c *cluster) tool(name string, args ...string) {
	c.t.Helper()
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.Dir, cmd.SysProcAttr = c.folder, &syscall.SysProcAttr{Credential: c.as}
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

func (c *cluster) data() string { return filepath.Join(c.folder, "data") }

// newPrimary makes and starts a cluster.
func newPrimary(t *testing.T) *cluster {
	t.Helper()
	c := place(t)
	c.tool("initdb", "-D", c.data(), "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync")
	c.start()
	return c
}

// newStandby makes a copy that follows the primary, and starts it.
func (c *cluster) newStandby() *cluster {
	c.t.Helper()
	s := place(c.t)
	s.tool("pg_basebackup", "-D", s.data(), "-d", "host=127.0.0.1 user=postgres port="+strconv.Itoa(c.port),
		"-R", "-X", "stream", "-c", "fast")
	s.start()
	return s
}

// start starts the server and waits until it answers.
func (c *cluster) start() {
	c.t.Helper()
	c.process = launch(c.t, "PostgreSQL", c.folder, c.as, filepath.Join(c.bin, "postgres"), "-D", c.data(), "-k", c.folder,
		"-c", "listen_addresses=127.0.0.1", "-c", "port="+strconv.Itoa(c.port), "-c", "max_connections=120",
		"-c", "shared_buffers=32MB")
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := c.exec("SELECT 1")
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("PostgreSQL does not answer: %v\n%s", err, c.words())
		}
	}
}

// exec runs a statement.
func (c *cluster) exec(statement string) error {
	_, err := c.value(statement)
	return err
}

// value runs a statement and gives the first column of its first row, "" without one.
func (c *cluster) value(statement string) (out string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", c.port))
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, statement, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	if rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return "", err
		}
		out = fmt.Sprint(values[0])
	}
	rows.Close()
	return out, rows.Err()
}

// await waits until a statement gives a value.
func (c *cluster) await(statement, want string) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		got, err := c.value(statement)
		if err == nil && got == want {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: %q (%v), want %q", statement, got, err, want)
		}
	}
}

// synchronous makes every commit wait until the standby has it.
func (c *cluster) synchronous() {
	c.t.Helper()
	for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
		if err := c.exec(statement); err != nil {
			c.t.Fatal(err)
		}
	}
	c.await("SELECT sync_state FROM pg_stat_replication", "sync")
}

// die ends the server as a power cut would.
func (c *cluster) die() {
	c.t.Helper()
	if !c.stop(syscall.SIGKILL) {
		c.t.Fatal("PostgreSQL survived its end")
	}
}

// promote makes a standby the primary.
func (c *cluster) promote() {
	c.t.Helper()
	c.tool("pg_ctl", "promote", "-D", c.data(), "-w")
	c.await("SELECT pg_is_in_recovery()", "false")
}

// urlOf names several servers; whichever takes writes is the one.
func urlOf(clusters ...*cluster) string {
	hosts := ""
	for i, c := range clusters {
		if i > 0 {
			hosts += ","
		}
		hosts += "127.0.0.1:" + strconv.Itoa(c.port)
	}
	return "postgres://postgres@" + hosts + "/postgres?sslmode=disable&target_session_attrs=read-write"
}

package pg

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestEveryCallerGetsADatabaseOfItsOwn(t *testing.T) {
	first, second := Start(t), Start(t)
	if first == second {
		t.Fatalf("both callers got %s", first)
	}
	for _, url := range []string{first, second} {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "CREATE TABLE mine (n BIGINT)"); err != nil {
			t.Error(err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestSettingsWin(t *testing.T) {
	c, err := StartCluster(t.Context(), Options{Settings: []string{"shared_buffers=24MB"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}()
	conn, err := pgx.Connect(t.Context(), c.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var size string
	if err := conn.QueryRow(t.Context(), "SHOW shared_buffers").Scan(&size); err != nil || size != "24MB" {
		t.Errorf("shared_buffers %q, %v", size, err)
	}
	if _, err := os.Stat(c.Folder()); err != nil {
		t.Error(err)
	}
}

func TestStopEndsTheServerAndRemovesItsFolder(t *testing.T) {
	c, err := StartCluster(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("folder %s is still there: %v", c.dir, err)
	}
	if err := c.Stop(); err != nil {
		t.Errorf("second stop: %v", err)
	}
}

// The pipe is all that ties the cluster to its test binary, so closing it stands for the
// binary's death.
func TestTheClusterEndsWithItsTestBinary(t *testing.T) {
	c, err := StartCluster(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.proc.pipe.Close(); err != nil {
		t.Fatal(err)
	}
	deadline, cancel := context.WithTimeout(t.Context(), stopTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(c.dir); errors.Is(err, fs.ErrNotExist) {
			break
		}
		select {
		case <-deadline.Done():
			t.Fatalf("folder %s is still there", c.dir)
		case <-tick.C:
		}
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
}

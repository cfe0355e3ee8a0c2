package crash

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// trouble holds a siege whose only fault is what do does while clients are at work, and
// judges it.
func trouble(t *testing.T, o Options, do func(ctx context.Context, s *Siege) error) {
	t.Helper()
	t.Parallel()
	ctx, begun := t.Context(), time.Now()
	o.Programs, o.Runners, o.Servers, o.Seed, o.Say = programs, 2, 1, 1, say(begun)
	s, err := NewSiege(ctx, o)
	if s != nil {
		t.Cleanup(func() { s.Close(*flagKeep || t.Failed()) })
	}
	if errors.Is(err, errPrivilege) {
		NotRun.Say(t.Name(), err.Error())
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	stop := s.Load(ctx)
	pause(ctx, 3*time.Second)
	err = do(ctx, s)
	pause(ctx, 2*time.Second)
	if err == nil {
		err = s.heal(ctx)
	}
	stop()
	if errors.Is(err, errPrivilege) {
		NotRun.Say(t.Name(), err.Error())
		return
	}
	if err == nil {
		err = s.Judge(ctx)
	}
	if err != nil {
		t.Error(err)
	}
	for _, finding := range s.Book.Findings() {
		t.Error(finding)
	}
	e := s.Entry(begun, "")
	t.Logf("%s\n  answers of no: %v", e.Summary(), s.Book.codes)
}

// A commit whose sync failed leaves open what the disk holds: the process must end, and
// its successor must hold everything that was acknowledged.
func TestAFailedSyncOfTheStoreEndsTheServer(t *testing.T) {
	trouble(t, Options{Store: SQLite}, func(ctx context.Context, s *Siege) error {
		v := s.servers[0]
		failing, err := inject(ctx, "fdatasync", "EIO", v.pid())
		if err != nil {
			return err
		}
		words, err := v.awaitEnd(endPatience)
		failing.stop()
		if err != nil {
			return err
		}
		if !strings.Contains(words, "the store can't be trusted any more") {
			t.Errorf("the server does not say why it ends:\n%s", words)
		}
		return v.start()
	})
}

// An object whose sync failed is not there: whoever wanted it stored hears of a failure,
// and everything goes on when the disk does.
func TestAFailedSyncOfAnObjectIsNoAcknowledgement(t *testing.T) {
	trouble(t, Options{Store: SQLite}, func(ctx context.Context, s *Siege) error {
		failing, err := inject(ctx, "fsync", "EIO", s.servers[0].pid())
		if err != nil {
			return err
		}
		pause(ctx, 4*time.Second)
		failing.stop()
		return nil
	})
}

// PostgreSQL ends itself when a sync of its own fails, and recovers. Whoever waited for a
// commit is not told of success.
func TestAFailedSyncOfPostgreSQLLosesNothing(t *testing.T) {
	trouble(t, Options{Store: PostgreSQL}, func(ctx context.Context, s *Siege) error {
		pids := append(childrenOf(s.database.pid()), s.database.pid())
		failing, err := inject(ctx, "fdatasync", "EIO", pids...)
		if err != nil {
			return err
		}
		pause(ctx, 3*time.Second)
		failing.stop()
		if !strings.Contains(s.database.tail(64<<10), "PANIC") {
			t.Error("PostgreSQL has not noticed that its syncs fail; the test proves nothing")
		}
		return s.database.await()
	})
}

// A full disk refuses, and loses nothing, also when the server is killed while it is full.
func TestAFullDiskOfTheServer(t *testing.T) {
	trouble(t, Options{Store: SQLite, ServerDisk: "48m"}, func(ctx context.Context, s *Siege) error {
		v := s.servers[0]
		release, err := fill(v.data)
		if err != nil {
			return err
		}
		for begun := time.Now(); s.Book.answers("storage_full") == 0; pause(ctx, 50*time.Millisecond) {
			if time.Since(begun) > startPatience {
				return errors.New("nobody was told that the disk is full")
			}
		}
		pause(ctx, 3*time.Second)
		v.end(syscall.SIGKILL, endPatience)
		if err := v.start(); err != nil { // it may or may not get ready on a full disk
			return err
		}
		pause(ctx, 3*time.Second)
		return release()
	})
}

// PostgreSQL on a full disk refuses or ends; the server waits for it and goes on.
func TestAFullDiskOfPostgreSQL(t *testing.T) {
	trouble(t, Options{Store: PostgreSQL, DatabaseDisk: "160m"}, func(ctx context.Context, s *Siege) error {
		release, err := fill(s.database.dir)
		if err != nil {
			return err
		}
		pause(ctx, 3*time.Second)
		s.database.kill() // it recovers on a full disk, or can't
		if err := s.database.start(); err != nil {
			return err
		}
		pause(ctx, 3*time.Second)
		if err := release(); err != nil {
			return err
		}
		if s.database.pid() == 0 {
			s.database.strangeEnds()
			if err := s.database.start(); err != nil {
				return err
			}
		}
		return s.database.await()
	})
}

// A sick disk answers slowly rather than never: the syncs of the store hang for longer
// than leases last.
func TestASyncThatHangs(t *testing.T) {
	trouble(t, Options{Store: SQLite}, func(ctx context.Context, s *Siege) error {
		slow, err := delay(ctx, "fdatasync", 1500*time.Millisecond, s.servers[0].pid())
		if err != nil {
			return err
		}
		pause(ctx, 3*leaseTTL)
		slow.stop()
		return nil
	})
}

func TestFillLeavesNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		NotRun.Say(t.Name(), "mounting a file system needs root")
		return
	}
	s := &Siege{Options: Options{Say: t.Logf}, folder: t.TempDir()}
	defer s.Close(true)
	if err := s.mount(s.folder, "2m"); err != nil {
		NotRun.Say(t.Name(), err.Error())
		return
	}
	release, err := fill(s.folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.folder+"/more", make([]byte, 4096), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a filled disk takes more: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.folder+"/more", make([]byte, 4096), 0o600); err != nil {
		t.Errorf("after release: %v", err)
	}
}

package file

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/blob/blobtest"
)

func open(t *testing.T, folder string) *Store {
	t.Helper()
	s, err := Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	folders := map[blob.Store]string{}
	blobtest.Run(t, blobtest.Harness{
		Open: func(t *testing.T) blob.Store {
			folder := t.TempDir()
			s := open(t, folder)
			folders[s] = folder
			return s
		},
		Reopen: func(t *testing.T, old blob.Store) blob.Store { return open(t, folders[old]) },
	})
}

func TestLeftoversOfACrashAreRemoved(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder)
	if err := s.Put(t.Context(), "kept", strings.NewReader("x"), 1); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		name := filepath.Join(folder, tempFolder, fmt.Sprint("half-", i))
		if err := os.WriteFile(name, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open(t, folder)
	left, err := os.ReadDir(filepath.Join(folder, tempFolder))
	if err != nil || len(left) != 0 {
		t.Errorf("left in tmp: %v, %v", left, err)
	}
	if _, err := s.Size(t.Context(), "kept"); err != nil {
		t.Error(err)
	}
}

// A symbolic link that somebody put into the folder must not lead a key out of it.
func TestALinkDoesNotLeadOut(t *testing.T) {
	folder, outside := t.TempDir(), t.TempDir()
	s := open(t, folder)
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(folder, objectsFolder, "out"+folderSuffix)); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Open(t.Context(), "out/secret", 0, -1); err == nil {
		content, _ := io.ReadAll(r)
		t.Errorf("read outside the folder: %q", content)
	}
	if err := s.Put(t.Context(), "out/new", strings.NewReader("x"), 1); err == nil {
		t.Error("wrote outside the folder")
	}
}

// Folders are held open; one that was removed, or another one in its place, is noticed.
func TestAFolderThatWasRemovedIsMadeAgain(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder)
	put := func(key string) {
		t.Helper()
		if err := s.Put(t.Context(), key, strings.NewReader("x"), 1); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Size(t.Context(), key); err != nil || n != 1 {
			t.Errorf("%s: %d, %v", key, n, err)
		}
	}
	put("a/b/one")
	if err := os.RemoveAll(filepath.Join(folder, objectsFolder, "a"+folderSuffix)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), "a/b/one", 0, -1); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("what was removed: %v", err)
	}
	put("a/b/two")
	if _, err := os.Stat(filepath.Join(folder, objectsFolder, "a"+folderSuffix, "b"+folderSuffix, "two")); err != nil {
		t.Error(err)
	}
}

// No more folders are held open than the bound, and none is left open at the end.
func TestFoldersThatAreHeldOpenAreBounded(t *testing.T) {
	descriptors := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatalf("counting descriptors needs /proc: %v", err)
		}
		return len(entries)
	}
	before := descriptors()
	s := open(t, t.TempDir())
	s.most = 16
	for i := range 3 * s.most {
		if err := s.Put(t.Context(), fmt.Sprintf("f%d/x", i), strings.NewReader("x"), 1); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.dirs) > s.most || len(s.recent) != len(s.dirs) {
		t.Errorf("%d folders are held, %d in order", len(s.dirs), len(s.recent))
	}
	if now := descriptors(); now > before+s.most+8 {
		t.Errorf("%d descriptors, %d before", now, before)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if now := descriptors(); now > before+2 {
		t.Errorf("%d descriptors are left, %d before", now, before)
	}
}

// small is a folder on a file system with room for little.
func small(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size=1m"); err != nil {
		// Mounting needs privileges. Without them a full disk is shown by the error of the
		// system alone, which goes through the same function.
		t.Logf("no tmpfs (%v): testing the translation of the error only", err)
		return ""
	}
	t.Cleanup(func() { _ = unix.Unmount(folder, unix.MNT_DETACH) })
	return folder
}

func TestAFullDiskLeavesNoResidue(t *testing.T) {
	folder := small(t)
	if folder == "" {
		if err := fault("put", "k", &os.PathError{Err: unix.ENOSPC}); !errors.Is(err, blob.ErrFull) {
			t.Errorf("ENOSPC is %v", err)
		}
		return
	}
	s := open(t, folder)
	if err := s.Put(t.Context(), "a/first", strings.NewReader(strings.Repeat("x", 500<<10)), -1); err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("y", 700<<10)
	if err := s.Put(t.Context(), "a/second", strings.NewReader(big), -1); !errors.Is(err, blob.ErrFull) {
		t.Fatalf("put on a full disk: %v, want ErrFull", err)
	}
	if _, err := s.Size(t.Context(), "a/second"); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("the failed object is there: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(folder, tempFolder)); err != nil || len(left) != 0 {
		t.Errorf("residue: %v, %v", left, err)
	}
	if err := s.Delete(t.Context(), "a/first"); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "a/second", strings.NewReader(big), int64(len(big))); err != nil {
		t.Errorf("put after space returned: %v", err)
	}
}

func FuzzValidKey(f *testing.F) {
	for _, key := range blobtest.HostileKeys() {
		f.Add(key)
	}
	f.Add("a/b.c/d_e-f")
	f.Fuzz(func(t *testing.T, key string) {
		if blob.ValidKey(key) != nil {
			return
		}
		if clean := filepath.Clean("/" + key); clean != "/"+key || !filepath.IsLocal(key) {
			t.Errorf("%q is accepted, but means %q", key, clean)
		}
	})
}

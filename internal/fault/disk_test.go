package fault_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/blob/file"
	blobmemory "github.com/fairlead-ci/fairlead/internal/blob/memory"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
	"github.com/fairlead-ci/fairlead/internal/store/sqlite"
)

// disk is what outlives a server.
type disk interface {
	// open gives what is stored to a server that starts.
	open(ctx context.Context) (store.Store, blob.Store, error)
	// crash makes the disk what a crash at this moment leaves, while a server still uses it.
	// Whatever that one does afterwards is not on the disk.
	crash()
	// close lets go of what open gave to the last server.
	close() error
}

// inMemory is a disk of the memory adapters.
type inMemory struct {
	store *memory.Store
	blobs *blobmemory.Store
}

func newInMemory(testing.TB) disk { return &inMemory{memory.New(), blobmemory.New()} }

func (d *inMemory) open(context.Context) (store.Store, blob.Store, error) {
	return d.store, d.blobs, nil
}

func (d *inMemory) crash() { d.store, d.blobs = d.store.Clone(), d.blobs.Clone() }

func (d *inMemory) close() error { return nil }

// inFiles is a folder with SQLite and synced files.
type inFiles struct {
	dir    string
	opened store.Store
}

// newInFiles makes a folder in memory where the machine has such a file system: what is
// synced is not what is tested here.
func newInFiles(t testing.TB) disk {
	root := "/dev/shm"
	if stat, err := os.Stat(root); err != nil || !stat.IsDir() {
		root = ""
	}
	dir, err := os.MkdirTemp(root, "fairlead-fault-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &inFiles{dir: dir}
}

func (d *inFiles) open(ctx context.Context) (store.Store, blob.Store, error) {
	s, err := sqlite.Open(ctx, d.dir, sqlite.Options{})
	if err != nil {
		return nil, nil, err
	}
	blobs, err := file.Open(filepath.Join(d.dir, "objects"))
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	d.opened = s
	return s, blobs, nil
}

// crash does nothing: a folder can't be taken from a process that uses it. The server is
// stopped without being told of anything, which is what real crashes are tested for elsewhere.
func (d *inFiles) crash() {}

func (d *inFiles) close() error {
	if d.opened == nil {
		return nil
	}
	s := d.opened
	d.opened = nil
	return s.Close()
}

// Package file keeps objects as files in one folder: the embedded default.
//
// It is deliberately not a cache and not a database: one object is one file, so an operator
// can look at the folder with ordinary tools, and a backup is a copy. It takes no lock; the
// owner of the data folder does (one server per folder).
//
// Invariants: an object appears under its name only when its bytes are on the disk (a file
// in "tmp", fsync, link, fsync of the folder); link never replaces, so a key is created once,
// whoever races; what a crash left half-written sits in "tmp" and is removed at Open; no key
// leaves the folder, because every folder is opened through an os.Root, and no object is a link.
//
// Read next: internal/blob/file/put.go
package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/fairlead-ci/fairlead/internal/blob"
)

const (
	objectsFolder = "objects"
	tempFolder    = "tmp"
	// folderSuffix tells a folder from an object, so that the keys "a" and "a/b" can both
	// exist. No key may contain it (blob.ValidKey).
	folderSuffix = "+"
)

// Store is a folder of objects. It implements blob.Store.
type Store struct {
	root   *os.Root
	temp   atomic.Uint64
	drafts string // the folder of what is being written

	mu      sync.Mutex
	folders map[string]bool // folders known to be on the disk
	dirs    map[string]*dir // folders that are held open
	recent  []string        // their names, in the order in which they were opened
	most    int             // so many at a time
}

// Open opens the folder, makes it if need be, and removes what a crash left half-written.
// Preconditions: no other process has the folder open.
func Open(folder string) (*Store, error) { return openIn(folder, tempFolder) }

// OpenShared opens a folder that several servers use at once, each under a name of its own
// among them. What this name left half-written is removed; what others write is left alone.
// The file system must show every server at once what another one has synced.
func OpenShared(folder, name string) (*Store, error) {
	if err := blob.ValidKey(name); err != nil || strings.Contains(name, "/") {
		return nil, fmt.Errorf("open object folder: the name %q can't be part of a path", name)
	}
	return openIn(folder, tempFolder+"-"+name)
}

func openIn(folder, drafts string) (*Store, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make object folder: %w", err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("open object folder: %w", err)
	}
	s := &Store{root: root, drafts: drafts, folders: map[string]bool{}, dirs: map[string]*dir{}, most: dirsMax}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return s, nil
}

func (s *Store) prepare() error {
	if err := s.root.RemoveAll(s.drafts); err != nil {
		return fmt.Errorf("remove half-written objects: %w", err)
	}
	for _, name := range []string{s.drafts, objectsFolder} {
		if err := s.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make object folder %s: %w", name, err)
		}
	}
	return s.syncFolder(".")
}

// Close lets go of the folder. Readers that are open stay usable.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for folder, d := range s.dirs {
		s.letGo(folder, d)
	}
	return s.root.Close()
}

// path is the file of a valid key.
func path(key string) string {
	return objectsFolder + "/" + strings.ReplaceAll(key, "/", folderSuffix+"/")
}

// Open implements blob.Store.
func (s *Store) Open(_ context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := blob.ValidKey(key); err != nil {
		return nil, err
	}
	if offset < 0 || length < -1 {
		return nil, fmt.Errorf("open object %s: range %d+%d is negative", key, offset, length)
	}
	f, err := s.openObject(path(key))
	if err != nil {
		return nil, fault("open", key, err)
	}
	if length < 0 {
		info, err := f.Stat()
		if err != nil {
			return nil, errors.Join(fault("open", key, err), f.Close())
		}
		length = max(info.Size()-offset, 0)
	}
	return &reader{SectionReader: io.NewSectionReader(f, offset, length), file: f}, nil
}

type reader struct {
	*io.SectionReader
	file *os.File
}

func (r *reader) Close() error { return r.file.Close() }

// Size implements blob.Store.
func (s *Store) Size(_ context.Context, key string) (int64, error) {
	if err := blob.ValidKey(key); err != nil {
		return 0, err
	}
	size, err := s.sizeOf(path(key))
	if err != nil {
		return 0, fault("size", key, err)
	}
	return size, nil
}

// Delete implements blob.Store. Folders stay: they are reused.
func (s *Store) Delete(_ context.Context, key string) error {
	if err := blob.ValidKey(key); err != nil {
		return err
	}
	if err := s.remove(path(key)); err != nil && !missing(err) {
		return fault("delete", key, err)
	}
	return nil
}

// List implements blob.Store.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]blob.Entry, error) {
	if err := blob.ValidPrefix(prefix); err != nil {
		return nil, err
	}
	w := walk{store: s, prefix: prefix, after: after, limit: limit}
	if err := w.folder(ctx, objectsFolder, ""); err != nil {
		return nil, fmt.Errorf("list objects %s: %w", prefix, err)
	}
	return w.found, nil
}

// walk visits folders in key order and prunes those that cannot hold what is asked for.
type walk struct {
	store         *Store
	prefix, after string
	limit         int
	found         []blob.Entry
}

func (w *walk) folder(ctx context.Context, folder, keyPrefix string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	names, err := w.names(folder, keyPrefix)
	if err != nil {
		return err
	}
	for _, key := range names {
		if len(w.found) >= w.limit {
			return nil
		}
		if strings.HasSuffix(key, "/") {
			below := folder + "/" + strings.TrimSuffix(key[len(keyPrefix):], "/") + folderSuffix
			if err := w.folder(ctx, below, key); err != nil {
				return err
			}
			continue
		}
		info, err := w.store.root.Stat(path(key))
		if missing(err) {
			continue // deleted meanwhile
		}
		if err != nil {
			return err
		}
		w.found = append(w.found, blob.Entry{Key: key, Size: info.Size()})
	}
	return nil
}

// names gives the keys of a folder that are wanted, sorted as keys sort: a folder counts
// as its name with a slash.
func (w *walk) names(folder, keyPrefix string) ([]string, error) {
	f, err := w.store.root.Open(folder)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		key := keyPrefix + e.Name()
		if e.IsDir() {
			name, ok := strings.CutSuffix(key, folderSuffix)
			if !ok {
				continue // not ours
			}
			key = name + "/"
			inside := strings.HasPrefix(key, w.prefix) || strings.HasPrefix(w.prefix, key)
			passed := key < w.after && !strings.HasPrefix(w.after, key)
			if inside && !passed {
				names = append(names, key)
			}
			continue
		}
		if strings.HasPrefix(key, w.prefix) && key > w.after && blob.ValidKey(key) == nil {
			names = append(names, key)
		}
	}
	slices.SortFunc(names, cmp.Compare[string])
	return names, nil
}

func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// fault names the operation and turns the system's words into the port's.
func fault(verb, key string, err error) error {
	switch {
	case missing(err):
		return fmt.Errorf("%s object %s: %w", verb, key, blob.ErrNotFound)
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s object %s: %w", verb, key, blob.ErrExists)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%s object %s: %w (%w)", verb, key, blob.ErrFull, err)
	}
	return fmt.Errorf("%s object %s: %w", verb, key, err)
}

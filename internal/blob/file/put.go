package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"sync"

	"github.com/fairlead-ci/fairlead/internal/blob"
)

// copyBytes is the size of one write of an object that streams in.
const copyBytes = 256 << 10

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, copyBytes); return &b }}

// Put implements blob.Store. Two syncs make an object: its bytes before it gets its name,
// the folder afterwards. Whatever fails on the way, nothing is left under the name.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	if err := blob.ValidKey(key); err != nil {
		return err
	}
	target := path(key)
	// A taken key costs a look, not a whole write. Link below is what decides.
	if _, err := s.sizeOf(target); err == nil {
		return fmt.Errorf("put object %s: %w", key, blob.ErrExists)
	}
	d, err := s.draft()
	if err == nil {
		err = d.write(ctx, r, size)
		if err == nil {
			err = s.publish(d, target)
		}
		err = errors.Join(err, s.discard(d))
	}
	if err != nil {
		return fault("put", key, err)
	}
	return nil
}

// draft is an object that is being written. Where the file system can, it has no name before
// it is whole: a crash leaves nothing of it, and one folder changes once instead of two folders
// three times.
type draft struct {
	*os.File
	path string // empty: it has no name
}

// errNamed: the file system can't make files without a name.
var errNamed = errors.New("files need a name here")

func (s *Store) draft() (d draft, err error) {
	if !s.named.Load() {
		drafts, done, err := s.dir(s.drafts)
		if err != nil {
			return d, err
		}
		d.File, err = nameless(int(drafts.Fd()))
		done()
		if !errors.Is(err, errNamed) {
			return d, err
		}
		s.named.Store(true)
	}
	d.path = s.drafts + "/" + strconv.FormatUint(s.temp.Add(1), 36)
	d.File, err = s.create(d.path)
	return d, err
}

// discard lets go of a draft; what has got a name keeps it.
func (s *Store) discard(d draft) error {
	err := d.Close()
	if d.path == "" {
		return err
	}
	if e := s.remove(d.path); e != nil && !missing(e) {
		err = errors.Join(err, e)
	}
	return err
}

func (d draft) write(ctx context.Context, r io.Reader, size int64) error {
	buffer := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buffer)
	n, err := io.CopyBuffer(&sink{ctx: ctx, file: d.File}, r, *buffer)
	if err != nil {
		return err
	}
	if size >= 0 && n != size {
		return fmt.Errorf("got %d bytes, want %d: %w", n, size, io.ErrUnexpectedEOF)
	}
	return d.Sync()
}

// sink writes until the context ends. It hides ReadFrom, so that CopyBuffer uses the
// reader's WriteTo or our buffer.
type sink struct {
	ctx  context.Context
	file *os.File
}

func (s *sink) Write(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.file.Write(p)
}

// publish gives a written file its name, durably.
func (s *Store) publish(d draft, target string) error {
	folder, _ := split(target)
	err := s.makeFolder(folder)
	if err == nil {
		err = s.link(d, target)
	}
	if missing(err) { // somebody removed folders that were there
		s.mu.Lock()
		clear(s.folders)
		s.mu.Unlock()
		if err = s.makeFolder(folder); err == nil {
			err = s.link(d, target)
		}
	}
	return err
}

// makeFolder makes a folder and its parents, each durable in its own parent before use.
func (s *Store) makeFolder(folder string) error {
	s.mu.Lock()
	known := s.folders[folder]
	s.mu.Unlock()
	if known || folder == objectsFolder {
		return nil
	}
	parent, _ := split(folder)
	if err := s.makeFolder(parent); err != nil {
		return err
	}
	if err := s.root.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Also when it was there: whoever made it may not have synced it yet.
	if err := s.syncFolder(parent); err != nil {
		return err
	}
	s.mu.Lock()
	s.folders[folder] = true
	s.mu.Unlock()
	return nil
}

func (s *Store) syncFolder(folder string) error {
	f, err := s.root.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

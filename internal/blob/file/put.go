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
	temp := s.drafts + "/" + strconv.FormatUint(s.temp.Add(1), 36)
	err := s.write(ctx, temp, r, size)
	if err == nil {
		err = s.publish(temp, target)
	}
	if e := s.remove(temp); e != nil && !missing(e) {
		err = errors.Join(err, e)
	}
	if err != nil {
		return fault("put", key, err)
	}
	return nil
}

func (s *Store) write(ctx context.Context, temp string, r io.Reader, size int64) (err error) {
	f, err := s.create(temp)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	buffer := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buffer)
	n, err := io.CopyBuffer(&sink{ctx: ctx, file: f}, r, *buffer)
	if err != nil {
		return err
	}
	if size >= 0 && n != size {
		return fmt.Errorf("got %d bytes, want %d: %w", n, size, io.ErrUnexpectedEOF)
	}
	return f.Sync()
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
func (s *Store) publish(temp, target string) error {
	folder, _ := split(target)
	err := s.makeFolder(folder)
	if err == nil {
		err = s.link(temp, target)
	}
	if missing(err) { // somebody removed folders that were there
		s.mu.Lock()
		clear(s.folders)
		s.mu.Unlock()
		if err = s.makeFolder(folder); err == nil {
			err = s.link(temp, target)
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

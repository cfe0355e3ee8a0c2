// Package memory keeps objects in memory, for tests and simulation.
//
// It is deliberately not a cache in front of another store, and it is never the store of a
// server that people use: it forgets everything at exit.
//
// Invariants: the same contract as every adapter (blobtest proves it); the hook sees every
// call before it acts and after it acted, so a test can make it fail, make it act and lose
// the reply, or make it wait; Clone is the store as a crash at this moment would leave it.
//
// Read next: internal/blob/blobtest
package memory

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/fairlead-ci/fairlead/internal/blob"
)

// Call is one call of a method of the store, as its hook sees it.
type Call struct {
	Method string // "Put", "Open", "Size", "List" or "Delete"
	Key    string // or the prefix of a List
	After  bool   // the call has acted; an error now is a lost reply
}

// Store holds objects in memory. It implements blob.Store. The zero value is not usable.
type Store struct {
	mu       sync.Mutex
	objects  map[string][]byte
	used     int64
	capacity int64
	hook     func(context.Context, Call) error
}

// New makes an empty store without limit.
func New() *Store { return &Store{objects: map[string][]byte{}, capacity: -1} }

// SetHook installs the one seam at which faults come in; nil removes it. The hook runs
// without a lock held, so it may wait or call the store.
func (s *Store) SetHook(hook func(context.Context, Call) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// SetCapacity limits the bytes of all objects; -1 is no limit. What is beyond it stays.
func (s *Store) SetCapacity(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capacity = bytes
}

// Clone is an independent copy of what is durable now, without the hook.
func (s *Store) Clone() *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Store{objects: maps.Clone(s.objects), used: s.used, capacity: s.capacity}
}

// Corrupt changes a stored object in place, which no method of the port can do.
// It reports whether the object exists.
func (s *Store) Corrupt(key string, change func([]byte) []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.objects[key]
	if ok {
		changed := change(bytes.Clone(old))
		s.used += int64(len(changed) - len(old))
		s.objects[key] = changed
	}
	return ok
}

func (s *Store) call(ctx context.Context, c Call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	hook := s.hook
	s.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(ctx, c)
}

// Put implements blob.Store.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	if err := blob.ValidKey(key); err != nil {
		return err
	}
	if err := s.call(ctx, Call{Method: "Put", Key: key}); err != nil {
		return fmt.Errorf("put object %s: %w", key, err)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("put object %s: %w", key, err)
	}
	if size >= 0 && int64(len(content)) != size {
		return fmt.Errorf("put object %s: got %d bytes, want %d: %w", key, len(content), size, io.ErrUnexpectedEOF)
	}
	if err := s.store(key, content); err != nil {
		return fmt.Errorf("put object %s: %w", key, err)
	}
	if err := s.call(ctx, Call{Method: "Put", Key: key, After: true}); err != nil {
		return fmt.Errorf("put object %s: %w", key, err)
	}
	return nil
}

func (s *Store) store(key string, content []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.objects[key]; ok {
		return blob.ErrExists
	}
	if s.capacity >= 0 && s.used+int64(len(content)) > s.capacity {
		return blob.ErrFull
	}
	s.objects[key] = content
	s.used += int64(len(content))
	return nil
}

func (s *Store) object(key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, ok := s.objects[key]
	if !ok {
		return nil, blob.ErrNotFound
	}
	return content, nil
}

// Open implements blob.Store.
func (s *Store) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := blob.ValidKey(key); err != nil {
		return nil, err
	}
	if offset < 0 || length < -1 {
		return nil, fmt.Errorf("open object %s: range %d+%d is negative", key, offset, length)
	}
	if err := s.call(ctx, Call{Method: "Open", Key: key}); err != nil {
		return nil, fmt.Errorf("open object %s: %w", key, err)
	}
	content, err := s.object(key)
	if err != nil {
		return nil, fmt.Errorf("open object %s: %w", key, err)
	}
	content = content[min(offset, int64(len(content))):]
	if length >= 0 {
		content = content[:min(length, int64(len(content)))]
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// Size implements blob.Store.
func (s *Store) Size(ctx context.Context, key string) (int64, error) {
	if err := blob.ValidKey(key); err != nil {
		return 0, err
	}
	if err := s.call(ctx, Call{Method: "Size", Key: key}); err != nil {
		return 0, fmt.Errorf("size object %s: %w", key, err)
	}
	content, err := s.object(key)
	if err != nil {
		return 0, fmt.Errorf("size object %s: %w", key, err)
	}
	return int64(len(content)), nil
}

// List implements blob.Store.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]blob.Entry, error) {
	if err := blob.ValidPrefix(prefix); err != nil {
		return nil, err
	}
	if err := s.call(ctx, Call{Method: "List", Key: prefix}); err != nil {
		return nil, fmt.Errorf("list objects %s: %w", prefix, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []blob.Entry
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if len(found) < limit && strings.HasPrefix(key, prefix) && key > after {
			found = append(found, blob.Entry{Key: key, Size: int64(len(s.objects[key]))})
		}
	}
	return found, nil
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := blob.ValidKey(key); err != nil {
		return err
	}
	if err := s.call(ctx, Call{Method: "Delete", Key: key}); err != nil {
		return fmt.Errorf("delete object %s: %w", key, err)
	}
	s.mu.Lock()
	s.used -= int64(len(s.objects[key]))
	delete(s.objects, key)
	s.mu.Unlock()
	if err := s.call(ctx, Call{Method: "Delete", Key: key, After: true}); err != nil {
		return fmt.Errorf("delete object %s: %w", key, err)
	}
	return nil
}

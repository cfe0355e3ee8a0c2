package git

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// keyedLocks is one lock per key that can be waited for with a context. Git's own lock
// files fail at once instead of waiting, so calls that would meet are queued here.
type keyedLocks struct {
	mu   sync.Mutex
	held map[string]*keyedLock
}

type keyedLock struct {
	token chan struct{} // holds one token while the lock is free
	users int           // holders and waiters; guarded by keyedLocks.mu
}

// lock waits for the key's lock or for ctx.
func (k *keyedLocks) lock(ctx context.Context, key string) (unlock func(), err error) {
	k.mu.Lock()
	if k.held == nil {
		k.held = make(map[string]*keyedLock)
	}
	l := k.held[key]
	if l == nil {
		l = &keyedLock{token: make(chan struct{}, 1)}
		l.token <- struct{}{}
		k.held[key] = l
	}
	l.users++
	k.mu.Unlock()
	leave := func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(k.held, key)
		}
	}
	select {
	case <-l.token:
		return func() { l.token <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, fmt.Errorf("wait for mirror: %w", ctx.Err())
	}
}

// sweepQuarantine removes the folders of half-received objects that a killed process
// left. Those of transfers that still run are younger than any transfer may last.
func sweepQuarantine(dir string) error {
	entries, err := os.ReadDir(filepath.Join(dir, "objects"))
	if err != nil {
		return fmt.Errorf("sweep quarantine: %w", err)
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), "tmp_objdir-") {
			continue
		}
		if at, err := entry.Info(); err != nil || time.Since(at.ModTime()) < 2*transferTimeout {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, "objects", entry.Name())); err != nil {
			return fmt.Errorf("sweep quarantine: %w", err)
		}
	}
	return nil
}

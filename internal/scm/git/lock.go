package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// keyedLocks is one lock per key that can be waited for with a context. Git's own lock
// files fail at once instead of waiting, so calls that would meet are queued here.
type keyedLocks struct {
	// shared: other processes work in the folder too. Then a key is a mirror's path, with a
	// ref after a zero byte, and a lock of a file beside the mirror is taken as well.
	shared bool

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
	case <-ctx.Done():
		leave()
		return nil, fmt.Errorf("wait for mirror: %w", ctx.Err())
	}
	release := func() { l.token <- struct{}{}; leave() }
	if !k.shared {
		return release, nil
	}
	file, err := lockFile(ctx, key)
	if err != nil {
		release()
		return nil, err
	}
	return func() { _ = file.Close(); release() }, nil // closing lets go of the lock
}

// lockEvery is how often a lock that another process has is asked for again.
const lockEvery = 20 * time.Millisecond

// lockFile takes the lock that other processes respect: of the mirror, or of its pins,
// which are short and must not wait for a fetch.
func lockFile(ctx context.Context, key string) (*os.File, error) {
	dir, _, pin := strings.Cut(key, "\x00")
	name := dir + ".lock"
	if pin {
		name = dir + ".pins.lock"
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, fmt.Errorf("lock mirror: %w", err)
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock mirror: %w", err)
	}
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock mirror: %w", err), file.Close())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for mirror: %w", ctx.Err()), file.Close())
		}
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

package git

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// keyedLocks is one lock per key that can be waited for with a context. Git's own lock
// files fail at once instead of waiting, so calls that would meet are queued here.
type keyedLocks struct {
	// shared: other processes work in the folder too. Then a lock of a file beside the mirror
	// is taken as well: one file for the mirror, one for its pins, some for its pushes.
	shared bool

	mu   sync.Mutex
	held map[lockKey]*keyedLock
}

// lockKey is what is locked: a mirror as a whole, its pins, or a ref that is pushed to.
// No two keys have the same file, so that who holds one key and waits for another one never
// waits for itself.
type lockKey struct {
	dir  string // of the mirror
	part string // of it; "" for the whole
}

const (
	partPin  = "pins"   // followed by a slash and a ref, unless the folder is shared
	partPush = "pushes" // followed by a slash and a ref, or a stripe if the folder is shared
)

// file is the lock file of the key, for processes that share the folder.
func (k lockKey) file() string {
	if k.part == "" {
		return k.dir + ".lock"
	}
	return k.dir + "." + k.part + ".lock"
}

// pinKey is the key of a pin. In a shared folder all pins of a mirror have one: they are short.
func (k *keyedLocks) pinKey(dir, ref string) lockKey {
	if k.shared {
		return lockKey{dir, partPin}
	}
	return lockKey{dir, partPin + "/" + ref}
}

// pushKeys are the keys of the refs that a push is about, in the one order in which all
// pushes take them, and each once. Pins are not among them: a push lasts as long as its
// client takes, and a pin must not wait for it.
//
// In a shared folder a key needs a file, and a file that is removed while others open it
// locks nothing. So there are stripesMax files, which stay, and refs share them by their
// hash: pushes of other refs may wait for each other, but no push waits for itself.
func (k *keyedLocks) pushKeys(dir string, refs []string) []lockKey {
	parts := make([]string, len(refs))
	for i, ref := range refs {
		parts[i] = partPush + "/" + ref
		if k.shared {
			sum := sha256.Sum256([]byte(ref))
			parts[i] = fmt.Sprintf("%s/%02x", partPush, sum[0]%stripesMax)
		}
	}
	slices.Sort(parts)
	var keys []lockKey
	for _, part := range slices.Compact(parts) {
		keys = append(keys, lockKey{dir, part})
	}
	return keys
}

type keyedLock struct {
	token chan struct{} // holds one token while the lock is free
	users int           // holders and waiters; guarded by keyedLocks.mu
}

// lock waits for the key's lock or for ctx.
func (k *keyedLocks) lock(ctx context.Context, key lockKey) (unlock func(), err error) {
	k.mu.Lock()
	if k.held == nil {
		k.held = make(map[lockKey]*keyedLock)
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
	file, err := lockFile(ctx, key.file())
	if err != nil {
		release()
		return nil, err
	}
	return func() { _ = file.Close(); release() }, nil // closing lets go of the lock
}

// lockPush takes the locks of all refs of a push. All pushes take them in one order, so two
// can't wait for each other.
func (k *keyedLocks) lockPush(ctx context.Context, dir string, refs []string) (unlock func(), err error) {
	var held []func()
	unlock = func() {
		for _, free := range slices.Backward(held) {
			free()
		}
	}
	for _, key := range k.pushKeys(dir, refs) {
		free, err := k.lock(ctx, key)
		if err != nil {
			unlock()
			return nil, err
		}
		held = append(held, free)
	}
	return unlock, nil
}

// lockEvery is how often a lock that another process has is asked for again.
const lockEvery = 20 * time.Millisecond

// lockFile takes the lock of a file that other processes respect.
func lockFile(ctx context.Context, name string) (*os.File, error) {
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

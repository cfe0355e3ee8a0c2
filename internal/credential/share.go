package credential

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Servers of a fleet have their credentials in one folder. Whoever changes a file there
// takes this lock, reads the file again and writes it; whoever only reads looks now and then
// whether it has changed.

const (
	lockName  = "lock"
	lockEvery = 5 * time.Millisecond
	lockWait  = 10 * time.Second
	// lookEvery is how often a file that another server may have changed is looked at.
	lookEvery = time.Second
)

// Lock waits for the lock of a shared folder. Opening credentials under it makes sure that
// servers that start together make each of them once.
func Lock(ctx context.Context, sharedFolder string) (unlock func(), err error) {
	folder := filepath.Join(sharedFolder, folderCredentials)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("lock credentials: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(folder, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock credentials: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil // closing lets go of it
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock credentials: %w", err), file.Close())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock credentials: %w", ctx.Err()), file.Close())
		}
	}
}

// Share says that other servers work with the same folder: sign-in codes and sessions of
// one are good at all of them. Call it before the gate is used.
func (g *Gate) Share() error { return g.Sessions.share() }

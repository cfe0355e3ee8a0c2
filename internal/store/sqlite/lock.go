package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// LockFile is the name of the file whose lock means "this folder has a server".
const LockFile = "fairlead.lock"

// ErrInUse: another process has the data folder open.
var ErrInUse = errors.New("the data folder is in use")

// folderLock holds the data folder. The kernel gives it back when the process ends,
// however it ends, so a crash leaves nothing to clean up; the file itself stays.
type folderLock struct{ file *os.File }

func lockFolder(dir string) (*folderLock, error) {
	file, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder := readHolder(file)
		_ = file.Close()
		return nil, fmt.Errorf("%w by %s: stop it, or choose another folder", ErrInUse, holder)
	}
	if err == nil {
		err = writeHolder(file)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	return &folderLock{file}, nil
}

// writeHolder leaves the process id for the message of whoever comes second. A full disk
// must not keep a server from starting, so then the file stays empty.
func writeHolder(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	if errors.Is(err, syscall.ENOSPC) {
		return nil
	}
	return err
}

func readHolder(file *os.File) string {
	content, err := io.ReadAll(io.LimitReader(file, 32))
	pid := strings.TrimSpace(string(content))
	if err != nil || pid == "" {
		return "another process"
	}
	return "process " + pid
}

func (l *folderLock) release() error { return l.file.Close() }

// syncFolder makes the names of new files durable.
func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

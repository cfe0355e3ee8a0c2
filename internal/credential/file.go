package credential

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Folders below the server's data folder.
const (
	folderCredentials = "credentials"
	folderKeys        = "keys"
)

// fileBytesMax bounds every file of this package; none comes near it.
const fileBytesMax = 4 << 20

// writeSecret replaces path by content, durably and readable by its owner only. A crash
// leaves the old file or the new one.
func writeSecret(path string, content []byte) (err error) {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("write secret %s: %w", path, err)
	}
	file, err := os.CreateTemp(folder, ".new-*") // made 0600
	if err != nil {
		return fmt.Errorf("write secret %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
			err = fmt.Errorf("write secret %s: %w", path, err)
		}
	}()
	_, err = file.Write(content)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err == nil {
		err = syncFolder(folder)
	}
	return err
}

func syncFolder(folder string) error {
	dir, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// readSecret reads a file that writeSecret wrote. It refuses one that others can read:
// its secret has to be taken for known.
func readSecret(path string) ([]byte, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := stat.Mode(); !mode.IsRegular() || mode.Perm()&0o077 != 0 {
		return nil, fmt.Errorf("read secret %s: mode %v lets others read it; "+
			"replace the secret, or run chmod 600 if you know that nobody did", path, mode)
	}
	if stat.Size() > fileBytesMax {
		return nil, fmt.Errorf("read secret %s: %d bytes, limit %d", path, stat.Size(), fileBytesMax)
	}
	return os.ReadFile(path)
}

// absent reports whether err says that a file isn't there.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) }

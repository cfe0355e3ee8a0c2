//go:build !linux

package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// syncAll makes every file and folder below a folder durable, one after another.
func syncAll(folder string) error {
	return filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

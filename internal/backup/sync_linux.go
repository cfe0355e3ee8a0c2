package backup

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncAll makes everything on the folder's file system durable with one call: a sync per
// file would cost more than the copying.
func syncAll(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}

package file

import (
	"errors"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// nameless makes a file without a name in the file system of a folder. errNamed means that
// this one can't.
func nameless(fd int) (f *os.File, err error) {
	err = whole(func() error {
		n, err := unix.Openat(fd, ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if err == nil {
			f = os.NewFile(uintptr(n), "draft")
		}
		return err
	})
	for _, cannot := range []error{unix.EOPNOTSUPP, unix.EISDIR, unix.EINVAL, unix.ENOENT} {
		if errors.Is(err, cannot) {
			return nil, errNamed
		}
	}
	return f, err
}

// linkNameless gives such a file its first name.
func linkNameless(f *os.File, fd int, name string) error {
	from := "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))
	return whole(func() error { return unix.Linkat(unix.AT_FDCWD, from, fd, name, unix.AT_SYMLINK_FOLLOW) })
}

// namelessOn are the file systems on which a name that a synced file without one gets, and
// whose folder is synced, is known to survive a crash together with the bytes: they commit
// both in one transaction of their journal. On others files have names all the time.
var namelessOn = []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.TMPFS_MAGIC}

// canNameless reports whether files without a name are possible in a folder; the system must
// show descriptors as files, which linking needs.
func canNameless(folder *os.File) bool {
	var fs unix.Statfs_t
	if err := whole(func() error { return unix.Fstatfs(int(folder.Fd()), &fs) }); err != nil {
		return false
	}
	_, err := os.Stat("/proc/self/fd")
	return err == nil && slices.Contains(namelessOn, int64(fs.Type))
}

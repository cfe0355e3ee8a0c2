package file

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// dirsMax bounds the folders that are held open, since each costs a descriptor.
	dirsMax = 512
	// dirAge is how long a folder that is held is used. An operator who puts another folder in its
	// place is noticed after that.
	dirAge = 10 * time.Second
)

// dir is a folder that is held open: what happens in it costs one call of the system, and not
// one for every part of its path. It was opened by way of the root, and the names in it are
// parts of valid keys, so nothing here leaves the root.
type dir struct {
	*os.File
	opened time.Time
	// uses and gone belong to the store's mutex.
	uses int
	gone bool // let go of with its last use
}

// dir gives a folder to work in. The caller calls done.
func (s *Store) dir(folder string) (d *dir, done func(), err error) {
	if d := s.held(folder); d != nil {
		return d, func() { s.leave(d) }, nil
	}
	f, err := s.root.Open(folder) // which may take its time on storage elsewhere
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d = s.dirs[folder]; d != nil { // somebody was quicker
		_ = f.Close()
	} else {
		d = &dir{File: f, opened: time.Now()}
		for len(s.dirs) >= s.most {
			s.letGo(s.recent[0], s.dirs[s.recent[0]])
		}
		s.dirs[folder], s.recent = d, append(s.recent, folder)
	}
	d.uses++
	return d, func() { s.leave(d) }, nil
}

// held begins a use of a folder that is held, nil when it is not, or for too long.
func (s *Store) held(folder string) *dir {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.dirs[folder]
	if d != nil && time.Since(d.opened) > dirAge {
		s.letGo(folder, d)
		return nil
	}
	if d != nil {
		d.uses++
	}
	return d
}

// leave ends a use.
func (s *Store) leave(d *dir) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.uses--; d.uses == 0 && d.gone {
		_ = d.Close()
	}
}

// letGo forgets a folder. mu is held.
func (s *Store) letGo(folder string, d *dir) {
	delete(s.dirs, folder)
	for i, name := range s.recent {
		if name == folder {
			s.recent = append(s.recent[:i], s.recent[i+1:]...)
			break
		}
	}
	if d.gone = true; d.uses == 0 {
		_ = d.Close()
	}
}

// split takes the path of an object apart.
func split(target string) (folder, name string) {
	i := strings.LastIndexByte(target, '/')
	return target[:i], target[i+1:]
}

// in does something with a name in its folder. A folder that was removed while it was held
// is opened anew.
func (s *Store) in(target string, work func(fd int, name string) error) error {
	folder, name := split(target)
	for again := true; ; again = false {
		d, done, err := s.dir(folder)
		if err != nil {
			return err
		}
		err = work(int(d.Fd()), name)
		var now unix.Stat_t
		removed := again && (errors.Is(err, unix.ESTALE) || // on another machine
			errors.Is(err, fs.ErrNotExist) && unix.Fstat(int(d.Fd()), &now) == nil && now.Nlink == 0)
		if removed {
			s.mu.Lock()
			if s.dirs[folder] == d {
				s.letGo(folder, d)
			}
			delete(s.folders, folder)
			s.mu.Unlock()
		}
		done()
		if !removed {
			return err
		}
	}
}

// openObject opens a file for reading.
func (s *Store) openObject(target string) (f *os.File, err error) {
	err = s.in(target, func(fd int, name string) error {
		return whole(func() error {
			n, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			if err == nil {
				f = os.NewFile(uintptr(n), name)
			}
			return err
		})
	})
	return f, err
}

// sizeOf is the size of a file.
func (s *Store) sizeOf(target string) (size int64, err error) {
	err = s.in(target, func(fd int, name string) error {
		var info unix.Stat_t
		err := whole(func() error { return unix.Fstatat(fd, name, &info, unix.AT_SYMLINK_NOFOLLOW) })
		if err == nil && info.Mode&unix.S_IFMT != unix.S_IFREG {
			return unix.ELOOP
		}
		size = info.Size
		return err
	})
	return size, err
}

// remove removes a file.
func (s *Store) remove(target string) error {
	return s.in(target, func(fd int, name string) error {
		return whole(func() error { return unix.Unlinkat(fd, name, 0) })
	})
}

// create makes a file that is not there yet.
func (s *Store) create(target string) (f *os.File, err error) {
	err = s.in(target, func(fd int, name string) error {
		const how = unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC
		return whole(func() error {
			n, err := unix.Openat(fd, name, how, 0o600)
			if err == nil {
				f = os.NewFile(uintptr(n), name)
			}
			return err
		})
	})
	return f, err
}

// link gives a written file its name, durably.
func (s *Store) link(temp, target string) error {
	drafts, done, err := s.dir(s.drafts)
	if err != nil {
		return err
	}
	defer done()
	_, draft := split(temp)
	return s.in(target, func(fd int, name string) error {
		if err := whole(func() error { return unix.Linkat(int(drafts.Fd()), draft, fd, name, 0) }); err != nil {
			return err
		}
		if err := whole(func() error { return unix.Fsync(fd) }); err != nil {
			// The name may or may not survive a crash. The caller hears of a failure, so it goes.
			return errors.Join(err, whole(func() error { return unix.Unlinkat(fd, name, 0) }))
		}
		return nil
	})
}

// whole repeats a call of the system that a signal has interrupted.
func whole(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

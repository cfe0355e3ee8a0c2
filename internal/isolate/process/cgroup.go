package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// group is a version 2 cgroup of ours. It has no controllers: it is there to name a set
// of processes that no fork leaves, and to end the set in one stroke.
type group struct{ path string }

// newGroup makes a cgroup below our own. ok is false where that is not possible, which
// is normal for a user without a delegated cgroup.
func newGroup(id string) (*group, bool) {
	base, ok := ownGroup()
	if !ok {
		return nil, false
	}
	g := &group{path: filepath.Join(base, "fairlead-"+id)}
	if err := os.Mkdir(g.path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // not a secret
		return nil, false
	}
	// cgroup.kill is there since Linux 5.14.
	if err := unix.Access(filepath.Join(g.path, "cgroup.kill"), unix.W_OK); err != nil {
		_ = unix.Rmdir(g.path)
		return nil, false
	}
	return g, true
}

// ownGroup finds the folder of this process's version 2 cgroup, also where version 2 is
// mounted beside version 1.
func ownGroup() (string, bool) {
	own := ""
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			own = path
		}
	}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil || own == "" {
		return "", false
	}
	defer func() { _ = mounts.Close() }()
	scan := bufio.NewScanner(mounts)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		before, after, ok := strings.Cut(scan.Text(), " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 5 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		path := filepath.Join(fields[4], own)
		if st, err := os.Stat(path); err == nil && st.IsDir() {
			return path, true
		}
	}
	return "", false
}

// open gives the descriptor that a fork into the group needs.
func (g *group) open() (*os.File, error) {
	f, err := os.OpenFile(g.path, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	return f, nil
}

// kill ends every process of the group and waits until the kernel says that it is
// empty. A group that does not exist is empty. dying is one that may still be on its way out,
// which takes the kernel longer than anything else here; 0 is none.
func (g *group) kill(ctx context.Context, dying int) error {
	err := os.WriteFile(filepath.Join(g.path, "cgroup.kill"), []byte("1"), 0o200)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("kill cgroup %s: %w", g.path, err)
	}
	events, err := os.Open(filepath.Join(g.path, "cgroup.events"))
	if err != nil {
		return fmt.Errorf("kill cgroup %s: %w", g.path, err)
	}
	defer func() { _ = events.Close() }()
	buf := make([]byte, 256)
	for {
		if dying != 0 && g.holdsOnly(dying) {
			return nil
		}
		n, err := events.ReadAt(buf, 0)
		if n == 0 && err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("kill cgroup %s: %w", g.path, err)
		}
		if !bytes.Contains(buf[:n], []byte("populated 1")) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("kill cgroup %s: it is still populated: %w", g.path, context.Cause(ctx))
		}
		// The kernel announces a change of the file as urgent data.
		set := []unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}
		_, _ = unix.Poll(set, 100)
	}
}

// holdsOnly reports whether nobody else is in the group. The list has no members of groups
// below it, so there must be none of these; whoever could make one is in the list.
func (g *group) holdsOnly(pid int) bool {
	list, err := os.ReadFile(filepath.Join(g.path, "cgroup.procs"))
	if text := strings.TrimSpace(string(list)); err != nil || text != "" && text != strconv.Itoa(pid) {
		return false
	}
	stat, err := os.ReadFile(filepath.Join(g.path, "cgroup.stat"))
	return err == nil && strings.HasPrefix(string(stat), "nr_descendants 0\n")
}

// remove deletes the empty group and what the job made below it. The kernel may take a
// moment to let go of processes that have just ended.
func (g *group) remove(ctx context.Context) {
	for ctx.Err() == nil {
		err := unix.Rmdir(g.path)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return
		}
		entries, _ := os.ReadDir(g.path)
		for _, e := range entries {
			if e.IsDir() {
				(&group{path: filepath.Join(g.path, e.Name())}).remove(ctx)
			}
		}
		if !errors.Is(err, unix.EBUSY) {
			return
		}
		pause := time.NewTimer(time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
	}
}

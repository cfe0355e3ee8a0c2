package isolate

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Erase removes dir and everything in it. Folders without permissions are no obstacle
// to their owner. Mount points inside are unmounted first, and if one can't be, nothing
// is removed: erasing through a mount would destroy what is not the job's.
//
// Trust: what is in dir was made by a job.
func Erase(dir string) error {
	if !filepath.IsAbs(dir) || filepath.Clean(dir) == "/" {
		return fmt.Errorf("erase %q: not a folder of a sandbox", dir)
	}
	if err := unmountUnder(dir); err != nil {
		return fmt.Errorf("erase %s: %w", dir, err)
	}
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("erase %s: %w", dir, err)
	}
	openFolders(dir)
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("erase %s: %w", dir, err)
	}
	return nil
}

// openFolders gives the owner all rights on every folder under dir. Errors are left to
// the removal that follows, which reports them.
func openFolders(dir string) {
	_ = os.Chmod(dir, 0o700) //nolint:gosec // a folder needs its x bit to be emptied
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			openFolders(filepath.Join(dir, e.Name()))
		}
	}
}

func unmountUnder(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	points, err := MountPoints()
	if err != nil {
		return err
	}
	slices.Reverse(points)
	for _, p := range points {
		if !strings.HasPrefix(p, real+"/") {
			continue
		}
		if err := unix.Unmount(p, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", p, err)
		}
	}
	return nil
}

// MountPoints lists the mount points that this process sees, oldest first.
func MountPoints() ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mount points: %w", err)
	}
	defer func() { _ = f.Close() }()
	var points []string
	scan := bufio.NewScanner(f)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		fields := strings.Fields(scan.Text())
		if len(fields) < 5 {
			continue
		}
		points = append(points, unescapeMount(fields[4]))
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("list mount points: %w", err)
	}
	return points, nil
}

// unescapeMount undoes the octal escapes that the kernel writes for space, tab, newline
// and backslash.
func unescapeMount(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

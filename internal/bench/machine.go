package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Machine is where figures were taken.
type Machine struct {
	System      string  `json:"system"`
	Kernel      string  `json:"kernel"`
	Arch        string  `json:"arch"`
	CPU         string  `json:"cpu"`
	Cores       int     `json:"cores"`
	MemoryBytes int64   `json:"memory_bytes"`
	FileSystem  string  `json:"file_system"` // of the folder that the server wrote to
	Device      string  `json:"device"`
	LoadBefore  float64 `json:"load_before"` // processes that wanted a core, mean of a minute
	LoadAfter   float64 `json:"load_after"`
}

// Describe reads the machine that the folder is on.
func Describe(folder string) (Machine, error) {
	m := Machine{System: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), CPU: "unknown"}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return m, fmt.Errorf("describe machine: measuring needs /proc, as Linux has it: %w", err)
	}
	m.Kernel = strings.TrimSpace(string(kernel))
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if name := field(text, "model name"); name != "" {
			m.CPU = name
		}
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		m.MemoryBytes = kibibytes(field(text, "MemTotal"))
	}
	if m.LoadBefore, err = Load(); err != nil {
		return m, err
	}
	m.FileSystem, m.Device, err = fileSystem(folder)
	return m, err
}

// Load is the load average of the last minute: with more than one process per core,
// figures are upper bounds.
func Load() (float64, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, fmt.Errorf("read load: %w", err)
	}
	first, _, _ := strings.Cut(string(text), " ")
	value, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0, fmt.Errorf("read load: %w", err)
	}
	return value, nil
}

// field finds "name: value" in a text of such lines.
func field(text []byte, name string) string {
	for line := range bytes.Lines(text) {
		key, value, ok := strings.Cut(string(line), ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// kibibytes reads "123 kB", as /proc writes sizes.
func kibibytes(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(text, "kB")), 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}

// fileSystem finds the mount that a folder is on: the longest mount point above it, the
// last one where several are mounted there.
func fileSystem(folder string) (kind, device string, err error) {
	folder, err = filepath.EvalSymlinks(folder)
	if err != nil {
		return "", "", fmt.Errorf("find file system: %w", err)
	}
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", "", fmt.Errorf("find file system: %w", err)
	}
	defer func() { _ = file.Close() }()
	longest := -1
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		// "36 35 98:0 /mnt1 /mount/point rw,noatime master:1 - ext3 /dev/root rw"
		head, tail, ok := strings.Cut(lines.Text(), " - ")
		heads, tails := strings.Fields(head), strings.Fields(tail)
		if !ok || len(heads) < 5 || len(tails) < 2 {
			continue
		}
		at := strings.ReplaceAll(heads[4], `\040`, " ")
		if inside, err := filepath.Rel(at, folder); err != nil || !filepath.IsLocal(inside) || len(at) < longest {
			continue
		}
		longest, kind, device = len(at), tails[0], tails[1]
	}
	return kind, device, lines.Err()
}

// inMemory says that a synced write of that file system survives nothing.
func inMemory(kind string) bool { return kind == "tmpfs" || kind == "ramfs" }

// syncs is how often the disk is asked for its own time.
const syncs = 200

// SyncTimes appends blocks of 4 KiB to a file in the folder and syncs each: what one
// durable write costs here, whoever writes it.
func SyncTimes(folder string) (*Spread, error) {
	file, err := os.CreateTemp(folder, "fsync-")
	if err != nil {
		return nil, fmt.Errorf("measure disk: %w", err)
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}()
	took, block := newTimes(), make([]byte, 4096)
	for range syncs {
		begun := time.Now()
		if _, err := file.Write(block); err != nil {
			return nil, fmt.Errorf("measure disk: %w", err)
		}
		if err := file.Sync(); err != nil {
			return nil, fmt.Errorf("measure disk: %w", err)
		}
		if err := took.add(time.Since(begun)); err != nil {
			return nil, err
		}
	}
	return took.spread(), nil
}

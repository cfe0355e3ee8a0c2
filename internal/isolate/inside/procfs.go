package inside

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/fairlead-ci/fairlead/internal/isolate"
)

// process is what /proc/<pid>/stat says of a process.
type process struct {
	pid, parent, session int
	zombie               bool
}

// listed is a process as the folder /proc lists it.
type listed struct {
	pid   int
	inode uint64
}

// list reads the folder /proc. Kernels make a new inode for every process, so together
// with the number it tells a process from a later one with the same number.
func list() []listed {
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	var all []listed
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil || n <= 0 {
			return all
		}
		// A linux_dirent64: inode, offset, length of the record, type, name.
		const lengthAt, nameAt = 16, 19
		for rest := buf[:n]; len(rest) > nameAt; {
			length := int(binary.NativeEndian.Uint16(rest[lengthAt:]))
			if length < nameAt || length > len(rest) {
				break
			}
			name, _, _ := bytes.Cut(rest[nameAt:length], []byte{0})
			if pid, err := strconv.Atoi(string(name)); err == nil {
				all = append(all, listed{pid, binary.NativeEndian.Uint64(rest)})
			}
			rest = rest[length:]
		}
	}
}

// processes lists what /proc shows. A process that ends while the list is read is
// simply not in it.
func processes() []process {
	var all []process
	buf := make([]byte, 4096)
	for _, one := range list() {
		text, err := readInto(buf, "/proc/"+strconv.Itoa(one.pid)+"/stat")
		if err != nil {
			continue
		}
		if p, ok := parseStat(one.pid, text); ok {
			all = append(all, p)
		}
	}
	return all
}

// parseStat reads "pid (name) state parent group session …". The name may hold
// anything, so fields are counted from the last parenthesis.
func parseStat(pid int, text []byte) (process, bool) {
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return process{}, false
	}
	fields := bytes.Fields(text[end+1:])
	if len(fields) < 4 {
		return process{}, false
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	session, err2 := strconv.Atoi(string(fields[3]))
	if err1 != nil || err2 != nil {
		return process{}, false
	}
	state := fields[0][0]
	return process{pid, parent, session, state == 'Z' || state == 'X'}, true
}

// Descendants lists every live descendant of a process, and its unreaped children.
func Descendants(root int) []int {
	return closure(processes(), func(p process) bool { return p.parent == root }, root)
}

// Kin lists a process's descendants and all processes of its session, with theirs.
func Kin(root int) []int {
	return closure(processes(), func(p process) bool {
		return p.parent == root || p.session == root
	}, root)
}

// closure finds everything that is first, or whose parent was found. Zombies other
// than root's own children are left out: they are their parent's to reap.
func closure(list []process, first func(process) bool, root int) []int {
	found := make(map[int]bool)
	for grew := true; grew; {
		grew = false
		for _, p := range list {
			if p.pid != root && !found[p.pid] && (first(p) || found[p.parent]) {
				found[p.pid] = true
				grew = true
			}
		}
	}
	var pids []int
	for _, p := range list {
		if found[p.pid] && (!p.zombie || p.parent == root) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// Census is who was there at a moment.
type Census map[listed]bool

// TakeCensus notes who is there now.
func TakeCensus() Census {
	c := make(Census)
	for _, one := range list() {
		c[one] = true
	}
	return c
}

// Marked lists the processes whose environment, as they were started, holds the entry.
// It finds what has lost its parent and left its session, unless it cleared its
// environment as well. A zombie has no environment any more.
func Marked(entry string) []int { return Census(nil).Marked(entry) }

// Marked is the same for those who were not there when the census was taken: as good,
// unless a process that had been there executed another program with the entry, and a
// lot faster on a machine with many.
func (c Census) Marked(entry string) []int {
	var pids []int
	buf := make([]byte, 64<<10)
	for _, one := range list() {
		if c[one] {
			continue
		}
		env, err := readInto(buf, "/proc/"+strconv.Itoa(one.pid)+"/environ")
		if err != nil {
			continue
		}
		for e := range bytes.SplitSeq(env, []byte{0}) {
			if string(e) == entry {
				pids = append(pids, one.pid)
				break
			}
		}
	}
	return pids
}

// readInto reads a file of /proc with as few system calls as there can be: a look at
// every process of the machine is on the way of every job's result. What does not fit
// into buf is read the long way.
func readInto(buf []byte, path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	n, err := unix.Read(fd, buf)
	_ = unix.Close(fd)
	if err != nil {
		return nil, err
	}
	// An environment comes a page at a time at least: a full buffer is the only short read.
	if n == len(buf) {
		return os.ReadFile(path)
	}
	return buf[:n], nil
}

// replaceMarker writes another value of the marker into this process's own environment,
// in place: /proc shows the memory that the kernel laid it out in, so that is where who
// looks for the marker finds it. Room is as much as the old value takes.
func replaceMarker(id string) error {
	env, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return fmt.Errorf("replace marker: %w", err)
	}
	at, room := 0, 0
	for one := range bytes.SplitSeq(env, []byte{0}) {
		if value, ok := bytes.CutPrefix(one, []byte(isolate.Marker+"=")); ok {
			at, room = at+len(one)-len(value), len(value)
			break
		}
		at += len(one) + 1
	}
	if room < len(id) {
		return fmt.Errorf("replace marker: %q is longer than the %d bytes there are", id, room)
	}
	start, err := environmentStart()
	if err != nil {
		return fmt.Errorf("replace marker: %w", err)
	}
	memory, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("replace marker: %w", err)
	}
	defer func() { _ = memory.Close() }()
	value := make([]byte, room) // the rest becomes zeros, which end an entry
	copy(value, id)
	if _, err := memory.WriteAt(value, start+int64(at)); err != nil {
		return fmt.Errorf("replace marker: %w", err)
	}
	env, err = os.ReadFile("/proc/self/environ")
	if err != nil {
		return fmt.Errorf("replace marker: %w", err)
	}
	if !bytes.HasPrefix(env[at:], append([]byte(id), 0)) {
		return errors.New("replace marker: /proc does not show it")
	}
	return nil
}

// environmentStart is the address that /proc/<pid>/environ begins at.
func environmentStart() (int64, error) {
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, err
	}
	const envStart = 47 // field 50 of proc(5), counted from after the parenthesis that ends the name
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) <= envStart {
		return 0, errors.New("this kernel does not say where the environment is")
	}
	address, err := strconv.ParseInt(string(fields[envStart]), 10, 64)
	if err != nil || address == 0 {
		return 0, errors.New("this kernel does not say where the environment is")
	}
	return address, nil
}

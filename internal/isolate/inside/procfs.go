package inside

import (
	"bytes"
	"os"
	"strconv"
)

// process is what /proc/<pid>/stat says of a process.
type process struct {
	pid, parent, session int
	zombie               bool
}

// processes lists what /proc shows. A process that ends while the list is read is
// simply not in it.
func processes() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	list := make([]process, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		if p, ok := parseStat(pid, text); ok {
			list = append(list, p)
		}
	}
	return list
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

// Marked lists the processes whose environment, as they were started, holds the entry.
// It finds what has lost its parent and left its session, unless it cleared its
// environment as well.
func Marked(entry string) []int {
	var pids []int
	for _, p := range processes() {
		if p.zombie {
			continue
		}
		env, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/environ")
		if err != nil {
			continue
		}
		for one := range bytes.SplitSeq(env, []byte{0}) {
			if string(one) == entry {
				pids = append(pids, p.pid)
				break
			}
		}
	}
	return pids
}

package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor time in /proc: Linux fixes it for programs at 1/100 s.
const tick = 10 * time.Millisecond

// Usage is what a process took of the machine.
type Usage struct {
	RSS         int64   `json:"rss_bytes"`
	RSSPeak     int64   `json:"rss_peak_bytes"`
	Anonymous   int64   `json:"rss_anonymous_bytes"` // the rest is the program's file and shared memory
	CPU         float64 `json:"cpu_seconds"`
	CPUChildren float64 `json:"cpu_children_seconds"` // of processes that it started; of itself only those that ended
	Written     int64   `json:"written_bytes"`        // to the disk, page cache and all
	Read        int64   `json:"read_bytes"`           // by calls: from files that the machine holds in memory, and sockets
	Threads     int     `json:"threads"`
	CPUPerJob   float64 `json:"cpu_us_per_job,omitempty"` // of a load of many runners
}

// usageOf reads what a process took so far.
func usageOf(pid int) (Usage, error) {
	var u Usage
	fail := func(err error) (Usage, error) { return u, fmt.Errorf("read usage of process %d: %w", pid, err) }
	folder := "/proc/" + strconv.Itoa(pid)
	status, err := os.ReadFile(folder + "/status")
	if err != nil {
		return fail(err)
	}
	u.RSS, u.RSSPeak = kibibytes(field(status, "VmRSS")), kibibytes(field(status, "VmHWM"))
	u.Anonymous = kibibytes(field(status, "RssAnon"))
	if u.Threads, err = strconv.Atoi(field(status, "Threads")); err != nil {
		return fail(err)
	}
	if u.CPU, u.CPUChildren, err = timesOf(pid); err != nil {
		return fail(err)
	}
	if text, err := os.ReadFile(folder + "/io"); err == nil { // needs rights that a container may withhold
		u.Written, _ = strconv.ParseInt(field(text, "write_bytes"), 10, 64)
		u.Read, _ = strconv.ParseInt(field(text, "rchar"), 10, 64)
	}
	return u, nil
}

// timesOf is the processor time of a process, and of those below it that have ended.
func timesOf(pid int) (own, ended float64, err error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, err
	}
	// The name in parentheses may hold anything; what follows it is numbers.
	rest := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const userTime, childrenUserTime = 11, 13 // positions after the name
	if len(rest) <= childrenUserTime+1 {
		return 0, 0, fmt.Errorf("%d fields in stat", len(rest))
	}
	for i, into := range []*float64{&own, &own, &ended, &ended} {
		ticks, err := strconv.ParseInt(rest[userTime+i], 10, 64)
		if err != nil {
			return 0, 0, err
		}
		*into += (time.Duration(ticks) * tick).Seconds()
	}
	return own, ended, nil
}

// serverUsage is usageOf with the processor time of processes that live on, as supervisors do
// from one job to the next.
func serverUsage(pid int) (Usage, error) {
	u, err := usageOf(pid)
	if err != nil {
		return u, err
	}
	below, err := descendants(pid)
	for _, child := range below {
		if own, ended, err := timesOf(child); err == nil { // else it has ended meanwhile
			u.CPUChildren += own + ended
		}
	}
	return u, err
}

// descendants lists the processes below one.
func descendants(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	children := map[int][]int{}
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		status, err := os.ReadFile("/proc/" + entry.Name() + "/status")
		if err != nil {
			continue // it has ended meanwhile
		}
		if parent, err := strconv.Atoi(field(status, "PPid")); err == nil {
			children[parent] = append(children[parent], child)
		}
	}
	below := children[pid]
	for i := 0; i < len(below); i++ {
		below = append(below, children[below[i]]...)
	}
	return below, nil
}

// familyOf counts the processes below one, and the memory that is theirs alone: what they
// share with it, the program's own file, costs nothing more.
func familyOf(pid int) (count int, private int64, err error) {
	below, err := descendants(pid)
	if err != nil {
		return 0, 0, err
	}
	for _, child := range below {
		rollup, err := os.ReadFile("/proc/" + strconv.Itoa(child) + "/smaps_rollup")
		if err != nil {
			continue
		}
		count++
		private += kibibytes(field(rollup, "Private_Clean")) + kibibytes(field(rollup, "Private_Dirty"))
	}
	return count, private, nil
}

// since is what was taken after an earlier reading; sizes are those of now.
func (u Usage) since(before Usage) Usage {
	u.CPU -= before.CPU
	u.CPUChildren -= before.CPUChildren
	u.Written -= before.Written
	u.Read -= before.Read
	return u
}

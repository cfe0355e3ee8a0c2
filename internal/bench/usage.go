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
	CPUChildren float64 `json:"cpu_children_seconds"` // of processes that it started and that ended
	Written     int64   `json:"written_bytes"`        // to the disk, page cache and all
	Threads     int     `json:"threads"`
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
	stat, err := os.ReadFile(folder + "/stat")
	if err != nil {
		return fail(err)
	}
	// The name in parentheses may hold anything; what follows it is numbers.
	rest := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const userTime, childrenUserTime = 11, 13 // positions after the name
	if len(rest) <= childrenUserTime+1 {
		return fail(fmt.Errorf("%d fields in stat", len(rest)))
	}
	for i, into := range []*float64{&u.CPU, &u.CPU, &u.CPUChildren, &u.CPUChildren} {
		ticks, err := strconv.ParseInt(rest[userTime+i], 10, 64)
		if err != nil {
			return fail(err)
		}
		*into += (time.Duration(ticks) * tick).Seconds()
	}
	if text, err := os.ReadFile(folder + "/io"); err == nil { // needs rights that a container may withhold
		u.Written, _ = strconv.ParseInt(field(text, "write_bytes"), 10, 64)
	}
	return u, nil
}

// since is what was taken after an earlier reading; sizes are those of now.
func (u Usage) since(before Usage) Usage {
	u.CPU -= before.CPU
	u.CPUChildren -= before.CPUChildren
	u.Written -= before.Written
	return u
}

package crash

import (
	"time"

	"golang.org/x/sys/unix"
)

// instant is a time since this machine was started. Jobs read it from /proc/uptime, this
// process from the kernel: one clock for everybody, that nobody can set.
type instant time.Duration

// now panics where there is no such clock: nothing here could be compared.
func now() instant {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("this machine has no clock since its start: " + err.Error())
	}
	return instant(t.Nano())
}

// since says how long ago that was.
func (i instant) since() time.Duration { return time.Duration(now() - i) }

func (i instant) add(d time.Duration) instant { return i + instant(d) }

// String is seconds since the start.
func (i instant) String() string { return time.Duration(i).Round(time.Microsecond).String() }

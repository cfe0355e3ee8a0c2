package supervisor

import (
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Instant is a point on the clock that leases are judged by: nanoseconds since the
// machine booted, suspended time included. The wall clock may be set, and the usual
// monotonic clock stands still in a suspended machine, whose lease runs on all the same.
type Instant int64

// Now reads the clock.
func Now() Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("read the boot clock: %v", err)) // there since Linux 2.6.39
	}
	return Instant(ts.Nano())
}

// Add is the instant that much later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Until is how long it is until i.
func (i Instant) Until() time.Duration { return time.Duration(i - Now()) }

// alarm fires at an instant, also right after a suspended machine wakes up.
type alarm struct{ file *os.File }

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make timer: %w", err)
	}
	return &alarm{file: os.NewFile(uintptr(fd), "alarm")}, nil
}

// set moves the alarm.
func (a *alarm) set(at Instant) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(int64(at), 1))}
	conn, err := a.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("set timer: %w", err)
	}
	var set error
	err = conn.Control(func(fd uintptr) {
		set = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &spec, nil)
	})
	if err == nil {
		err = set
	}
	if err != nil {
		return fmt.Errorf("set timer: %w", err)
	}
	return nil
}

// wait blocks until the alarm fires; false means that it was closed.
func (a *alarm) wait() bool {
	var count [8]byte
	n, err := a.file.Read(count[:])
	return err == nil && n == len(count) && binary.NativeEndian.Uint64(count[:]) > 0
}

package crash

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// guestVariable tells a test binary that it runs in a guest, and where the programs are.
const guestVariable = "FAIRLEAD_CRASH_GUEST"

// guestPatience bounds a whole boot with its test: a guest is slow, and has one processor.
const guestPatience = 12 * time.Minute

// guestInit is the first process of a guest. The guest sees this machine's files, and
// writes only into a file system of its own.
const guestInit = `#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mkdir -p /dev/shm
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
ip link set lo up || ifconfig lo up
cd /dev/shm
export HOME=/dev/shm TMPDIR=/dev/shm %[1]s=%[2]s
%[3]s -test.v -test.timeout %[4]s -test.run '%[5]s' </dev/null
echo "guest: exit code $?"
sync
# A first process that ends is a panic of the kernel; this turns the machine off.
echo o > /proc/sysrq-trigger
sleep 60
`

// inGuest runs tests of this binary as the only work of a machine of its own, whose clock
// can be set: a kernel that runs as a process (User-Mode Linux). It gives what was said.
func inGuest(ctx context.Context, folder, programs, tests string) (string, error) {
	kernel, err := exec.LookPath("linux.uml")
	if err != nil {
		return "", fmt.Errorf("%w: linux.uml is not installed (Debian: user-mode-linux)", errPrivilege)
	}
	if os.Geteuid() != 0 {
		return "", fmt.Errorf("%w: a guest on this machine's files needs root", errPrivilege)
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("start guest: %w", err)
	}
	script := filepath.Join(folder, "init.sh")
	text := fmt.Sprintf(guestInit, guestVariable, programs, self, guestPatience, tests)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		return "", fmt.Errorf("start guest: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, guestPatience+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, kernel, "mem=1200M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw",
		"init="+script, "con0=null,fd:1", "con=null", "quiet")
	// The guest's memory is a file; where it lies decides how fast the guest is.
	cmd.Env = append(os.Environ(), "TMPDIR=/dev/shm")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := spawn(cmd); err != nil {
		return "", fmt.Errorf("start guest: %w", err)
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return said.String(), fmt.Errorf("run guest: it did not end within %s", guestPatience)
	}
	_ = err // the exit code of a kernel that turned itself off says nothing
	return said.String(), nil
}

// jump sets this machine's clock.
func jump(by time.Duration) error {
	t := unix.NsecToTimespec(time.Now().Add(by).UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &t); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	return nil
}

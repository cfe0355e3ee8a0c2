package inside

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killPatience is how long killAll fights before it gives up with an error. A process
// in uninterruptible sleep is the only thing known to survive it.
const killPatience = 20 * time.Second

// children knows the commands that run, and reaps them and every orphan.
type children struct {
	exited func(id uint64, status syscall.WaitStatus)

	// mu guards the maps and is held over a fork, so that the reaper can't report the
	// end of a command before its start is known.
	mu   sync.Mutex
	byID map[uint64]int
	byP  map[int]uint64

	// reaped gets a token after each round of reaping; killAll waits for it.
	reaped chan struct{}
}

func newChildren(exited func(uint64, syscall.WaitStatus)) *children {
	c := &children{
		exited: exited,
		byID:   make(map[uint64]int),
		byP:    make(map[int]uint64),
		reaped: make(chan struct{}, 1),
	}
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	go func() {
		for range died {
			c.reap()
		}
	}()
	return c
}

// start forks under the lock and announces the pid before any end can be reported.
func (c *children) start(id uint64, fork func() (int, error), announce func(pid int)) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return 0, err
	}
	c.byID[id], c.byP[pid] = pid, id
	announce(pid)
	return pid, nil
}

func (c *children) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			break
		}
		c.mu.Lock()
		id, known := c.byP[pid]
		if known {
			delete(c.byP, pid)
			delete(c.byID, id)
		}
		c.mu.Unlock()
		if known {
			c.exited(id, status)
		}
	}
	select {
	case c.reaped <- struct{}{}:
	default:
	}
}

// signal reaches the command's process group. A command that has ended is no error.
func (c *children) signal(id uint64, sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if pid, ok := c.byID[id]; ok {
		_ = syscall.Kill(-pid, sig)
	}
}

// kill ends a command with its session and its descendants. The group goes first, so
// that a shell can't start the next program of its script in between.
func (c *children) kill(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pid, ok := c.byID[id]
	if !ok {
		return
	}
	kin := Kin(pid)
	_ = syscall.Kill(-pid, unix.SIGKILL)
	for _, p := range kin {
		_ = syscall.Kill(p, unix.SIGKILL)
	}
	for _, p := range Kin(pid) {
		_ = syscall.Kill(p, unix.SIGKILL)
	}
}

// childless asks the kernel instead of looking through /proc, which takes a while on a
// machine with many processes. Every orphan becomes a child of an init, so one without
// children has no descendants either.
func childless() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return errors.Is(err, unix.ECHILD)
}

// killAll ends every descendant and returns when none is left. It stops before it
// kills: a loop that forks faster than the list is read would otherwise win.
func (c *children) killAll() error {
	self := os.Getpid()
	deadline := time.Now().Add(killPatience)
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		if childless() {
			return nil
		}
		left := Descendants(self)
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("kill everything: %d processes are still there, first is %d", len(left), left[0])
		}
		if self == 1 {
			_ = syscall.Kill(-1, unix.SIGKILL)
		} else {
			for _, p := range left {
				_ = syscall.Kill(p, unix.SIGSTOP)
			}
			for _, p := range Descendants(self) {
				_ = syscall.Kill(p, unix.SIGKILL)
			}
		}
		c.reap()
		select {
		case <-c.reaped:
		default:
		}
		wait.Reset(2 * time.Millisecond) // the end of a grandchild sends no signal here
		select {
		case <-c.reaped:
		case <-wait.C:
		}
	}
}

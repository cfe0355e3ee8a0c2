package crash

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// space is a network namespace with one cable to this machine. What lives in it reaches
// the database through the cable; clients and runners reach it through sockets that were
// made inside, which the cable does not matter to.
type space struct {
	name, cable string // the cable's end on this machine
	near, far   string // addresses of the ends: of this machine, and inside
}

// networkOfSpaces holds every cable's two addresses.
const networkOfSpaces = "10.213.0.0/16"

// newSpace makes a namespace; close takes it away.
func newSpace() (*space, error) {
	for _, program := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%w: %s is not installed", errPrivilege, program)
		}
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: making a network namespace needs root", errPrivilege)
	}
	n := os.Getpid()
	third, fourth := n>>6&0xff, n&0x3f<<2
	s := &space{name: "fairlead-crash-" + strconv.Itoa(n), cable: "flc" + strconv.Itoa(n),
		near: fmt.Sprintf("10.213.%d.%d", third, fourth+1), far: fmt.Sprintf("10.213.%d.%d", third, fourth+2)}
	inside := s.cable + "i"
	for _, line := range [][]string{
		{"ip", "netns", "add", s.name},
		{"ip", "link", "add", s.cable, "type", "veth", "peer", "name", inside, "netns", s.name},
		{"ip", "addr", "add", s.near + "/30", "dev", s.cable},
		{"ip", "link", "set", s.cable, "up"},
		{"ip", "-n", s.name, "addr", "add", s.far + "/30", "dev", inside},
		{"ip", "-n", s.name, "link", "set", inside, "up"},
		{"ip", "-n", s.name, "link", "set", "lo", "up"},
	} {
		if _, err := run("", os.Environ(), line...); err != nil {
			s.close()
			return nil, fmt.Errorf("%w: %w", errPrivilege, err)
		}
	}
	return s, nil
}

func (s *space) path() string { return filepath.Join("/run/netns", s.name) }

// within is a command line that runs args in the namespace, as the same process.
func (s *space) within(args []string) []string {
	return append([]string{"nsenter", "--net=" + s.path(), "--"}, args...)
}

// cut pulls the cable out or plugs it in.
func (s *space) cut(out bool) error {
	state := "up"
	if out {
		state = "down"
	}
	_, err := run("", os.Environ(), "ip", "link", "set", s.cable, state)
	return err
}

func (s *space) close() {
	// One end of the cable goes with the namespace, and the other with it.
	_, _ = run("", os.Environ(), "ip", "netns", "del", s.name)
	_, _ = run("", os.Environ(), "ip", "link", "del", s.cable)
}

// dial connects inside the namespace: a socket belongs to the one in which it was made,
// and stays there when the thread has left it.
func (s *space) dial(ctx context.Context, address string) (net.Conn, error) {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	defer func() { _ = home.Close() }()
	there, err := os.Open(s.path())
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	defer func() { _ = there.Close() }()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		// The thread stays locked, so it ends with its goroutine and serves nobody else.
		return nil, errors.Join(err, back)
	}
	runtime.UnlockOSThread()
	return conn, err
}

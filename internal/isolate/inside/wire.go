package inside

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Arg as first argument makes the program the init of a sandbox.
const Arg = "__fairlead-inside"

// Second arguments. They keep the init's memory from other processes of its user.
const (
	// Waiting: until the init has a name. It waits where jobs of others may run, and must
	// not be theirs when its own begins.
	Waiting = "waiting"
	// Apart: always, but for the moment in which it takes a name. Its word is then good
	// enough for there being nobody else in its pid namespace.
	Apart = "apart"
)

// socketFD is where the init finds its end of the socket.
const socketFD = 3

// frameBytesMax bounds a message. Environment and arguments of one command fit: the
// kernel itself refuses more than a few megabytes.
const frameBytesMax = 8 << 20

// Operations of a request.
const (
	opStart   = "start"
	opSignal  = "signal"
	opKill    = "kill"
	opKillAll = "kill_all"
	opName    = "name"
)

// Events of a reply.
const (
	evHello   = "hello"
	evStarted = "started"
	evRefused = "refused"
	evExited  = "exited"
	evKilled  = "killed"
	evNamed   = "named"
)

type request struct {
	Op     string   `json:"op"`
	ID     uint64   `json:"id"`
	Args   []string `json:"args,omitempty"`
	Env    []string `json:"env,omitempty"`
	Dir    string   `json:"dir,omitempty"`
	Signal int      `json:"signal,omitempty"`
	Name   string   `json:"name,omitempty"`
}

type reply struct {
	Event   string `json:"event"`
	ID      uint64 `json:"id,omitempty"`
	Pid     int    `json:"pid,omitempty"`
	Code    int    `json:"code,omitempty"`
	Signal  int    `json:"signal,omitempty"`
	Message string `json:"message,omitempty"`
	Absent  bool   `json:"absent,omitempty"` // the program was not found
	Asked   bool   `json:"asked,omitempty"`  // what was asked for can't be started
}

// pair makes the two ends of the socket.
func pair() (owner *net.UnixConn, child *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socket pair: %w", err)
	}
	child = os.NewFile(uintptr(fds[1]), "inside-child")
	mine := os.NewFile(uintptr(fds[0]), "inside-owner")
	defer func() { _ = mine.Close() }()
	owner, err = unixConn(mine)
	if err != nil {
		_ = child.Close()
		return nil, nil, err
	}
	return owner, child, nil
}

func unixConn(f *os.File) (*net.UnixConn, error) {
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("use socket: %w", err)
	}
	u, ok := conn.(*net.UnixConn)
	if !ok {
		_ = conn.Close()
		return nil, errors.New("use socket: not a unix socket")
	}
	return u, nil
}

// send writes one message: its length, with the files attached to those bytes, and then
// its JSON text. Callers serialise.
func send(conn *net.UnixConn, message any, files ...*os.File) error {
	body, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	if len(body) > frameBytesMax {
		return fmt.Errorf("encode message: %d bytes, limit %d", len(body), frameBytesMax)
	}
	var head [4]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(body)))
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	if _, _, err := conn.WriteMsgUnix(head[:], rights, nil); err != nil {
		return err
	}
	_, err = conn.Write(body)
	return err
}

// receive reads one message and the files that came with it, which the caller closes.
func receive(conn *net.UnixConn, message any) ([]*os.File, error) {
	var head [4]byte
	oob := make([]byte, unix.CmsgSpace(4*4))
	n, oobn, _, _, err := conn.ReadMsgUnix(head[:], oob)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	files, err := takeFiles(oob[:oobn])
	if err != nil {
		return nil, err
	}
	fail := func(err error) ([]*os.File, error) {
		for _, f := range files {
			_ = f.Close()
		}
		return nil, err
	}
	if _, err := io.ReadFull(conn, head[n:]); err != nil {
		return fail(err)
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > frameBytesMax {
		return fail(fmt.Errorf("receive message: %d bytes, limit %d", size, frameBytesMax))
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(conn, body); err != nil {
		return fail(err)
	}
	if err := json.Unmarshal(body, message); err != nil {
		return fail(fmt.Errorf("decode message: %w", err))
	}
	return files, nil
}

func takeFiles(oob []byte) ([]*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("receive files: %w", err)
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return nil, fmt.Errorf("receive files: %w", err)
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// orderFiles is how many files come with an order.
const orderFiles = 2

// Words of a supervisor on the order socket, one byte each.
const (
	saidReady byte = 1 // everything is there that can be started ahead
	saidFree  byte = 2 // nothing of the attempt is left here, and it may be given another
)

// unixConn makes a connection of a socket, which it closes.
func unixConn(f *os.File) (*net.UnixConn, error) {
	defer func() { _ = f.Close() }()
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

// tell sends an instruction; the files go with its first byte. It returns when the
// supervisor has read most of it, so a large one to a busy supervisor takes a moment.
func tell(conn *net.UnixConn, i instruction, files ...*os.File) error {
	text, err := json.Marshal(i)
	if err != nil {
		return err
	}
	if len(text) > orderBytesMax {
		return fmt.Errorf("it has %d bytes, limit %d", len(text), orderBytesMax)
	}
	if len(files) == 0 {
		_, err = conn.Write(text)
		return err
	}
	fds := make([]int, len(files))
	for n, f := range files {
		fds[n] = int(f.Fd())
	}
	if _, _, err := conn.WriteMsgUnix(text[:1], unix.UnixRights(fds...), nil); err != nil {
		return err
	}
	_, err = conn.Write(text[1:])
	return err
}

// intake is the supervisor's end of the order socket.
type intake struct {
	conn  *net.UnixConn
	files []*os.File // that came and belong to no instruction yet, in their order
	left  int        // bytes that may still come
	text  *json.Decoder
}

// intaken is what came of waiting for an instruction.
type intaken struct {
	instruction
	err error
}

func newIntake(conn *net.UnixConn) *intake {
	in := &intake{conn: conn}
	in.text = json.NewDecoder(in)
	return in
}

// Read implements io.Reader and keeps the files that come along.
func (in *intake) Read(p []byte) (int, error) {
	if in.left <= 0 {
		return 0, fmt.Errorf("the instruction has more than %d bytes", orderBytesMax)
	}
	oob := make([]byte, unix.CmsgSpace(4*orderFiles))
	n, oobn, _, _, err := in.conn.ReadMsgUnix(p[:min(len(p), in.left)], oob)
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, io.EOF
	}
	in.left -= n
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return n, fmt.Errorf("take files: %w", err)
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return n, fmt.Errorf("take files: %w", err)
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			in.files = append(in.files, os.NewFile(uintptr(fd), "order"))
		}
	}
	return n, nil
}

// next waits for an instruction. io.EOF means that the runner is gone and that there was
// none.
func (in *intake) next() (instruction, error) {
	in.left = orderBytesMax
	var i instruction
	if err := in.text.Decode(&i); err != nil {
		return i, err
	}
	if i.Order != nil && (len(in.files) < orderFiles || i.Order.Manifest == nil) {
		return i, fmt.Errorf("the order came with %d files, not %d, or has no manifest", len(in.files), orderFiles)
	}
	if i.Blank != nil && i.Blank.Said && len(in.files) == 0 {
		return i, errors.New("the file to print into did not come")
	}
	return i, nil
}

// ahead waits for an instruction beside other work. Nobody else reads until it came.
func (in *intake) ahead() <-chan intaken {
	came := make(chan intaken, 1)
	go func() {
		i, err := in.next()
		came <- intaken{i, err}
	}()
	return came
}

// take hands out the files of an instruction, those that came first.
func (in *intake) take(n int) []*os.File {
	files := in.files[:n:n]
	in.files = in.files[n:]
	return files
}

// over reports whether an error says that the runner is gone, or wants nothing more. Half
// an instruction is none: it was never acknowledged.
func over(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET)
}

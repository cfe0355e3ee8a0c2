package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/scm"
)

// objects is one git process that answers for many objects.
type objects struct {
	cmd    *exec.Cmd
	cancel context.CancelFunc
	ask    io.WriteCloser
	answer *bufio.Reader
	stderr *capped
}

// open starts the process. close must be called.
func (m *Mirrors) open(ctx context.Context, dir string) (*objects, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := m.command(ctx, call{dir: dir, args: []string{"cat-file", "--batch-command"}})
	o := &objects{cmd: cmd, cancel: cancel, stderr: &capped{max: stderrBytesMax}}
	cmd.Stderr = o.stderr
	ask, err1 := cmd.StdinPipe()
	answer, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		cancel()
		return nil, fmt.Errorf("start git cat-file: %w", err)
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start git cat-file: %w", err)
	}
	o.ask, o.answer = ask, bufio.NewReaderSize(answer, 32<<10)
	return o, nil
}

// read gives the bytes of an object of that kind. ErrNotFound when there is none of it,
// ErrTooLarge when it has more than max bytes; then nothing of it was read.
//
// Preconditions: name holds no line break.
func (o *objects) read(name, kind string, max int64) ([]byte, error) {
	size, err := o.head("info", name, kind)
	if err != nil {
		return nil, err
	}
	if size > max {
		return nil, fmt.Errorf("%d bytes, limit %d: %w", size, max, scm.ErrTooLarge)
	}
	if _, err := o.head("contents", name, kind); err != nil {
		return nil, err
	}
	data := make([]byte, size+1) // and the line break after it
	if _, err := io.ReadFull(o.answer, data); err != nil {
		return nil, o.fault(err)
	}
	return data[:size], nil
}

// head asks and reads the first line of the answer: "<id> <kind> <size>".
func (o *objects) head(verb, name, kind string) (int64, error) {
	if _, err := io.WriteString(o.ask, verb+" "+name+"\n"); err != nil {
		return 0, o.fault(err)
	}
	line, err := o.answer.ReadString('\n')
	if err != nil {
		return 0, o.fault(err)
	}
	line = strings.TrimSuffix(line, "\n")
	field := strings.Fields(line)
	if strings.HasSuffix(line, " missing") || strings.HasSuffix(line, " ambiguous") {
		return 0, scm.ErrNotFound
	}
	if len(field) != 3 {
		return 0, fmt.Errorf("git cat-file: unexpected answer %.200q", line)
	}
	size, err := strconv.ParseInt(field[2], 10, 64)
	if err != nil || size < 0 {
		return 0, fmt.Errorf("git cat-file: unexpected answer %.200q", line)
	}
	if field[1] != kind {
		return 0, scm.ErrNotFound
	}
	return size, nil
}

// fault explains a broken conversation: the process has ended or is ended now.
func (o *objects) fault(err error) error {
	o.close() // its complaints may be read only after it ended
	return fmt.Errorf("git cat-file: %w: %s", err, strings.TrimSpace(scrub(o.stderr.buf.String())))
}

// close ends the process and waits for it. Closing twice is no error.
func (o *objects) close() {
	_ = o.ask.Close() // at the end of the questions it ends by itself
	_ = o.cmd.Wait()  // how it ended tells nothing that the answers did not
	o.cancel()
}

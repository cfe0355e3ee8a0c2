package job

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairlead-ci/fairlead/internal/redact"
)

// output is everything that arrives from one step: lines that look like workflow
// commands are held until they are whole, the rest passes at once, and all is masked.
//
// Trust: every byte is the job's.
type output struct {
	log    *log
	step   uint32
	stream *redact.Stream
	obey   func(workflowCommand) error // nil once the step is over

	held   []byte // of a line that may be a command
	middle bool   // inside a line that is none
	paused string // the token that ends ::stop-commands::
	out    []byte
	fault  error // of a command; it fails the step
}

func newOutput(l *log, step uint32, obey func(workflowCommand) error) *output {
	o := &output{log: l, step: step, obey: obey}
	o.stream = redact.NewStream(&l.mask)
	return o
}

// Write takes the next bytes. It implements io.Writer and never fails.
func (o *output) Write(p []byte) (int, error) {
	o.log.mu.Lock()
	defer o.log.mu.Unlock()
	for rest := p; len(rest) > 0; {
		rest = o.take(rest)
	}
	return len(p), nil
}

// take consumes up to the end of a line.
func (o *output) take(p []byte) []byte {
	end := bytes.IndexByte(p, '\n') + 1
	if o.middle {
		// Nothing can begin before the next line does: pass all whole lines up to the
		// first that might be a command in one piece.
		if end == 0 {
			o.pass(p)
			return nil
		}
		for end < len(p) && !mayBegin(p[end:]) {
			next := bytes.IndexByte(p[end:], '\n') + 1
			if next == 0 {
				o.pass(p)
				return nil
			}
			end += next
		}
		o.pass(p[:end])
		o.middle = false
		return p[end:]
	}
	piece := p
	if end > 0 {
		piece = p[:end]
	}
	o.held = append(o.held, piece...)
	switch {
	case !mayBegin(o.held) || len(o.held) > commandLineBytesMax:
		o.middle = end == 0
		o.release()
	case end > 0:
		o.command()
		o.release()
	}
	return p[len(piece):]
}

// mayBegin reports whether a line that starts like this can be a command: blanks, then
// two colons.
func mayBegin(line []byte) bool {
	line = bytes.TrimLeft(line, " \t")
	return len(line) == 0 || line[0] == ':' && (len(line) == 1 || line[1] == ':')
}

func (o *output) release() {
	o.pass(o.held)
	o.held = o.held[:0]
}

func (o *output) pass(p []byte) {
	if o.log.mask.Empty() {
		o.log.write(o.step, p)
		return
	}
	o.out = o.stream.Write(o.out[:0], p)
	o.log.write(o.step, o.out)
}

// command obeys the held line if it is one. A mask counts from this very line on.
func (o *output) command() {
	line := bytes.TrimRight(o.held, "\r\n")
	c, ok := parseCommand(string(line))
	if !ok {
		return
	}
	if o.paused != "" {
		if c.name == o.paused {
			o.paused = ""
		}
		return
	}
	switch c.name {
	case "add-mask":
		if !o.log.mask.Add(c.value) {
			o.fault = errors.Join(o.fault, errors.New("add-mask: too many secrets are masked"))
		}
	case "stop-commands":
		o.paused = c.value
	default:
		if o.obey != nil {
			o.fault = errors.Join(o.fault, o.obey(c))
		}
	}
}

// settle passes on everything that is held: the step has ended.
func (o *output) settle() {
	o.log.mu.Lock()
	defer o.log.mu.Unlock()
	if len(o.held) > 0 {
		o.command()
		o.release()
	}
	o.out = o.stream.Flush(o.out[:0])
	if len(o.out) > 0 {
		o.log.write(o.step, o.out)
	}
	o.middle = false
	o.log.finish(o.step)
}

// obeyNothing ends the step's power over the job: what it left in the background may
// print and mask, but no longer command.
func (o *output) obeyNothing() {
	o.log.mu.Lock()
	defer o.log.mu.Unlock()
	o.obey = nil
}

// pump moves output from a pipe into w, also after the step's own process has ended:
// what it left in the background may go on printing until the job's end.
type pump struct {
	pipe   *os.File
	settle chan chan struct{}
	done   chan struct{}
}

// startPump makes the pipe and returns its write end, which the caller closes once the
// command has it.
func startPump(w io.Writer) (*pump, *os.File, error) {
	r, end, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	// A larger pipe is only faster; the kernel may refuse.
	_, _ = unix.FcntlInt(end.Fd(), unix.F_SETPIPE_SZ, pipeBytes)
	p := &pump{pipe: r, settle: make(chan chan struct{}, 1), done: make(chan struct{})}
	go p.run(w)
	return p, end, nil
}

func (p *pump) run(w io.Writer) {
	defer close(p.done)
	defer func() { _ = p.pipe.Close() }()
	buf := make([]byte, chunkBytesMax)
	for {
		n, err := p.pipe.Read(buf)
		if n > 0 {
			_, _ = w.Write(buf[:n])
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			_ = p.pipe.SetReadDeadline(time.Time{})
			settled := <-p.settle
			p.rest(w, buf)
			close(settled)
			continue
		}
		if err != nil {
			select {
			case settled := <-p.settle:
				close(settled)
			default:
			}
			return
		}
	}
}

// rest reads what is in the pipe now, and no more: somebody else may write for ever.
func (p *pump) rest(w io.Writer, buf []byte) {
	conn, err := p.pipe.SyscallConn()
	if err != nil {
		return
	}
	var left, n int
	_ = conn.Control(func(fd uintptr) { left, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	for err == nil && left > 0 {
		_ = conn.Read(func(fd uintptr) bool {
			n, err = unix.Read(int(fd), buf[:min(left, len(buf))])
			return true
		})
		if err != nil || n <= 0 {
			return
		}
		_, _ = w.Write(buf[:n])
		left -= n
	}
}

// drained waits until everything that was in the pipe when it was called was passed on.
func (p *pump) drained() {
	settled := make(chan struct{})
	p.settle <- settled
	_ = p.pipe.SetReadDeadline(time.Unix(1, 0).UTC())
	select {
	case <-settled:
	case <-p.done:
	}
}

package supervisor

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/runner/job"
	"github.com/fairlead-ci/fairlead/internal/runner/spool"
)

// Handle is the runner's side of one supervisor.
type Handle struct {
	folder Folder
	conn   net.Conn
	more   chan struct{}
	gone   chan struct{}

	// mu serialises messages.
	mu sync.Mutex
}

// Spawn starts a supervisor for an attempt. program is what to execute, "" for this very
// program. The process belongs to nobody: it does not end with the runner, nor with the
// terminal that the runner was started from.
func Spawn(program string, order Order) (*Handle, error) {
	fail := func(err error) (*Handle, error) {
		return nil, fmt.Errorf("start supervisor of %s: %w", order.Manifest.Attempt, err)
	}
	place, err := furnish(Folder(order.Folder))
	if err != nil {
		return fail(err)
	}
	defer place.close()
	p, err := start(program, string(order.Manifest.Attempt), place.said)
	if err != nil {
		return fail(err)
	}
	h, err := p.give(order, place)
	if err != nil {
		_ = p.cmd.Process.Kill()
		return fail(err)
	}
	p.leave()
	return h, nil
}

// place is what a supervisor gets of its attempt's folder.
type place struct{ listener, said *os.File }

// furnish makes the folder with what has to be there before its supervisor.
func furnish(folder Folder) (*place, error) {
	if err := os.MkdirAll(string(folder), 0o700); err != nil {
		return nil, err
	}
	listener, err := listen(folder)
	if err != nil {
		return nil, err
	}
	said, err := openSaid(folder)
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	return &place{listener, said}, nil
}

func openSaid(folder Folder) (*os.File, error) {
	return os.OpenFile(folder.Said(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

func (p *place) close() {
	_ = p.listener.Close()
	_ = p.said.Close()
}

// process is a supervisor as the one who started it sees it.
type process struct {
	cmd   *exec.Cmd
	conn  *net.UnixConn // takes instructions
	ended chan struct{}
}

// start starts a supervisor that has not been told anything yet.
func start(program, label string, said *os.File) (*process, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket pair: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "order-supervisor")
	defer func() { _ = theirs.Close() }()
	conn, err := unixConn(os.NewFile(uintptr(fds[0]), "order-runner"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(cmp.Or(program, "/proc/self/exe"), Arg, label)
	cmd.Args[0] = "fairlead-supervisor"
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, said, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = conn.Close()
		return nil, err
	}
	p := &process{cmd: cmd, conn: conn, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in its folder
		_ = conn.Close()
		close(p.ended)
	}()
	return p, nil
}

// give hands over the order, after which the supervisor owes its runner nothing but what
// goes over the socket in the attempt's folder. That one is connected first: nothing can
// go wrong any more once the order has arrived.
func (p *process) give(order Order, at *place) (*Handle, error) {
	h, err := Adopt(Folder(order.Folder))
	if err != nil {
		return nil, err
	}
	if err := tell(p.conn, instruction{Order: &order}, at.listener, at.said); err != nil {
		h.Release()
		return nil, fmt.Errorf("give the order: %w", err)
	}
	return h, nil
}

// leave says that there are no more instructions. Only this direction is closed: closing both
// while the other end has something to say would cost it what it has not read.
func (p *process) leave() { _ = p.conn.CloseWrite() }

// listen makes the socket before its owner exists, so that connecting can't come too
// early. Its path may be longer than a socket's name can be, so it goes through the
// folder's descriptor.
func listen(folder Folder) (*os.File, error) {
	dir, err := os.OpenFile(string(folder), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	if err := os.Remove(folder.socket()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	name := "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(folder.socket())
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	defer func() { _ = l.Close() }()
	return l.File()
}

// Adopt connects to the supervisor of a folder. It fails if none is alive.
func Adopt(folder Folder) (*Handle, error) {
	dir, err := os.OpenFile(string(folder), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("adopt supervisor: %w", err)
	}
	defer func() { _ = dir.Close() }()
	name := "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(folder.socket())
	conn, err := net.Dial("unix", name)
	if err != nil {
		return nil, fmt.Errorf("adopt supervisor of %s: %w", filepath.Base(string(folder)), err)
	}
	h := &Handle{folder: folder, conn: conn, more: make(chan struct{}, 1), gone: make(chan struct{})}
	go h.read()
	return h, nil
}

func (h *Handle) read() {
	defer close(h.gone)
	lines := bufio.NewScanner(h.conn)
	for lines.Scan() {
		select {
		case h.more <- struct{}{}:
		default:
		}
	}
	_ = h.conn.Close()
}

// More gets a token whenever the spool has more to read.
func (h *Handle) More() <-chan struct{} { return h.more }

// Gone is closed when the supervisor has ended, in whatever way.
func (h *Handle) Gone() <-chan struct{} { return h.gone }

// Release lets go of the supervisor without ending it.
func (h *Handle) Release() { _ = h.conn.Close() }

// send ignores failures: a supervisor that can't be reached has ended, and that is seen
// elsewhere.
func (h *Handle) send(c control) {
	text, err := json.Marshal(c)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, _ = h.conn.Write(append(text, '\n'))
}

// Extend moves the instant at which the job is abandoned.
func (h *Handle) Extend(abandonAt Instant) { h.send(control{Op: opExtend, AbandonAt: abandonAt}) }

// Cancel asks the job to end.
func (h *Handle) Cancel(reason string, grace time.Duration) {
	h.send(control{Op: opCancel, Reason: reason, GraceMS: grace.Milliseconds()})
}

// Kill ends the job at once, without a result: the lease is lost.
func (h *Handle) Kill() { h.send(control{Op: opKill}) }

// Force ends the supervisor's process, whatever state it is in. What it leaves is for
// Bury, once Gone is closed.
func (h *Handle) Force() error {
	select {
	case <-h.gone:
		return nil // its process, if there is one, belongs to another attempt now
	default:
	}
	state, err := h.folder.Load()
	if err != nil {
		return err
	}
	return state.end(0)
}

// end kills the supervisor and waits for its end, so long.
func (s State) end(patience time.Duration) error {
	fail := func(err error) error { return fmt.Errorf("end supervisor %d of %s: %w", s.Pid, s.Attempt, err) }
	// The descriptor is taken before the check: after it, no other process can be meant.
	fd, err := unix.PidfdOpen(s.Pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fail(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if s.Boot != BootID() || bornAt(s.Pid) != s.Born {
		return nil // its number belongs to somebody else now
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fail(err)
	}
	for deadline := time.Now().Add(patience); patience > 0; {
		set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(set, int(max(time.Until(deadline), 0).Milliseconds()))
		switch {
		case n == 1:
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return fail(err)
		case !time.Now().Before(deadline):
			return fail(errors.New("it does not end"))
		}
	}
	return nil
}

// Acknowledge says what of the spool the server has taken.
func (h *Handle) Acknowledge(chunks, progress uint64) {
	h.send(control{Op: opAck, Chunks: chunks, Progress: progress})
}

// ErrRemains: processes or files of the job may be left. It can be tried again.
var ErrRemains = errors.New("what is left of the job could not be removed")

// Bury cleans up after a supervisor that has ended, and makes sure that there is a
// result: if it died without one, the result says so. It must only be called when no
// supervisor of the folder is alive. An error that wraps ErrRemains says that the job may
// not have ended.
func Bury(ctx context.Context, folder Folder, driver isolate.Driver) error {
	state, err := folder.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it never began
	}
	if err != nil {
		return err
	}
	if err := driver.Cleanup(ctx, state.Sandbox); err != nil {
		return fmt.Errorf("bury %s: %w: %w", state.Attempt, ErrRemains, err)
	}
	if state.Warm != "" {
		if err := Sweep(ctx, state.Warm, func(string) (isolate.Driver, error) { return driver, nil }); err != nil {
			return fmt.Errorf("bury %s: %w: %w", state.Attempt, ErrRemains, err)
		}
	}
	end, concluded, progress, err := survey(folder)
	if err != nil || concluded {
		return err
	}
	r := &runnerv1.Result{
		Attempt: string(state.Attempt), Epoch: state.Epoch, Outcome: string(domain.OutcomeFailure),
		FailureClass: string(domain.FailurePlatform), Message: "the supervisor of this attempt died; " +
			"what was left of the job was killed" + lastWords(folder),
		LogEnd: end, Effect: string(domain.EffectNone), AtUs: time.Now().UnixMicro(), Steps: progress,
	}
	if state.Started {
		r.Effect = string(domain.EffectUnknown)
	}
	for _, s := range r.GetSteps() {
		if s.GetOutcome() == "" {
			s.Outcome, s.Conclusion = string(domain.OutcomeFailure), string(domain.OutcomeFailure)
			s.Message = "the supervisor died while this step ran"
		}
	}
	job.Seal(r)
	payload, err := proto.Marshal(r)
	if err != nil {
		return fmt.Errorf("bury %s: %w", state.Attempt, err)
	}
	w, err := spool.Open(folder.Spool(), spool.Options{})
	if err != nil {
		return fmt.Errorf("bury %s: %w", state.Attempt, err)
	}
	err = w.Append(spool.Frame{Kind: spool.KindResult, Sequence: 1, Payload: payload})
	return errors.Join(err, w.Close())
}

// survey reads what a spool holds: the last chunk, whether there is a result, and the
// last that was said of each step.
func survey(folder Folder) (end uint64, concluded bool, steps []*runnerv1.Step, err error) {
	r := spool.NewReader(folder.Spool())
	defer r.Close()
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return end, concluded, steps, nil
		}
		if err != nil {
			return 0, false, nil, err
		}
		switch f.Kind {
		case spool.KindChunk:
			end = f.Sequence
		case spool.KindResult:
			concluded = true
		case spool.KindProgress:
			var p runnerv1.Progress
			if err := proto.Unmarshal(f.Payload, &p); err != nil {
				return 0, false, nil, fmt.Errorf("read progress: %w", err)
			}
			steps = merge(steps, p.GetSteps())
		}
	}
}

func merge(steps, news []*runnerv1.Step) []*runnerv1.Step {
	for _, n := range news {
		found := false
		for i, s := range steps {
			if s.GetIndex() == n.GetIndex() {
				steps[i], found = n, true
			}
		}
		if !found {
			steps = append(steps, n)
		}
	}
	return steps
}

// lastWords is the end of what a supervisor printed before it died.
func lastWords(folder Folder) string {
	text, err := os.ReadFile(folder.Said())
	if err != nil || len(text) == 0 {
		return ""
	}
	if len(text) > 300 {
		text = text[len(text)-300:]
	}
	return ": " + string(text)
}

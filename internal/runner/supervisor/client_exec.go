package supervisor

import (
	"bufio"
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

// Spawn starts a supervisor for an attempt. The process belongs to nobody: it does not
// end with the runner, nor with the terminal that the runner was started from.
func Spawn(order Order) (*Handle, error) {
	folder := Folder(order.Folder)
	fail := func(err error) (*Handle, error) {
		return nil, fmt.Errorf("start supervisor of %s: %w", order.Manifest.Attempt, err)
	}
	if err := os.MkdirAll(string(folder), 0o700); err != nil {
		return fail(err)
	}
	text, err := json.Marshal(order)
	if err != nil {
		return fail(err)
	}
	listener, err := listen(folder)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = listener.Close() }()
	said, err := os.OpenFile(folder.Said(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = said.Close() }()
	r, w, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	cmd := exec.Command("/proc/self/exe", Arg, string(order.Manifest.Attempt))
	cmd.Args[0] = "fairlead-supervisor"
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r, said, said
	cmd.ExtraFiles = []*os.File{listener}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = r.Close()
	if err != nil {
		_ = w.Close()
		return fail(err)
	}
	go func() { _ = cmd.Wait() }() // its end is seen on the socket, which adopted ones have too
	go func() {
		// In the background: an order may be larger than a pipe.
		_, _ = w.Write(text)
		_ = w.Close()
	}()
	h, err := Adopt(folder)
	if err != nil {
		_ = cmd.Process.Kill()
		return fail(err)
	}
	return h, nil
}

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
	state, err := h.folder.Load()
	if err != nil {
		return err
	}
	// The descriptor is taken before the check: after it, no other process can be meant.
	fd, err := unix.PidfdOpen(state.Pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end supervisor of %s: %w", state.Attempt, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if state.Boot != BootID() || bornAt(state.Pid) != state.Born {
		return nil // its number belongs to somebody else now
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("end supervisor of %s: %w", state.Attempt, err)
	}
	return nil
}

// Acknowledge says what of the spool the server has taken.
func (h *Handle) Acknowledge(chunks, progress uint64) {
	h.send(control{Op: opAck, Chunks: chunks, Progress: progress})
}

// Bury cleans up after a supervisor that has ended, and makes sure that there is a
// result: if it died without one, the result says so. It must only be called when no
// supervisor of the folder is alive.
func Bury(ctx context.Context, folder Folder, driver isolate.Driver) error {
	state, err := folder.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it never began
	}
	if err != nil {
		return err
	}
	if err := driver.Cleanup(ctx, state.Sandbox); err != nil {
		return fmt.Errorf("bury %s: %w", state.Attempt, err)
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

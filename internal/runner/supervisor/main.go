package supervisor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/runner/job"
	"github.com/fairlead-ci/fairlead/internal/runner/spool"
)

// Maybe turns the process into a supervisor, and never returns, if the program was
// started as one.
func Maybe(drivers []isolate.Driver) {
	if len(os.Args) < 2 || os.Args[1] != Arg {
		return
	}
	if err := supervise(drivers); err != nil {
		fmt.Fprintln(os.Stderr, "supervisor:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// supervisor is the state of the process.
type supervisor struct {
	order  Order
	folder Folder
	driver isolate.Driver
	warm   *nest // nil if it was started for this order
	spool  *spool.Writer
	opened chan struct{} // closed when spool is there
	acked  chan struct{} // gets a token when the server has taken something
	killed <-chan struct{}
	text   []byte // of the chunk being spooled
	alarm  *alarm
	stops  chan job.Stop
	cancel context.CancelCauseFunc

	// mu guards what follows.
	mu        sync.Mutex
	state     State
	abandonAt Instant
	stalled   bool                       // the server took nothing for long while the spool was full
	runners   map[net.Conn]chan struct{} // each gets a token when there is more to read
	dropped   bool                       // the runner wants no result any more
	natural   bool                       // the job came to an end of its own
	parted    bool                       // whoever connects now is too late
}

func supervise(drivers []isolate.Driver) error {
	// Before anything else: the environment and memory of this process hold the token,
	// and a job of the same user must not be able to read them.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide from other processes: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	unix.Umask(0o022)
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	ending := make(chan os.Signal, 1)
	signal.Notify(ending, unix.SIGTERM)
	conn, err := unixConn(os.NewFile(orderFD, "order"))
	if err != nil {
		return err
	}
	in := newIntake(conn)
	for served := false; ; served = true {
		fit, err := turn(in, drivers, ending, served)
		if err != nil || !fit {
			return err
		}
		// A runner that has gone does not read this, and is seen to be gone in the next turn.
		_, _ = conn.Write([]byte{saidFree})
	}
}

// turn takes one order and carries it out. It reports whether this process may take another.
func turn(in *intake, drivers []isolate.Driver, ending <-chan os.Signal, served bool) (fit bool, err error) {
	var first intaken
	select {
	case first = <-in.ahead():
	case <-ending:
		return false, nil
	}
	switch {
	case first.err != nil && served && over(first.err):
		return false, nil // it is not needed any more
	case first.err != nil:
		return false, fmt.Errorf("read order: %w", first.err)
	}
	order, warm := first.Order, (*nest)(nil)
	if b := first.Blank; b != nil {
		if b.Said {
			if err := sayInto(in.take(1)[0]); err != nil {
				return false, err
			}
		}
		if warm, err = settle(*b, drivers, in.ahead(), served); err != nil {
			return false, err
		}
		// A runner that has gone, or given the order already, does not read this.
		_, _ = in.conn.Write([]byte{saidReady})
		if order, err = warm.wait(ending); order == nil {
			return false, errors.Join(err, warm.leave())
		}
	}
	s, err := begin(*order, warm, drivers)
	if err != nil {
		return false, err
	}
	return s.serve(in.take(orderFiles), ending)
}

// serve carries out the order.
func (s *supervisor) serve(files []*os.File, ending <-chan os.Signal) (fit bool, err error) {
	if err := sayInto(files[1]); err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	s.cancel = cancel
	go func() {
		select {
		case <-ending:
			cancel(&job.Killed{Class: domain.FailurePlatform, Message: "the runner's machine is going down"})
		case <-ctx.Done():
		}
	}()
	go s.fence()
	listener, err := net.FileListener(files[0])
	if err != nil {
		return false, fmt.Errorf("listen: %w", err)
	}
	_ = files[0].Close()
	go s.accept(listener)
	if err := s.run(ctx); err != nil {
		return false, err
	}
	s.part(listener)
	return ctx.Err() == nil && s.fit(), nil
}

// part ends every conversation about the attempt: for whoever listens, its supervisor has
// ended.
func (s *supervisor) part(listener net.Listener) {
	_ = listener.Close()
	_ = s.alarm.file.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parted = true
	for conn := range s.runners {
		_ = conn.Close()
	}
}

// fit reports whether this process is as good as a new one: it was started ahead, the attempt
// came to an end of its own, and nothing of it is left, neither a folder nor a child.
func (s *supervisor) fit() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.warm != nil && !s.warm.stays && s.natural && !s.dropped && buried()
}

// buried takes the exit of every orphan that came to this process. It reports whether no child
// is left.
func buried() bool {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return errors.Is(err, unix.ECHILD)
		case pid == 0:
			return false
		}
	}
}

// natural reports whether a result says that nothing was done to the job: nobody stopped it,
// and nothing of this machine failed.
func natural(r *runnerv1.Result) bool {
	switch domain.FailureClass(r.GetFailureClass()) {
	case domain.FailureNone, domain.FailureUserCode:
		return true
	}
	return false
}

// sayInto makes a file what this process prints into.
func sayInto(f *os.File) error {
	defer func() { _ = f.Close() }()
	for _, fd := range []int{1, 2} {
		if err := unix.Dup3(int(f.Fd()), fd, 0); err != nil {
			return fmt.Errorf("print into the attempt's folder: %w", err)
		}
	}
	return nil
}

func driverOf(name string, drivers []isolate.Driver) (isolate.Driver, error) {
	for _, d := range drivers {
		if d.Name() == name {
			return d, nil
		}
	}
	return nil, fmt.Errorf("no isolation driver is called %q", name)
}

func begin(order Order, warm *nest, drivers []isolate.Driver) (*supervisor, error) {
	s := &supervisor{
		order: order, folder: Folder(order.Folder), warm: warm, stops: make(chan job.Stop, 4),
		opened: make(chan struct{}), acked: make(chan struct{}, 1),
		abandonAt: order.AbandonAt, runners: make(map[net.Conn]chan struct{}),
	}
	var err error
	if s.driver, err = driverOf(order.Driver, drivers); err != nil {
		return nil, err
	}
	m := order.Manifest
	s.state = State{
		Attempt: m.Attempt, Epoch: m.Epoch, Slot: m.Slot, Driver: order.Driver, Sandbox: order.Sandbox,
		Effectful: m.Effectful, Boot: BootID(), AbandonAt: order.AbandonAt,
		Pid: os.Getpid(), Born: bornAt(os.Getpid()),
	}
	if warm != nil {
		s.state.Warm = warm.folder
	}
	for _, step := range m.Steps {
		s.state.Steps = append(s.state.Steps, step.Name)
	}
	if err := s.folder.save(s.state); err != nil {
		return nil, err
	}
	if s.alarm, err = newAlarm(); err != nil {
		return nil, err
	}
	return s, s.setAlarm(order.AbandonAt)
}

// openSpool opens the spool. It is done while the sandbox is prepared.
func (s *supervisor) openSpool() error {
	w, err := spool.Open(s.folder.Spool(), spool.Options{UnackedBytesMax: s.order.SpoolBytesMax})
	if err == nil {
		s.spool = w
		close(s.opened)
	}
	return err
}

// run prepares the sandbox, runs the job and reports.
func (s *supervisor) run(ctx context.Context) error {
	s.killed = ctx.Done()
	opening := make(chan error, 1)
	go func() { opening <- s.openSpool() }()
	box, err := s.prepare(ctx)
	if fault := <-opening; fault != nil {
		if err == nil {
			err = s.destroy(box)
		}
		return errors.Join(fault, err) // without a spool, this is said by whoever buries us
	}
	if err != nil {
		return s.report(s.unprepared(ctx, err))
	}
	m := s.order.Manifest
	result := job.Run(ctx, job.Order{
		Manifest: m, Server: s.order.Server, Runner: s.order.Runner, Env: s.order.Env,
	}, box, sink{s}, s.stops)
	// Nothing of the job is alive. Erasing what it stored is this machine's own affair:
	// the slot waits for it, the result does not.
	reported := s.report(result)
	s.mu.Lock()
	s.natural = natural(result)
	s.mu.Unlock()
	err = errors.Join(reported, s.destroy(box))
	if s.warm != nil {
		<-s.warm.erased
	}
	return err
}

func (s *supervisor) destroy(box isolate.Sandbox) error {
	ctx, cancel := context.WithTimeout(context.Background(), destroyPatience)
	defer cancel()
	return box.Destroy(ctx)
}

// prepare takes the sandbox that waits, or makes one.
func (s *supervisor) prepare(ctx context.Context) (isolate.Sandbox, error) {
	if s.warm == nil {
		return s.driver.Prepare(ctx, s.order.Sandbox)
	}
	box, err := s.warm.take(ctx, s.order.Sandbox)
	if err == nil {
		return box, nil
	}
	// Whoever broke it did not break the attempt, which has not begun.
	fmt.Fprintln(os.Stderr, "supervisor:", err)
	s.mu.Lock()
	s.order.Sandbox.Warm, s.state.Sandbox.Warm = "", ""
	err = s.folder.save(s.state)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.driver.Prepare(ctx, s.order.Sandbox)
}

// unprepared is the result of an attempt that never had a sandbox.
func (s *supervisor) unprepared(ctx context.Context, err error) *runnerv1.Result {
	m := s.order.Manifest
	r := &runnerv1.Result{
		Attempt: string(m.Attempt), Epoch: m.Epoch, Outcome: string(domain.OutcomeFailure),
		FailureClass: string(domain.FailurePlatform), Message: err.Error(),
		Effect: string(domain.EffectNone), AtUs: time.Now().UnixMicro(),
	}
	var killed *job.Killed
	if errors.As(context.Cause(ctx), &killed) {
		r.FailureClass, r.Message = string(killed.Class), killed.Message
	}
	job.Seal(r)
	return r
}

// report spools the result, unless nobody wants it.
func (s *supervisor) report(r *runnerv1.Result) error {
	s.mu.Lock()
	dropped := s.dropped
	s.mu.Unlock()
	if dropped {
		return s.spool.Close()
	}
	payload, err := proto.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	if err := s.spool.Append(spool.Frame{Kind: spool.KindResult, Sequence: 1, Payload: payload}); err != nil {
		return err
	}
	s.tell()
	return s.spool.Close()
}

// setAlarm leaves room to kill in.
func (s *supervisor) setAlarm(abandonAt Instant) error {
	margin := min(abandonAt.Until()/marginPart, marginMax)
	return s.alarm.set(abandonAt.Add(-max(margin, 0)))
}

// fence ends the job when its lease has run out.
func (s *supervisor) fence() {
	for s.alarm.wait() {
		s.cancel(&job.Killed{
			Class: domain.FailureRunnerLost,
			Message: "the runner had no contact with the server for so long that it had to abandon the job; " +
				"every process of it was killed",
		})
	}
}

func (s *supervisor) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		more := make(chan struct{}, 1)
		more <- struct{}{} // whoever comes later has missed what was said before
		s.mu.Lock()
		if s.parted {
			s.mu.Unlock()
			_ = conn.Close()
			return
		}
		s.runners[conn] = more
		s.mu.Unlock()
		go s.listen(conn)
		go s.speak(conn, more)
	}
}

// tell wakes every runner that is connected. There is one, or none while it restarts.
func (s *supervisor) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, more := range s.runners {
		select {
		case more <- struct{}{}:
		default:
		}
	}
}

func (s *supervisor) speak(conn net.Conn, more <-chan struct{}) {
	enc := json.NewEncoder(conn)
	for range more {
		if err := enc.Encode(control{Op: evSpooled}); err != nil {
			return
		}
	}
}

func (s *supervisor) listen(conn net.Conn) {
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, controlBytesMax)
	for lines.Scan() {
		var c control
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			break
		}
		s.obey(c)
	}
	s.mu.Lock()
	close(s.runners[conn])
	delete(s.runners, conn)
	s.mu.Unlock()
	_ = conn.Close()
}

func (s *supervisor) obey(c control) {
	switch c.Op {
	case opExtend:
		s.extend(c.AbandonAt)
	case opAck:
		select {
		case <-s.opened:
			s.takeAck(c.Chunks, c.Progress)
		default: // of what was never said
		}
	case opCancel:
		select {
		case s.stops <- job.Stop{Reason: c.Reason, Grace: time.Duration(c.GraceMS) * time.Millisecond}:
		default: // it was asked often enough
		}
	case opKill:
		s.mu.Lock()
		s.dropped = true
		s.mu.Unlock()
		s.cancel(&job.Killed{Class: domain.FailureRunnerLost, Message: "the lease is no longer this runner's"})
	}
}

// extend moves the fence. It never moves back: renewals may overtake each other.
func (s *supervisor) extend(to Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to <= s.abandonAt {
		return
	}
	s.abandonAt = to
	if err := s.setAlarm(to); err != nil {
		fmt.Fprintln(os.Stderr, "supervisor:", err) // the old alarm still stands: safe, if early
		return
	}
	s.state.AbandonAt = to
	if err := s.folder.save(s.state); err != nil {
		fmt.Fprintln(os.Stderr, "supervisor:", err) // only a restarted runner would miss it
	}
}

// sink puts what the job reports into the spool.
type sink struct{ s *supervisor }

// Chunk implements job.Sink.
func (k sink) Chunk(c *runnerv1.Chunk) error {
	s := k.s
	var err error
	if s.text, err = (proto.MarshalOptions{}).MarshalAppend(s.text[:0], c); err != nil {
		return fmt.Errorf("encode chunk: %w", err)
	}
	f := spool.Frame{Kind: spool.KindChunk, Sequence: c.GetSequence(), Payload: s.text, Must: c.GetMark() != ""}
	for {
		err := s.spool.Append(f)
		if err == nil {
			s.tell()
		}
		if !errors.Is(err, spool.ErrFull) {
			return err
		}
		if !s.room() {
			return job.ErrDropped
		}
	}
}

// room waits for the server to take something of what fills the spool. A step that
// prints faster than its server can take is slowed down to that; one whose server takes
// nothing goes on without.
func (s *supervisor) room() bool {
	s.mu.Lock()
	stalled := s.stalled
	s.mu.Unlock()
	if stalled {
		return false
	}
	patience := time.NewTimer(stallPatience)
	defer patience.Stop()
	select {
	case <-s.acked:
		return true
	case <-patience.C:
		s.mu.Lock()
		s.stalled = true
		s.mu.Unlock()
	case <-s.killed:
	}
	return false
}

// takeAck forgets what the server has.
func (s *supervisor) takeAck(chunks, progress uint64) {
	s.spool.Acknowledge(chunks, progress)
	s.mu.Lock()
	s.stalled = false
	s.mu.Unlock()
	select {
	case s.acked <- struct{}{}:
	default:
	}
}

// Progress implements job.Sink.
func (k sink) Progress(p *runnerv1.Progress) error {
	k.s.mu.Lock()
	if !k.s.state.Started && len(p.GetSteps()) > 0 {
		k.s.state.Started = true
		if err := k.s.folder.save(k.s.state); err != nil {
			k.s.mu.Unlock()
			return err
		}
	}
	k.s.mu.Unlock()
	payload, err := proto.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode progress: %w", err)
	}
	if err := k.s.spool.Append(spool.Frame{
		Kind: spool.KindProgress, Sequence: p.GetSequence(), Payload: payload,
	}); err != nil {
		return err
	}
	k.s.tell()
	return nil
}

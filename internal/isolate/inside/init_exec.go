package inside

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// How the job's processes stand back behind the runner, whose heartbeats must not
// starve on a busy machine, and before which they die when memory runs out.
const (
	niceness    = 5
	oomScoreAdj = 500
)

// Maybe turns the process into a sandbox's init, and never returns, if the program was
// started as one. A program that prepares sandboxes calls it first thing in main.
func Maybe() {
	if len(os.Args) < 2 || os.Args[1] != Arg {
		return
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox init:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// server is the init's side of the socket.
type server struct {
	conn     *net.UnixConn
	children *children

	// mu serialises messages to the owner.
	mu sync.Mutex
}

func serve() error {
	f := os.NewFile(socketFD, "inside-socket")
	conn, err := unixConn(f)
	if err != nil {
		return err
	}
	_ = f.Close() // FileConn made a copy that commands don't inherit
	if os.Getpid() != 1 {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("become subreaper: %w", err)
		}
	}
	standBack()
	if len(os.Args) > 2 {
		if err := show(false); err != nil {
			return err
		}
	}
	// Caught and dropped rather than ignored: what is ignored stays ignored in commands.
	signal.Notify(make(chan os.Signal, 1), unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)

	s := &server{conn: conn}
	s.children = newChildren(func(id uint64, status syscall.WaitStatus) {
		r := reply{Event: evExited, ID: id, Code: status.ExitStatus()}
		if status.Signaled() {
			r.Signal = int(status.Signal())
			r.Code = 128 + r.Signal
		}
		s.reply(r)
	})
	s.reply(reply{Event: evHello, Pid: os.Getpid()})
	for {
		var req request
		files, err := receive(conn, &req)
		if err != nil {
			// The owner let go or died: nothing of the job may outlive that.
			return s.children.killAll()
		}
		s.handle(req, files)
	}
}

func (s *server) handle(req request, files []*os.File) {
	switch req.Op {
	case opStart:
		s.start(req, files)
	case opSignal:
		s.children.signal(req.ID, syscall.Signal(req.Signal))
	case opKill:
		s.children.kill(req.ID)
	case opName:
		r := reply{Event: evNamed, ID: req.ID}
		if err := takeName(req.Name); err != nil {
			r.Message = err.Error()
		}
		s.reply(r)
	case opKillAll:
		go func() {
			r := reply{Event: evKilled, ID: req.ID}
			if err := s.children.killAll(); err != nil {
				r.Message = err.Error()
			}
			s.reply(r)
		}()
	}
	for _, f := range files {
		_ = f.Close()
	}
}

func (s *server) start(req request, files []*os.File) {
	path, err := lookPath(req.Args, req.Env, req.Dir)
	if err == nil && len(files) != 2 {
		err = fmt.Errorf("start %s: %d files came with it, not 2", req.Args[0], len(files))
	}
	if err != nil {
		s.reply(reply{Event: evRefused, ID: req.ID, Message: err.Error(), Absent: errors.Is(err, exec.ErrNotFound)})
		return
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		s.reply(reply{Event: evRefused, ID: req.ID, Message: err.Error()})
		return
	}
	defer func() { _ = null.Close() }()
	pid, err := s.children.start(req.ID, func() (int, error) {
		return syscall.ForkExec(path, req.Args, &syscall.ProcAttr{
			Dir:   req.Dir,
			Env:   req.Env,
			Files: []uintptr{null.Fd(), files[0].Fd(), files[1].Fd()},
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
	}, func(pid int) { s.reply(reply{Event: evStarted, ID: req.ID, Pid: pid}) })
	if err != nil {
		s.reply(reply{
			Event: evRefused, ID: req.ID, Pid: pid, Asked: asked(err),
			Message: fmt.Sprintf("start %s in %s: %v", req.Args[0], req.Dir, err),
		})
	}
}

// asked reports whether a start failed for what was asked for, and not for want of processes
// or memory.
func asked(err error) bool {
	for _, cause := range []error{
		syscall.ENOENT, syscall.ENOTDIR, syscall.EACCES, syscall.E2BIG, syscall.ENAMETOOLONG, syscall.ELOOP, syscall.ENOEXEC,
	} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// takeName puts the name where whoever cleans up looks for it. Nothing of a job runs yet.
func takeName(id string) error {
	if err := show(true); err != nil {
		return err
	}
	if err := replaceMarker(id); err != nil {
		return err
	}
	if len(os.Args) > 2 && os.Args[2] == Apart {
		return show(false)
	}
	return nil
}

// show lets other processes of the same user see this one's environment and memory, or
// keeps them from it.
func show(yes bool) error {
	dumpable := uintptr(0)
	if yes {
		dumpable = 1
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, dumpable, 0, 0, 0); err != nil {
		return fmt.Errorf("hide from other processes: %w", err)
	}
	return nil
}

func (s *server) reply(r reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A failure means that the owner is gone, which the reading side handles.
	_ = send(s.conn, r)
}

// lookPath finds the program in the command's own PATH, not in the init's.
func lookPath(args, env []string, dir string) (string, error) {
	if len(args) == 0 || args[0] == "" {
		return "", errors.New("no program named")
	}
	name := args[0]
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, runnable(name)
	}
	path := ""
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = value // the last one wins, as in a shell
		}
	}
	for _, folder := range filepath.SplitList(path) {
		if folder == "" {
			continue // an empty entry would mean the workspace: never look there
		}
		candidate := filepath.Join(folder, name)
		if runnable(candidate) == nil {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("%w: %s is in no folder of PATH (%s)", exec.ErrNotFound, name, path)
}

func runnable(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", exec.ErrNotFound, path, err)
	}
	if st.IsDir() || st.Mode()&0o111 == 0 {
		return fmt.Errorf("%w: %s is not executable", exec.ErrNotFound, path)
	}
	return nil
}

// standBack lowers the priority of the init and so of all that it starts. Neither part
// is worth failing for: a sandbox may forbid them.
func standBack() {
	_ = unix.Setpriority(unix.PRIO_PGRP, 0, niceness)
	_ = os.WriteFile("/proc/self/oom_score_adj", fmt.Append(nil, oomScoreAdj), 0o600)
}

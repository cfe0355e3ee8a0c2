package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

const (
	startPatience = time.Minute      // until the line "ready URL"
	stopPatience  = 30 * time.Second // between SIGTERM and SIGKILL
	wordsMax      = 8 << 10          // of the server's own log, kept for error messages
)

// server is a process of `fairlead up` or `fairlead server` with a fresh folder.
type server struct {
	cmd    *exec.Cmd
	data   string
	url    string
	pprof  string // address of its profiles; "" is none
	client *client.Client
	ended  chan struct{} // closed when the process is gone
	fault  error         // how it ended, when it has
	doomed atomic.Bool   // it is to end

	mu  sync.Mutex
	log []byte // the end of what it said
	// lapsed are what it said of leases that ran out, the first few, and how many there were.
	lapsed []string
	lapses int
}

// errLost: a server ended while it was measured.
var errLost = errors.New("a server ended by itself")

// environment is this process's without what would steer a server or a client: figures
// must not depend on who takes them.
func environment(data string) []string {
	var out []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "FAIRLEAD_") && !strings.HasPrefix(variable, "GIT_") {
			out = append(out, variable)
		}
	}
	return append(out, "FAIRLEAD_DATA="+data, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
}

// startServer returns when the server has said that it is ready.
func startServer(ctx context.Context, o Options, command, folder string) (*server, error) {
	args := append([]string{"--listen", "127.0.0.1:0", "--log-level", "warn"}, o.Flags...)
	if o.Store != "" {
		args = append(args, "--store", o.Store)
	}
	if command == "up" && o.Isolation != "" {
		args = append(args, "--isolation", o.Isolation)
	}
	if o.Profile == "" && !o.Pprof {
		return launch(ctx, o, command, filepath.Join(folder, "data"), args...)
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	s, err := launch(ctx, o, command, filepath.Join(folder, "data"), append(args, "--pprof", address)...)
	if err == nil {
		s.pprof = address
	}
	return s, err
}

// launch starts a server with a data folder and flags.
func launch(ctx context.Context, o Options, command, data string, flags ...string) (*server, error) {
	s := &server{data: data, ended: make(chan struct{})}
	s.cmd = exec.CommandContext(ctx, o.Program, append([]string{command, "--data", data}, flags...)...)
	s.cmd.Env = environment(s.data)
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	s.cmd.WaitDelay = stopPatience
	s.cmd.Stderr = s
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", command, err)
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", command, err)
	}
	ready := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if url, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
				ready <- url
			}
		}
		s.fault = s.cmd.Wait()
		close(s.ended)
		if !s.doomed.Load() && o.lost != nil && ctx.Err() == nil {
			o.lost(fmt.Errorf("%w: %s: %v\n%s", errLost, s.url, s.cmd.ProcessState, s.words()))
		}
	}()
	timer := time.NewTimer(startPatience)
	defer timer.Stop()
	select {
	case s.url = <-ready:
	case <-s.ended:
		return nil, fmt.Errorf("start %s: it ended at once: %w\n%s", command, s.fault, s.words())
	case <-timer.C:
		return nil, errors.Join(fmt.Errorf("start %s: not ready within %s\n%s", command, startPatience, s.words()), s.stop())
	}
	place, err := client.LocateIn(s.data)
	if err == nil {
		s.client, err = client.New(place.Server, place.Token, client.Options{UserAgent: "fairlead-bench/" + o.Version})
	}
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// Write implements io.Writer for the server's own log.
func (s *server) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, p...)
	if bytes.Contains(p, []byte(lapseWords)) {
		if s.lapses++; len(s.lapsed) < lapsesKept {
			s.lapsed = append(s.lapsed, strings.TrimSpace(string(p)))
		}
	}
	if over := len(s.log) - wordsMax; over > 0 {
		s.log = append(s.log[:0], s.log[over:]...)
	}
	return len(p), nil
}

// A member of a fleet says so when its lease ran out; a few of these words are kept.
const (
	lapseWords = "lease ran out"
	lapsesKept = 3
)

// lapsesOf is how many leases of a server ran out, and what it said of the first.
func (s *server) lapsesOf() (int, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lapses, slices.Clone(s.lapsed)
}

// words is the end of the server's own log.
func (s *server) words() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.TrimSpace(string(s.log))
}

// kill ends the server as a power cut would, and returns once it is gone.
func (s *server) kill() error {
	s.doomed.Store(true)
	if err := s.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill server: %w", err)
	}
	<-s.ended
	return nil
}

func (s *server) pid() int { return s.cmd.Process.Pid }

// stop ends the server and waits for it.
func (s *server) stop() error {
	s.doomed.Store(true)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop server: %w", err)
	}
	timer := time.NewTimer(stopPatience)
	defer timer.Stop()
	select {
	case <-s.ended: // its exit code is of no interest any more
		return nil
	case <-timer.C:
		err := s.cmd.Process.Kill()
		<-s.ended
		return errors.Join(fmt.Errorf("stop server: it did not end within %s", stopPatience), err)
	}
}

// describe says what is measured, in the server's own words where it has some.
func (s *server) describe(ctx context.Context, o Options, command string) (Server, error) {
	answer, err := s.client.Server.GetServer(ctx, &fairleadv1.GetServerRequest{})
	if err != nil {
		return Server{}, fmt.Errorf("ask server: %w", err)
	}
	out := Server{Command: command, Version: answer.GetVersion(), Store: answer.GetStore(),
		Durability: "every commit synced before it is acknowledged (write-ahead log, synchronous FULL)"}
	if o.Store != "" {
		out.Durability = "synchronous_commit on for every commit; fsync as the database server has it"
	}
	if command == "up" {
		runners, err := s.client.Pools.ListRunners(ctx, &fairleadv1.ListRunnersRequest{})
		if err != nil {
			return Server{}, fmt.Errorf("list runners: %w", err)
		}
		for _, r := range runners.GetRunners() {
			out.Isolation = r.GetIsolation()
		}
	}
	return out, nil
}

// called is one run of the program as a client.
type called struct {
	begun, ended time.Time
	cpu          time.Duration
	rss          int64 // at most
	out          []byte
}

// call runs the program as a client in a folder and wants it to succeed.
func (s *server) call(ctx context.Context, o Options, folder string, args ...string) (called, error) {
	cmd := exec.CommandContext(ctx, o.Program, args...)
	cmd.Dir, cmd.Env = folder, environment(s.data)
	c := called{begun: time.Now()}
	out, err := cmd.Output()
	c.ended, c.out = time.Now(), out
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return c, fmt.Errorf("fairlead %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	c.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.rss = used.Maxrss << 10
	}
	return c, nil
}

// git runs git in a folder.
func git(ctx context.Context, folder string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = folder, environment("")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

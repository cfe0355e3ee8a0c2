package crash

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// program is one process that is kept running: what ends, by itself or by force, is
// started again unless it is meant to be down.
type program struct {
	name string
	args []string
	env  []string
	as   *syscall.Credential // nil: this user
	log  string              // file that gets everything it says

	mu     sync.Mutex
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process of cmd has ended
	ready  bool          // it said so since it was started
	wanted bool          // it was not us who wanted its end
	starts int
	faults []string // ends that nobody asked for
}

// spawner starts every process from one thread that never ends, because the kernel ends
// a child by its parent's death only if the thread that made it dies.
var spawner = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// spawn starts a command that the kernel kills when this process dies.
func spawn(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error, 1)
	spawner() <- func() { started <- cmd.Start() }
	return <-started
}

// start runs the program; it does not wait for anything.
func (p *program) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		return fmt.Errorf("start %s: it runs", p.name)
	}
	file, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	cmd := exec.Command(p.args[0], p.args[1:]...)
	cmd.Env, cmd.Stderr, cmd.Dir = p.env, file, filepath.Dir(p.log)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as}
	read, write, err := os.Pipe()
	if err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", p.name, err), file.Close())
	}
	cmd.Stdout = write
	if err := spawn(cmd); err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", p.name, err), file.Close(), read.Close(), write.Close())
	}
	_ = write.Close() // the child has its own
	p.cmd, p.ended, p.ready, p.wanted = cmd, make(chan struct{}), false, true
	p.starts++
	go p.attend(cmd, p.ended, read, file)
	return nil
}

// attend reads what the process says on standard output until it ends. The pipe may be
// held open by children longer than the process lives, so it is read apart.
func (p *program) attend(cmd *exec.Cmd, ended chan struct{}, out, log *os.File) {
	go func() {
		defer func() { _ = out.Close() }()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			_, _ = fmt.Fprintf(log, "%s\n", lines.Text())
			if strings.HasPrefix(lines.Text(), "ready") {
				p.mu.Lock()
				p.ready = p.cmd == cmd
				p.mu.Unlock()
			}
		}
	}()
	err := cmd.Wait()
	p.mu.Lock()
	if p.wanted {
		p.faults = append(p.faults, fmt.Sprintf("ready %t, %s: %v", p.ready, time.Now().Format(time.StampMilli), err))
	}
	p.cmd, p.ready = nil, false
	p.mu.Unlock()
	_, _ = fmt.Fprintf(log, "--- %s ended: %v\n", p.name, err)
	close(ended)
}

// pid is 0 when it does not run.
func (p *program) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

func (p *program) isReady() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready
}

// strangeEnds are the ends that nobody asked for, since the last call.
func (p *program) strangeEnds() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.faults
	p.faults = nil
	return out
}

func (p *program) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(sig)
	}
}

// end sends the signal and waits for the end. It reports whether the program ran and
// ended in time.
func (p *program) end(sig syscall.Signal, patience time.Duration) bool {
	p.mu.Lock()
	cmd, ended := p.cmd, p.ended
	p.wanted = false
	if cmd != nil {
		_ = cmd.Process.Signal(sig)
		if sig != syscall.SIGKILL {
			_ = cmd.Process.Signal(syscall.SIGCONT) // one that is stopped could not end otherwise
		}
	}
	p.mu.Unlock()
	if cmd == nil {
		return false
	}
	select {
	case <-ended:
		return true
	case <-time.After(patience):
		return false
	}
}

// tail is the end of what it said.
func (p *program) tail(bytesMax int) string {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	var kept []byte
	for line := range bytes.Lines(content) {
		if !bytes.Contains(line, []byte("msg=request")) {
			kept = append(kept, line...)
		}
	}
	return string(kept[max(0, len(kept)-bytesMax):])
}

// processesWith lists the processes whose command line or environment holds the text,
// this one left out. The text must be a path of a siege's own folder, so that nobody else's
// are found.
func processesWith(text string) []int {
	entries, _ := filepath.Glob("/proc/[0-9]*")
	var out []int
	for _, dir := range entries {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if pid == os.Getpid() {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join(dir, "environ")) // gone meanwhile: holds nothing
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if bytes.Contains(environ, []byte(text)) || bytes.Contains(line, []byte(text)) {
			out = append(out, pid)
		}
	}
	slices.Sort(out)
	return out
}

// childrenOf lists the direct children of a process.
func childrenOf(pid int) []int {
	var out []int
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

// run runs a program in the foreground and gives back what it said.
func run(dir string, env []string, args ...string) ([]byte, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s: %w\n%s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return out, nil
}

// Build makes the programs under test in a folder, from this module's source. overlay
// names a file for go build -overlay, "" for none.
func Build(folder, overlay string) error {
	for _, name := range []string{"fairlead", "fairlead-runner"} {
		args := []string{"go", "build", "-o", filepath.Join(folder, name)}
		if overlay != "" {
			args = append(args, "-overlay", overlay)
		}
		if _, err := run("", nil, append(args, "github.com/fairlead-ci/fairlead/cmd/"+name)...); err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
	}
	return nil
}

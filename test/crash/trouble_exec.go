package crash

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// errPrivilege says that this machine does not let us try something.
var errPrivilege = errors.New("this machine does not allow it")

// mount puts a small file system in memory on a folder; Close takes it away.
func (s *Siege) mount(dir, size string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: mounting a file system needs root", errPrivilege)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	if _, err := run("", os.Environ(), "mount", "-t", "tmpfs", "-o", "size="+size+",mode=0700", "tmpfs", dir); err != nil {
		return fmt.Errorf("%w: %w", errPrivilege, err)
	}
	s.mounts = append(s.mounts, dir)
	return nil
}

// fill takes all the space that is left on the file system of a folder; the function that
// it returns gives the space back.
func fill(dir string) (release func() error, err error) {
	path := filepath.Join(dir, "filler")
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("fill %s: %w", dir, err)
	}
	for _, size := range []int{1 << 20, 4 << 10, 1} {
		block := make([]byte, size)
		for err == nil {
			_, err = file.Write(block)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return nil, errors.Join(fmt.Errorf("fill %s: %w", dir, err), file.Close())
		}
		err = nil
	}
	return func() error { return os.Remove(path) }, file.Close()
}

// injector makes system calls of a running process fail, by strace.
type injector struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// inject makes every call of the given names fail with the error from now on, in the
// processes and what they start.
func inject(ctx context.Context, calls, failure string, pids ...int) (*injector, error) {
	return tamper(ctx, calls, "error="+failure, pids)
}

// delay makes every call of the given names take that long before it begins.
func delay(ctx context.Context, calls string, by time.Duration, pids ...int) (*injector, error) {
	return tamper(ctx, calls, fmt.Sprintf("delay_enter=%d", by.Microseconds()), pids)
}

func tamper(ctx context.Context, calls, how string, pids []int) (*injector, error) {
	path, err := exec.LookPath("strace")
	if err != nil {
		return nil, fmt.Errorf("%w: strace is not installed", errPrivilege)
	}
	args := []string{"-f", "-o", "/dev/null", "-e", "trace=" + calls, "-e", "inject=" + calls + ":" + how}
	for _, pid := range pids {
		args = append(args, "-p", strconv.Itoa(pid))
	}
	cmd := exec.CommandContext(ctx, path, args...)
	words, err := cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("tamper with %s: %w", calls, err)
	}
	if err := spawn(cmd); err != nil {
		return nil, fmt.Errorf("tamper with %s: %w", calls, err)
	}
	i := &injector{cmd: cmd, ended: make(chan struct{})}
	attached := make(chan string, 1)
	go func() {
		said := ""
		for lines := bufio.NewScanner(words); lines.Scan(); {
			said += lines.Text() + "\n"
			if strings.Contains(lines.Text(), "attached") {
				select {
				case attached <- "":
				default:
				}
			}
		}
		_ = cmd.Wait()
		select {
		case attached <- said:
		default:
		}
		close(i.ended)
	}()
	if said := <-attached; said != "" {
		return nil, fmt.Errorf("%w: strace can't attach: %s", errPrivilege, strings.TrimSpace(said))
	}
	return i, nil
}

// stop lets the processes go; what they call works again.
func (i *injector) stop() {
	_ = i.cmd.Process.Signal(syscall.SIGINT)
	<-i.ended
}

// awaitEnd waits until the program has ended by itself, which it is expected to now, and
// gives its last words.
func (p *program) awaitEnd(patience time.Duration) (words string, err error) {
	p.mu.Lock()
	p.wanted = false
	ended, running := p.ended, p.cmd != nil
	p.mu.Unlock()
	if running {
		select {
		case <-ended:
		case <-time.After(patience):
			p.mu.Lock()
			p.wanted = true
			p.mu.Unlock()
			return "", fmt.Errorf("%s does not end within %s:\n%s", p.name, patience, p.tail(4<<10))
		}
	}
	return p.tail(4 << 10), nil
}

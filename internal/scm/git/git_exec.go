package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// call is one run of git.
type call struct {
	dir      string   // the bare repository; "" for none
	config   []string // further key=value settings, visible in the process list
	env      []string // further variables; the place for secrets
	args     []string
	protocol string // the one transport it may use; "" for none
	stdin    io.Reader
	timeout  time.Duration
	max      int64 // bytes of standard output
}

// exitError says that git ran and refused.
type exitError struct {
	verb   string
	code   int
	stderr string // scrubbed, at most stderrBytesMax
}

func (e *exitError) Error() string {
	return fmt.Sprintf("git %s: exit %d: %s", e.verb, e.code, strings.TrimSpace(e.stderr))
}

// hardening is on every command line: nothing that a repository or a user configured
// may run a program, follow another address or start work in the background.
var hardening = []string{
	"core.hooksPath=/dev/null",
	"core.fsmonitor=false",
	"core.askPass=",
	"credential.helper=",
	"submodule.recurse=false",
	"fetch.recurseSubmodules=false",
	"gc.auto=0",
	"maintenance.auto=false",
	"receive.autogc=false",
	"http.followRedirects=false",
	"http.lowSpeedLimit=1000",
	"http.lowSpeedTime=60",
	"pack.windowMemory=64m",
	"pack.threads=2",
	"core.bigFileThreshold=16m",
	// What the server acknowledged must survive a power cut, so objects and refs are
	// synced; "batch" costs one flush per push, not one per object.
	"core.fsync=objects,derived-metadata,reference",
	"core.fsyncMethod=batch",
	// Old histories have these defects, and they can't hurt: refusing them would refuse
	// well-known repositories.
	"fetch.fsckObjects=true",
	"fetch.fsck.zeroPaddedFilemode=ignore",
	"fetch.fsck.missingSpaceBeforeDate=ignore",
	"fetch.fsck.badTimezone=ignore",
	"receive.fsckObjects=true",
	"receive.fsck.zeroPaddedFilemode=ignore",
	"receive.fsck.missingSpaceBeforeDate=ignore",
	"receive.fsck.badTimezone=ignore",
}

// inherited are the only variables of the server's own environment that git sees.
var inherited = []string{"PATH", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "TMPDIR"}

// environment is the whole environment of a git process.
func environment(c call) []string {
	protocol := c.protocol
	if protocol == "" {
		protocol = "none"
	}
	env := []string{
		"LC_ALL=C", "HOME=/nonexistent", "XDG_CONFIG_HOME=/nonexistent",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false", "SSH_ASKPASS=/bin/false",
		"GIT_SSH_COMMAND=ssh -o BatchMode=yes -o ConnectTimeout=20",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_OPTIONAL_LOCKS=0", "GIT_ADVICE=0",
		"GIT_ALLOW_PROTOCOL=" + protocol,
	}
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	if file := os.Getenv("SSL_CERT_FILE"); file != "" {
		env = append(env, "GIT_SSL_CAINFO="+file) // git itself does not look at SSL_CERT_FILE
	}
	return append(env, c.env...) // a later entry wins
}

// command builds the process. Its whole process group is asked to stop when ctx ends
// and killed soon after, so helpers that git started can't outlive the request.
func (m *Mirrors) command(ctx context.Context, c call) *exec.Cmd {
	args := make([]string, 0, 2*len(hardening)+2*len(c.config)+len(c.args)+2)
	for _, setting := range hardening {
		args = append(args, "-c", setting)
	}
	for _, setting := range c.config {
		args = append(args, "-c", setting)
	}
	if c.dir != "" {
		args = append(args, "--git-dir="+c.dir)
	}
	cmd := exec.CommandContext(ctx, m.binary, append(args, c.args...)...)
	cmd.Env = environment(c)
	cmd.Dir = m.root
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		group := -cmd.Process.Pid
		// SIGTERM first: git then removes its quarantine of half-received objects.
		err := syscall.Kill(group, syscall.SIGTERM)
		time.AfterFunc(killAfter, func() { _ = syscall.Kill(group, syscall.SIGKILL) })
		return err
	}
	cmd.WaitDelay = killAfter + time.Second
	return cmd
}

// run runs git and returns its standard output.
func (m *Mirrors) run(ctx context.Context, c call) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	cmd := m.command(ctx, c)
	max := c.max
	if max == 0 {
		max = outputBytesMax
	}
	stdout := &capped{max: max, full: cancel}
	stderr := &capped{max: stderrBytesMax}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.stdin, stdout, stderr
	err := cmd.Run()
	verb := c.args[0]
	switch {
	case stdout.over:
		return nil, fmt.Errorf("git %s: output over %d bytes: %w", verb, max, errOutput)
	case err == nil:
		return stdout.buf.Bytes(), nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("git %s: %w", verb, ctx.Err())
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return stdout.buf.Bytes(), &exitError{verb, exit.ExitCode(), scrub(stderr.buf.String())}
	}
	return nil, fmt.Errorf("git %s: %w", verb, err)
}

var errOutput = errors.New("git said too much")

// capped keeps the first max bytes; full, if any, is called when there were more.
type capped struct {
	buf  bytes.Buffer
	max  int64
	over bool
	full func()
}

func (c *capped) Write(p []byte) (int, error) {
	room := c.max - int64(c.buf.Len())
	if int64(len(p)) <= room {
		return c.buf.Write(p)
	}
	c.buf.Write(p[:max(room, 0)])
	if !c.over && c.full != nil {
		c.full()
	}
	c.over = true
	return len(p), nil
}

var userinfo = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`://[^@/\s]+@`)
})

// scrub takes credentials out of text that goes into an error.
func scrub(text string) string {
	return strings.ToValidUTF8(userinfo().ReplaceAllString(text, "://[secret]@"), "\uFFFD")
}

// locate finds the git program and checks its version.
func locate(ctx context.Context) (string, error) {
	path, err := exec.LookPath("git")
	if err != nil {
		return "", fmt.Errorf("locate git: install git 2.39 or newer: %w", err)
	}
	m := &Mirrors{binary: path, root: "/"}
	out, err := m.run(ctx, call{args: []string{"version"}, timeout: readTimeout})
	if err != nil {
		return "", fmt.Errorf("locate git: %w", err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(out), "git version %d.%d", &major, &minor); err != nil {
		return "", fmt.Errorf("locate git: unknown version %q", strings.TrimSpace(string(out)))
	}
	if major < 2 || major == 2 && minor < 39 {
		return "", fmt.Errorf("locate git: version %d.%d is too old, 2.39 or newer is needed", major, minor)
	}
	return path, nil
}

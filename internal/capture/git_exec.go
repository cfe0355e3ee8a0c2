package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// gitError says that git ran and refused.
type gitError struct {
	verb   string
	code   int
	stderr string
}

func (e *gitError) Error() string {
	return fmt.Sprintf("git %s: exit %d: %s", e.verb, e.code, strings.TrimSpace(e.stderr))
}

// settings keep the user's configuration away from what must be the same for everybody,
// and keep git from starting anything or writing to the repository. What decides how a
// file becomes an object (line endings, filters, attributes, ignore rules) stays as the
// user has it: otherwise a clean tree would look changed.
var settings = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false", "core.splitIndex=false",
	"core.quotePath=false", "gc.auto=0", "maintenance.auto=false", "commit.gpgSign=false", "i18n.commitEncoding=UTF-8",
	"submodule.recurse=false", "push.recurseSubmodules=no", "push.gpgSign=false", "push.followTags=false",
	"credential.helper=", "http.followRedirects=false",
}

// ownVariables are variables that point git at some other repository or change what it
// records; a hook that calls us has several of them set.
var ownVariables = []string{
	"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
	"GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_QUARANTINE_PATH", "GIT_CONFIG", "GIT_CONFIG_PARAMETERS",
	"GIT_CONFIG_COUNT", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME",
	"GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE", "GIT_EXTERNAL_DIFF", "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS",
	"GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS", "GIT_DEFAULT_HASH", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE",
	"GIT_GRAFT_FILE", "GIT_TRACE", "GIT_PUSH_OPTION_COUNT", "GIT_CEILING_DIRECTORIES",
}

// call is one run of git in the tree's folder.
type call struct {
	args    []string
	env     []string
	stdin   io.Reader
	timeout time.Duration // 0: callTimeout
}

// git runs git in dir and returns its standard output.
func git(ctx context.Context, dir string, c call) (string, error) {
	if c.timeout == 0 {
		c.timeout = callTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	args := []string{"--no-optional-locks", "-C", dir}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	cmd := exec.CommandContext(ctx, "git", append(args, c.args...)...)
	cmd.Env = environment(c.env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Second
	stdout, stderr := &bounded{max: outputBytesMax}, &bounded{max: 16 << 10}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.stdin, stdout, stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case stdout.over:
		return "", fmt.Errorf("git %s: over %d bytes of output", c.args[0], outputBytesMax)
	case err == nil:
		return stdout.String(), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("git %s: %w", c.args[0], ctx.Err())
	case errors.As(err, &exit):
		return stdout.String(), &gitError{c.args[0], exit.ExitCode(), strings.ToValidUTF8(stderr.String(), "?")}
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("git %s: install git 2.39 or newer: %w", c.args[0], err)
	}
	return "", fmt.Errorf("git %s: %w", c.args[0], err)
}

// environment is the caller's without what would point git elsewhere, and with extra.
func environment(extra []string) []string {
	env := make([]string, 0, len(os.Environ())+len(extra)+4)
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		own := strings.HasPrefix(name, "GIT_CONFIG_KEY_") || strings.HasPrefix(name, "GIT_CONFIG_VALUE_")
		for _, other := range ownVariables {
			own = own || name == other
		}
		if !own {
			env = append(env, entry)
		}
	}
	env = append(env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1")
	if file := os.Getenv("SSL_CERT_FILE"); file != "" && os.Getenv("GIT_SSL_CAINFO") == "" {
		env = append(env, "GIT_SSL_CAINFO="+file) // else the server is believed and its git address is not
	}
	return append(env, extra...)
}

// bounded keeps the first max bytes.
type bounded struct {
	bytes.Buffer
	max  int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.max - b.Len(); len(p) > room {
		b.over = true
		b.Buffer.Write(p[:max(room, 0)])
		return len(p), nil
	}
	return b.Buffer.Write(p)
}

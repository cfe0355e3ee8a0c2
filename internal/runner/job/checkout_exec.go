package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
)

var (
	commitForm = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)
	sourceForm = regexp.MustCompile(`^/[A-Za-z0-9._/-]+$`)
)

// errRefused marks an answer of the server that another try won't change.
var errRefused = errors.New("refused")

// checkout brings exactly the pinned commit into the workspace, in two parts. The first
// runs outside the sandbox, where the token is, in a folder that no step can write. The
// second runs inside, without a token, because a workspace that steps have touched is
// theirs: its hooks and settings must not run with the runner's rights.
func (j *job) checkout(ctx context.Context, r *running) ending {
	commit := j.m.Source.Commit
	if !commitForm.MatchString(commit) || !sourceForm.MatchString(j.m.Source.Path) ||
		strings.Contains(j.m.Source.Path, "..") {
		return failed(domain.FailureInvalid, "the manifest names no commit that can be fetched")
	}
	to, depth, problem := j.checkoutOptions(r)
	if problem != "" {
		return failed(domain.FailureInvalid, "%s", problem)
	}
	fetched := make(chan error, 1)
	fetching, cancel := context.WithTimeoutCause(ctx, fetchPatience, fmt.Errorf("it took longer than %s", fetchPatience))
	defer cancel()
	source := j.box.Outside().Source + "/repository"
	go func() { fetched <- j.fetch(fetching, wanted{j.m.Source.Path, commit, depth}, source) }()
	select {
	case err := <-fetched:
		if err != nil && ctx.Err() == nil {
			return failed(domain.FailurePlatform, "fetch commit %s: %v", commit, err)
		}
	case s := <-j.stops:
		j.begin(s)
	case <-j.timeout.C:
		j.begin(Stop{Reason: "timeout", Grace: j.grace()})
	}
	if j.stop != nil {
		cancel()
		<-fetched
		return ending{outcome: outcomeCancelled, message: "stopped: " + j.stop.Reason}
	}
	if ctx.Err() != nil {
		j.kill(ctx)
		return failed(j.killed.Class, "%s", j.killed.Message)
	}
	end := j.execute(ctx, r, isolate.Command{
		Args: []string{
			"sh", "-c", placeScript, "checkout", j.box.Inside().Source + "/repository", commit,
			j.remote(), branchOf(j.m.Source.Ref), j.inside.files + "/" + commandFile("head", r.key), to,
		},
		Env: j.environment(nil, quietGit),
		Dir: j.inside.workspace,
	}, nil)
	if end.outcome != outcomeSuccess {
		if end.class == domain.FailureUserCode {
			end.class = domain.FailurePlatform // there is nothing of the author's in it
		}
		return end
	}
	head, err := readCommandFile(j.files, commandFile("head", r.key))
	if err == nil && strings.TrimSpace(head) != commit {
		err = fmt.Errorf("it has %q", short(strings.TrimSpace(head)))
	}
	if err != nil {
		return failed(domain.FailurePlatform, "check that the workspace has commit %s: %v", commit, err)
	}
	return end
}

// checkoutOptions evaluates the options of a checkout: the folder that the commit comes into, and
// how many commits of its history with it; 0: all.
func (j *job) checkoutOptions(r *running) (to string, depth int64, problem string) {
	to, depth = ".", 1
	for _, b := range r.plan.With {
		text, err := expr.Interpolate(b.Value, j.ctx.evaluation(r.plan.ID, r.env, j.status()))
		if err != nil {
			return "", 0, fmt.Sprintf("its option %s: %v", b.Name, err)
		}
		text = strings.TrimSpace(text)
		switch n, whole := expr.String(text).Whole(); {
		case text == "": // as if it were not given
		case b.Name == "path" && filepath.IsLocal(text):
			to = filepath.Clean(text)
		case b.Name == "fetch-depth" && whole && n >= 0:
			depth = n
		default:
			return "", 0, fmt.Sprintf("its option %s can't be %q", b.Name, short(text))
		}
	}
	return to, depth, ""
}

// quietGit keeps git inside the sandbox to what the repository itself says.
var quietGit = map[string]string{
	"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_TERMINAL_PROMPT": "0",
	"GIT_TEMPLATE_DIR": "", "GIT_ADVICE": "0",
}

// placeScript makes a fresh repository of what was fetched: $1 is the fetched
// repository, $2 the commit, $3 the remote's address, $4 the branch or nothing, $5 the
// file for the answer, $6 the folder of the workspace. It copies the pack, so that the workspace
// stands on its own.
const placeScript = `set -e
mkdir -p -- "$6"
cd -- "$6"
for f in ./* ./.[!.]* ./..?*; do
  if [ -e "$f" ] || [ -L "$f" ]; then rm -rf "$f"; fi
done
git init -q --template= .
mkdir -p .git/objects/pack .git/info
cp "$1"/objects/pack/pack-*.pack "$1"/objects/pack/pack-*.idx .git/objects/pack/
if [ -s "$1"/shallow ]; then cp "$1"/shallow .git/shallow; fi
printf '[remote "origin"]\n\turl = %s\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n' "$3" >> .git/config
safe='-c core.hooksPath=/dev/null -c core.fsmonitor=false -c advice.detachedHead=false -c submodule.recurse=false'
if [ -n "$4" ]; then
  git $safe checkout -q --force -B "$4" "$2" --
  git update-ref "refs/remotes/origin/$4" "$2"
else
  git $safe checkout -q --force --detach "$2" --
fi
git rev-parse 'HEAD^{commit}' > "$5"
`

// branchOf is the local branch that the checkout makes, as people expect it: the one
// that was pushed. It is empty for tags and everything else.
func branchOf(ref string) string {
	name, ok := strings.CutPrefix(ref, "refs/heads/")
	if !ok || strings.HasPrefix(name, "-") {
		return ""
	}
	return name
}

// bases are the addresses of the server: a fleet has several, and any will do.
func (j *job) bases() []string {
	bases := strings.Split(j.order.Server, ",")
	for i := range bases {
		bases[i] = strings.TrimSuffix(bases[i], "/")
	}
	return bases
}

func (j *job) remote() string { return j.bases()[0] + j.m.Source.Path }

// wanted is a commit of the repository at a path of the server, with so much of its history; 0: all.
type wanted struct {
	from, commit string
	depth        int64
}

// fetch gets a commit into a folder, and tries again while the server is away.
func (j *job) fetch(ctx context.Context, what wanted, dir string) error {
	pause, bases := fetchPause, j.bases()
	for attempt := 1; ; attempt++ {
		err := bareRepository(dir)
		if err == nil {
			err = j.fetchOnce(ctx, what, dir, bases[(attempt-1)%len(bases)])
		}
		if err == nil || attempt == fetchAttempts || errors.Is(err, errRefused) || ctx.Err() != nil {
			return err
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return context.Cause(ctx)
		}
		pause *= 2
	}
}

// bareRepository makes an empty repository; it is the same on every try.
func bareRepository(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for _, sub := range []string{"objects/pack", "objects/info", "refs/heads", "refs/tags"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil { //nolint:gosec // read inside the sandbox
			return err
		}
	}
	for name, text := range map[string]string{
		"HEAD":   "ref: refs/heads/none\n",
		"config": "[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil { //nolint:gosec // as above
			return err
		}
	}
	return nil
}

// fetchOnce runs git with nothing of the machine's or the job's configuration. The
// token is in the environment of this one process: not in its arguments, not in the
// address, not on disk.
func (j *job) fetchOnce(ctx context.Context, what wanted, dir, base string) error {
	args := []string{"--git-dir=" + dir,
		"-c", "protocol.version=0", // the server decides by the refs it advertises what may be had
		"-c", "protocol.allow=never", "-c", "protocol.http.allow=always", "-c", "protocol.https.allow=always",
		"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "credential.helper=",
		"-c", "fetch.fsckObjects=true", "-c", "transfer.fsckObjects=true", "-c", "submodule.recurse=false",
		"-c", "fetch.unpackLimit=1", "-c", "transfer.unpackLimit=1", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
		"-c", "http.followRedirects=false", "-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=60",
		"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"}
	if what.depth > 0 {
		args = append(args, "--depth="+strconv.FormatInt(what.depth, 10))
	}
	cmd := exec.CommandContext(ctx, "git", append(args, "--", base+what.from, what.commit)...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false", "GIT_ATTR_NOSYSTEM=1",
		"GIT_ALLOW_PROTOCOL=http:https",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http." + base + "/.extraHeader",
		"GIT_CONFIG_VALUE_0=Authorization: Bearer " + j.m.Token,
	}
	cmd.Env = append(cmd.Env, network()...)
	// git starts others; a group of its own lets a stop reach them all.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	said := &bounded{max: 4096}
	cmd.Stdout, cmd.Stderr = said, said
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	text := strings.TrimSpace(strings.ReplaceAll(said.text.String(), j.m.Token, "***"))
	for _, final := range []string{
		"not our ref", "unadvertised object", "Authentication failed", "returned error: 4", "could not read Username",
		"fsck", "does not exist", "Server does not allow request",
	} {
		if strings.Contains(text, final) {
			return fmt.Errorf("%w by the server: %s", errRefused, text)
		}
	}
	return fmt.Errorf("git: %w: %s", err, text)
}

// writeTree writes the files of a commit into a fresh folder. Nothing of the commit is executed:
// git has no hooks, filters or settings but those given here.
func writeTree(ctx context.Context, bare, dir, commit string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // read inside the sandbox
		return err
	}
	cmd := exec.CommandContext(ctx, "git", "--git-dir="+bare, "--work-tree="+dir, "-c", "core.bare=false",
		"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "advice.detachedHead=false",
		"-c", "submodule.recurse=false", "checkout", "--quiet", "--force", "--detach", commit, "--")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_ATTR_NOSYSTEM=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	said := &bounded{max: 4096}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("git: %w: %s", err, strings.TrimSpace(said.text.String()))
	}
	return nil
}

// network is what git is told of the machine's ways out: the proxies, and the certificates
// that the runner itself believes. Git does not look at SSL_CERT_FILE.
func network() (env []string) {
	for _, name := range []string{"http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY",
		"SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	if file := os.Getenv("SSL_CERT_FILE"); file != "" {
		env = append(env, "GIT_SSL_CAINFO="+file)
	}
	return env
}

// bounded keeps the start of what is written to it.
type bounded struct {
	text bytes.Buffer
	max  int
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if room := b.max - b.text.Len(); room > 0 {
		_, _ = b.text.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

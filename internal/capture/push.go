package capture

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// headerHave names commits that the client has to the server, so that a push sends only
// what is new. The server's side is internal/scm/git.
const headerHave = "Fairlead-Have"

// refPrefix is where a server takes captures.
const refPrefix = "refs/fairlead/captures/"

// Push sends the commit, and HEAD below it, to the server's address of the repository.
// header carries the credential; it goes through the environment, where no process list
// shows it. A commit that the server has already is no error.
func (c *Capture) Push(ctx context.Context, remote string, header http.Header) error {
	to, err := url.Parse(remote)
	if err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Host == "" || to.User != nil {
		return fmt.Errorf("%w: %q is not an http address", ErrPush, remote)
	}
	if c.tree.Shallow {
		return fmt.Errorf("%w: this clone is shallow, so its history can't be sent; run git fetch --unshallow first",
			ErrUnsupported)
	}
	lines, err := c.headers(ctx, header)
	if err != nil {
		return err
	}
	env := []string{"GIT_ALLOW_PROTOCOL=" + to.Scheme, "GIT_ASKPASS=/bin/false", "SSH_ASKPASS=/bin/false",
		// What is in the user's own files could rewrite the address or add headers to it.
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(lines)))
	for i, line := range lines {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=http.extraHeader", i),
			fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, line))
	}
	args := []string{"push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no",
		"--no-progress", "--", remote, c.Commit + ":" + refPrefix + c.Commit}
	if c.Captured && c.tree.Head != "" {
		// HEAD gets a ref of its own: the next capture is then a small step from it.
		args = append(args, c.tree.Head+":"+refPrefix+c.tree.Head)
	}
	_, err = c.git(ctx, call{args: args, env: env, timeout: pushTimeout})
	var refused *gitError
	if errors.As(err, &refused) && unreached(refused.stderr) {
		return fmt.Errorf("%w: %s", ErrUnreached, explain(refused.stderr))
	}
	if errors.As(err, &refused) {
		return fmt.Errorf("%w: %s", ErrPush, explain(refused.stderr))
	}
	if err != nil {
		return fmt.Errorf("push %s: %w", c.Commit, err)
	}
	return nil
}

// headers are the request headers of a push. The first empty one drops those that the
// repository's own configuration adds.
func (c *Capture) headers(ctx context.Context, header http.Header) ([]string, error) {
	lines := []string{""}
	for name, values := range header {
		for _, value := range values {
			if strings.ContainsAny(name+value, "\r\n\x00") {
				return nil, fmt.Errorf("%w: malformed header %q", ErrPush, name)
			}
			lines = append(lines, name+": "+value)
		}
	}
	haves := []string{c.Commit}
	if c.tree.Head != "" {
		known, err := c.git(ctx, call{args: []string{"rev-list", "--max-count=" + strconv.Itoa(havesMax-1), c.tree.Head}})
		if err != nil {
			return nil, fmt.Errorf("list commits: %w", err)
		}
		haves = append(haves, strings.Fields(known)...)
	}
	return append(lines, headerHave+": "+strings.Join(haves, ",")), nil
}

// httpStatus is how git names the server's answer to a request that failed.
var httpStatus = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`The requested URL returned error: (\d)\d\d`)
})

// unreached tells a connection that failed, or a server that failed, from a refusal. Git
// ends with the same code for all of them, so its words are what there is.
func unreached(stderr string) bool {
	if answer := httpStatus().FindStringSubmatch(stderr); answer != nil {
		return answer[1] == "5"
	}
	return strings.Contains(stderr, "unable to access '") || strings.Contains(stderr, "RPC failed") ||
		strings.Contains(stderr, "unexpected disconnect")
}

// explain takes the lines of git's complaint that a person needs.
func explain(stderr string) string {
	var kept []string
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "hint:") && !strings.HasPrefix(line, "To ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "; ")
}

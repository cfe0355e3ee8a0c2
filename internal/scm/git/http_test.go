package git_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/scm/git"
	"github.com/fairlead-ci/fairlead/internal/scm/scmtest"
)

// door is a real server on the loopback with tokens that a test hands out.
type door struct {
	t       *testing.T
	mirrors *git.Mirrors
	handler *git.Handler
	url     string
	repo    scm.Repo
	// patience, if set, is how long a request may take.
	patience time.Duration

	mu     sync.Mutex
	tokens map[string]git.Access
}

func newDoor(t *testing.T, o git.HandlerOptions) *door {
	t.Helper()
	return openDoor(t, newMirrors(t), o)
}

func openDoor(t *testing.T, mirrors *git.Mirrors, o git.HandlerOptions) *door {
	t.Helper()
	d := &door{t: t, mirrors: mirrors, repo: scmtest.NewID("a", 1), tokens: map[string]git.Access{}}
	if err := d.mirrors.Init(t.Context(), d.repo); err != nil {
		t.Fatal(err)
	}
	d.handler = d.mirrors.Handler(func(_ context.Context, r *http.Request, _ git.Target) (git.Access, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		access, ok := d.tokens[r.Header.Get("Authorization")]
		switch {
		case !ok:
			return git.Access{}, domain.Reject(domain.CodeUnauthenticated, "no token")
		case access.Principal == "revoked":
			return git.Access{}, domain.Reject(domain.CodeLeaseEpochStale, "too late")
		case access.Principal == "fault":
			return git.Access{}, errors.New("the store is away")
		}
		return access, nil
	}, o)
	mux := http.NewServeMux()
	mux.HandleFunc("/git/", func(w http.ResponseWriter, r *http.Request) {
		if d.patience > 0 {
			ctx, cancel := context.WithTimeout(r.Context(), d.patience)
			defer cancel()
			r = r.WithContext(ctx)
		}
		d.handler.ServeHTTP(w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	d.url = server.URL
	d.allow("push", git.Access{Repo: d.repo, Push: true})
	return d
}

func (d *door) allow(token string, access git.Access) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tokens["Bearer "+token] = access
}

func (d *door) remote() string { return d.url + git.Path(d.repo) }

// as gives the arguments that make git present a token.
func (d *door) as(token string, args ...string) []string {
	return append([]string{"-c", "http.extraHeader=Authorization: Bearer " + token}, args...)
}

// fill mirrors a repository with one public branch and one secret one, and pins a commit.
func (d *door) fill() (remote *scmtest.Repo, pinned, secret string) {
	d.t.Helper()
	remote = scmtest.NewRepo(d.t)
	remote.Write("a", "0").Commit("base")
	pinned = remote.Write("a", "1").Commit("public")
	remote.Git("checkout", "-q", "-b", "secret")
	secret = remote.Write("s", "hidden").Commit("secret")
	remote.Git("checkout", "-q", "main")
	d.sync(remote)
	if err := d.mirrors.Pin(d.t.Context(), d.repo, pinned); err != nil {
		d.t.Fatal(err)
	}
	d.allow("attempt", git.Access{Repo: d.repo, Commit: pinned})
	return remote, pinned, secret
}

func (d *door) sync(remote *scmtest.Repo) {
	d.t.Helper()
	if _, err := d.mirrors.Fetch(d.t.Context(), d.repo, scm.Remote{URL: remote.Dir}); err != nil {
		d.t.Fatal(err)
	}
}

// Promises: [SRC-10].
func TestFetchExactlyOneCommit(t *testing.T) {
	t.Parallel()
	d := newDoor(t, git.HandlerOptions{})
	remote, pinned, secret := d.fill()
	missing := strings.Repeat("7", 40)

	for _, depth := range [][]string{nil, {"--depth=1"}} {
		for _, protocol := range []string{"0", "2"} {
			job := scmtest.NewRepo(t)
			args := append([]string{"-c", "protocol.version=" + protocol, "fetch", "-q"}, depth...)
			job.Git(d.as("attempt", append(args, d.remote(), pinned)...)...)
			if got := job.Git("rev-parse", "FETCH_HEAD"); got != pinned {
				t.Errorf("fetched %s, want %s", got, pinned)
			}
		}
	}
	// What a token sees is the pin and nothing else: not even the name of another ref.
	job := scmtest.NewRepo(t)
	want := pinned + "\trefs/fairlead/pins/" + pinned
	if got := job.Git(d.as("attempt", "ls-remote", d.remote())...); got != want {
		t.Errorf("advertised:\n%s\nwant:\n%s", got, want)
	}
	for what, id := range map[string]string{"a secret branch": secret, "a missing commit": missing} {
		out, err := job.Try(d.as("attempt", "fetch", d.remote(), id)...)
		if err == nil {
			t.Errorf("%s was served: %s", what, out)
		}
	}
	// The branch moves, the branch goes: the pinned commit stays.
	remote.Git("checkout", "-q", "--orphan", "other")
	remote.Write("b", "2").Commit("other")
	remote.Git("branch", "-D", "main", "secret")
	d.sync(remote)
	again := scmtest.NewRepo(t)
	again.Git(d.as("attempt", "fetch", "-q", d.remote(), pinned)...)
}

// A run may use actions of one repository at several commits: an attempt gets these, and no other.
func TestFetchExactlyTheCommitsThatAreAllowed(t *testing.T) {
	t.Parallel()
	d := newDoor(t, git.HandlerOptions{})
	remote, pinned, secret := d.fill()
	other := remote.Write("a", "2").Commit("other")
	d.sync(remote)
	for _, commit := range []string{other, secret} {
		if err := d.mirrors.Pin(t.Context(), d.repo, commit); err != nil {
			t.Fatal(err)
		}
	}
	d.allow("both", git.Access{Repo: d.repo, Commit: pinned, Also: []string{other}})
	for _, commit := range []string{pinned, other} {
		job := scmtest.NewRepo(t)
		job.Git(d.as("both", "-c", "protocol.version=0", "fetch", "-q", "--depth=1", d.remote(), commit)...)
		if got := job.Git("rev-parse", "FETCH_HEAD"); got != commit {
			t.Errorf("fetched %s, want %s", got, commit)
		}
	}
	if out, err := scmtest.NewRepo(t).Try(d.as("both", "fetch", d.remote(), secret)...); err == nil {
		t.Errorf("another pin was served: %s", out)
	}
	if _, text := d.rawFetch("both", "want "+secret); !strings.Contains(text, "not our ref") {
		t.Errorf("another pin that is asked for by hand: %q", text)
	}
}

// rawFetch sends wants by hand, since git itself asks only for what was advertised.
func (d *door) rawFetch(token string, lines ...string) (int, string) {
	d.t.Helper()
	var body strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&body, "%04x%s\n", len(line)+5, line)
	}
	body.WriteString("00000009done\n")
	return d.post(token, "git-upload-pack", body.String(), nil)
}

func (d *door) post(token, service, body string, header http.Header) (int, string) {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.remote()+"/"+service, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-"+service+"-request")
	r.Header.Set("Authorization", "Bearer "+token)
	for name, values := range header {
		r.Header[name] = values
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// TestRawWants: a client that ignores the advertisement gets the same words for a commit
// that exists on another branch, an ancestor, and one that exists nowhere.
// Promises: [SRC-10].
func TestRawWants(t *testing.T) {
	t.Parallel()
	d := newDoor(t, git.HandlerOptions{})
	remote, pinned, secret := d.fill()
	base := remote.Git("rev-parse", pinned+"^")
	tree := remote.Git("rev-parse", secret+"^{tree}")
	for _, id := range []string{secret, base, tree, strings.Repeat("7", 40)} {
		status, text := d.rawFetch("attempt", "want "+id)
		want := "ERR upload-pack: not our ref " + id
		if status != http.StatusOK || !strings.Contains(text, want) || strings.Contains(text, "PACK") {
			t.Errorf("want %s: got %d %q", id, status, text)
		}
		status, text = d.rawFetch("attempt", "want "+pinned, "want "+id)
		if status != http.StatusOK || !strings.Contains(text, want) || strings.Contains(text, "PACK") {
			t.Errorf("want %s beside the pin: got %d %q", id, status, text)
		}
	}
	if status, text := d.rawFetch("attempt", "want "+pinned); status != http.StatusOK || !strings.Contains(text, "PACK") {
		t.Errorf("the pinned commit: got %d %.80q", status, text)
	}
	for _, line := range []string{"deepen-not refs/heads/secret", "filter blob:none"} {
		if _, text := d.rawFetch("attempt", "want "+pinned, line); !strings.Contains(text, "is not offered") {
			t.Errorf("%s: got %q", line, text)
		}
	}
	for _, body := range []string{"zzzz", "0003", "00ff", "0008want", "0032want " + pinned[:39] + "\n0000", "+004",
		"0009evil\n0000", "fff0" + strings.Repeat("x", 100)} {
		if status, text := d.post("attempt", "git-upload-pack", body, nil); status != http.StatusBadRequest {
			t.Errorf("body %.20q: got %d %q", body, status, text)
		}
	}
	if status, text := d.post("attempt", "git-upload-pack", "0000", nil); status != http.StatusOK || text != "" {
		t.Errorf("a probe: got %d %q", status, text)
	}
}

func TestGzipRequests(t *testing.T) {
	t.Parallel()
	d := newDoor(t, git.HandlerOptions{})
	_, pinned, _ := d.fill()
	line := "want " + pinned + "\n"
	request := fmt.Sprintf("%04x%s", len(line)+4, line) + "00000009done\n"
	zip := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, text)
		_ = z.Close()
		return b.String()
	}
	header := http.Header{"Content-Encoding": {"gzip"}}
	status, text := d.post("attempt", "git-upload-pack", zip(request), header)
	if status != http.StatusOK || !strings.Contains(text, "PACK") {
		t.Errorf("gzip: got %d %.80q", status, text)
	}
	if status, _ := d.post("attempt", "git-upload-pack", request, header); status != http.StatusBadRequest {
		t.Errorf("not gzip: got %d", status)
	}
	bomb := zip(strings.Repeat("0032want "+pinned+"\n", 40_000))
	if status, _ := d.post("attempt", "git-upload-pack", bomb, header); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a bomb: got %d", status)
	}
	header = http.Header{"Content-Encoding": {"br"}}
	if status, _ := d.post("attempt", "git-upload-pack", request, header); status != http.StatusBadRequest {
		t.Errorf("an unknown encoding: got %d", status)
	}
}

// TestMissingAndForbiddenLookTheSame compares whole answers, headers included.
// Promises: [ACC-2].
func TestMissingAndForbiddenLookTheSame(t *testing.T) {
	t.Parallel()
	d := newDoor(t, git.HandlerOptions{})
	_, pinned, _ := d.fill()
	other := scmtest.NewID("a", 2) // exists, but is not the token's
	if err := d.mirrors.Init(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	missing := scmtest.NewID("a", 3)
	unpinned := git.Access{Repo: missing, Commit: pinned}
	d.allow("missing", unpinned)
	d.allow("revoked", git.Access{Repo: d.repo, Principal: "revoked"})
	d.allow("fault", git.Access{Repo: d.repo, Principal: "fault"})
	ask := func(token, path string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		response.Header.Del("Date")
		return fmt.Sprint(response.StatusCode, response.Header, string(text))
	}
	fetch, push := "/info/refs?service=git-upload-pack", "/info/refs?service=git-receive-pack"
	want := ask("attempt", git.Path(missing)+fetch)
	if !strings.HasPrefix(want, "404 ") {
		t.Fatalf("a missing repository: got %s", want)
	}
	for what, got := range map[string]string{
		"another repository":           ask("attempt", git.Path(other)+fetch),
		"a push with a fetch token":    ask("attempt", git.Path(d.repo)+push),
		"a fetch with a push token":    ask("push", git.Path(d.repo)+fetch),
		"a token for a missing mirror": ask("missing", git.Path(missing)+fetch),
		"a token that died":            ask("revoked", git.Path(d.repo)+fetch),
		"no service":                   ask("attempt", git.Path(d.repo)+"/info/refs"),
		"a file":                       ask("attempt", git.Path(d.repo)+"/HEAD"),
		"dots":                         ask("attempt", git.Path(d.repo)+"/%2e%2e/%2e%2e/x"),
		"another tenant":               ask("attempt", git.Path(scmtest.NewID("b", 1))+fetch),
	} {
		if got != want {
			t.Errorf("%s: got %s, want %s", what, got, want)
		}
	}
	first := ask("", git.Path(missing)+fetch)
	if !strings.HasPrefix(first, "401 ") || first != ask("wrong", git.Path(d.repo)+fetch) {
		t.Errorf("without a valid token: got %s", first)
	}
	if got := ask("fault", git.Path(d.repo)+fetch); !strings.HasPrefix(got, "503 ") {
		t.Errorf("a fault of the authoriser: got %s", got)
	}
}

func TestPushCaptures(t *testing.T) {
	t.Parallel()
	d := newDoor(t, git.HandlerOptions{})
	work := scmtest.NewRepo(t)
	c1 := work.Write("a", "1").Commit("first")
	capture := func(id string) string { return id + ":refs/fairlead/captures/" + id }
	for range 2 { // the second push finds everything there
		work.Git(d.as("push", "push", d.remote(), capture(c1))...)
	}
	have := []string{"-c", "http.extraHeader=" + git.HeaderHave + ": " + c1}
	out := work.Git(d.as("push", append(have, "push", d.remote(), capture(c1))...)...)
	if !strings.Contains(out, "up-to-date") {
		t.Errorf("a push of what the server has: %s", out)
	}
	if got, err := d.mirrors.Resolve(t.Context(), d.repo, c1); err != nil || got.Commit != c1 {
		t.Errorf("the pushed commit: %v, %v", got, err)
	}
	c2 := work.Write("a", "2").Commit("second")
	for what, refspec := range map[string]string{
		"a branch":             c2 + ":refs/heads/main",
		"a tag":                c2 + ":refs/tags/v1",
		"a pin":                c2 + ":refs/fairlead/pins/" + c2,
		"another commit's ref": c2 + ":refs/fairlead/captures/" + c1,
		"an odd capture":       c2 + ":refs/fairlead/captures/x",
		"a deletion":           ":refs/fairlead/captures/" + c1,
	} {
		args := append(have, "push", "--force", d.remote(), refspec)
		out, err := work.Try(d.as("push", args...)...)
		if err == nil || !strings.Contains(out, "remote rejected") && !strings.Contains(out, "remote ref does not exist") {
			t.Errorf("%s: error %v, output %s", what, err, out)
		}
	}
	if _, err := d.mirrors.Resolve(t.Context(), d.repo, c2); !errors.Is(err, scm.ErrNotFound) {
		t.Errorf("objects of refused pushes were kept: %v", err)
	}
	// One good ref beside a bad one: all or nothing.
	var err error
	out, err = work.Try(d.as("push", "push", d.remote(), capture(c2), c2+":refs/heads/x")...)
	if err == nil || !strings.Contains(out, "branches and tags are not yours to move") {
		t.Errorf("a mixed push: %v, %s", err, out)
	}
	// A capture does not move, but a descendant's push sends only what is new.
	work.Git(d.as("push", append(have, "push", d.remote(), capture(c2))...)...)
}

func TestPushRefusals(t *testing.T) {
	t.Parallel()
	d := newDoor(t, git.HandlerOptions{PushBytesMax: 200_000})
	work := scmtest.NewRepo(t)
	noise := make([]byte, 3_000_000)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(work.Dir, "noise"), noise, 0o600); err != nil {
		t.Fatal(err)
	}
	big := work.Commit("big")
	if out, err := work.Try(d.as("push", "push", d.remote(), big+":refs/fairlead/captures/"+big)...); err == nil {
		t.Errorf("a push over the limit was taken: %s", out)
	}
	if _, err := d.mirrors.Resolve(t.Context(), d.repo, big); !errors.Is(err, scm.ErrNotFound) {
		t.Errorf("objects of a push over the limit were kept: %v", err)
	}
	shallow := scmtest.NewRepo(t)
	shallow.Write("a", "1").Commit("one")
	tip := shallow.Write("a", "2").Commit("two")
	cut := scmtest.NewRepo(t)
	cut.Git("fetch", "-q", "--depth=1", "file://"+shallow.Dir, "main")
	out, err := cut.Try(d.as("push", "push", d.remote(), tip+":refs/fairlead/captures/"+tip)...)
	if err == nil || !strings.Contains(out, "unshallow") {
		t.Errorf("a shallow push: %v, %s", err, out)
	}
	// A commit whose objects are not all sent is refused, and nothing of it is kept.
	empty := pushOf(strings.Repeat("5", 40), "PACK\x00\x00\x00\x02\x00\x00\x00\x00")
	status, text := d.post("push", "git-receive-pack", empty, nil)
	if status == http.StatusOK && strings.Contains(text, "unpack ok\n") && strings.Contains(text, "ok refs/") {
		t.Errorf("a push without its objects: got %d %q", status, text)
	}
	for _, body := range []string{"0032x", pushOf("zz", ""), "0009abcd\n0000"} {
		if status, text := d.post("push", "git-receive-pack", body, nil); status != http.StatusBadRequest {
			t.Errorf("body %.20q: got %d %q", body, status, text)
		}
	}
}

func pushOf(id, pack string) string {
	line := strings.Repeat("0", 40) + " " + id + " refs/fairlead/captures/" + id + "\x00report-status"
	return fmt.Sprintf("%04x%s0000%s", len(line)+4, line, pack)
}

func TestConcurrentPushesAndFetches(t *testing.T) {
	t.Parallel()
	d := newDoor(t, git.HandlerOptions{TransfersMax: 3})
	_, pinned, _ := d.fill()
	work := scmtest.NewRepo(t)
	tip := work.Write("a", "1").Commit("pushed by all")
	var all sync.WaitGroup
	for i := range 6 {
		job := scmtest.NewRepo(t)
		all.Go(func() {
			if out, err := work.Try(d.as("push", "push", d.remote(), tip+":refs/fairlead/captures/"+tip)...); err != nil {
				t.Errorf("push %d: %v\n%s", i, err, out)
			}
		})
		all.Go(func() {
			if out, err := job.Try(d.as("attempt", "fetch", "-q", d.remote(), pinned)...); err != nil {
				t.Errorf("fetch %d: %v\n%s", i, err, out)
			}
		})
	}
	all.Wait()
}

// TestClientGoesAway: a client that stops in the middle of a push leaves no process, no
// objects and no lock behind.
func TestClientGoesAway(t *testing.T) {
	t.Parallel()
	d := newDoor(t, git.HandlerOptions{TransfersMax: 1})
	work := scmtest.NewRepo(t)
	tip := work.Write("a", "1").Commit("first")
	connection, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	// The commands and the beginning of a pack, then silence.
	fmt.Fprintf(connection, "POST %s/git-receive-pack HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer push\r\n"+
		"Content-Type: application/x-git-receive-pack-request\r\nContent-Length: 100000\r\n\r\n%s",
		git.Path(d.repo), pushOf(tip, "PACK\x00\x00\x00\x02\x00\x00\x00\x09"))
	dir, err := d.mirrors.Dir(d.repo)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "git has started", func() bool { return len(processesOf(t, dir)) > 0 })
	if err := connection.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "the transfer is over", func() bool { return d.handler.Active() == 0 && len(processesOf(t, dir)) == 0 })
	left, err := filepath.Glob(filepath.Join(dir, "objects", "tmp_objdir-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	work.Git(d.as("push", "push", d.remote(), tip+":refs/fairlead/captures/"+tip)...)
}

// processesOf lists the processes that were started for a mirror.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(dir)) {
			found = append(found, path)
		}
	}
	return found
}

// until polls for a condition that other processes bring about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("in 20 s never: %s", what)
		}
	}
}

package upgrade

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// partitions of the histories here, each with load.
const partitions = 4

// town is a fleet on one database, its runners, and the load.
type town struct {
	t        *testing.T
	folder   string
	store    string // PostgreSQL URL
	servers  []*server
	runners  []*runner
	repos    map[domain.PartitionID]string // one in each
	finish   string                        // file that ends long jobs
	longs    []*long
	flags    []string // of servers, beyond the usual
	stopLoad context.CancelFunc
	loadEnds sync.WaitGroup // of those who ask for short runs
	loaders  sync.WaitGroup // of those who follow logs

	following context.Context
	endFollow context.CancelFunc

	mu    sync.Mutex
	runs  map[domain.PartitionID][]asked // acknowledged, in order
	done  map[domain.PartitionID]int     // of them, seen to have concluded
	lost  map[string]bool                // the operator gave them up
	tries int
}

// asked is a run whose acceptance was acknowledged. A repeat says no position.
type asked struct {
	run   string
	token domain.Token
}

type server struct {
	*process
	name, address string
	client        *client.Client
}

type runner struct {
	*process
	name, token string
}

// long is a job that prints until it is told to end, and what was followed of its log.
type long struct {
	run  string
	text bytes.Buffer
	err  error
}

func newTown(t *testing.T, store string) *town {
	folder, err := os.MkdirTemp("/tmp", "fairlead-upgrade-")
	if err != nil {
		t.Fatal(err)
	}
	following, end := context.WithCancel(context.Background())
	w := &town{t: t, following: following, endFollow: end, folder: folder, store: store,
		repos: map[domain.PartitionID]string{},
		runs:  map[domain.PartitionID][]asked{}, done: map[domain.PartitionID]int{}, lost: map[string]bool{},
		finish: filepath.Join(folder, "finish"), stopLoad: func() {}}
	t.Cleanup(w.close)
	return w
}

// close ends what is left. Jobs end when their runner and its supervisors are gone.
func (w *town) close() {
	w.stopLoad()
	w.loadEnds.Wait()
	_ = os.WriteFile(w.finish, nil, 0o600)
	w.endFollow()
	w.loaders.Wait()
	for _, r := range w.runners {
		r.stop(syscall.SIGTERM)
	}
	for _, s := range w.servers {
		s.stop(syscall.SIGTERM)
	}
	if w.t.Failed() {
		for _, s := range w.servers {
			w.t.Logf("--- %s\n%s", s.name, s.words())
		}
	}
	for range 50 { // supervisors write their last words
		if os.RemoveAll(w.folder) == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.t.Errorf("%s can't be removed", w.folder)
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// serve starts a server of some programs, at an address that its name keeps.
func (w *town) serve(programs, name string) {
	w.t.Helper()
	var s *server
	for _, known := range w.servers {
		if known.name == name {
			s = known
		}
	}
	if s == nil {
		s = &server{name: name, address: "127.0.0.1:" + strconv.Itoa(freePort(w.t))}
		w.servers = append(w.servers, s)
	}
	s.process = launch(w.t, name, w.folder, nil, w.command(programs, name, s.address)...).begin(w.t)
	if s.client == nil {
		place, err := client.LocateIn(filepath.Join(w.folder, name))
		if err == nil {
			s.client, err = client.New(place.Server, place.Token, client.Options{UserAgent: "fairlead-upgrade",
				Patience: time.Millisecond})
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *town) command(programs, name, address string) []string {
	return append([]string{filepath.Join(programs, "fairlead"), "server", "--name", name, "--listen", address,
		"--data", filepath.Join(w.folder, name), "--shared", filepath.Join(w.folder, "shared"), "--store", w.store,
		"--partitions", strconv.Itoa(partitions), "--log-level", "warn"}, w.flags...)
}

// replace drains a server and starts one of other programs in its place.
func (w *town) replace(programs, name string) {
	w.t.Helper()
	for _, s := range w.servers {
		if s.name == name {
			s.leave(w.t)
		}
	}
	w.serve(programs, name)
}

// hire starts a runner that knows all servers; one that was there is replaced while its
// jobs go on.
func (w *town) hire(programs, name string) {
	w.t.Helper()
	var r *runner
	for _, known := range w.runners {
		if known.name == name {
			r = known
			r.leave(w.t)
		}
	}
	if r == nil {
		r = &runner{name: name}
		w.runners = append(w.runners, r)
		w.ask(func(c *client.Client) error {
			res, err := c.Pools.CreateRegistrationToken(w.t.Context(),
				&fairleadv1.CreateRegistrationTokenRequest{Pool: "default"})
			r.token = res.GetToken()
			return err
		})
	}
	var urls []string
	for _, s := range w.servers {
		urls = append(urls, "http://"+s.address)
	}
	r.process = launch(w.t, name, w.folder, nil, filepath.Join(programs, "fairlead-runner"), "--server",
		strings.Join(urls, ","), "--token", r.token, "--name", name, "--data", filepath.Join(w.folder, name),
		"--capacity", "4", "--isolation", "process").begin(w.t)
}

// ask does something at some server, and goes on to the next while none answers.
func (w *town) ask(act func(*client.Client) error) {
	w.t.Helper()
	if err := w.try(w.t.Context(), act); err != nil {
		w.t.Fatal(err)
	}
}

func (w *town) try(ctx context.Context, act func(*client.Client) error) error {
	for deadline := time.Now().Add(patience); ; {
		w.mu.Lock()
		w.tries++
		s := w.servers[w.tries%len(w.servers)]
		w.mu.Unlock()
		err := act(s.client)
		if err == nil || ctx.Err() != nil || !client.Retryable(err) || time.Now().After(deadline) {
			return err
		}
		pause(ctx, 20*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// settle registers repositories until every partition has one, with a long job in the first
// two, and begins the load.
func (w *town) settle() {
	w.t.Helper()
	root := w.sample()
	for i := 0; len(w.repos) < partitions; i++ {
		if i > 100 {
			w.t.Fatalf("100 repositories reach only %d of %d partitions", len(w.repos), partitions)
		}
		name := fmt.Sprintf("sample-%d", i)
		w.ask(func(c *client.Client) error {
			_, err := c.Repositories.AddRepository(w.t.Context(), &fairleadv1.AddRepositoryRequest{Name: name, Url: root,
				DefaultBranch: "main"})
			return err
		})
		run, token, err := w.request(w.t.Context(), name, "short.yml")
		if err != nil {
			w.t.Fatal(err)
		}
		if token.Partition != "" && w.repos[token.Partition] == "" {
			w.repos[token.Partition] = name
		}
		w.note(token.Partition, run, token)
	}
	for p := range w.repos {
		if len(w.longs) == 2 {
			break
		}
		l := &long{}
		var err error
		if l.run, _, err = w.request(w.t.Context(), w.repos[p], "long.yml"); err != nil {
			w.t.Fatal(err)
		}
		w.longs = append(w.longs, l)
		w.loaders.Go(func() { l.err = w.follow(l) })
	}
	w.resume()
	w.progress("the fleet is settled")
}

// resume begins the load.
func (w *town) resume() {
	ctx, cancel := context.WithCancel(w.t.Context())
	w.stopLoad = cancel
	for p, name := range w.repos {
		w.loadEnds.Go(func() { w.load(ctx, p, name) })
	}
}

// note keeps what was acknowledged.
func (w *town) note(p domain.PartitionID, run string, token domain.Token) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[p] = append(w.runs[p], asked{run, token})
}

// sample makes the repository.
func (w *town) sample() string {
	root := filepath.Join(w.folder, "sample")
	job := "on: workflow_dispatch\njobs:\n  one:\n    runs-on: ubuntu-latest\n    steps:\n      - run: |\n"
	for name, script := range map[string]string{
		"short.yml": "          sleep 0.2\n",
		"long.yml": "          i=1; while [ ! -e " + w.finish + " ]; do echo $i; i=$((i+1)); sleep 0.1; done\n" +
			"          echo end\n",
	} {
		path := filepath.Join(root, ".github/workflows", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(job+script), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "--quiet", "--initial-branch=main"}, {"add", "--all"},
		{"-c", "user.name=a", "-c", "user.email=a@fairlead.invalid", "commit", "--quiet", "--message=Sample"}} {
		if _, stderr, code, err := call(root, append([]string{"git"}, args...)...); err != nil || code != 0 {
			w.t.Fatalf("git %v: %v\n%s", args, err, stderr)
		}
	}
	return root
}

// request asks for a run under one key however often it has to be said.
func (w *town) request(ctx context.Context, repository, workflow string) (string, domain.Token, error) {
	w.mu.Lock()
	w.tries++
	key := fmt.Sprintf("upgrade-%d", w.tries)
	w.mu.Unlock()
	var res *fairleadv1.CreateRunResponse
	err := w.try(ctx, func(c *client.Client) (err error) {
		res, err = c.Runs.CreateRun(client.WithKey(ctx, key), &fairleadv1.CreateRunRequest{Repository: repository,
			Ref: "main", Workflow: workflow, Event: "workflow_dispatch"})
		return err
	})
	if err != nil {
		return "", domain.Token{}, fmt.Errorf("ask for a run of %s: %w", repository, err)
	}
	token, _ := domain.ParseToken(res.GetToken())
	return res.GetRun().GetRun(), token, nil
}

// load keeps one short run after another going in a partition.
func (w *town) load(ctx context.Context, p domain.PartitionID, repository string) {
	for ctx.Err() == nil {
		run, token, err := w.request(ctx, repository, "short.yml")
		if ctx.Err() != nil {
			return // not acknowledged
		}
		if err != nil {
			w.t.Errorf("partition %s: %v", p, err)
			return
		}
		w.note(p, run, token)
		for ctx.Err() == nil {
			r, err := w.read(ctx, run)
			if err == nil && r.GetOutcome() != "" {
				w.mu.Lock()
				w.done[p]++
				w.mu.Unlock()
				break
			}
			pause(ctx, 50*time.Millisecond)
		}
	}
}

func (w *town) read(ctx context.Context, run string) (out *fairleadv1.Run, err error) {
	err = w.try(ctx, func(c *client.Client) error {
		res, err := c.Runs.GetRun(ctx, &fairleadv1.GetRunRequest{Run: run})
		out = res.GetRun()
		return err
	})
	return out, err
}

// follow reads a long job's log to its end, at whatever server answers. Every byte must come
// once and in its place.
func (w *town) follow(l *long) error {
	attempt := string(domain.RunID(l.run).Job(0).Attempt(1))
	last := time.Now()
	for i := 0; ; i++ {
		before := l.text.Len()
		_, err := w.servers[i%len(w.servers)].client.FollowLog(w.following,
			&fairleadv1.FollowLogRequest{Attempt: attempt, Offset: int64(l.text.Len())},
			func(content []byte, offset int64) error {
				if offset != int64(l.text.Len()) {
					return fmt.Errorf("the log goes on at %d, not at %d", offset, l.text.Len())
				}
				l.text.Write(content)
				return nil
			})
		if err == nil || w.following.Err() != nil {
			return err
		}
		if l.text.Len() > before {
			last = time.Now()
		}
		if time.Since(last) > patience {
			return fmt.Errorf("follow %s: nothing for %s: %w", l.run, patience, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// progress waits until a run that was asked for from now on has concluded in each partition.
func (w *town) progress(when string) {
	w.t.Helper()
	w.mu.Lock()
	want := map[domain.PartitionID]int{}
	for p := range w.repos {
		want[p] = w.done[p] + 2 // the first may have been asked for before
	}
	w.mu.Unlock()
	begun := time.Now()
	for deadline := begun.Add(patience); ; time.Sleep(20 * time.Millisecond) {
		w.mu.Lock()
		behind := ""
		for p, n := range want {
			if w.done[p] < n {
				behind += fmt.Sprintf(" %s: %d of %d;", p, w.done[p], n)
			}
		}
		w.mu.Unlock()
		if behind == "" {
			w.t.Logf("%s: runs conclude in each of %d partitions (%s)", when, partitions,
				time.Since(begun).Round(time.Millisecond))
			return
		}
		if w.t.Failed() || time.Now().After(deadline) {
			w.t.Fatalf("%s: no progress:%s\n%v", when, behind, w.show())
		}
	}
}

// show is the fleet as some server shows it.
func (w *town) show() *fairleadv1.GetServerResponse {
	var out *fairleadv1.GetServerResponse
	_ = w.try(w.t.Context(), func(c *client.Client) (err error) {
		out, err = c.Server.GetServer(w.t.Context(), &fairleadv1.GetServerRequest{})
		return err
	})
	return out
}

// audit ends the load and looks at everything that was acknowledged.
func (w *town) audit() {
	w.t.Helper()
	w.stopLoad()
	w.loadEnds.Wait()
	if err := os.WriteFile(w.finish, nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.loaders.Wait()
	done, again := 0, 0
	for p, runs := range w.runs {
		for _, r := range runs {
			if w.lost[r.run] {
				continue
			}
			attempts := w.concluded(p, r.run)
			done++
			again += attempts - 1
		}
	}
	lines := 0
	for _, l := range w.longs {
		if w.lost[l.run] {
			continue
		}
		if n := w.concluded("", l.run); n != 1 {
			w.t.Errorf("long job %s took %d attempts", l.run, n)
		}
		if l.err != nil {
			w.t.Error(l.err)
		}
		got := strings.Split(strings.TrimSuffix(l.text.String(), "\n"), "\n")
		for i, line := range got {
			if want := strconv.Itoa(i + 1); line != want && (i != len(got)-1 || line != "end") {
				w.t.Fatalf("the log of %s has %q where %s belongs", l.run, line, want)
			}
		}
		lines += len(got)
	}
	w.t.Logf("%d runs were acknowledged and all succeeded, %d of them in a later attempt; %d long jobs ran through, "+
		"with all %d lines of log", done, again, len(w.longs), lines)
}

// concluded waits for a run's end, which must be a success, and counts its attempts.
func (w *town) concluded(p domain.PartitionID, run string) int {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		r, err := w.read(w.t.Context(), run)
		switch {
		case err != nil:
			w.t.Fatalf("run %s of %s was acknowledged: %v", run, p, err)
		case r.GetOutcome() == string(domain.OutcomeSuccess):
			return len(r.GetJobs()[0].GetAttempts())
		case r.GetOutcome() != "" || time.Now().After(deadline):
			w.t.Fatalf("run %s of %s: outcome %q: %s %v", run, p, r.GetOutcome(), r.GetReason(), r.GetJobs())
		}
	}
}

// verify examines everything that the fleet keeps.
func (w *town) verify(programs string) {
	w.t.Helper()
	stdout, stderr, code, err := call(w.folder, filepath.Join(programs, "fairlead"), "admin", "verify",
		"--store", w.store, "--shared", filepath.Join(w.folder, "shared"))
	if err != nil || code != 0 {
		w.t.Fatalf("fairlead admin verify: %v, exit code %d\n%s%s", err, code, stdout, stderr)
	}
	w.t.Log(strings.TrimSpace(stdout))
}

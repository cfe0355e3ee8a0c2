package trigger

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/scm/scmtest"
	"github.com/fairlead-ci/fairlead/internal/store"
)

func (w *world) poller() *Poller {
	return w.NewPoller(PollerConfig{Random: rand.Int64N, Every: 20 * time.Millisecond, Maintain: w.mirrors.Maintain,
		Tenants: func(context.Context) ([]domain.TenantID, error) { return []domain.TenantID{tenant}, nil }})
}

func (w *world) look(p *Poller, row store.RepositoryRow) {
	w.t.Helper()
	if err := p.Look(w.t.Context(), row); err != nil {
		w.t.Fatal(err)
	}
}

// TestS31OnePushManyDeliveries: hook, poll, and repeats of both, at the same time, are one
// run for each workflow and commit.
// Promises: [SRC-2].
func TestS31OnePushManyDeliveries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	repo := scmtest.NewRepo(t)
	before := repo.Write("a", "1").Commit("base")
	row := w.add("app", repo)
	p := w.poller()
	w.look(p, row)
	if runs := w.runs(); len(runs) != 0 {
		t.Fatalf("registering ran history: %+v", runs)
	}
	after := repo.Write(".fairlead/workflows/ci.yml", onPush, ".fairlead/workflows/r.yml", onDispatch).Commit("Add ci")
	push := Push{Tenant: tenant, Repository: "app", Ref: "refs/heads/main", Before: before, After: after, Pusher: "bob",
		Cause: person()}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			pushed, err := w.Push(t.Context(), push)
			if err != nil || len(pushed.Runs) != 1 || len(pushed.Reasons) != 1 {
				t.Errorf("push: %+v, %v", pushed, err)
			}
		})
		all.Go(func() {
			if err := w.poller().Look(t.Context(), row); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	w.look(p, row)
	until(t, "the run is listed", func() bool { return len(w.runs()) > 0 })
	if runs := w.runs(); len(runs) != 1 || runs[0].Commit != after || runs[0].Ref != "refs/heads/main" ||
		runs[0].Event != "push" {
		t.Errorf("runs: %+v", runs)
	}
	got := w.state(w.runs()[0].Run).Request
	if got.Tier != domain.TierProtected || got.Class != domain.ClassProtected {
		t.Errorf("tier %s, class %s", got.Tier, got.Class)
	}
}

// TestPollStartsRuns drives the poller itself: pushes are found, and deletions start
// nothing.
func TestPollStartsRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	repo := scmtest.NewRepo(t)
	repo.Write("a", "1").Commit("base")
	w.add("app", repo)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.poller().Run(ctx) }()
	defer func() { cancel(); <-ended }()
	repo.Git("checkout", "-q", "-b", "topic")
	tip := repo.Write(".fairlead/workflows/ci.yml", onPush).Commit("topic")
	until(t, "the push has its run", func() bool { return len(w.runs()) == 1 })
	if got := w.runs()[0]; got.Commit != tip || got.Ref != "refs/heads/topic" {
		t.Errorf("run: %+v", got)
	}
	if got := w.state(w.runs()[0].Run).Request; got.Tier != domain.TierTrusted || got.Class != domain.ClassBatch {
		t.Errorf("tier %s, class %s", got.Tier, got.Class)
	}
	repo.Git("checkout", "-q", "main")
	repo.Git("branch", "-D", "topic")
	second := repo.Write(".fairlead/workflows/ci.yml", onPush).Commit("main")
	until(t, "main has its run", func() bool { return len(w.runs()) == 2 })
	if got := w.runs()[0]; got.Commit != second {
		t.Errorf("run: %+v", got)
	}
}

// TestInvalidPushIsVisible: nobody waits for a push's answer, so what is wrong with it is
// a run that says so.
// Promises: [RUN-11].
func TestInvalidPushIsVisible(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	repo := scmtest.NewRepo(t)
	repo.Write("a", "1").Commit("base")
	row := w.add("app", repo)
	p := w.poller()
	for i, content := range []string{broken, "on: [push\n", "#" + strings.Repeat("x", 1<<20),
		"#" + strings.Repeat("x", filesBytesMax)} {
		repo.Write(".fairlead/workflows/ci.yml", content).Commit("broken")
		w.look(p, row)
		until(t, "the invalid run is listed", func() bool { return len(w.runs()) == i+1 })
		got := w.runs()[0]
		if got.Outcome != domain.OutcomeInvalid || !strings.HasPrefix(got.Workflow, ".fairlead/workflows") {
			t.Errorf("run: %+v", got)
		}
		if request := w.state(got.Run).Request; len(request.Invalid) == 0 || len(w.frozen(got.Run).Source.Commit) != 40 {
			t.Errorf("request: %+v", request)
		}
		pushed, err := w.Push(t.Context(), Push{Tenant: tenant, Repository: "app", Ref: "refs/heads/main", After: got.Commit,
			Cause: person()})
		if err != nil || len(pushed.Runs) != 1 || pushed.Runs[0].Run != got.Run {
			t.Errorf("a hook hears of %+v, %v; the run is %s", pushed, err, got.Run)
		}
	}
}

// TestPushClaimsAreChecked: what a hook says is a hint; the repository says what is true.
// Promises: [SRC-11].
func TestPushClaimsAreChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	repo := scmtest.NewRepo(t)
	main := repo.Write(".fairlead/workflows/ci.yml", onPush).Commit("main")
	repo.Git("checkout", "-q", "-b", "topic")
	topic := repo.Write("b", "1").Commit("topic")
	repo.Git("checkout", "-q", "main")
	w.add("app", repo)
	push := func(change func(*Push)) (Pushed, error) {
		p := Push{Tenant: tenant, Repository: "app", Ref: "refs/heads/main", After: main, Cause: person()}
		change(&p)
		return w.Push(t.Context(), p)
	}
	// A commit of another branch that claims to be on the protected one.
	pushed, err := push(func(p *Push) { p.After = topic })
	if err != nil || len(pushed.Runs) != 1 {
		t.Fatalf("got %+v, %v", pushed, err)
	}
	if got := w.state(pushed.Runs[0].Run).Request; got.Tier != domain.TierTrusted {
		t.Errorf("a claim made the tier %s", got.Tier)
	}
	for what, change := range map[string]func(*Push){
		"a commit that is nowhere": func(p *Push) { p.After = strings.Repeat("3", 40) },
		"no commit":                func(p *Push) { p.After = "main" },
		"a short ref":              func(p *Push) { p.Ref = "main" },
		"an internal ref":          func(p *Push) { p.Ref = "refs/fairlead/pins/" + main },
		"a hostile ref":            func(p *Push) { p.Ref = "refs/heads/--upload-pack=x" },
		"dots":                     func(p *Push) { p.Ref = "refs/heads/../../x" },
		"an odd before":            func(p *Push) { p.Before = "x" },
		"no such repository":       func(p *Push) { p.Repository = "none" },
		"a long pusher":            func(p *Push) { p.Pusher = strings.Repeat("x", 300) },
	} {
		if _, err := push(change); err == nil {
			t.Errorf("%s was taken", what)
		} else if _, ok := domain.AsRejection(err); !ok {
			t.Errorf("%s: a fault instead of a refusal: %v", what, err)
		}
	}
	deleted, err := push(func(p *Push) { p.After = strings.Repeat("0", 40) })
	if err != nil || len(deleted.Runs) != 0 || len(deleted.Reasons) != 1 {
		t.Errorf("a deletion: %+v, %v", deleted, err)
	}
}

// Promises: [SRC-6].
func TestAddRepository(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	repo := scmtest.NewRepo(t)
	repo.Write("a", "1").Commit("base")
	repo.Git("branch", "-m", "trunk")
	add := func(change func(*Registration)) (Registered, error) {
		r := Registration{Tenant: tenant, Name: "acme/app", URL: repo.Dir, Poll: true, Administrator: true, Cause: person()}
		change(&r)
		return w.AddRepository(t.Context(), r)
	}
	// The server opens no path that a client names.
	if _, err := add(func(r *Registration) { r.Administrator = false }); err == nil {
		t.Fatal("a client made the server open a path")
	}
	var all sync.WaitGroup
	ids := make([]domain.RepositoryID, 4)
	for i := range ids {
		all.Go(func() {
			added, err := add(func(*Registration) {})
			if err != nil {
				t.Error(err)
			}
			ids[i] = added.Row.Repository
			if added.Row.DefaultBranch != "trunk" || !added.Row.Poll {
				t.Errorf("row: %+v", added.Row)
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("one name is two repositories: %v", ids)
		}
	}
	for what, change := range map[string]func(*Registration){
		"another address":    func(r *Registration) { r.URL = "" + t.TempDir() },
		"an odd name":        func(r *Registration) { r.Name = "../x" },
		"a long name":        func(r *Registration) { r.Name = strings.Repeat("x", 300) },
		"an id as a name":    func(r *Registration) { r.Name = string(ids[0]) },
		"an empty folder":    func(r *Registration) { r.Name, r.URL = "b", t.TempDir() },
		"a missing folder":   func(r *Registration) { r.Name, r.URL = "b", "/nonexistent/x" },
		"a program":          func(r *Registration) { r.Name, r.URL = "b", "ext::sh -c x" },
		"a credential":       func(r *Registration) { r.Name, r.URL = "b", "https://u:p@host/x" },
		"a loopback address": func(r *Registration) { r.Name, r.URL = "b", "https://127.0.0.1:1/x" },
		"an odd branch":      func(r *Registration) { r.Name, r.DefaultBranch = "b", "--x" },
	} {
		_, err := add(change)
		if _, ok := domain.AsRejection(err); !ok {
			t.Errorf("%s: got %v", what, err)
		}
	}
	unnamed, err := add(func(r *Registration) { r.Name = "" })
	if err != nil || unnamed.Row.Name != "work" {
		t.Errorf("without a name: %+v, %v", unnamed.Row, err)
	}
	for url, want := range map[string]string{"https://github.com/acme/app.git": "acme/app", "git@host:a/b/c": "b/c",
		"/srv/git/x.git": "x", "ssh://git@host:22/y": "y"} {
		if got := nameOf(url); got != want {
			t.Errorf("%s: got %q, want %q", url, got, want)
		}
	}
}

// TestEmptyRepository: a repository without a commit can be registered, and its first
// push runs.
func TestEmptyRepository(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	work := scmtest.NewRepo(t)
	bare := filepath.Join(t.TempDir(), "app.git")
	work.Git("init", "-q", "--bare", bare)
	added, err := w.AddRepository(t.Context(), Registration{Tenant: tenant, URL: bare, Poll: true, Administrator: true,
		Cause: person()})
	if err != nil || added.Row.Name != "app" {
		t.Fatalf("got %+v, %v", added, err)
	}
	tip := work.Write(".fairlead/workflows/ci.yml", onPush).Commit("first")
	work.Git("push", "-q", bare, "main")
	pushed, err := w.Push(t.Context(), Push{Tenant: tenant, Repository: "app", Ref: "refs/heads/main",
		Before: strings.Repeat("0", 40), After: tip, Pusher: "ada", Cause: person()})
	if err != nil || len(pushed.Runs) != 1 {
		t.Fatalf("got %+v, %v", pushed, err)
	}
	if got := w.state(pushed.Runs[0].Run).Request; got.Tier != domain.TierProtected || got.Trigger.Actor.ID != "ada" {
		t.Errorf("request: %+v", got)
	}
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0).UTC()
	s := schedule{every: 8 * time.Second, random: func(n int64) int64 { return n / 2 },
		known: make(map[domain.RepositoryID]*watch)}
	rows := []store.RepositoryRow{{Repository: "b", URL: "x", Poll: true}, {Repository: "a", URL: "x", Poll: true},
		{Repository: "c", URL: "x"}, {Repository: "d", Poll: true}}
	look, again := s.due(now, rows)
	if len(look) != 0 || again != now.Add(4*time.Second) {
		t.Fatalf("at first: %v, %v", look, again.Sub(now))
	}
	now = again
	look, _ = s.due(now, rows)
	if len(look) != 2 || look[0].Repository != "a" || look[1].Repository != "b" {
		t.Fatalf("due: %v", look)
	}
	if look, _ = s.due(now, rows); len(look) != 0 {
		t.Fatalf("a look under way starts again: %v", look)
	}
	s.done("a", now, nil)
	if got := s.known["a"].next.Sub(now); got != 8*time.Second {
		t.Errorf("after a look: %v", got)
	}
	var waits []time.Duration
	for range 12 {
		s.known["b"].busy = true
		s.done("b", now, errors.New("away"))
		waits = append(waits, s.known["b"].next.Sub(now))
	}
	if waits[0] != 14*time.Second || waits[11] > pollBackoffMax || waits[11] < pollBackoffMax*3/4 {
		t.Errorf("waits: %v", waits)
	}
	s.done("b", now, nil)
	if _, again = s.due(now, rows[2:]); len(s.known) != 0 || again != now.Add(8*time.Second) {
		t.Errorf("after both went: %v, %v", s.known, again.Sub(now))
	}
}

// TestRemoteAway: a remote that is gone is an error of its own poll and of nobody else's,
// and what is known stays.
// Promises: [SRC-12].
func TestRemoteAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	repo := scmtest.NewRepo(t)
	tip := repo.Write(".fairlead/workflows/ci.yml", onPush).Commit("main")
	row := w.add("app", repo)
	if err := os.Rename(repo.Dir, repo.Dir+".away"); err != nil {
		t.Fatal(err)
	}
	if err := w.poller().Look(t.Context(), row); !errors.Is(err, scm.ErrNotFound) && !errors.Is(err, scm.ErrUnreachable) {
		t.Errorf("poll: %v", err)
	}
	w.refused(Request{Repository: "app", Ref: "main"}, domain.CodeCommitNotFound)
	w.mustRun(Request{Repository: "app", Commit: tip}) // the mirror has it
}

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/postgres"
	"github.com/fairlead-ci/fairlead/internal/testkit/pg"
)

// fleetTTL is how long a member may say nothing in these tests.
const fleetTTL = 1500 * time.Millisecond

// convoy is a fleet of real servers on one database, with runners that know all of them.
type convoy struct {
	t       *testing.T
	folder  string
	store   string
	members map[string]*member
	names   []string
	stop    string // file that ends the long jobs
}

// member is one server.
type member struct {
	name, address, data string
	process             *process
	client              *client.Client
}

func newConvoy(t *testing.T, names ...string) *convoy {
	t.Helper()
	c := &convoy{t: t, folder: t.TempDir(), store: pg.Start(t), members: map[string]*member{}}
	c.stop = filepath.Join(c.folder, "stop")
	t.Cleanup(c.end)
	for _, name := range names {
		c.join(name)
	}
	return c
}

// launch starts a program until its ready line.
func (c *convoy) launch(name string, args ...string) *process {
	c.t.Helper()
	cmd := exec.Command(filepath.Join(binaries, args[0]), args[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.folder, "FAIRLEAD_LEASE_TTL=6s",
		"GIT_CONFIG_GLOBAL=/dev/null"}
	p := &process{cmd: cmd, ready: make(chan string, 1), ended: make(chan struct{}), output: &bytes.Buffer{}}
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd.Stderr = lockedWriter{p}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill()
		<-p.ended
		if c.t.Failed() {
			p.mu.Lock()
			defer p.mu.Unlock()
			c.t.Logf("--- output of %s\n%s", name, tail(telling(p.output.Bytes()), 8<<10))
		}
	})
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "ready") {
				p.ready <- lines.Text()
			}
		}
		_ = cmd.Wait()
		close(p.ended)
	}()
	select {
	case <-p.ready:
	case <-p.ended:
		c.t.Fatalf("%s ended before it was ready:\n%s", name, p.output)
	case <-time.After(patience):
		c.t.Fatalf("%s is not ready", name)
	}
	return p
}

// join starts a server of the fleet.
func (c *convoy) join(name string) *member {
	c.t.Helper()
	m := c.members[name]
	if m == nil {
		port, err := freePort()
		if err != nil {
			c.t.Fatal(err)
		}
		m = &member{name: name, address: fmt.Sprintf("127.0.0.1:%d", port), data: filepath.Join(c.folder, name)}
		c.members[name] = m
		c.names = append(c.names, name)
	}
	m.process = c.launch(name, "fairlead", "server", "--store", c.store, "--shared", filepath.Join(c.folder, "shared"),
		"--data", m.data, "--name", name, "--listen", m.address, "--member-ttl", fleetTTL.String())
	place, err := client.LocateIn(m.data)
	if err != nil {
		c.t.Fatal(err)
	}
	if m.client, err = client.New(place.Server, place.Token, client.Options{Patience: patience}); err != nil {
		c.t.Fatal(err)
	}
	return m
}

func (c *convoy) runner(name string, slots int) {
	c.t.Helper()
	var servers []string
	for _, n := range c.names {
		servers = append(servers, "http://"+c.members[n].address)
	}
	res, err := c.members[c.names[0]].client.Pools.CreateRegistrationToken(c.t.Context(),
		&fairleadv1.CreateRegistrationTokenRequest{Pool: "default"})
	if err != nil {
		c.t.Fatal(err)
	}
	c.launch(name, "fairlead-runner", "--server", strings.Join(servers, ","), "--token", res.GetToken(), "--name", name,
		"--data", filepath.Join(c.folder, name), "--capacity", strconv.Itoa(slots), "--isolation", "process")
}

// end lets the long jobs end, so that no supervisor outlives the test.
func (c *convoy) end() { _ = os.WriteFile(c.stop, nil, 0o600) }

// fleet asks a member what the fleet looks like until it is as wanted.
func (c *convoy) fleet(at, what string, wanted func(*fairleadv1.GetServerResponse) bool) *fairleadv1.GetServerResponse {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		res, err := c.members[at].client.Server.GetServer(c.t.Context(), &fairleadv1.GetServerRequest{})
		if err == nil && wanted(res) {
			return res
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: never so; last %v, %v", what, res, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// spread reports whether exactly these members live and share all partitions evenly.
func spread(names ...string) func(*fairleadv1.GetServerResponse) bool {
	return func(res *fairleadv1.GetServerResponse) bool {
		owned := map[string]int{}
		for _, m := range res.GetMembers() {
			if m.GetState() == "live" {
				owned[m.GetName()] = 0
			}
		}
		for _, p := range res.GetPartitions() {
			if _, live := owned[p.GetOwner()]; !live || p.GetState() != "owned" {
				return false
			}
			owned[p.GetOwner()]++
		}
		if len(owned) != len(names) {
			return false
		}
		for _, name := range names {
			if n, live := owned[name]; !live || n < len(res.GetPartitions())/len(names) {
				return false
			}
		}
		return true
	}
}

// voyage is a long job in each of the partitions, and what its log said while it was
// followed.
type voyage struct {
	convoy *convoy
	runs   map[domain.PartitionID]string
	texts  map[domain.PartitionID]*bytes.Buffer
	faults chan error
}

// depart registers repositories until all eight partitions have one, and starts a long job
// in each. Its log is followed at the members in turn from the first byte to the last.
func (c *convoy) depart() *voyage {
	c.t.Helper()
	v := &voyage{convoy: c, runs: map[domain.PartitionID]string{}, texts: map[domain.PartitionID]*bytes.Buffer{},
		faults: make(chan error, 8)}
	repo := c.repository()
	for i := 0; len(v.runs) < 8; i++ {
		if i == 200 {
			c.t.Fatalf("200 repositories reach %d partitions", len(v.runs))
		}
		at := c.members[c.names[i%len(c.names)]]
		name := fmt.Sprintf("r%d", i)
		if _, err := at.client.Repositories.AddRepository(c.t.Context(), &fairleadv1.AddRepositoryRequest{Name: name,
			Url: repo, DefaultBranch: "main"}); err != nil {
			c.t.Fatal(err)
		}
		p, run := c.ask(at, name, "short.yml")
		c.success(at, run)
		if v.runs[p] == "" {
			_, v.runs[p] = c.ask(at, name, "long.yml")
			v.texts[p] = &bytes.Buffer{}
		}
	}
	n := 0
	for p, run := range v.runs {
		go v.follow(c.names[n%len(c.names)], run, v.texts[p])
		n++
	}
	return v
}

func (c *convoy) repository() string {
	dir := filepath.Join(c.folder, "repo")
	job := "on: workflow_dispatch\njobs:\n  one:\n    runs-on: ubuntu-latest\n    steps:\n      - run: |\n          "
	for name, script := range map[string]string{"short.yml": "true\n", "long.yml": "i=1; while [ ! -e " + c.stop +
		" ]; do echo $i; i=$((i+1)); sleep 0.1; done\n"} {
		path := filepath.Join(dir, ".fairlead", "workflows", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			c.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(job+script), 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
	for _, line := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"},
		{"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "first"}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, line...)...).CombinedOutput(); err != nil {
			c.t.Fatalf("git %v: %v\n%s", line, err, out)
		}
	}
	return dir
}

// ask asks for a run and says where it lives.
func (c *convoy) ask(at *member, repository, workflow string) (domain.PartitionID, string) {
	c.t.Helper()
	res, err := at.client.Runs.CreateRun(c.t.Context(), &fairleadv1.CreateRunRequest{Repository: repository, Ref: "main",
		Workflow: workflow, Event: "workflow_dispatch"})
	if err != nil {
		c.t.Fatal(err)
	}
	token, _ := domain.ParseToken(res.GetToken())
	return token.Partition, res.GetRun().GetRun()
}

// success waits until a run has succeeded, in one attempt.
func (c *convoy) success(at *member, run string) {
	c.t.Helper()
	var last *fairleadv1.Run
	err := at.client.FollowRun(c.t.Context(), &fairleadv1.WatchRunRequest{Run: run},
		func(r *fairleadv1.GetRunResponse) error { last = r.GetRun(); return nil })
	if err != nil {
		c.t.Fatalf("follow run %s: %v", run, err)
	}
	if attempts := last.GetJobs()[0].GetAttempts(); last.GetOutcome() != "success" || len(attempts) != 1 {
		c.t.Fatalf("run %s ended with %s in %d attempts: %v", run, last.GetOutcome(), len(attempts), attempts)
	}
}

// follow reads a log at one member after another as they go away.
func (v *voyage) follow(first, run string, text *bytes.Buffer) {
	ctx, at := context.Background(), slices.Index(v.convoy.names, first)
	for deadline := time.Now().Add(2 * patience); ; at++ {
		m := v.convoy.members[v.convoy.names[at%len(v.convoy.names)]]
		place, err := client.LocateIn(m.data)
		if err == nil {
			var c *client.Client
			c, err = client.New(place.Server, place.Token, client.Options{Patience: time.Millisecond})
			if err == nil {
				_, err = c.FollowLog(ctx, &fairleadv1.FollowLogRequest{
					Attempt: string(domain.RunID(run).Job(0).Attempt(1)), Offset: int64(text.Len())},
					func(content []byte, offset int64) error {
						if offset != int64(text.Len()) {
							return fmt.Errorf("a gap: %d bytes, then offset %d", text.Len(), offset)
						}
						text.Write(content)
						return nil
					})
			}
		}
		if err == nil || time.Now().After(deadline) || strings.Contains(fmt.Sprint(err), "a gap") {
			v.faults <- err
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// arrive ends the jobs and looks at everything that came of them.
func (v *voyage) arrive(at string) {
	c := v.convoy
	c.t.Helper()
	c.end()
	for range v.runs {
		if err := <-v.faults; err != nil {
			c.t.Errorf("a followed log: %v", err)
		}
	}
	for p, run := range v.runs {
		c.success(c.members[at], run)
		lines := strings.Fields(v.texts[p].String())
		for i, line := range lines {
			if line != strconv.Itoa(i+1) {
				c.t.Fatalf("the log of %s has %q where %d belongs", p, line, i+1)
			}
		}
		if len(lines) < 10 {
			c.t.Errorf("the log of %s has %d lines", p, len(lines))
		}
	}
}

// A server with a folder of its own in place of the shared one would keep logs where nobody
// finds them: it is turned away before it takes anything.
// Promises: [FLEET-16].
func TestAServerWithAnotherFolderTakesNothing(t *testing.T) {
	t.Parallel()
	c := newConvoy(t, "ada")
	before := c.fleet("ada", "one server has all partitions", spread("ada"))
	cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, "fairlead"), "server", "--store", c.store,
		"--shared", filepath.Join(c.folder, "elsewhere"), "--data", filepath.Join(c.folder, "eve"), "--name", "eve",
		"--listen", "127.0.0.1:0", "--member-ttl", fleetTTL.String())
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.folder}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !bytes.Contains(out, []byte("the same folder as --shared")) {
		t.Fatalf("a server with another folder: %v\n%s", err, out)
	}
	after := c.fleet("ada", "one server has all partitions", spread("ada"))
	for i, p := range after.GetPartitions() {
		if was := before.GetPartitions()[i]; p.GetEpoch() != was.GetEpoch() {
			t.Errorf("%s changed hands: epoch %d, then %d", p.GetPartition(), was.GetEpoch(), p.GetEpoch())
		}
	}
}

// A server that is not where it says would take partitions that nobody reaches: it is turned
// away when nobody answers there, and when another member does.
// Promises: [FLEET-17].
func TestAServerThatIsNotWhereItSaysTakesNothing(t *testing.T) {
	t.Parallel()
	c := newConvoy(t, "ada")
	before := c.fleet("ada", "one server has all partitions", spread("ada"))
	nowhere, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	for advertised, want := range map[string]string{
		fmt.Sprintf("http://127.0.0.1:%d", nowhere): "nobody answers there",
		"http://" + c.members["ada"].address:        `the member "ada"`,
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, "fairlead"), "server", "--store", c.store,
			"--shared", filepath.Join(c.folder, "shared"), "--data", filepath.Join(c.folder, "eve"), "--name", "eve",
			"--listen", "127.0.0.1:0", "--member-ttl", fleetTTL.String(), "--advertise", advertised)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.folder}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 3 || !bytes.Contains(out, []byte("advertise_unreachable")) ||
			!bytes.Contains(out, []byte(want)) || !bytes.Contains(out, []byte("--advertise")) {
			t.Fatalf("a server at %s: %v\n%s", advertised, err, out)
		}
	}
	after := c.fleet("ada", "one server has all partitions", spread("ada"))
	if len(after.GetMembers()) != 1 {
		t.Errorf("the fleet has the members %v", after.GetMembers())
	}
	for i, p := range after.GetPartitions() {
		if was := before.GetPartitions()[i]; p.GetEpoch() != was.GetEpoch() {
			t.Errorf("%s changed hands: epoch %d, then %d", p.GetPartition(), was.GetEpoch(), p.GetEpoch())
		}
	}
}

// A fleet through everything that its servers may meet: one is killed, one hangs for longer
// than its lease and wakes, one is drained, one joins. Jobs run on in every partition, and
// logs are followed without a gap.
func TestAFleetLosesServersAndNoWork(t *testing.T) {
	t.Parallel()
	c := newConvoy(t, "ada", "bob", "cyd")
	c.runner("one", 5)
	c.runner("two", 5)
	c.fleet("ada", "three servers share the partitions", spread("ada", "bob", "cyd"))
	v := c.depart()

	t.Log("kill")
	_ = c.members["bob"].process.cmd.Process.Kill()
	<-c.members["bob"].process.ended
	c.fleet("ada", "two servers share the partitions", spread("ada", "cyd"))
	_, run := c.ask(c.members["ada"], "r0", "short.yml")
	c.success(c.members["cyd"], run)
	c.join("bob")
	c.fleet("bob", "the killed one has joined again", spread("ada", "bob", "cyd"))

	t.Log("hang")
	hung := c.hang()
	others := slices.DeleteFunc(slices.Clone(c.names), func(n string) bool { return n == hung.name })
	before := c.fleet(others[0], "two servers share the partitions", spread(others...))
	_, run = c.ask(c.members[others[0]], "r0", "short.yml")
	c.success(c.members[others[1]], run)
	_ = hung.process.cmd.Process.Signal(syscall.SIGCONT)
	c.fleet(others[0], "the hung one is a member again", spread("ada", "bob", "cyd"))
	c.changedNothing(before)

	t.Log("drain")
	_ = hung.process.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-hung.process.ended:
	case <-time.After(patience):
		t.Fatal("the drained server did not end")
	}
	if code := hung.process.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the drained server ended with %d", code)
	}
	c.fleet(others[0], "two servers share the partitions, and the drained one has left",
		func(res *fairleadv1.GetServerResponse) bool {
			there := slices.ContainsFunc(res.GetMembers(), func(m *fairleadv1.Member) bool { return m.GetName() == hung.name })
			return spread(others...)(res) && !there
		})

	t.Log("join")
	c.join("dan")
	c.fleet("dan", "a new one has its share", spread(append(others, "dan")...))
	_, run = c.ask(c.members["dan"], "r0", "short.yml")
	c.success(c.members["dan"], run)
	v.arrive("dan")
}

// hang stops the server that leads the pool and holds the logs.
func (c *convoy) hang() *member {
	c.t.Helper()
	res := c.fleet(c.names[0], "somebody leads the pool", func(res *fairleadv1.GetServerResponse) bool {
		return leaderOf(res) != ""
	})
	m := c.members[leaderOf(res)]
	if err := m.process.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		c.t.Fatal(err)
	}
	return m
}

func leaderOf(res *fairleadv1.GetServerResponse) string {
	for _, p := range res.GetPartitions() {
		if strings.HasPrefix(p.GetPartition(), "pool-") {
			return p.GetOwner()
		}
	}
	return ""
}

// changedNothing reads the history itself: behind the position at which another server had
// taken a partition over, every batch was written under that epoch or a later one.
func (c *convoy) changedNothing(taken *fairleadv1.GetServerResponse) {
	c.t.Helper()
	s, err := postgres.Open(c.t.Context(), c.store, postgres.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	looked := 0
	for _, p := range taken.GetPartitions() {
		id := domain.PartitionID(p.GetPartition())
		rows, err := s.Read(c.t.Context(), id, store.Position(p.GetPosition()), 1000)
		if err != nil {
			c.t.Fatal(err)
		}
		for i := range rows {
			_, epoch, err := s.BatchAt(c.t.Context(), id, rows[i].Position)
			if err != nil {
				continue // in the middle of a batch
			}
			looked++
			if epoch < p.GetEpoch() {
				c.t.Errorf("position %d of %s was written under epoch %d, after epoch %d had begun at %d",
					rows[i].Position, id, epoch, p.GetEpoch(), p.GetPosition())
			}
		}
	}
	if looked == 0 {
		c.t.Error("nothing was written after the take-over, so nothing was shown")
	}
}

// A server that was not told to share a database does not start beside another one, and the
// message says what to do.
func TestAServerAloneRefusesCompany(t *testing.T) {
	t.Parallel()
	c := &convoy{t: t, folder: t.TempDir(), store: pg.Start(t), members: map[string]*member{}}
	c.launch("alone", "fairlead", "server", "--store", c.store, "--data", filepath.Join(c.folder, "a"),
		"--listen", "127.0.0.1:0", "--member-ttl", "500ms")
	for _, flags := range [][]string{nil, {"--shared", filepath.Join(c.folder, "shared")}} {
		args := append([]string{"server", "--store", c.store, "--data", filepath.Join(c.folder, "b"), "--listen",
			"127.0.0.1:0", "--member-ttl", "500ms"}, flags...)
		out, err := exec.Command(filepath.Join(binaries, "fairlead"), args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "--shared") || !strings.Contains(string(out), "uses this database") {
			t.Errorf("beside another server: %v\n%s", err, out)
		}
	}
}

// What admin fleet prints as JSON is the API's answer, and every member gives the same.
func TestAdminFleetTellsTheSameAtEveryMember(t *testing.T) {
	t.Parallel()
	c := newConvoy(t, "ada", "bob")
	c.fleet("ada", "two servers share the partitions", spread("ada", "bob"))
	var owners []string
	for _, name := range c.names {
		cmd := exec.Command(filepath.Join(binaries, "fairlead"), "admin", "fleet", "--json")
		cmd.Env = []string{"FAIRLEAD_DATA=" + c.members[name].data, "HOME=" + c.folder}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var res struct {
			Name       string
			Members    []struct{ Name, State string }
			Partitions []struct{ Partition, Owner, State string }
		}
		if err := json.Unmarshal(out, &res); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if res.Name != name || len(res.Members) != 2 || len(res.Partitions) != 9 {
			t.Errorf("%s answers %s", name, out)
		}
		owners = append(owners, fmt.Sprint(res.Partitions))
	}
	if owners[0] != owners[1] {
		t.Errorf("two members answer\n%s\n%s", owners[0], owners[1])
	}
	cmd := exec.Command(filepath.Join(binaries, "fairlead"), "admin", "fleet")
	cmd.Env = []string{"FAIRLEAD_DATA=" + c.members["bob"].data, "HOME=" + c.folder}
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), "bob (answers)") || !strings.Contains(string(out), "pool-default") {
		t.Errorf("%v\n%s", err, out)
	}
}

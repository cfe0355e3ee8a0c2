package crash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// Timing of every siege. Leases are short, so that being away for longer than one is
// nothing special; the server's own limits are as they are.
const (
	leaseTTL     = 3 * time.Second
	abandonAfter = 6 * time.Second
	cancelGrace  = 2 * time.Second

	startPatience = 90 * time.Second  // until a program is ready, on a busy machine
	endPatience   = 60 * time.Second  // until a program has ended
	calmPatience  = 240 * time.Second // without any progress, after healing
)

// Options of a siege.
type Options struct {
	Programs string // folder with fairlead and fairlead-runner
	Store    Store
	Servers  int // all on one database; more than one needs PostgreSQL
	Runners  int
	Kills    int // that must hit something
	Seed     uint64
	Say      func(format string, args ...any)

	Abandon      time.Duration // after the last renewal a job must be gone; 0: abandonAfter
	ServerDisk   string        // size of a file system of the servers' own, as tmpfs takes it; "": none
	DatabaseDisk string        // the same for PostgreSQL
	Apart        bool          // the first server lives in a network namespace of its own
}

// Siege is a server or several, runners, a database, clients and an observer.
type Siege struct {
	Options
	Book   *Book
	folder string
	env    []string

	database *cluster
	space    *space // of the first server, when it lives apart
	servers  []*server
	runners  []*runner
	world    *world
	place    client.Place
	sources  []source

	hits   map[Act]map[Target]int
	random *rand.Rand // of the load, the schedule has its own

	mounts   []string
	released []func() // what else Close takes away

	mu      sync.Mutex
	still   time.Duration // the longest time that this process stood still itself
	sleeps  []frozen
	callers [][]*client.Client // by server
	turn    int
}

// server is one server process with what stands in front of it and behind it.
type server struct {
	*program
	port    int
	clients *proxy
	toStore *proxy // nil on SQLite, and for a server that lives apart
	peers   *proxy // the way of the other servers to this one; nil when it is alone
	data    string
}

// source is a repository with its only commit. A fleet has several, because a repository
// lives in one partition.
type source struct{ repository, commit string }

// runner is one machine that executes jobs.
type runner struct {
	*program
	name, data string
	links      []*proxy // to every server
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// NewSiege sets everything up and waits until work is taken. Close it in any case.
func NewSiege(ctx context.Context, o Options) (*Siege, error) {
	// The path is short, because that of a Unix socket has at most 107 bytes.
	base := "/tmp"
	if os.Getenv(guestVariable) != "" {
		base = os.TempDir()
	}
	folder, err := os.MkdirTemp(base, "fairlead-crash-")
	if err != nil {
		return nil, fmt.Errorf("lay siege: %w", err)
	}
	s := &Siege{Options: o, Book: NewBook(), folder: folder, world: &world{path: filepath.Join(folder, "world")},
		hits:   map[Act]map[Target]int{Kill: {}, Stop: {}, Part: {}},
		random: rand.New(rand.NewPCG(o.Seed, 0x6c6f6164))}
	s.env = append(cleanEnvironment(), "HOME="+folder, "FAIRLEAD_LEASE_TTL="+leaseTTL.String(),
		"FAIRLEAD_ABANDON_AFTER="+cmp.Or(o.Abandon, abandonAfter).String(), "FAIRLEAD_CANCEL_GRACE="+cancelGrace.String(),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=Crash", "GIT_AUTHOR_EMAIL=crash@example.com",
		"GIT_COMMITTER_NAME=Crash", "GIT_COMMITTER_EMAIL=crash@example.com")
	if err := s.setUp(ctx); err != nil {
		return s, fmt.Errorf("lay siege in %s: %w", folder, err)
	}
	return s, nil
}

// cleanEnvironment is this process's without what would steer the programs.
func cleanEnvironment() []string {
	var out []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "FAIRLEAD_") && !strings.HasPrefix(variable, "GIT_") &&
			!strings.HasPrefix(variable, "HOME=") {
			out = append(out, variable)
		}
	}
	return out
}

func (s *Siege) setUp(ctx context.Context) error {
	if err := os.WriteFile(s.world.path, nil, 0o666); err != nil {
		return err
	}
	if s.Store == PostgreSQL {
		// Everybody may enter: PostgreSQL does not run as root.
		err := os.Chmod(s.folder, 0o711)
		if err != nil {
			return err
		}
		if s.DatabaseDisk != "" {
			if err := s.mount(filepath.Join(s.folder, "pg"), s.DatabaseDisk); err != nil {
				return err
			}
		}
		listen, networks := "127.0.0.1", ""
		if s.Apart {
			if s.space, err = newSpace(); err != nil {
				return err
			}
			s.released = append(s.released, s.space.close)
			listen, networks = listen+","+s.space.near, networkOfSpaces
		}
		if s.database, err = newCluster(ctx, filepath.Join(s.folder, "pg"), listen, networks); err != nil {
			return err
		}
		if err := errors.Join(s.database.start(), s.database.await()); err != nil {
			return err
		}
	}
	for i := range s.Servers {
		if err := s.addServer(i); err != nil {
			return err
		}
	}
	for i := range min(sourcesMost, 2*s.Servers-1) {
		if err := s.introduce(i); err != nil {
			return err
		}
	}
	for i := range s.Runners {
		if err := s.addRunner(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

func (s *Siege) addServer(i int) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	name := "server" + strconv.Itoa(i)
	v := &server{port: port, data: filepath.Join(s.folder, name)}
	if s.ServerDisk != "" {
		if err := s.mount(v.data, s.ServerDisk); err != nil {
			return err
		}
	}
	if v.clients, err = s.way(i, port); err != nil {
		return err
	}
	s.servers = append(s.servers, v)
	args := []string{filepath.Join(s.Programs, "fairlead"), "server", "--data", v.data,
		"--listen", "127.0.0.1:" + strconv.Itoa(port), "--public-url", "http://" + v.clients.address()}
	switch {
	case s.space != nil && i == 0:
		args = append(s.space.within(args), "--store", s.database.url(s.space.near+":"+strconv.Itoa(s.database.port)))
	case s.database != nil:
		if v.toStore, err = newProxy("127.0.0.1:0", "127.0.0.1:"+strconv.Itoa(s.database.port)); err != nil {
			return err
		}
		args = append(args, "--store", s.database.url(v.toStore.address()))
	}
	if s.Servers > 1 {
		if v.peers, err = s.way(i, port); err != nil {
			return err
		}
		args = append(args, "--shared", filepath.Join(s.folder, "shared"), "--name", name,
			"--advertise", "http://"+v.peers.address())
	}
	v.program = &program{name: name, args: args, env: s.env, log: filepath.Join(s.folder, name+".log")}
	if err := v.start(); err != nil {
		return err
	}
	return s.awaitReady(v.program)
}

// way makes a proxy to a server, wherever that lives.
func (s *Siege) way(server, port int) (*proxy, error) {
	address := "127.0.0.1:" + strconv.Itoa(port)
	if s.space == nil || server > 0 {
		return newProxy("127.0.0.1:0", address)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for proxy to %s: %w", address, err)
	}
	return proxyOn(l, func(ctx context.Context) (net.Conn, error) { return s.space.dial(ctx, address) }), nil
}

func (s *Siege) awaitReady(p *program) error {
	for deadline := time.Now().Add(startPatience); !p.isReady(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) || p.pid() == 0 {
			return fmt.Errorf("%s is not ready:\n%s", p.name, p.tail(8<<10))
		}
	}
	return nil
}

// sourcesMost is how many repositories a fleet has.
const sourcesMost = 5

// introduce registers a repository and sends its commit, as a person's first run does.
func (s *Siege) introduce(i int) error {
	var err error
	if s.place, err = client.LocateIn(s.servers[0].data); err != nil {
		return err
	}
	dir := filepath.Join(s.folder, "repository"+strconv.Itoa(i))
	if err := repository(dir, s.world.path, s.env); err != nil {
		return err
	}
	env := append(s.env, "FAIRLEAD_DATA="+s.servers[0].data)
	fairlead := filepath.Join(s.Programs, "fairlead")
	out, err := run(dir, env, fairlead, "run", "--workflow", "chain.yml", "--json", "--detach")
	if err != nil {
		return err
	}
	var accepted struct{ Repository, Commit string }
	if err := lastJSON(out, &accepted); err != nil {
		return fmt.Errorf("read the answer of run: %w: %s", err, out)
	}
	s.sources = append(s.sources, source{accepted.Repository, accepted.Commit})
	return nil
}

func (s *Siege) addRunner(ctx context.Context, i int) error {
	r := &runner{name: "r" + strconv.Itoa(i)}
	r.data = filepath.Join(s.folder, "runner-"+r.name)
	s.runners = append(s.runners, r)
	var addresses []string
	for n := range s.servers { // each runner begins with another server
		server := (i + n) % len(s.servers)
		link, err := s.way(server, s.servers[server].port)
		if err != nil {
			return err
		}
		r.links = append(r.links, link)
		addresses = append(addresses, "http://"+link.address())
	}
	c, err := s.client(0, client.Options{})
	if err != nil {
		return err
	}
	token, err := c.Pools.CreateRegistrationToken(ctx, &fairleadv1.CreateRegistrationTokenRequest{Pool: "default"})
	if err != nil {
		return fmt.Errorf("make a registration token: %w", err)
	}
	name := "runner-" + r.name
	r.program = &program{name: name, env: s.env, log: filepath.Join(s.folder, name+".log"),
		args: []string{filepath.Join(s.Programs, "fairlead-runner"), "--server", strings.Join(addresses, ","),
			"--name", r.name, "--data", r.data, "--isolation", "process", "--capacity", "2", "--token", token.GetToken()}}
	if err := r.start(); err != nil {
		return err
	}
	return s.awaitReady(r.program)
}

// client makes a client of a server, through its proxy.
func (s *Siege) client(server int, o client.Options) (*client.Client, error) {
	o.UserAgent = "fairlead-crash"
	return client.New("http://"+s.servers[server].clients.address(), s.place.Token, o)
}

// machine lists the processes of a runner's machine, the runner included.
func (r *runner) machine() []int { return processesWith(r.data + "/") }

// processes lists those of the machine that the runner started.
func (r *runner) processes() (out []int) {
	for _, pid := range r.machine() {
		if pid != r.pid() {
			out = append(out, pid)
		}
	}
	return out
}

// killMachine ends the runner and everything it started, as pulling the plug does: all of
// it stands still before the first one ends, so that nobody there sees another one die. A
// process that is being born is found by looking again.
func (r *runner) killMachine() bool {
	r.freezeMachine(syscall.SIGSTOP)
	for _, pid := range r.processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	was := r.end(syscall.SIGKILL, endPatience)
	for range 50 {
		pids := r.machine()
		if len(pids) == 0 {
			break
		}
		was = true
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return was
}

// freezeMachine stops or continues everything of the machine.
func (r *runner) freezeMachine(sig syscall.Signal) {
	for range 3 { // what is born between a look and its signal is caught by the next one
		for _, pid := range append(r.machine(), r.pid()) {
			if pid > 0 {
				_ = syscall.Kill(pid, sig)
			}
		}
	}
}

// ways are the proxies around a server.
func (v *server) ways() (out []*proxy) {
	for _, way := range []*proxy{v.clients, v.toStore, v.peers} {
		if way != nil {
			out = append(out, way)
		}
	}
	return out
}

// Close ends everything. The folder stays if keep says so.
func (s *Siege) Close(keep bool) {
	for _, r := range s.runners {
		if r.program != nil {
			r.killMachine()
		}
		for _, link := range r.links {
			link.close()
		}
	}
	for _, v := range s.servers {
		if v.program != nil {
			v.end(syscall.SIGKILL, endPatience)
		}
		for _, way := range v.ways() {
			way.close()
		}
	}
	if s.database != nil {
		s.database.kill()
	}
	for _, pid := range processesWith(s.folder + "/") {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, release := range s.released {
		release()
	}
	for _, dir := range s.mounts {
		if _, err := run("", os.Environ(), "umount", "-l", dir); err != nil {
			s.Say("%v", err)
		}
	}
	if keep {
		s.Say("everything of this siege is kept in %s", s.folder)
		return
	}
	if err := os.RemoveAll(s.folder); err != nil {
		s.Say("remove %s: %v", s.folder, err)
	}
}

package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fairlead-ci/fairlead/internal/testkit/pg"
)

// cluster is a PostgreSQL server of a siege's own, started without a supervisor, so that
// postmaster and backends can be killed and stopped like everything else. It keeps every
// setting of durability as PostgreSQL has it.
type cluster struct {
	*program
	bin, dir string
	port     int
}

// clusterPatience bounds how long the server may take to recover from a crash.
const clusterPatience = 90 * time.Second

// newCluster makes the cluster's files in a folder that must not exist yet; listen are the
// addresses that it takes connections on, networks those that may connect.
func newCluster(ctx context.Context, dir, listen, networks string) (*cluster, error) {
	bin, err := pg.Programs(ctx)
	if err != nil {
		return nil, err
	}
	// Links to some of the programs may lie elsewhere; all of them are where they point.
	if program, err := filepath.EvalSymlinks(filepath.Join(bin, "initdb")); err == nil {
		bin = filepath.Dir(program)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make cluster: %w", err)
	}
	as, err := pg.Own(dir)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"), "-A", "trust",
		"-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync")
	cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Credential: as}, dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make cluster: %w\n%s", err, out)
	}
	if networks != "" {
		rules, err := os.OpenFile(filepath.Join(dir, "data", "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return nil, fmt.Errorf("let in %s: %w", networks, err)
		}
		_, err = fmt.Fprintf(rules, "host all all %s trust\n", networks)
		if err := errors.Join(err, rules.Close()); err != nil {
			return nil, fmt.Errorf("let in %s: %w", networks, err)
		}
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	log := filepath.Join(dir, "log")
	args := []string{filepath.Join(bin, "postgres"), "-D", filepath.Join(dir, "data"), "-k", dir}
	for _, setting := range []string{"listen_addresses=" + listen, "port=" + strconv.Itoa(port), "max_connections=60",
		"shared_buffers=32MB", "log_line_prefix=%m [%p] ", "restart_after_crash=on"} {
		args = append(args, "-c", setting)
	}
	return &cluster{bin: bin, dir: dir, port: port, program: &program{name: "postgres", args: args, as: as, log: log,
		env: os.Environ()}}, nil
}

// url is the address of the database as seen through an address.
func (c *cluster) url(address string) string {
	return "postgres://postgres@" + address + "/postgres?sslmode=disable"
}

// answers reports whether the server takes connections.
func (c *cluster) answers() bool {
	_, err := run(c.dir, os.Environ(), filepath.Join(c.bin, "pg_isready"), "-q", "-U", "postgres",
		"-h", c.dir, "-p", strconv.Itoa(c.port))
	return err == nil
}

// await waits until the server takes connections.
func (c *cluster) await() error {
	for deadline := time.Now().Add(clusterPatience); !c.answers(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("PostgreSQL takes no connections within %s:\n%s", clusterPatience, c.tail(4<<10))
		}
	}
	return nil
}

// kill ends the postmaster at once, and waits until its children have noticed: another
// postmaster can't start before. That is as sudden as it gets without a machine to unplug.
func (c *cluster) kill() bool {
	children := childrenOf(c.pid())
	if !c.end(syscall.SIGKILL, clusterPatience) {
		return false
	}
	for deadline := time.Now().Add(clusterPatience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		left := 0
		for _, pid := range children {
			if commandOf(pid) == "postgres" {
				left++
			}
		}
		if left == 0 {
			return true
		}
	}
	return false
}

// killBackend kills one session of a server of ours. PostgreSQL then ends all others and
// recovers as from a crash.
func (c *cluster) killBackend(random *rand.Rand) bool {
	var sessions []int
	for _, pid := range childrenOf(c.pid()) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(line), "postgres: postgres postgres") {
			sessions = append(sessions, pid)
		}
	}
	if len(sessions) == 0 {
		return false
	}
	return syscall.Kill(sessions[random.IntN(len(sessions))], syscall.SIGKILL) == nil
}

// freeze stops or continues the postmaster with all its children.
func (c *cluster) freeze(sig syscall.Signal) {
	pids := append([]int{c.pid()}, childrenOf(c.pid())...)
	for _, pid := range pids {
		if pid > 0 {
			_ = syscall.Kill(pid, sig)
		}
	}
}

// commandOf is the name of a process, "" when there is none.
func commandOf(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(name))
}

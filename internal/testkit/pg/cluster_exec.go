package pg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// supervise makes the cluster, runs it, and waits for standard input to end. Whatever
// closes the pipe, a call of stop or the death of the test binary, it then stops the
// server by its own process id and removes the folder.
const supervise = `
dir=$1; bin=$2; shift 2
"$bin/initdb" -D "$dir/data" -A trust -U postgres -E UTF8 --locale=C --no-sync >"$dir/log" 2>&1 &&
"$bin/postgres" -D "$dir/data" -k "$dir" -c listen_addresses= "$@" >>"$dir/log" 2>&1 </dev/null &
server=$!
while read -r line; do :; done
pid=$(head -n 1 "$dir/data/postmaster.pid" 2>/dev/null)
[ -n "$pid" ] && kill -INT "$pid" 2>/dev/null
[ -n "$pid" ] || kill "$server" 2>/dev/null
wait "$server"
rm -rf "$dir"
`

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 30 * time.Second
)

type supervisor struct {
	cmd  *exec.Cmd
	pipe io.Closer
	once sync.Once
	err  error
}

// StartCluster starts a cluster that the caller stops. Tests in Go rather use Start.
func StartCluster(ctx context.Context, opts Options) (*Cluster, error) {
	bin, err := binaries(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(base(opts), "fairlead-pg-")
	if err != nil {
		return nil, fmt.Errorf("start test cluster: %w", err)
	}
	credential, err := owner(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	settings := []string{"max_connections=100", "shared_buffers=32MB", "unix_socket_permissions=0700"}
	if !opts.Durable {
		settings = append(settings, "fsync=off", "full_page_writes=off", "autovacuum=off")
	}
	settings = append(settings, opts.Settings...)
	args := []string{"-c", supervise, "fairlead-pg", dir, bin}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	cmd := exec.Command("/bin/sh", args...)
	// A group of its own: an interrupt at the terminal must reach the pipe's end first.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: credential}
	cmd.Dir = dir
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start test cluster: %w", err), os.RemoveAll(dir))
	}
	c := &Cluster{dir: dir, proc: &supervisor{cmd: cmd, pipe: pipe}}
	if err := c.await(ctx); err != nil {
		output, _ := os.ReadFile(filepath.Join(dir, "log"))
		return nil, errors.Join(fmt.Errorf("start test cluster: %w\n%s", err, bytes.TrimSpace(output)), c.Stop())
	}
	return c, nil
}

// memoryFolder is a file system in memory on Linux; memoryBytesMin is the space that a
// cluster with some test databases needs there.
const (
	memoryFolder   = "/dev/shm"
	memoryBytesMin = 1 << 30
)

// base is the folder for the cluster's folder: memory where durability isn't asked for
// and there is enough of it, for creating tables costs many small files. Both paths are
// short, because that of a Unix socket has at most 107 bytes.
func base(opts Options) string {
	var room syscall.Statfs_t
	if !opts.Durable && syscall.Statfs(memoryFolder, &room) == nil &&
		room.Bavail*uint64(room.Bsize) >= memoryBytesMin {
		return memoryFolder
	}
	return "/tmp"
}

// await polls until the server answers.
func (c *Cluster) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, c.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer in %s: %w", startTimeout, err)
		case <-tick.C:
		}
	}
}

func (s *supervisor) stop() error {
	s.once.Do(func() {
		_ = s.pipe.Close()
		timer := time.AfterFunc(stopTimeout, func() { _ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) })
		defer timer.Stop()
		var exit *exec.ExitError
		if err := s.cmd.Wait(); err != nil && !errors.As(err, &exit) {
			s.err = fmt.Errorf("stop test cluster: %w", err)
		}
	})
	return s.err
}

// binaries finds the folder with initdb and postgres. Distributions keep them out of
// PATH, because several versions may be installed; the newest is taken.
func binaries(ctx context.Context) (string, error) {
	var folders []string
	if path, err := exec.LookPath("initdb"); err == nil {
		folders = append(folders, filepath.Dir(path))
	}
	if output, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		folders = append(folders, strings.TrimSpace(string(output)))
	}
	installed, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	slices.SortFunc(installed, func(a, b string) int { return version(b) - version(a) })
	for _, folder := range append(folders, installed...) {
		_, err1 := os.Stat(filepath.Join(folder, "initdb"))
		_, err2 := os.Stat(filepath.Join(folder, "postgres"))
		if err1 == nil && err2 == nil {
			return folder, nil
		}
	}
	return "", errMissing
}

func version(folder string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(folder)))
	if err != nil {
		return 0
	}
	return n
}

// owner gives the folder to the user who will run the server: PostgreSQL refuses to run
// as root, so root steps down to postgres or nobody.
func owner(dir string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2, os.Chown(dir, int(uid), int(gid))); err != nil {
			return nil, fmt.Errorf("give %s to user %s: %w", dir, name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as")
}

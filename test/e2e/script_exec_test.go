package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fairlead-ci/fairlead/internal/testkit/pg"
)

// patience is how long a script waits for a fact. It is generous: machines are busy.
const patience = 90 * time.Second

var binaries string // folder of the programs under test

func TestMain(m *testing.M) {
	os.Exit(build(m))
}

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fairlead-e2e-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binaries = dir
	// As `make build` lays them out: what people type hands over to the whole program.
	for name, command := range map[string]string{
		"fairlead": "fairlead-client", "fairlead-server": "fairlead", "fairlead-runner": "fairlead-runner",
	} {
		out, err := exec.Command("go", "build", "-o", filepath.Join(dir, name), "../../cmd/"+command).CombinedOutput()
		if err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n%s", name, err, out)
			return 1
		}
	}
	return m.Run()
}

func TestScriptsOnSQLite(t *testing.T) { scripts(t, func(testing.TB) string { return "" }) }

func TestScriptsOnPostgreSQL(t *testing.T) {
	scripts(t, func(t testing.TB) string { return pg.Start(t) })
}

// scripts runs every script with a store of its own.
func scripts(t *testing.T, store func(testing.TB) string) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			tb := env.T().(testing.TB)
			y := &yard{t: tb, work: env.WorkDir, store: store(tb), processes: map[string]*process{}}
			env.Defer(y.close)
			env.Values["yard"] = y
			// The database of the server, and an empty one to restore into.
			env.Setenv("STORE", y.store)
			env.Setenv("STORE2", "")
			if y.store != "" {
				env.Setenv("STORE2", store(tb))
			}
			port, err := freePort()
			if err != nil {
				return err
			}
			y.port = port
			env.Setenv("PATH", binaries+":"+os.Getenv("PATH"))
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("FAIRLEAD_DATA", env.WorkDir+"/data")
			env.Setenv("FAIRLEAD_CANCEL_GRACE", "2s")
			env.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
			for _, who := range []string{"AUTHOR", "COMMITTER"} {
				env.Setenv("GIT_"+who+"_NAME", "Test")
				env.Setenv("GIT_"+who+"_EMAIL", "test@example.com")
			}
			return os.MkdirAll(env.WorkDir+"/home", 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve": cmdServe, "runner": cmdRunner, "signal": cmdSignal, "ended": cmdEnded, "until": cmdUntil,
			"value": cmdValue, "repo": cmdRepo, "gone": cmdGone, "lines": cmdLines, "http": cmdHTTP, "sleep": cmdSleep,
			"freeze": cmdFreeze, "tmpfs": cmdTmpfs, "mark": cmdMark, "fetchlog": cmdFetchLog,
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("no such condition: %s", cond)
		},
	})
}

// yard is what one script has going.
type yard struct {
	t     testing.TB
	work  string
	store string
	port  int

	mu        sync.Mutex
	processes map[string]*process
	mounts    []string
	marked    []string
}

// process is a server or a runner that a script started.
type process struct {
	cmd    *exec.Cmd
	ready  chan string
	ended  chan struct{}
	output *bytes.Buffer
	mu     sync.Mutex
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func yardOf(ts *testscript.TestScript) *yard { return ts.Value("yard").(*yard) }

// close ends everything by the ids of what was started.
func (y *yard) close() {
	y.mu.Lock()
	defer y.mu.Unlock()
	for name, p := range y.processes {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if y.t.Failed() {
			p.mu.Lock()
			y.t.Logf("--- output of %s\n%s", name, tail(telling(p.output.Bytes()), 16<<10))
			p.mu.Unlock()
		}
	}
	for _, pid := range y.processesWith("") {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, dir := range y.marked {
		_ = exec.Command("chattr", "-R", "-i", dir).Run()
	}
	for _, dir := range slices.Backward(y.mounts) {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			y.t.Errorf("umount %s: %v\n%s", dir, err, out)
		}
	}
}

// telling drops the lines of requests that went well: a script that polls writes thousands.
func telling(output []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(output) {
		if !bytes.Contains(line, []byte("level=INFO msg=request")) || !bytes.Contains(line, []byte("status=200")) {
			kept = append(kept, line...)
		}
	}
	return kept
}

func tail(b []byte, n int) []byte { return b[max(len(b)-n, 0):] }

// start runs a program until its ready line, which it gives back.
func (y *yard) start(ts *testscript.TestScript, name string, args ...string) string {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = y.work
	cmd.Env = env(ts)
	if path, err := lookPath(args[0]); err == nil {
		cmd.Path = path
		cmd.Err = nil
	}
	p := &process{cmd: cmd, ready: make(chan string, 1), ended: make(chan struct{}), output: &bytes.Buffer{}}
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	cmd.Stderr = lockedWriter{p}
	ts.Check(cmd.Start())
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			_, _ = lockedWriter{p}.Write([]byte(lines.Text() + "\n"))
			if strings.HasPrefix(lines.Text(), "ready") {
				p.ready <- lines.Text()
			}
		}
		_ = cmd.Wait()
		close(p.ended)
	}()
	y.mu.Lock()
	y.processes[name] = p
	y.mu.Unlock()
	select {
	case line := <-p.ready:
		return line
	case <-p.ended:
		p.mu.Lock()
		defer p.mu.Unlock()
		ts.Fatalf("%s ended before it was ready:\n%s", name, p.output)
	case <-time.After(patience):
		p.mu.Lock()
		defer p.mu.Unlock()
		ts.Fatalf("%s is not ready:\n%s", name, p.output)
	}
	return ""
}

type lockedWriter struct{ p *process }

func (w lockedWriter) Write(b []byte) (int, error) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	return w.p.output.Write(b)
}

func lookPath(name string) (string, error) {
	if path := filepath.Join(binaries, name); fileExists(path) {
		return path, nil
	}
	return exec.LookPath(name)
}

func fileExists(path string) bool { _, err := os.Stat(path); return err == nil }

// passed are the variables that programs of a script get.
var passed = []string{"PATH", "HOME", "TMPDIR", "GOCACHE", "FAIRLEAD_DATA", "FAIRLEAD_SERVER", "FAIRLEAD_TOKEN",
	"FAIRLEAD_LEASE_TTL", "FAIRLEAD_ABANDON_AFTER", "FAIRLEAD_CANCEL_GRACE", "FAIRLEAD_POLL_EVERY",
	"GIT_CONFIG_GLOBAL", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"}

func env(ts *testscript.TestScript) []string {
	var out []string
	for _, name := range passed {
		if v := ts.Getenv(name); v != "" {
			out = append(out, name+"="+v)
		}
	}
	return out
}

// cmdServe: serve up|server [flags] starts the server on the script's port and data.
func cmdServe(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: serve up|server [flags]")
	}
	y := yardOf(ts)
	line := []string{
		"fairlead",
		args[0],
		"--data",
		ts.Getenv("FAIRLEAD_DATA"),
		"--listen",
		fmt.Sprintf("127.0.0.1:%d", y.port),
	}
	if y.store != "" {
		line = append(line, "--store", y.store)
	}
	ready := y.start(ts, "server", append(line, args[1:]...)...)
	ts.Setenv("URL", strings.TrimSpace(strings.TrimPrefix(ready, "ready")))
}

// cmdRunner: runner NAME [flags] starts a runner of its own, registered if need be.
func cmdRunner(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: runner NAME [flags]")
	}
	y, name := yardOf(ts), args[0]
	line := []string{
		"fairlead-runner",
		"--server",
		ts.Getenv("URL"),
		"--name",
		name,
		"--data",
		filepath.Join(y.work, "runner-"+name),
	}
	if !fileExists(filepath.Join(y.work, "runner-"+name, "runner.json")) {
		out, err := y.output(ts, "fairlead", "runner", "token", "--pool", "default")
		ts.Check(err)
		line = append(line, "--token", strings.TrimSpace(string(out)))
	}
	y.start(ts, name, append(line, args[1:]...)...)
}

// output runs a program in the foreground.
func (y *yard) output(ts *testscript.TestScript, args ...string) ([]byte, error) {
	cmd := exec.Command(args[0], args[1:]...)
	if path, err := lookPath(args[0]); err == nil {
		cmd.Path, cmd.Err = path, nil
	}
	cmd.Dir, cmd.Env = ts.MkAbs("."), env(ts)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, err
}

// cmdSignal: signal NAME KILL|TERM|STOP|CONT; KILL and TERM wait for the end.
func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]syscall.Signal{
		"KILL": syscall.SIGKILL,
		"TERM": syscall.SIGTERM,
		"STOP": syscall.SIGSTOP,
		"CONT": syscall.SIGCONT,
	}
	if neg || len(args) != 2 || signals[args[1]] == 0 {
		ts.Fatalf("usage: signal NAME KILL|TERM|STOP|CONT")
	}
	y := yardOf(ts)
	p := y.processes[args[0]]
	if p == nil {
		ts.Fatalf("no process is called %s", args[0])
	}
	ts.Check(p.cmd.Process.Signal(signals[args[1]]))
	if args[1] == "KILL" || args[1] == "TERM" {
		select {
		case <-p.ended:
		case <-time.After(patience):
			ts.Fatalf("%s did not end", args[0])
		}
	}
}

// cmdEnded: ended NAME waits until the process has ended by itself.
func cmdEnded(ts *testscript.TestScript, neg bool, args []string) {
	select {
	case <-yardOf(ts).processes[args[0]].ended:
	case <-time.After(patience):
		ts.Fatalf("%s did not end", args[0])
	}
}

// cmdUntil: until PATTERN CMD ARGS… runs the command until its output matches. The output
// is then the script's stdout.
func cmdUntil(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: until PATTERN CMD ARGS…")
	}
	y, pattern := yardOf(ts), regexp.MustCompile("(?s)"+args[0])
	deadline := time.Now().Add(patience)
	for {
		out, err := y.output(ts, args[1:]...)
		if pattern.Match(out) != neg {
			fmt.Fprintf(ts.Stdout(), "%s", out)
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s never matched %q; last: %s %v", strings.Join(args[1:], " "), args[0], out, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// cmdValue: value FILE PATH WANT compares a value of a JSON file (or of its last line):
// jobs.0.attempts.1.outcome. A WANT of null is JSON null; a PATH that ends in len is a length.
func cmdValue(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: value FILE PATH WANT")
	}
	text := strings.TrimSpace(ts.ReadFile(args[0]))
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		last := text[strings.LastIndexByte(text, '\n')+1:]
		if err := json.Unmarshal([]byte(last), &v); err != nil {
			ts.Fatalf("%s is no JSON: %v\n%s", args[0], err, text)
		}
	}
	for _, part := range strings.Split(args[1], ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[part]
		case []any:
			if part == "len" {
				v = float64(len(at))
				continue
			}
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(at) {
				ts.Fatalf("%s has no %s\n%s", args[0], args[1], text)
			}
			v = at[i]
		default:
			ts.Fatalf("%s has no %s\n%s", args[0], args[1], text)
		}
	}
	got := fmt.Sprint(v)
	if v == nil {
		got = "null"
	}
	if matched := regexp.MustCompile("^(?:" + args[2] + ")$").MatchString(got); matched == neg {
		ts.Fatalf("%s: %s is %q, want %q\n%s", args[0], args[1], got, args[2], text)
	}
}

// cmdRepo: repo DIR makes a git repository of the folder and commits all of it. WORKDIR in
// its workflows becomes the script's folder, so that jobs and scripts can meet.
func cmdRepo(ts *testscript.TestScript, neg bool, args []string) {
	flows, err := filepath.Glob(filepath.Join(ts.MkAbs(args[0]), ".fairlead", "workflows", "*"))
	ts.Check(err)
	for _, path := range flows {
		text, err := os.ReadFile(path)
		ts.Check(err)
		ts.Check(os.WriteFile(path, bytes.ReplaceAll(text, []byte("WORKDIR"), []byte(yardOf(ts).work)), 0o600))
	}
	for _, line := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		cmd := exec.Command("git", append([]string{"-C", ts.MkAbs(args[0])}, line...)...)
		cmd.Env = env(ts)
		if out, err := cmd.CombinedOutput(); err != nil {
			ts.Fatalf("git %v: %v\n%s", line, err, out)
		}
	}
}

// cmdGone: gone TEXT waits until no process of this script has TEXT in its environment or
// command line.
func cmdGone(ts *testscript.TestScript, neg bool, args []string) {
	limit := patience
	if len(args) > 1 {
		d, err := time.ParseDuration(args[1])
		ts.Check(err)
		limit = d
	}
	for deadline := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		pids := yardOf(ts).processesWith(args[0])
		if (len(pids) == 0) != neg {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("processes with %q: %v", args[0], pids)
		}
	}
}

// processesWith lists the processes of this script's folder, but for this one, whose
// command line or environment holds text. Other scripts run at the same time, with runners
// and attempts of the same names.
func (y *yard) processesWith(text string) []int {
	entries, _ := filepath.Glob("/proc/[0-9]*")
	// With the slash: the folder of one script may be how the name of another's begins.
	mine := []byte(y.work + "/")
	var out []int
	for _, dir := range entries {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if pid == os.Getpid() {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join(dir, "environ")) // gone meanwhile: holds nothing
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		all := slices.Concat(environ, line)
		if bytes.Contains(all, mine) && bytes.Contains(all, []byte(text)) {
			out = append(out, pid)
		}
	}
	slices.Sort(out)
	return out
}

// cmdLines: lines FILE FIRST LAST says that the file is exactly the numbers FIRST to LAST,
// a line each: no gap and no repeat.
func cmdLines(ts *testscript.TestScript, neg bool, args []string) {
	first, err1 := strconv.Atoi(args[1])
	last, err2 := strconv.Atoi(args[2])
	ts.Check(err1)
	ts.Check(err2)
	lines := strings.Split(strings.TrimSuffix(ts.ReadFile(args[0]), "\n"), "\n")
	if len(lines) != last-first+1 {
		ts.Fatalf("%d lines, want %d", len(lines), last-first+1)
	}
	for i, line := range lines {
		if line != strconv.Itoa(first+i) {
			ts.Fatalf("line %d is %q, want %d", i+1, line, first+i)
		}
	}
}

// cmdHTTP: http METHOD PATH [BODY-FILE] sends a request with the admin token; stdout is
// the status line's number and the body.
func cmdHTTP(ts *testscript.TestScript, neg bool, args []string) {
	token := ts.ReadFile(filepath.Join(ts.Getenv("FAIRLEAD_DATA"), "credentials", "admin-token"))
	curl := []string{"curl", "-sS", "-m", "30", "-o", "-", "-w", "\n%{http_code}\n", "-X", args[0],
		"-H", "Authorization: Bearer " + strings.TrimSpace(token)}
	if len(args) > 2 {
		curl = append(
			curl,
			"-H",
			"Content-Type: application/json",
			"-H",
			"Idempotency-Key: "+strconv.FormatInt(time.Now().UnixNano(), 36),
			"--data-binary",
			"@"+ts.MkAbs(args[2]),
		)
	}
	out, err := yardOf(ts).output(ts, append(curl, ts.Getenv("URL")+args[1])...)
	if err != nil && !neg {
		ts.Fatalf("%v", err)
	}
	_, _ = io.Copy(ts.Stdout(), bytes.NewReader(out))
}

// cmdFreeze: freeze TEXT STOP|CONT signals every process of this script that has TEXT in its
// command line or environment: a machine that sleeps, with all that runs on it.
func cmdFreeze(ts *testscript.TestScript, neg bool, args []string) {
	sig := syscall.SIGSTOP
	if args[1] == "CONT" {
		sig = syscall.SIGCONT
	}
	pids := yardOf(ts).processesWith(args[0])
	if len(pids) == 0 {
		ts.Fatalf("no process has %q", args[0])
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig)
	}
}

// cmdTmpfs: tmpfs DIR SIZE mounts a small file system, for full disks.
func cmdTmpfs(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+args[1], "tmpfs", dir).CombinedOutput(); err != nil {
		ts.Fatalf("mount: %v\n%s", err, out)
	}
	y := yardOf(ts)
	y.mu.Lock()
	y.mounts = append(y.mounts, dir)
	y.mu.Unlock()
}

// cmdMark: mark DIR on|off makes a folder and all in it immutable, so that nothing can be
// stored there: the blob store is gone.
func cmdMark(ts *testscript.TestScript, neg bool, args []string) {
	flag := "+i"
	if args[1] == "off" {
		flag = "-i"
	}
	dir := ts.MkAbs(args[0])
	if out, err := exec.Command("chattr", "-R", flag, dir).CombinedOutput(); err != nil {
		ts.Fatalf("chattr: %v\n%s", err, out)
	}
	y := yardOf(ts)
	y.mu.Lock()
	y.marked = append(y.marked, dir)
	y.mu.Unlock()
}

// cmdFetchLog: fetchlog FILE JOB [ATTEMPT] writes the raw log of the latest run's job.
func cmdFetchLog(ts *testscript.TestScript, neg bool, args []string) {
	line := []string{"fairlead", "logs", "latest", args[1], "--raw"}
	if len(args) > 2 {
		line = append(line, "--attempt", args[2])
	}
	out, err := yardOf(ts).output(ts, line...)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), out, 0o600))
}

// cmdSleep: sleep DURATION, for the few cases where what is shown is that time changes
// nothing.
func cmdSleep(ts *testscript.TestScript, neg bool, args []string) {
	d, err := time.ParseDuration(args[0])
	ts.Check(err)
	time.Sleep(d)
}

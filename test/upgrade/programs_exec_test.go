package upgrade

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var flagLong = flag.Bool("long", false, "also the scripts that take minutes: back and forth, restarts, standbys")

// edit changes one place of the product for one build. It must fit exactly once.
type edit struct{ file, from, to string }

// previous makes the program as it was before format 2: it reads nothing packed, no event and no
// command has the runner's version, and the runner says neither its processor nor the names of steps. Nor have
// acknowledgement tokens a proof: no server makes one, and nobody brings one.
var previous = []edit{
	{"internal/core/codec/codec.go", "const Format uint32 = 5\n", "const Format uint32 = 1\n"},
	{"internal/core/codec/codec.go", "if len(data) == 0 || data[0] != packed {\n		return f.", "if true {\n		return f."},
	{"internal/core/run/codec.go", "const StateEncoding uint32 = 4\n", "const StateEncoding uint32 = 1\n"},
	{"internal/core/pool/event.go", "const StateEncoding uint32 = 2\n", "const StateEncoding uint32 = 1\n"},
	{"internal/core/repository/command.go", "const StateEncoding uint32 = 4\n", "const StateEncoding uint32 = 1\n"},
	{"internal/core/run/event.go", "	RunnerVersion string           `json:\"runner_version,omitempty\"`\n", ""},
	{"internal/core/run/command.go", "	RunnerVersion string `json:\",omitempty\"`\n", ""},
	{"internal/core/run/decide_lease.go", "		RunnerVersion: clip(c.RunnerVersion, nameBytesMax),\n", ""},
	{"internal/core/run/lower.go", "		lowered.RunnerVersion = \"\"\n", ""},
	{"internal/core/run/lower.go", "		c.RunnerVersion = \"\"\n", ""},
	{"internal/dispatch/place.go", "			RunnerVersion: a.Version,\n", ""},
	{"internal/projection/timeline.go", "if e.RunnerVersion != \"\" {", "if false {"},
	{"internal/projection/timeline.go", " + e.RunnerVersion + ", " + "},
	{"internal/runner/identity.go", "Arch: arch,", "Arch: arch[:0],"},
	{"internal/runner/job/run.go", "runnerv1.Step{Index: uint32(s.Index), Name: s.Name}",
		"runnerv1.Step{Index: uint32(s.Index)}"},
	{"internal/engine/batch.go", "		token.Proof = o.prove(token)\n", ""},
	{"internal/engine/fleet.go", "	before.Proof = e.cfg.Prover.Prove(before) // this server saw it in the store\n", ""},
	{"internal/engine/proof.go", "if standing == domain.StandingProved {", "if standing != \"\" {"},
	{"internal/runner/machine_plan.go", "		Proof: string(m.token.Proof),\n", ""},
}

// next makes a program that has given up format 1.
var next = []edit{
	{"internal/core/codec/codec.go", "const Format uint32 = 5\n", "const Format uint32 = 6\n"},
	{"internal/core/codec/codec.go", "const Oldest uint32 = 1\n", "const Oldest uint32 = 2\n"},
}

// built are the folders of programs by name, each made when it is first asked for.
var built struct {
	sync.Mutex
	folder string
	made   map[string]string
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		folder, err := os.MkdirTemp("", "fairlead-upgrade-bin-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(folder) }()
		built.folder, built.made = folder, map[string]string{}
		return m.Run()
	}())
}

// programs is the folder with fairlead and fairlead-runner made with the edits.
func programs(t *testing.T, name string, edits []edit) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if folder := built.made[name]; folder != "" {
		return folder
	}
	folder := filepath.Join(built.folder, name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{"build", "-buildvcs=false", "-o", folder + "/", "-overlay", overlay(t, folder, edits),
		"github.com/fairlead-ci/fairlead/cmd/fairlead", "github.com/fairlead-ci/fairlead/cmd/fairlead-runner"}
	cmd := exec.Command("go", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	built.made[name] = folder
	return folder
}

// overlay writes the edited files and the list that go build takes.
func overlay(t *testing.T, folder string, edits []edit) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	texts, replace := map[string]string{}, map[string]string{}
	for _, e := range edits {
		path := filepath.Join(root, e.file)
		if _, ok := texts[path]; !ok {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[path] = string(content)
		}
		if n := strings.Count(texts[path], e.from); n != 1 {
			t.Fatalf("%s has %d places like %q, want one: this list must follow the product", e.file, n, e.from)
		}
		texts[path] = strings.Replace(texts[path], e.from, e.to, 1)
	}
	for path, text := range texts {
		to := filepath.Join(folder, fmt.Sprintf("%d-%s", len(replace), filepath.Base(path)))
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		replace[path] = to
	}
	list := filepath.Join(folder, "overlay.json")
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(list, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// patience bounds everything that is waited for, on a machine that is busy with much else.
const patience = 120 * time.Second

// process is a program that runs, or has ended.
type process struct {
	name  string
	cmd   *exec.Cmd
	ready chan struct{} // closed when it has said so
	ended chan struct{} // closed when it has ended
	err   error         // how; read after ended

	mu  sync.Mutex
	log bytes.Buffer
}

// Write implements io.Writer for what the program says.
func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(text)
}

// words is the end of what it said.
func (p *process) words() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := p.log.Bytes()
	return string(text[max(0, len(text)-6<<10):])
}

// launch starts a program; as is whom it runs as, nil: this user.
func launch(t *testing.T, name, folder string, as *syscall.Credential, args ...string) *process {
	t.Helper()
	p := &process{name: name, ready: make(chan struct{}), ended: make(chan struct{})}
	p.cmd = exec.Command(args[0], args[1:]...)
	p.cmd.Env, p.cmd.Dir, p.cmd.Stderr = environment(folder), folder, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: as}
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		said := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			fmt.Fprintln(p, lines.Text())
			if strings.HasPrefix(lines.Text(), "ready") && !said {
				said = true
				close(p.ready)
			}
		}
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() { p.stop(syscall.SIGKILL) })
	return p
}

// environment is this process's without what would steer the programs.
func environment(home string) []string {
	var out []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "FAIRLEAD_") && !strings.HasPrefix(variable, "GIT_") &&
			!strings.HasPrefix(variable, "HOME=") {
			out = append(out, variable)
		}
	}
	return append(out, "HOME="+home, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
}

// begin waits until a program has said that it is ready.
func (p *process) begin(t *testing.T) *process {
	t.Helper()
	select {
	case <-p.ready:
	case <-p.ended:
		t.Fatalf("%s ended at once: %v\n%s", p.name, p.err, p.words())
	case <-time.After(patience):
		t.Fatalf("%s is not ready within %s\n%s", p.name, patience, p.words())
	}
	return p
}

// stop sends a signal and waits for the end; false says that it did not end.
func (p *process) stop(sig syscall.Signal) bool {
	_ = p.cmd.Process.Signal(sig)
	select {
	case <-p.ended:
		return true
	case <-time.After(patience):
		return false
	}
}

// leave asks a program to end as a service manager does, and wants it to end well.
func (p *process) leave(t *testing.T) {
	t.Helper()
	if !p.stop(syscall.SIGTERM) || p.err != nil {
		t.Fatalf("%s was asked to end: %v\n%s", p.name, p.err, p.words())
	}
}

// call runs a program in the foreground.
func call(folder string, args ...string) (stdout, stderr string, code int, err error) {
	var out, words bytes.Buffer
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = environment(folder), folder, &out, &words
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return out.String(), words.String(), exit.ExitCode(), nil
	}
	return out.String(), words.String(), 0, err
}
